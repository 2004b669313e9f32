#include "search/describe.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace grove::search {
namespace {

using ideas::KernelFacts;
using results::CandidateRow;

// The kernels of the first timed case; those of the others differ by their dims only.
std::vector<const results::KernelRow*> KernelsOf(const results::EvaluationRow& evaluation) {
  std::vector<const results::KernelRow*> kernels;
  for (const results::KernelRow& kernel : evaluation.kernels) {
    if (kernel.case_name == evaluation.kernels.front().case_name) kernels.push_back(&kernel);
  }
  return kernels;
}

std::int64_t SharedOf(const results::KernelRow& kernel) {
  return kernel.static_shared.value + kernel.dynamic_shared.value;
}

std::string DescribeKernelRow(const results::KernelRow& kernel) {
  return fmt::format("kernel {}: {} registers, {} bytes spilled, {} bytes shared", kernel.entry,
                     kernel.registers, kernel.spill_stores.value, SharedOf(kernel));
}

struct Resources {
  std::int64_t registers = 0;  // per thread, of the kernel that takes most
  std::int64_t spilled = 0;    // bytes, of all kernels
  std::int64_t shared = 0;     // bytes per block, of the kernel that takes most
};
Resources ResourcesOf(const std::vector<const results::KernelRow*>& kernels) {
  Resources used;
  for (const results::KernelRow* kernel : kernels) {
    used.registers = std::max(used.registers, kernel->registers);
    used.spilled += kernel->spill_stores.value;
    used.shared = std::max(used.shared, SharedOf(*kernel));
  }
  return used;
}

// The time of a case beside its cold one, where it tells something: a replay or warm data that
// change nothing are left out.
void AddMode(KernelFacts& facts, const results::CaseTimeRow& row,
             const results::EvaluationRow& evaluation) {
  constexpr double kSame = 0.02;
  for (const results::CaseTimeRow& other : evaluation.case_times) {
    if (other.mode != results::TimingMode::kCold || other.case_name != row.case_name) continue;
    if (std::abs(row.time / other.time - 1) <= kSame) return;
  }
  facts.cases.push_back(fmt::format("case {}: {:.3f} us {}", row.case_name, row.time.count() / 1e3,
                                    row.mode == results::TimingMode::kHot
                                        ? "with what its L2 keeps from the call before"
                                        : "as a graph replay"));
}

// The kernels of a case's plan, and what they take together.
struct Launches {
  std::vector<const results::LaunchRow*> kernels;
  Nanoseconds sum{0};
};
Launches LaunchesOf(const results::EvaluationRow& evaluation, const results::CaseTimeRow& row) {
  Launches of;
  for (const results::LaunchRow& launches : evaluation.launches) {
    if (launches.case_name != row.case_name) continue;
    of.kernels.push_back(&launches);
    of.sum += launches.time;
  }
  return of;
}

// One line for each kernel of a plan of several launches.
void AddLaunches(KernelFacts& facts, const results::EvaluationRow& evaluation,
                 const results::CaseTimeRow& row) {
  const Launches of = LaunchesOf(evaluation, row);
  for (const results::LaunchRow* kernel : of.kernels) {
    const results::LaunchRow& launches = *kernel;
    std::string line = fmt::format("case {}, kernel {}: {} launch{}", row.case_name, launches.entry,
                                   launches.launches, launches.launches == 1 ? "" : "es");
    if (launches.time.count() > 0) {
      line +=
          fmt::format(", {:.3f} us{} ({:.0f}%)", launches.time.count() / 1e3,
                      launches.launches == 1 ? "" : " together", 100 * (launches.time / of.sum));
    }
    if (launches.dram_bytes > 0) {
      line += fmt::format(", {:.2f} MB of memory traffic", launches.dram_bytes / 1e6);
    }
    if (!launches.bound.empty()) line += ", bound by " + launches.bound;
    if (launches.occupancy > 0) {
      line += fmt::format(", occupancy {:.0f}%", 100 * launches.occupancy);
      if (!launches.limiter.empty()) line += " (limit: " + launches.limiter + ")";
    }
    facts.cases.push_back(std::move(line));
  }
}

std::string FirstBytes(const std::string& text, std::size_t most) {
  if (text.size() <= most) return text;
  std::size_t end = most;  // no half character
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + " ...";
}

constexpr std::string_view kLeastMargins = "least margins to the gates";

// The check that came nearest to what is allowed; where a checker decides, its margins.
std::string DescribeError(const results::EvaluationRow& evaluation) {
  // A checker's verdict says the least margin of each gate and in which case.
  if (evaluation.verdict.passed() && evaluation.verdict.message.starts_with(kLeastMargins)) {
    return evaluation.verdict.message;
  }
  const results::StageRow *nearest = nullptr, *scored = nullptr;
  const auto nearer = [](const results::StageRow& a, const results::StageRow* b) {
    return b == nullptr || a.error / a.tolerance > b->error / b->tolerance;
  };
  for (const results::StageRow& stage : evaluation.stages) {
    if (!(stage.tolerance > 0)) continue;
    if (nearer(stage, nearest)) nearest = &stage;
    // What is timed is compared afterwards, and nothing else is at that stage.
    if (stage.stage == eval::Stage::kRecheck && nearer(stage, scored)) scored = &stage;
  }
  if (nearest == nullptr) return {};
  std::string text = fmt::format(
      "at most {:.0f}% of what is allowed (relative L2 of a row against fp64: "
      "{:.2g} of {:.2g} in {} {})",
      100 * nearest->error / nearest->tolerance, nearest->error, nearest->tolerance,
      eval::Name(nearest->stage), nearest->case_name);
  if (scored != nullptr && scored != nearest) {
    text += fmt::format("; in scored case {} {:.2g} of {:.2g} ({:.2g}%)", scored->case_name,
                        scored->error, scored->tolerance, 100 * scored->error / scored->tolerance);
  }
  return text;
}

bool ComparesValues(eval::Stage stage) {
  return stage == eval::Stage::kSmoke || stage == eval::Stage::kSweep ||
         stage == eval::Stage::kStability || stage == eval::Stage::kEdge;
}

}  // namespace

void AddEvaluation(KernelFacts& facts, const results::EvaluationRow& evaluation) {
  facts.time = evaluation.score;
  facts.modelled = evaluation.score_kind == results::TimeKind::kModelled;
  facts.precision_class = evaluation.precision;
  double log_floor = 0;
  int timed = 0;
  for (const results::CaseTimeRow& row : evaluation.case_times) {
    if (row.mode == results::TimingMode::kHot || row.mode == results::TimingMode::kGraph) {
      AddMode(facts, row, evaluation);
    }
    if (row.mode != results::TimingMode::kCold) continue;
    ++timed;
    log_floor += std::log(row.class_floor.count());
    facts.bound = row.bound;
    facts.limiter = row.limiter;
    if (row.occupancy > 0) facts.occupancy = row.occupancy;
    if (row.empty.count() > 0) facts.empty_kernel = row.empty;
    std::string line = fmt::format("case {}: {:.3f} us", row.case_name, row.time.count() / 1e3);
    if (row.low && row.high) {
      line += fmt::format(" (fastest sample {:.3f}, three quarters within {:.3f})",
                          row.low->count() / 1e3, row.high->count() / 1e3);
    }
    if (row.class_floor.count() > 0) {
      line += fmt::format(", floor of the class {:.3f} us", row.class_floor.count() / 1e3);
    }
    if (row.dram_bytes > 0)
      line += fmt::format(", {:.2f} MB of memory traffic", row.dram_bytes / 1e6);
    if (!row.bound.empty()) line += ", bound by " + row.bound;
    if (row.launches > 1) line += fmt::format(", {} launches", row.launches);
    facts.cases.push_back(std::move(line));
    AddLaunches(facts, evaluation, row);
  }
  facts.error = DescribeError(evaluation);
  if (facts.time && timed > 0) {
    facts.floor = Nanoseconds(std::exp(log_floor / timed));
    facts.share_of_floor = *facts.floor / *facts.time;
  }
  const auto kernels = KernelsOf(evaluation);
  if (kernels.empty()) return;
  const Resources used = ResourcesOf(kernels);
  facts.registers = static_cast<int>(used.registers);
  facts.spill_bytes = used.spilled;
  facts.shared_bytes = used.shared;
  if (kernels.size() == 1) return;
  for (const results::KernelRow* kernel : kernels) {
    facts.kernels.push_back(DescribeKernelRow(*kernel));
  }
}

std::string NameAndTime(const CandidateRow& kernel) {
  const auto time = results::ScoreOf(kernel);
  return time ? fmt::format("{}, {:.1f} us", kernel.name, time->count() / 1e3) : kernel.name;
}

std::string DescribeBest(const CandidateRow& best) {
  std::string text = NameAndTime(best);
  if (!best.evaluation || best.evaluation->kernels.empty()) return text;
  const Resources used = ResourcesOf(KernelsOf(*best.evaluation));
  text += fmt::format(", {} registers", used.registers);
  if (used.spilled > 0) text += fmt::format(", {} bytes spilled", used.spilled);
  if (used.shared > 0) text += fmt::format(", {} bytes shared", used.shared);
  for (const results::CaseTimeRow& row : best.evaluation->case_times) {
    if (row.mode != results::TimingMode::kCold) continue;
    if (row.occupancy > 0) text += fmt::format(", {:.0f}% occupancy", 100 * row.occupancy);
    if (row.launches > 1) text += fmt::format(", {} launches", row.launches);
    break;
  }
  return text;
}

std::string DescribeImplementation(const CandidateRow& kernel, const CandidateRow* parent) {
  if (!kernel.evaluation) return {};
  const results::EvaluationRow& evaluation = *kernel.evaluation;
  // Nobody wrote it, or nobody evaluated it: nothing is known.
  if (evaluation.verdict.kind == eval::VerdictKind::kInfrastructure) return {};
  if (!evaluation.verdict.passed()) {
    constexpr std::size_t kLongest = 160;  // bytes of a message
    const eval::Verdict& verdict = evaluation.verdict;
    std::string text = fmt::format("{}: {}", kernel.name, eval::Name(verdict.kind));
    if (!verdict.case_name.empty()) text += " in " + verdict.case_name;
    const std::size_t end = verdict.message.find('\n');
    if (const std::string line = verdict.message.substr(0, end); !line.empty()) {
      text += ", " + FirstBytes(line, kLongest);
    }
    return text;
  }
  const auto time = results::ScoreOf(kernel);
  if (!time) return {};
  std::string text = fmt::format("{}: {:.1f} us", kernel.name, time->count() / 1e3);
  const auto gain = parent != nullptr ? results::SpeedUp(*parent, kernel) : std::nullopt;
  if (gain) text += fmt::format(", {} its parent", ideas::DescribeGain(*gain));
  if (evaluation.kernels.empty()) return text;
  const Resources used = ResourcesOf(KernelsOf(evaluation));
  text += fmt::format("; registers {}, spills {}", used.registers, used.spilled);
  if (used.shared > 0) text += fmt::format(", shared {}", used.shared);
  for (const results::CaseTimeRow& row : evaluation.case_times) {
    if (row.mode != results::TimingMode::kCold) continue;
    if (row.occupancy > 0) text += fmt::format(", occupancy {:.0f}%", 100 * row.occupancy);
    if (row.launches > 1) text += fmt::format(", {} launches", row.launches);
    break;
  }
  return text;
}

std::string BesideParent(const CandidateRow& kernel, const CandidateRow& parent) {
  const auto gain = results::SpeedUp(parent, kernel);
  if (!gain || !(*gain > 0)) return {};
  if (std::abs(*gain - 1) < 0.0005) return "now as fast as the parent";
  return *gain > 1 ? fmt::format("now {} faster than the parent", ideas::DescribeGain(*gain))
                   : fmt::format("now {} slower than the parent", ideas::DescribeGain(1 / *gain));
}

std::vector<std::string> LaunchedKernels(const results::EvaluationRow& evaluation) {
  std::vector<std::string> names;
  for (const results::CaseTimeRow& row : evaluation.case_times) {
    if (row.mode != results::TimingMode::kCold) continue;
    std::vector<const results::LaunchRow*> kernels = LaunchesOf(evaluation, row).kernels;
    std::stable_sort(kernels.begin(), kernels.end(),
                     [](auto* a, auto* b) { return a->time > b->time; });
    for (const results::LaunchRow* kernel : kernels) names.push_back(kernel->entry);
    break;
  }
  if (!names.empty()) return names;
  // A plan of one launch has no rows of launches.
  for (const results::KernelRow* kernel : KernelsOf(evaluation)) names.push_back(kernel->entry);
  return names;
}

std::string WhereTheTimeIs(const results::EvaluationRow& evaluation) {
  for (const results::CaseTimeRow& row : evaluation.case_times) {
    if (row.mode != results::TimingMode::kCold) continue;
    const Launches of = LaunchesOf(evaluation, row);
    const auto longest = std::max_element(of.kernels.begin(), of.kernels.end(),
                                          [](auto* a, auto* b) { return a->time < b->time; });
    if (of.sum.count() > 0) {
      const results::LaunchRow& kernel = **longest;
      return fmt::format("mostly in {} ({:.0f}%{}{})", kernel.entry, 100 * (kernel.time / of.sum),
                         kernel.bound.empty() ? "" : ", bound by ", kernel.bound);
    }
    if (!row.bound.empty()) return "bound by " + row.bound;
  }
  return {};
}

std::string RepairReport(const results::EvaluationRow& evaluation) {
  std::vector<std::string> passed;
  for (const results::StageRow& stage : evaluation.stages) {
    if (stage.verdict != eval::VerdictKind::kPass || !ComparesValues(stage.stage)) continue;
    passed.push_back(fmt::format("{} {}", eval::Name(stage.stage), stage.case_name));
  }
  std::vector<std::string> lines;
  if (!passed.empty()) lines.push_back(fmt::format("passed before: {}", fmt::join(passed, ", ")));
  for (const results::KernelRow* kernel : KernelsOf(evaluation)) {
    lines.push_back(DescribeKernelRow(*kernel));
  }
  return fmt::format("{}", fmt::join(lines, "\n"));
}

}  // namespace grove::search
