// The reference phase of a case that the checker householder_qr decides (checker.h): inputs drawn
// again, every column of every matrix measured on the device, the columns judged on the host.
#include <fmt/format.h>

#include "eval/cuda/attempt.h"
#include "eval/cuda/checker.h"
#include "eval/qr_check.h"

namespace grove::cuda {
namespace {

using eval::ExecutionFault;
using eval::QrColumn;
using eval::VerdictKind;

constexpr std::size_t kDifferSlot = 0;
// At 20 GFLOP/s, a thousandth of the device's fp64, the largest case takes about this long.
constexpr std::chrono::milliseconds kQrDeadline{60000};

}  // namespace

Executed<ReferenceOutcome> CompareByChecker(Lane& lane, const Job& job, std::uint64_t seed,
                                            const TensorSet& candidate) {
  ReferenceOutcome outcome;
  WorkerParts& parts = lane.parts();
  const Driver& driver = lane.driver();
  const seeds::Case& c = job.task_case;
  const std::int64_t batch = c.tensors[0].shape[0];
  const std::int64_t n = c.tensors[0].shape[1];
  const auto short_of_memory = [](const CuError& error) {
    Fault fault = FaultOf(error);
    fault.message = "the task's checker: " + fault.message;
    return tl::unexpected(std::move(fault));
  };

  const auto hold = parts.gate.Enter(kReferencePhase);
  auto input = parts.pool.Acquire(c.tensors[0].bytes().value);
  if (!input) return short_of_memory(input.error());
  auto transposed = parts.pool.Acquire(c.tensors[1].bytes().value);
  if (!transposed) return short_of_memory(transposed.error());
  const auto column_bytes = batch * n * static_cast<std::int64_t>(sizeof(QrColumn));
  auto measured = parts.pool.Acquire(column_bytes);
  if (!measured) return short_of_memory(measured.error());

  GROVE_TRY(lane.ClearResults());
  GROVE_TRY(parts.support.Generate(lane.stream(), c.tensors[0], 0, seed, input->data()));
  GROVE_TRY(parts.support.Differ(lane.stream(), candidate.buffers[0].data(), input->data(),
                                 input->bytes(), lane.slot(kDifferSlot)));
  GROVE_TRY(driver.Check(driver.EventRecord(lane.start().get(), lane.stream()), "cuEventRecord"));
  GROVE_TRY(parts.support.QrColumns(lane.stream(), input->data(), candidate.buffers[1].data(),
                                    candidate.buffers[2].data(), batch, n, transposed->data(),
                                    measured->data()));
  GROVE_TRY(driver.Check(driver.EventRecord(lane.stop().get(), lane.stream()), "cuEventRecord"));
  std::vector<QrColumn> columns(static_cast<std::size_t>(batch * n));
  GROVE_TRY(
      driver.Check(driver.MemcpyDtoHAsync(columns.data(), measured->data(),
                                          static_cast<std::size_t>(column_bytes), lane.stream()),
                   "cuMemcpyDtoHAsync"));
  GROVE_TRY(lane.ReadResults());
  GROVE_WAIT(lane.Wait(kQrDeadline));
  if (auto time = Elapsed(lane.start(), lane.stop()); time) outcome.time = *time;

  const auto changed = lane.result<ScanResult>(kDifferSlot);
  if (changed.count > 0) {
    outcome.fault = ExecutionFault{
        VerdictKind::kInputModified,
        fmt::format("{} bytes of input {} were changed, the first at element {}", changed.count,
                    c.tensors[0].name,
                    changed.first() / static_cast<std::int64_t>(SizeOf(c.tensors[0].dtype)))};
  }
  outcome.gates = eval::JudgeQr(columns, n, c.profile);
  return outcome;
}

}  // namespace grove::cuda
