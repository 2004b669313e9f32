#include "eval/cuda/sanitizer.h"

#include <charconv>
#include <system_error>

#include <fmt/format.h>

#include "base/files.h"
#include "base/temporary_folder.h"
#include "eval/cuda/profile_run.h"
#include "eval/cuda/tool.h"

namespace grove::cuda {
namespace {

constexpr std::string_view kMark = "========= ";
constexpr std::size_t kMostFindings = 3;
constexpr std::size_t kMostWords = 300;

// The number right after `before` in `line`.
std::optional<int> NumberAfter(std::string_view line, std::string_view before) {
  const std::size_t at = line.find(before);
  if (at == std::string_view::npos) return std::nullopt;
  line.remove_prefix(at + before.size());
  int value = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value);
  if (error != std::errc() || end == line.data()) return std::nullopt;
  return value;
}

// Runs `each` over the lines of a text, without their ends.
template <typename Each>
void Lines(std::string_view text, const Each& each) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    each(line);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
}

}  // namespace

std::string_view Name(SanitizerTool tool) {
  switch (tool) {
    case SanitizerTool::kMemcheck:
      return "memcheck";
    case SanitizerTool::kRacecheck:
      return "racecheck";
    case SanitizerTool::kInitcheck:
      return "initcheck";
    case SanitizerTool::kSynccheck:
      return "synccheck";
  }
  return "unknown";
}

std::optional<SanitizerTool> SanitizerToolFromName(std::string_view name) {
  for (const SanitizerTool tool : {SanitizerTool::kMemcheck, SanitizerTool::kRacecheck,
                                   SanitizerTool::kInitcheck, SanitizerTool::kSynccheck}) {
    if (Name(tool) == name) return tool;
  }
  return std::nullopt;
}

Result<SanitizerReport> ParseSanitizer(std::string_view text) {
  SanitizerReport report;
  bool summary = false;
  bool ended = false;
  std::string worker_words;
  std::string tool_words;
  Lines(text, [&](std::string_view line) {
    if (line == kSanitizeDone) ended = true;
    if (line.starts_with("grove-gpu-worker: ") && line != kSanitizeDone) {
      worker_words = line.substr(0, kMostWords);
    }
    if (!line.starts_with(kMark)) return;
    line.remove_prefix(kMark.size());
    // "RACECHECK SUMMARY: 2 hazards displayed (1 error, 1 warning)"
    if (line.starts_with("RACECHECK SUMMARY:")) {
      const auto errors = NumberAfter(line, "(");
      const auto warnings = NumberAfter(line, ", ");
      if (errors && warnings) {
        summary = true;
        report.errors += *errors;
        report.warnings += *warnings;
      }
      return;
    }
    // "ERROR SUMMARY: 2 errors"; a second one may say how many of them were not printed.
    if (line.starts_with("ERROR SUMMARY:")) {
      const auto errors = NumberAfter(line, "SUMMARY: ");
      if (errors && line.find("not printed") == std::string_view::npos) {
        summary = true;
        report.errors += *errors;
      }
      return;
    }
    // Details are indented; what is left begins a finding, or is the tool's word on itself.
    if (line.empty() || line.front() == ' ' || line.starts_with("COMPUTE-SANITIZER") ||
        line.find("SUMMARY") != std::string_view::npos) {
      return;
    }
    if (tool_words.empty()) tool_words = line.substr(0, kMostWords);
    if (report.findings.size() < kMostFindings) {
      report.findings.emplace_back(line.substr(0, kMostWords));
    }
  });
  const auto words = [&](std::string_view otherwise) {
    if (!worker_words.empty()) return worker_words;
    return "compute-sanitizer: " + (tool_words.empty() ? std::string(otherwise) : tool_words);
  };
  if (!summary) return Fail(ErrorCode::kUnavailable, words("it gave no summary"));
  if (report.errors == 0 && !ended) {
    return Fail(ErrorCode::kUnavailable, words("the candidate did not run to its end under it"));
  }
  if (report.errors == 0 && report.warnings == 0) report.findings.clear();
  return report;
}

Result<SanitizerReport> RunSanitizer(const std::filesystem::path& sanitizer, SanitizerTool tool,
                                     const std::filesystem::path& worker, int ordinal,
                                     const std::string& support_cubin, const std::vector<Job>& jobs,
                                     std::chrono::milliseconds deadline) {
  auto folder = TemporaryFolder::Make("grove-sanitize");
  if (!folder) return Failure(std::move(folder.error()));
  ToolRun run;
  run.program = sanitizer;
  // Failing calls of the driver's interface are told by the worker itself.
  run.arguments = {"--tool",
                   std::string(Name(tool)),
                   "--report-api-errors",
                   "no",
                   "--print-limit",
                   "20",
                   worker.string(),
                   "sanitize"};
  run.deadline = deadline;
  Result<SanitizerReport> report = Fail(ErrorCode::kInternal, "not run");
  Status written;
  for (std::size_t i = 0; i < jobs.size() && written; ++i) {
    const std::filesystem::path file = folder->path() / std::to_string(i);
    written = WriteFileAtomic(file, EncodeProfileJob(ordinal, support_cubin, jobs[i]));
    run.arguments.push_back(file.string());
  }
  if (!written) {
    report = Failure(std::move(written.error()));
  } else if (auto output = RunTool(run); !output) {
    report = Failure(std::move(output.error()));
  } else {
    report = ParseSanitizer(output->out + "\n" + output->errors);
  }
  return report;
}

}  // namespace grove::cuda
