// The worker's side of a check: one candidate, one case, one draw of inputs.
//
// Order, and why: the candidate runs first, on inputs of its own, between guards, into poisoned
// outputs. Only when it has ended are the inputs drawn a second time, elsewhere, and the reference
// run on those; so no kernel of a candidate ever shares the address space with a reference result
// (the gate of WorkerParts keeps other lanes' candidates out as well), and the result is
// overwritten before the next candidate may start. The second draw is also what the candidate's
// inputs are compared with, byte by byte, to see whether it wrote to them.
//
// A check of several runs has a rehearsal before them: the same loaded module is executed once on
// another draw of inputs in the very buffers that the runs will use, and its outputs are thrown
// away. What a kernel keeps of it in `__device__` variables, by the address of its input or by a
// count of its calls, is then an answer to inputs that are no longer there: wrong_result. The
// emulator has its execution on other inputs after the runs, to the same effect.
#pragma once

#include <string>
#include <vector>

#include "eval/cuda/lane.h"
#include "eval/cuda/protocol.h"

namespace grove::cuda {

// The tensors of a case on the device.
struct TensorSet {
  std::vector<GuardedBuffer> buffers;  // in the case's order
  std::vector<CuDevicePtr> addresses() const;
  std::int64_t bytes() const;
};

// Buffers for every tensor; outputs in f64 when `reference`. kOutOfMemory names the tensor.
Executed<TensorSet> MakeTensors(MemoryPool& pool, const seeds::Case& task_case, bool reference);
// Enqueues the drawing of all inputs and the guards of every buffer.
CuStatus DrawInputs(Lane& lane, const seeds::Case& task_case, std::uint64_t seed,
                    const TensorSet& set);
// Enqueues the copy of a stored tensor of so many bytes.
CuStatus UploadStored(Lane& lane, const seeds::Stored& stored, std::int64_t bytes,
                      CuDevicePtr data);
CuStatus FillGuards(Lane& lane, std::span<const GuardedBuffer> buffers);
// Waits, then says in words which guard was written to; empty when all are whole. `names` are the
// buffers', in order. REQUIRES: FillGuards was done on them.
Executed<std::string> FindGuardDamage(Lane& lane, std::span<const GuardedBuffer> buffers,
                                      const std::vector<std::string>& names);
// Enqueues the poisoning of all outputs, with poison `which` (0 or 1) of eval/inputs.h.
CuStatus PoisonOutputs(Lane& lane, const seeds::Case& task_case, const TensorSet& set, int which);
std::vector<std::string> TensorNames(const seeds::Case& task_case);

struct ReferenceOutcome {
  std::vector<eval::ErrorReport> errors;      // one per output; none when the case has a checker
  std::vector<eval::Gate> gates;              // of the case's checker
  std::optional<eval::ExecutionFault> fault;  // the candidate wrote to an input
  Nanoseconds time{0};                        // of the reference or the checker, wall
};
// In the reference phase: draws the inputs again, compares them with the candidate's, runs the
// reference and compares the outputs. REQUIRES: nothing enqueued on the lane's stream is
// unfinished.
Executed<ReferenceOutcome> CompareWithReference(Lane& lane, const Job& job, std::uint64_t seed,
                                                const TensorSet& candidate);

// The same for a case with a checker: measures what the candidate's outputs must fulfil, in fp64 on
// the device (qr_checker.cc). All of them, not a sample.
Executed<ReferenceOutcome> CompareByChecker(Lane& lane, const Job& job, std::uint64_t seed,
                                            const TensorSet& candidate);

// A sticky fault means that the worker must end; any other fault is in the outcome.
Executed<CheckDone> RunCheck(Lane& lane, const CheckJob& job);

}  // namespace grove::cuda
