// The reference phase of a check (checker.h): inputs drawn again, the reference run, outputs
// compared.
#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "eval/cuda/attempt.h"
#include "eval/cuda/checker.h"

namespace grove::cuda {
namespace {

using eval::ErrorReport;
using eval::ExecutionFault;
using eval::VerdictKind;
using seeds::Tensor;
using seeds::TensorRole;

constexpr std::size_t kDifferSlots = 0;
constexpr std::size_t kCompareSlots = 64;

ErrorReport ReportOf(const CompareResult& result, const CompareShape& shape,
                     std::vector<double> medians) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  ErrorReport report;
  report.elements = shape.elements;
  report.rows = shape.rows;
  report.worst_row_l2 = result.worst_row_l2;
  report.worst_row = result.worst_row;
  report.scaled_max = result.scaled_max;
  report.worst_element = result.worst_element;
  report.expected = result.expected;
  report.got = result.got;
  if (result.mismatches > 0) {
    report.non_finite_mismatches = static_cast<std::int64_t>(result.mismatches);
    report.worst_row_l2 = kInfinity;
    report.scaled_max = kInfinity;
    report.worst_row = result.first_mismatch_row;
    report.worst_element = result.first_mismatch;
  }
  if (!medians.empty()) {
    const auto middle = medians.begin() + static_cast<std::ptrdiff_t>(medians.size() / 2);
    std::nth_element(medians.begin(), middle, medians.end());
    report.median_row_l2 = *middle;
  }
  return report;
}

// Overwrites reference results on every way out, so that none outlives the phase.
class Scrubber {
 public:
  Scrubber(Lane& lane, const seeds::Case& c, const TensorSet& set)
      : lane_(lane), case_(c), set_(set) {}
  Scrubber(const Scrubber&) = delete;
  Scrubber& operator=(const Scrubber&) = delete;
  ~Scrubber() {
    if (scratch_.data() != 0) {
      (void)lane_.parts().support.Fill(lane_.stream(), scratch_.data(), scratch_.bytes(),
                                       kGuardPattern);
    }
    (void)PoisonOutputs(lane_, case_, set_, 1);
    (void)lane_.Wait(kOwnDeadline);
  }
  GuardedBuffer& scratch() { return scratch_; }

 private:
  Lane& lane_;
  const seeds::Case& case_;
  const TensorSet& set_;
  GuardedBuffer scratch_;
};

Executed<ErrorReport> CompareOnHost(Lane& lane, const Tensor& tensor, const seeds::Case& c,
                                    CuDevicePtr got, CuDevicePtr reference) {
  std::vector<std::byte> output(static_cast<std::size_t>(tensor.bytes().value));
  std::vector<double> expected(static_cast<std::size_t>(tensor.elements()));
  const Driver& driver = lane.driver();
  GROVE_TRY(driver.Check(driver.MemcpyDtoHAsync(output.data(), got, output.size(), lane.stream()),
                         "cuMemcpyDtoHAsync"));
  GROVE_TRY(driver.Check(
      driver.MemcpyDtoHAsync(expected.data(), reference, expected.size() * 8, lane.stream()),
      "cuMemcpyDtoHAsync"));
  GROVE_WAIT(lane.Wait(kOwnDeadline));
  return eval::Compare(tensor, output, expected, c.row_elements);
}

}  // namespace

Executed<ReferenceOutcome> CompareWithReference(Lane& lane, const Job& job, std::uint64_t seed,
                                                const TensorSet& candidate) {
  if (job.task_case.checker != seeds::Checker::kReference) {
    return CompareByChecker(lane, job, seed, candidate);
  }
  ReferenceOutcome outcome;
  WorkerParts& parts = lane.parts();
  const Driver& driver = lane.driver();
  // The case as the reference sees it: outputs in f64.
  seeds::Case c = job.task_case;
  for (Tensor& tensor : c.tensors) {
    if (tensor.role == TensorRole::kOutput) tensor.dtype = DType::kF64;
  }
  // A failure of the reference is never the candidate's.
  const auto not_theirs = [](Fault fault) {
    fault.message = "the task's reference: " + fault.message;
    if (fault.kind != VerdictKind::kOutOfMemory) fault.kind = VerdictKind::kInfrastructure;
    return tl::unexpected(std::move(fault));
  };
  auto program =
      LoadedProgram::Load(parts.context, job.reference.cubin, job.reference.plan, TensorNames(c));
  if (!program) return not_theirs(program.error());

  const auto hold = parts.gate.Enter(kReferencePhase);
  auto set = MakeTensors(parts.pool, c, true);
  if (!set) return not_theirs(set.error());
  Scrubber scrubber(lane, c, *set);
  auto bound = program->Bind(set->addresses(), parts.pool);
  if (!bound) return not_theirs(bound.error());

  GROVE_TRY(lane.ClearResults());
  GROVE_TRY(DrawInputs(lane, c, seed, *set));
  for (std::size_t i = 0; i < c.tensors.size(); ++i) {
    if (c.tensors[i].role != TensorRole::kInput) continue;
    GROVE_TRY(parts.support.Differ(lane.stream(), candidate.buffers[i].data(),
                                   set->buffers[i].data(), set->buffers[i].bytes(),
                                   lane.slot(kDifferSlots + i)));
  }
  GROVE_TRY(driver.Check(driver.EventRecord(lane.start().get(), lane.stream()), "cuEventRecord"));
  GROVE_TRY(bound->Enqueue(lane.stream()));
  GROVE_TRY(driver.Check(driver.EventRecord(lane.stop().get(), lane.stream()), "cuEventRecord"));
  if (!c.golden.empty()) {
    std::size_t output = 0;
    for (std::size_t i = 0; i < c.tensors.size(); ++i) {
      if (c.tensors[i].role != TensorRole::kOutput) continue;
      GROVE_TRY(UploadStored(lane, c.golden[output++], c.tensors[i].elements() * 8,
                             set->buffers[i].data()));
    }
  }

  std::vector<CompareShape> shapes(c.tensors.size());
  std::vector<CompareScratch> layouts(c.tensors.size());
  std::int64_t scratch_bytes = 0;
  for (std::size_t i = 0; i < c.tensors.size(); ++i) {
    if (c.tensors[i].role != TensorRole::kOutput) continue;
    shapes[i] = ShapeOf(job.task_case.tensors[i], c.row_elements);
    layouts[i] = ScratchOf(shapes[i]);
    scratch_bytes += layouts[i].bytes;
  }
  auto scratch = parts.pool.Acquire(scratch_bytes);
  if (!scratch) return not_theirs(FaultOf(scratch.error()));
  scrubber.scratch() = std::move(*scratch);
  CuDevicePtr at = scrubber.scratch().data();
  std::vector<std::vector<double>> medians(c.tensors.size());
  for (std::size_t i = 0; i < c.tensors.size(); ++i) {
    if (c.tensors[i].role != TensorRole::kOutput) continue;
    GROVE_TRY(parts.support.Compare(lane.stream(), candidate.buffers[i].data(),
                                    set->buffers[i].data(), shapes[i], layouts[i], at,
                                    lane.slot(kCompareSlots + i)));
    medians[i].resize(static_cast<std::size_t>(layouts[i].median_count));
    GROVE_TRY(driver.Check(
        driver.MemcpyDtoHAsync(medians[i].data(), at + static_cast<CuDevicePtr>(layouts[i].medians),
                               medians[i].size() * 8, lane.stream()),
        "cuMemcpyDtoHAsync"));
    at += static_cast<CuDevicePtr>(layouts[i].bytes);
  }
  GROVE_TRY(lane.ReadResults());
  GROVE_WAIT(lane.Wait(kOwnDeadline));
  if (auto time = Elapsed(lane.start(), lane.stop()); time) outcome.time = *time;

  for (std::size_t i = 0; i < c.tensors.size(); ++i) {
    const Tensor& tensor = job.task_case.tensors[i];
    if (tensor.role == TensorRole::kInput) {
      const auto changed = lane.result<ScanResult>(kDifferSlots + i);
      if (changed.count > 0 && !outcome.fault) {
        outcome.fault = ExecutionFault{
            VerdictKind::kInputModified,
            fmt::format("{} bytes of input {} were changed, the first at element {}", changed.count,
                        tensor.name,
                        changed.first() / static_cast<std::int64_t>(SizeOf(tensor.dtype)))};
      }
      continue;
    }
    const auto result = lane.result<CompareResult>(kCompareSlots + i);
    if (result.extreme != 0) {
      auto report = CompareOnHost(lane, tensor, job.task_case, candidate.buffers[i].data(),
                                  set->buffers[i].data());
      if (!report) return tl::unexpected(report.error());
      outcome.errors.push_back(*report);
    } else {
      outcome.errors.push_back(ReportOf(result, shapes[i], std::move(medians[i])));
    }
  }
  return outcome;
}

}  // namespace grove::cuda
