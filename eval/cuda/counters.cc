#include "eval/cuda/counters.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "base/files.h"
#include "base/temporary_folder.h"
#include "eval/cuda/profile_run.h"
#include "eval/cuda/tool.h"

namespace grove::cuda {
namespace {

constexpr std::size_t kMostRows = 20000;
// More launches of a plan than this are not profiled: each is replayed for every pass.
constexpr int kMostLaunches = 24;

// One CSV record: fields in double quotes, a quote doubled inside.
std::vector<std::string> Fields(std::string_view line) {
  std::vector<std::string> fields;
  std::string field;
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quoted && c == '"' && i + 1 < line.size() && line[i + 1] == '"') {
      field += '"';
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      fields.push_back(std::move(field));
      field.clear();
    } else if (c != '\r') {
      field += c;
    }
  }
  fields.push_back(std::move(field));
  return fields;
}

// "1,234.5" as ncu groups it.
std::optional<double> Number(std::string text) {
  std::erase(text, ',');
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// The entry point of "softmax(const float *, float *)".
std::string EntryOf(const std::string& signature) {
  return signature.substr(0, signature.find('('));
}

std::string Refusal(std::string_view text) {
  if (text.find("ERR_NVGPUCTRPERM") != std::string_view::npos) {
    return "the driver does not permit hardware counters to this user (ERR_NVGPUCTRPERM); an "
           "administrator can: NVreg_RestrictProfilingToAdminUsers=0";
  }
  if (text.find("No kernels were profiled") != std::string_view::npos) {
    return "ncu profiled no kernel: the candidate did not run under it";
  }
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t end = rest.find('\n');
    const std::string_view line = rest.substr(0, end);
    if (line.find("==ERROR==") != std::string_view::npos) {
      return "ncu: " + std::string(line.substr(line.find("==ERROR==") + 9)).substr(0, 300);
    }
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
  }
  return {};
}

double InMicroseconds(double value, const std::string& unit) {
  if (unit == "nsecond" || unit == "ns") return value * 1e-3;
  if (unit == "msecond" || unit == "ms") return value * 1e3;
  if (unit == "second" || unit == "s") return value * 1e6;
  return value;  // "usecond", "us"
}

}  // namespace

Result<std::vector<CounterRow>> ParseCounters(std::string_view csv) {
  std::vector<CounterRow> rows;
  std::vector<std::string> header;
  std::map<std::string, int> launches;  // ncu's ids in order of appearance
  const auto column = [&](std::string_view name) {
    return static_cast<std::size_t>(std::find(header.begin(), header.end(), name) - header.begin());
  };
  for (std::string_view rest = csv; !rest.empty() && rows.size() < kMostRows;) {
    const std::size_t end = rest.find('\n');
    const std::string_view line = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    if (header.empty()) {
      if (!line.starts_with("\"ID\",")) continue;
      header = Fields(line);
      continue;
    }
    const std::vector<std::string> fields = Fields(line);
    const auto at = [&](std::string_view name) {
      const std::size_t index = column(name);
      return index < fields.size() ? fields[index] : std::string();
    };
    const std::string metric = at("Metric Name");
    const auto value = Number(at("Metric Value"));
    if (metric.empty() || !value) continue;
    const auto number = static_cast<int>(launches.size());
    const int launch = launches.emplace(at("ID"), number).first->second;
    rows.push_back({launch, EntryOf(at("Kernel Name")), at("Section Name"), metric,
                    at("Metric Unit"), *value});
  }
  if (rows.empty()) {
    std::string why = Refusal(csv);
    if (why.empty()) why = "ncu gave no table";
    return Fail(ErrorCode::kUnavailable, std::move(why));
  }
  return rows;
}

std::string CounterTable(const std::vector<CounterRow>& rows) {
  std::string table;
  int launch = -1;
  std::string section;
  for (const CounterRow& row : rows) {
    if (row.launch != launch) {
      launch = row.launch;
      section.clear();
      table += fmt::format("launch {} {}\n", launch, row.kernel);
    }
    if (row.section != section) {
      section = row.section;
      table += fmt::format("  {}\n", section);
    }
    table += fmt::format("    {:<52} {:>16.6g} {}\n", row.metric, row.value, row.unit);
  }
  return table;
}

std::string CounterSummary(const std::vector<CounterRow>& rows) {
  struct Launch {
    std::string kernel;
    std::map<std::string, const CounterRow*> metrics;
    double microseconds = 0;
  };
  std::map<int, Launch> launches;
  for (const CounterRow& row : rows) {
    Launch& launch = launches[row.launch];
    launch.kernel = row.kernel;
    // ncu has this name for a share of the peak as well.
    const bool rate = row.metric == "Memory Throughput" && row.unit.find("byte") != row.unit.npos;
    launch.metrics.emplace(rate ? "Memory Rate" : row.metric, &row);
    if (row.metric == "Duration") launch.microseconds = InMicroseconds(row.value, row.unit);
  }
  std::vector<const Launch*> order;
  for (const auto& [number, launch] : launches) order.push_back(&launch);
  std::stable_sort(order.begin(), order.end(), [](const Launch* a, const Launch* b) {
    return a->microseconds > b->microseconds;
  });
  // What is said of a launch, when ncu has it.
  static constexpr struct {
    const char* metric;
    const char* words;
  } kShown[] = {
      {"DRAM Throughput", "DRAM {:.0f}% of peak"},
      {"L2 Cache Throughput", "L2 {:.0f}% of peak"},
      {"L1/TEX Cache Throughput", "L1 and shared memory {:.0f}% of peak"},
      {"Compute (SM) Throughput", "SM {:.0f}% of peak"},
      {"L1/TEX Hit Rate", "L1 hits {:.0f}%"},
      {"L2 Hit Rate", "L2 hits {:.0f}%"},
      {"Achieved Occupancy", "{:.0f}% of the warps resident"},
      {"No Eligible", "{:.0f}% of the cycles without an eligible warp"},
      {"l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum", "{:.0f} shared bank conflicts"},
  };
  constexpr std::string_view kStall = "smsp__average_warps_issue_stalled_";
  constexpr std::size_t kMostStalls = 5;
  std::string text;
  for (std::size_t i = 0; i < order.size() && i < 3; ++i) {
    const Launch& launch = *order[i];
    std::string line = launch.kernel;
    const auto grid = launch.metrics.find("Grid Size"), block = launch.metrics.find("Block Size");
    if (grid != launch.metrics.end() && block != launch.metrics.end()) {
      line += fmt::format(" ({:.0f} blocks of {:.0f} threads)", grid->second->value,
                          block->second->value);
    }
    line += ":";
    const char* comma = " ";
    if (launch.microseconds > 0) {
      line += fmt::format(" {:.1f} us under the profiler", launch.microseconds);
      comma = ", ";
    }
    for (const auto& shown : kShown) {
      const auto found = launch.metrics.find(shown.metric);
      if (found == launch.metrics.end()) continue;
      line += comma + fmt::format(fmt::runtime(shown.words), found->second->value);
      comma = ", ";
      if (found->first != "DRAM Throughput") continue;
      const auto rate = launch.metrics.find("Memory Rate");
      if (rate != launch.metrics.end() && rate->second->unit == "byte/s") {
        line += fmt::format(" ({:.0f} GB/s)", rate->second->value / 1e9);
      }
    }
    // In cycles between two instructions that a warp issues.
    std::vector<const CounterRow*> stalls;
    for (const auto& [metric, row] : launch.metrics) {
      if (!metric.starts_with(kStall) || metric.substr(kStall.size()).starts_with("selected")) {
        continue;
      }
      if (row->value >= 0.05) stalls.push_back(row);
    }
    std::stable_sort(stalls.begin(), stalls.end(),
                     [](const CounterRow* a, const CounterRow* b) { return a->value > b->value; });
    if (stalls.size() > kMostStalls) stalls.resize(kMostStalls);
    for (const CounterRow* stall : stalls) {
      std::string name = stall->metric.substr(kStall.size());
      name = name.substr(0, name.find("_per_issue"));
      std::replace(name.begin(), name.end(), '_', ' ');
      line += fmt::format(
          "{}{} {:.1f}",
          stall == stalls.front() ? fmt::format("{}warps wait, cycles per issue: ", comma) : ", ",
          name, stall->value);
    }
    text += line + "\n";
  }
  if (order.size() > 3) text += fmt::format("and {} more launches\n", order.size() - 3);
  return text;
}

Result<std::vector<CounterRow>> RunCounters(const std::filesystem::path& worker, int ordinal,
                                            const std::string& support_cubin, const Job& job,
                                            std::chrono::milliseconds deadline) {
  const auto ncu = FindTool("ncu");
  if (!ncu) {
    return Fail(ErrorCode::kUnavailable,
                "no ncu here (Nsight Compute): hardware counters cannot be read");
  }
  auto folder = TemporaryFolder::Make("grove-ncu");
  if (!folder) return Failure(std::move(folder.error()));
  const std::filesystem::path file = folder->path() / "job";
  Result<std::vector<CounterRow>> rows = Fail(ErrorCode::kInternal, "not run");
  if (auto written = WriteFileAtomic(file, EncodeProfileJob(ordinal, support_cubin, job));
      !written) {
    rows = Failure(std::move(written.error()));
  } else {
    const auto begin = std::chrono::steady_clock::now();
    // Metrics beside the sections differ between architectures: without them when they are refused.
    for (const bool stalls : {true, false}) {
      ToolRun run;
      run.program = *ncu;
      run.arguments = {"--csv",
                       "--page",
                       "details",
                       "--profile-from-start",
                       "off",
                       "--target-processes",
                       "all",
                       "--launch-count",
                       std::to_string(kMostLaunches),
                       "--clock-control",
                       "none"};
      for (const char* section : {"SpeedOfLight", "MemoryWorkloadAnalysis", "Occupancy",
                                  "SchedulerStats", "LaunchStats"}) {
        run.arguments.emplace_back("--section");
        run.arguments.emplace_back(section);
      }
      if (stalls) {
        run.arguments.emplace_back("--metrics");
        run.arguments.emplace_back(
            "regex:smsp__average_warps_issue_stalled_.*_per_issue_active.ratio,"
            "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum");
      }
      run.arguments.push_back(worker.string());
      run.arguments.emplace_back("profile");
      run.arguments.push_back(file.string());
      run.deadline = std::max(std::chrono::milliseconds(1000),
                              deadline - std::chrono::duration_cast<std::chrono::milliseconds>(
                                             std::chrono::steady_clock::now() - begin));
      auto output = RunTool(run);
      if (!output) {
        rows = Failure(std::move(output.error()));
        break;
      }
      rows = ParseCounters(output->out);
      if (rows) break;
      const std::string why = Refusal(output->out + "\n" + output->errors);
      if (!why.empty())
        rows = Fail(ErrorCode::kUnavailable, why);
      else if (!output->errors.empty())
        rows = Fail(ErrorCode::kUnavailable, "ncu: " + output->errors.substr(0, 300));
      if (why.find("ERR_NVGPUCTRPERM") != std::string::npos) break;
    }
  }
  return rows;
}

}  // namespace grove::cuda
