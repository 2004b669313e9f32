// `grove diff`, `grove log` and `grove compare`.
#include <algorithm>
#include <list>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/complain.h"
#include "cli/find_run.h"
#include "cli/terminal.h"
#include "results/compare.h"
#include "results/diff.h"
#include "results/format.h"
#include "results/timeline.h"

namespace grove::cli {
namespace {

// "RUN/KERNEL" or "KERNEL" of `run`.
std::pair<std::string, std::string> SplitName(const std::string& text, const std::string& run) {
  const auto slash = text.find('/');
  if (slash == std::string::npos) return {run, text};
  return {text.substr(0, slash), text.substr(slash + 1)};
}

}  // namespace

int DiffCommand(const DiffCommandOptions& options, const Common& common) {
  const auto [run_name, kernel] =
      SplitName(options.after.empty() ? options.before : options.after, options.run);
  auto run = OpenRun(common.runs, run_name);
  if (!run) return Complain(run.error());
  auto after = FindKernel(run->data, kernel);
  if (!after) return Complain(after.error());

  Result<OpenedRun> other = Failure(Error{});
  const OpenedRun* from = &*run;
  const results::CandidateRow* before = nullptr;
  if (options.after.empty()) {
    before = run->data.Find((*after)->parent);
    if (before == nullptr) {
      return Complain({ErrorCode::kInvalidInput,
                       fmt::format("{} has no parent; name two kernels", (*after)->name)});
    }
  } else {
    const auto [before_run, before_kernel] = SplitName(options.before, options.run);
    if (before_run != run_name) {
      other = OpenRun(common.runs, before_run);
      if (!other) return Complain(other.error());
      from = &*other;
    }
    auto found = FindKernel(from->data, before_kernel);
    if (!found) return Complain(found.error());
    before = *found;
  }
  auto before_texts = results::LoadTexts(*from->reader, *before);
  if (!before_texts) return Complain(before_texts.error());
  auto after_texts = results::LoadTexts(*run->reader, **after);
  if (!after_texts) return Complain(after_texts.error());
  const results::DiffSide a{&from->data, before, *std::move(before_texts)};
  const results::DiffSide b{&run->data, *after, *std::move(after_texts)};
  if (common.json) {
    fmt::print("{}", results::DiffJson(a, b));
    return kExitDone;
  }
  results::DiffOptions diff;
  diff.context = options.context;
  if (const int width = TerminalWidth(stdout); width > 0) {
    diff.width = width;
    diff.color = true;
  }
  fmt::print("{}", results::RenderDiff(a, b, diff));
  return kExitDone;
}

int LogCommand(const LogCommandOptions& options, const Common& common) {
  auto run = OpenRun(common.runs, options.run);
  if (!run) return Complain(run.error());
  const std::vector<results::EventRow> timeline = results::Timeline(run->data);
  std::vector<const results::EventRow*> events;
  for (const results::EventRow& event : timeline) {
    if (options.kind.empty() || event.kind == options.kind) events.push_back(&event);
  }
  if (options.last > 0 && events.size() > static_cast<std::size_t>(options.last)) {
    events.erase(events.begin(), events.end() - options.last);
  }
  if (common.json) {
    nlohmann::ordered_json json = nlohmann::ordered_json::array();
    for (const results::EventRow* event : events) {
      json.push_back({{"time", results::FormatWallTime(event->time)},
                      {"kind", event->kind},
                      {"text", event->text}});
    }
    fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
    return kExitDone;
  }
  const int width = TerminalWidth(stdout);
  for (const results::EventRow* event : events) {
    const std::string line =
        fmt::format("{}  {}  {}", results::FormatWallTime(event->time),
                    results::Pad(results::Visible(event->kind), 12), results::Visible(event->text));
    fmt::print("{}\n", width > 0 ? results::Fit(line, width) : line);
  }
  if (events.empty()) fmt::print("no events{}\n", options.kind.empty() ? "" : " of this kind");
  return kExitDone;
}

int CompareCommand(const CompareCommandOptions& options, const Common& common) {
  std::list<OpenedRun> runs;
  std::vector<const results::RunData*> data;
  for (const std::string& name : options.runs) {
    auto run = OpenRun(common.runs, name);
    if (!run) return Complain(run.error());
    runs.push_back(*std::move(run));
    data.push_back(&runs.back().data);
  }
  results::CompareOptions compare;
  if (options.target > 0) compare.target = options.target;
  constexpr int kUncut = 10000;  // a pipe has no width
  const int width = TerminalWidth(stdout);
  compare.width = width > 0 ? width : kUncut;
  fmt::print("{}", common.json ? results::ComparisonJson(data, compare)
                               : results::RenderComparison(data, compare));
  return kExitDone;
}

}  // namespace grove::cli
