#include "codegen/compile_log.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <system_error>

#include <fmt/format.h>

namespace grove::codegen {
namespace {

namespace fs = std::filesystem;

template <typename Visit>
void ForEachLine(std::string_view text, Visit visit) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    visit(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

// "ptxas info    : (C7514) Potential Performance Loss: wgmma ... serialized" is none.
bool IsPtxasStatistics(std::string_view line) {
  return (line.starts_with("ptxas info") && line.find(": (C") == std::string_view::npos) ||
         line.starts_with("ptxas         .");
}

bool IsError(std::string_view line) {
  return line.find("error:") != std::string_view::npos ||
         line.find(" error ") != std::string_view::npos || line.starts_with("ptxas fatal");
}

void ReplaceAll(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

bool IsPathCharacter(unsigned char c) {
  constexpr std::string_view kOthers = "/._-+~@%=";
  return std::isalnum(c) != 0 || c >= 0x80 ||
         kOthers.find(static_cast<char>(c)) != std::string_view::npos;
}

// "/home/me/x/a.h" -> "<host>/a.h", where "home" is a folder of this machine. A path that merely
// contains such a name ("x/home/a.h") loses its middle too, which harms nobody.
std::string HideHostPaths(std::string_view line, const std::vector<std::string>& roots) {
  constexpr std::string_view kShort = "<cuda>";
  std::string out;
  for (std::size_t i = 0; i < line.size();) {
    const bool is_short = line.substr(i).starts_with(kShort);
    if (!is_short && line[i] != '/') {
      out.push_back(line[i++]);
      continue;
    }
    std::size_t end = is_short ? i + kShort.size() : i;
    while (end < line.size() && IsPathCharacter(static_cast<unsigned char>(line[end]))) ++end;
    const std::string_view path = line.substr(i, end - i);
    const std::size_t slash = path.find('/', 1);
    const bool hidden =
        !is_short && slash != std::string_view::npos &&
        std::find(roots.begin(), roots.end(), path.substr(1, slash - 1)) != roots.end();
    if (hidden) {
      out += "<host>";
      out += path.substr(path.rfind('/'));
    } else if (is_short) {
      out += path;
    } else {
      out.push_back('/');
      end = i + 1;
    }
    i = end;
  }
  return out;
}

// Cuts at a character boundary of UTF-8.
void CutLine(std::string& line, std::size_t limit) {
  if (line.size() <= limit) return;
  while (limit > 0 && (static_cast<unsigned char>(line[limit]) & 0xc0) == 0x80) --limit;
  line.resize(limit);
  line += "...";
}

// Each run of digits as one '#'.
std::string WithoutNumbers(std::string_view line) {
  std::string out;
  for (const char c : line) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit) {
      out += c;
    } else if (out.empty() || out.back() != '#') {
      out += '#';
    }
  }
  return out;
}

std::optional<std::int64_t> NumberBefore(std::string_view line, std::string_view unit) {
  const std::size_t at = line.find(unit);
  if (at == std::string_view::npos) return std::nullopt;
  std::size_t begin = at;
  while (begin > 0 && std::isdigit(static_cast<unsigned char>(line[begin - 1])) != 0) --begin;
  std::int64_t value = 0;
  const auto parsed = std::from_chars(line.data() + begin, line.data() + at, value);
  if (begin == at || parsed.ec != std::errc()) return std::nullopt;
  return value;
}

}  // namespace

PathNames NamePaths(const std::vector<std::string>& include_folders) {
  PathNames names;
  for (const std::string& folder : include_folders) {
    names.emplace_back(folder, "<cuda>");
    std::error_code error;
    const std::string canonical = fs::canonical(folder, error).string();
    if (!error && canonical != folder) names.emplace_back(canonical, "<cuda>");
  }
  std::stable_sort(names.begin(), names.end(),
                   [](const auto& a, const auto& b) { return a.first.size() > b.first.size(); });
  return names;
}

std::vector<std::string> RootFolders() {
  std::vector<std::string> folders;
  std::error_code error;
  for (fs::directory_iterator it("/", error), end; !error && it != end; it.increment(error)) {
    folders.push_back(it->path().filename().string());
  }
  return folders;
}

std::string SanitiseLog(std::string_view log, const PathNames& names,
                        const std::vector<std::string>& root_folders) {
  std::string clean;
  std::optional<std::size_t> first_error;
  // ptxas says the same of every instruction that has one fault.
  constexpr int kAlike = 3;
  std::map<std::string, int> alike;
  int left_out = 0;
  ForEachLine(log, [&](std::string_view raw) {
    if (IsPtxasStatistics(raw)) return;
    if (raw.starts_with("ptxas ") && ++alike[WithoutNumbers(raw)] > kAlike) {
      ++left_out;
      return;
    }
    std::string line(raw);
    for (char& c : line) {
      const auto code = static_cast<unsigned char>(c);
      if ((code < 0x20 && c != '\t') || code == 0x7f) c = '?';
    }
    for (const auto& [path, name] : names) ReplaceAll(line, path, name);
    line = HideHostPaths(line, root_folders);
    CutLine(line, kLogLineLimit);
    if (!first_error && IsError(line)) first_error = clean.size();
    clean += line;
    clean += '\n';
  });
  if (left_out > 0) clean += fmt::format("[{} lines of ptxas like these left out]\n", left_out);
  while (clean.ends_with("\n\n")) clean.pop_back();
  if (clean == "\n") clean.clear();
  if (clean.size() <= kLogLimit) return clean;

  constexpr std::size_t kNoteRoom = 128;  // for the two notes of what was left out
  const std::size_t budget = kLogLimit - kNoteRoom;
  std::size_t begin = 0;
  if (first_error && *first_error >= budget / 2) begin = *first_error;
  std::size_t end = std::min(clean.size(), begin + budget);
  if (end < clean.size()) end = clean.rfind('\n', end - 1) + 1;
  std::string kept;
  if (begin > 0) kept += fmt::format("[{} bytes of warnings left out]\n", begin);
  kept += clean.substr(begin, end - begin);
  if (end < clean.size()) kept += fmt::format("[{} bytes left out]\n", clean.size() - end);
  return kept;
}

PtxasInfos ReadPtxas(std::string_view log) {
  PtxasInfos infos;
  std::string entry;     // the kernel being compiled
  std::string function;  // whose properties come in the next line
  ForEachLine(log, [&](std::string_view line) {
    if (!IsPtxasStatistics(line)) return;
    constexpr std::string_view kEntry = "Compiling entry function '";
    constexpr std::string_view kProperties = "Function properties for ";
    if (const auto at = line.find(kEntry); at != std::string_view::npos) {
      const std::string_view rest = line.substr(at + kEntry.size());
      entry = rest.substr(0, rest.find('\''));
      infos[entry] = {};
    } else if (const auto named = line.find(kProperties); named != std::string_view::npos) {
      function = line.substr(named + kProperties.size());
    } else if (const auto stack = NumberBefore(line, " bytes stack frame")) {
      if (function != entry) return;  // a device function that was not inlined
      PtxasInfo& info = infos[entry];
      info.stack = *stack;
      info.spill_stores = NumberBefore(line, " bytes spill stores").value_or(0);
      info.spill_loads = NumberBefore(line, " bytes spill loads").value_or(0);
    } else if (const auto registers = NumberBefore(line, " registers")) {
      PtxasInfo& info = infos[entry];
      info.registers = *registers;
      info.static_shared = NumberBefore(line, " bytes smem").value_or(0);
      info.stack =
          std::max(info.stack, NumberBefore(line, " bytes cumulative stack size").value_or(0));
    }
  });
  infos.erase("");
  return infos;
}

}  // namespace grove::codegen
