#include "results/report/report.h"

#include <fmt/format.h>
#include <zlib.h>

#include "base/hash.h"
#include "results/format.h"
#include "results/report/assets.h"

namespace grove::results {
namespace {

constexpr std::size_t kChunkBytes = 160 << 10;  // of text that is inflated at once

std::string Base64(std::string_view bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::size_t have = std::min<std::size_t>(3, bytes.size() - at);
    unsigned bits = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      bits = bits << 8 | (i < have ? static_cast<unsigned char>(bytes[at + i]) : 0u);
    }
    for (std::size_t i = 0; i < 4; ++i) {
      out += i <= have ? kDigits[bits >> (18 - 6 * i) & 63] : '=';
    }
  }
  return out;
}

Result<std::string> Deflate(std::string_view text) {
  uLongf size = ::compressBound(static_cast<uLong>(text.size()));
  std::string out(size, '\0');
  const int code =
      ::compress2(reinterpret_cast<Bytef*>(out.data()), &size,
                  reinterpret_cast<const Bytef*>(text.data()), static_cast<uLong>(text.size()), 6);
  if (code != Z_OK) return Fail(ErrorCode::kResource, "out of memory while writing the report");
  out.resize(size);
  return out;
}

// Documents packed into chunks, and where each went.
class Chunks {
 public:
  Status Add(const std::string& key, const std::string& json) {
    open_ += fmt::format("{}\"{}\":{}", open_.empty() ? "{" : ",", key, json);
    where_ += fmt::format("{}\"{}\":{}", where_.empty() ? "{" : ",", key, count_);
    return open_.size() < kChunkBytes ? Status() : Close();
  }
  Status Close() {
    if (open_.empty()) return {};
    auto packed = Deflate(open_ + "}");
    if (!packed) return Fail(packed.error());
    html_ += fmt::format("<script type=\"text/plain\" id=\"chunk-{}\">{}</script>\n", count_++,
                         Base64(*packed));
    open_.clear();
    return {};
  }
  std::string Index() const { return where_.empty() ? "{}" : where_ + "}"; }
  const std::string& html() const { return html_; }

 private:
  std::string open_, where_, html_;
  int count_ = 0;
};

std::string Script(std::string_view nonce, std::string_view code) {
  return fmt::format("<script nonce=\"{}\">\n{}\n</script>\n", nonce, code);
}

// Everything around the data. `title` is escaped text.
std::string Page(std::string_view title, std::string_view nonce, std::string_view connect,
                 std::string_view data) {
  std::string out = fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
      "script-src 'nonce-{0}'; style-src 'nonce-{0}'; img-src data:; connect-src {1}; "
      "base-uri 'none'; form-action 'none'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n"
      "<title>{2}</title>\n<style nonce=\"{0}\">\n{3}</style>\n</head>\n<body>\n{4}",
      nonce, connect, title, asset::kStyle, asset::kBody);
  out += data;
  out += fmt::format("<script type=\"text/plain\" id=\"licences\">{}</script>\n",
                     EscapeForScript(std::string(asset::kLicences)));
  // Before Prism loads: it must not go looking for code to highlight by itself.
  out += Script(nonce, "window.Prism = {manual: true};");
  for (const std::string_view library : {asset::kD3, asset::kPrismCore, asset::kPrismClike,
                                         asset::kPrismC, asset::kPrismCpp, asset::kDiff}) {
    out += Script(nonce, library);
  }
  std::string own;
  for (const std::string_view part : {asset::kBase, asset::kModel, asset::kCharts, asset::kTree,
                                      asset::kKernel, asset::kViews, asset::kLive, asset::kApp}) {
    own += part;
    own += '\n';
  }
  out += Script(nonce, "(() => {\n\"use strict\";\n" + own + "})();");
  return out + "</body>\n</html>\n";
}

std::string EscapeText(std::string_view text) {
  std::string out;
  for (const char c : text) {
    out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  }
  return out;
}

}  // namespace

std::string EscapeForScript(std::string json) {
  std::string out;
  out.reserve(json.size() + json.size() / 16);
  for (const char c : json) {
    switch (c) {
      case '<':
        out += "\\u003c";
        break;
      case '>':
        out += "\\u003e";
        break;
      case '&':
        out += "\\u0026";
        break;
      default:
        out += c;
    }
  }
  return out;
}

Result<std::string> RenderReport(Reader& reader, const RunData& data,
                                 const ReportOptions& options) {
  const RunIndex index(data);
  std::vector<ReportBaseline> baselines = BaselinesOf(data);
  baselines.insert(baselines.end(), options.baselines.begin(), options.baselines.end());

  Chunks chunks;
  for (std::size_t i = 0; i < data.candidates.size(); ++i) {
    if (Status added =
            chunks.Add(fmt::format("k{}", i), KernelJson(reader, data, index, data.candidates[i]));
        !added) {
      return Fail(added.error());
    }
  }
  if (Status closed = chunks.Close(); !closed) return Fail(closed.error());
  if (options.conversations) {
    for (const CallRow& call : data.calls) {
      if (Status added = chunks.Add(fmt::format("c{}", call.id.value), CallJson(reader, call));
          !added) {
        return Fail(added.error());
      }
    }
    if (Status closed = chunks.Close(); !closed) return Fail(closed.error());
  }
  const std::string summary = SummaryJson(data, index, baselines);
  std::string embedded = fmt::format(
      "<script type=\"application/json\" id=\"summary\">{}</script>\n"
      "<script type=\"application/json\" id=\"where\">{}</script>\n",
      EscapeForScript(summary), chunks.Index());
  embedded += chunks.html();
  // Whoever writes a text cannot know the nonce, since every text changes it.
  const std::string nonce = HashText(embedded).Hex();
  return Page("Kernelgrove: " + EscapeText(data.run.name), nonce, "'none'", embedded);
}

std::string RunListPage(const std::vector<RunSummary>& runs) {
  std::string rows;
  for (const RunSummary& run : runs) {
    const std::string name = EscapeText(Visible(run.name));
    if (!run.problem.empty()) {
      rows += fmt::format("<tr><td>{}</td><td colspan=\"6\">{}</td></tr>\n", name,
                          EscapeText(Visible(run.problem)));
      continue;
    }
    const bool scored = run.best_score && run.seed_score;
    const std::string status(Name(run.run.effective_status()));
    rows += fmt::format(
        "<tr><td><a href=\"/runs/{0}\">{0}</a></td><td data-name=\"task\">{1}</td>"
        "<td data-name=\"status\"><span class=\"chip s-{2}\">{2}</span></td>"
        "<td data-name=\"rounds\">{3}</td><td data-name=\"pass\">{4} of {5}</td>"
        "<td data-name=\"best\">{6}</td><td data-name=\"over seed\">{7}</td></tr>\n",
        name, EscapeText(Visible(run.task)), status, run.rounds, run.correct, run.candidates,
        scored ? FormatTime(*run.best_score, run.score_kind) : "-",
        scored ? FormatRatio(*run.seed_score / *run.best_score) : "-");
  }
  if (rows.empty()) rows = "<tr><td colspan=\"7\">There are no runs yet.</td></tr>\n";
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'self'; img-src data:; base-uri 'none'; form-action 'none'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"refresh\" content=\"10\">\n<link rel=\"icon\" href=\"data:,\">\n"
      "<title>Kernelgrove: runs</title>\n<link rel=\"stylesheet\" href=\"/style.css\">\n</head>\n"
      "<body>\n<header class=\"top\"><div class=\"names\"><span class=\"brand\">Kernelgrove</span> "
      "<h1>Runs</h1></div><p></p></header>\n<main><section class=\"card\"><div class=\"scroll\">"
      "<table "
      "class=\"runs\">\n<thead><tr><th>run</th><th>task</th><th>status</th><th>rounds</"
      "th><th>pass</th>"
      "<th>best</th><th>over seed</th></tr></thead>\n<tbody>\n{}</tbody></table></div></section>"
      "</main>\n</body>\n</html>\n",
      rows);
}

std::string_view StyleSheet() { return asset::kStyle; }

std::string LivePage(const std::string& api, const std::string& nonce) {
  return Page("Kernelgrove", nonce, "'self'",
              fmt::format("<script type=\"application/json\" id=\"live\">\"{}\"</script>\n",
                          EscapeForScript(api)));
}

}  // namespace grove::results
