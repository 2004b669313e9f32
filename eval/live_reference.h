// The reference of a task with `reference = "live"` (seeds/live.h): the PyTorch module that it was
// imported from, asked for its outputs (fp64) on the inputs of a draw. Inputs come from our own
// generator (eval/inputs.h) and are sent; what the helper answers is kept, so that candidates that
// are checked on the same draw pay for it once. Every device has its own, so that the module runs
// where the device is.
//
// A helper (seeds/importers/torch/live_reference.py) is a process of its own under the importer's
// fence: no network where the kernel allows that, no other programs, no files but Python's and the
// task's, memory bounded where there is no GPU, killed when it gives no answer in time, gone when
// we end. It is started at the first question about its task, and again after it has ended.
//
// Messages are frames (base/framing.h) whose payloads are safetensors (seeds/safetensors_text.h):
//   1  from the helper, first: {"torch": "1.13.1", "device": "cpu"} as text
//   2  to it, a question: the inputs that are drawn, `case` in the metadata; what a file holds
//      (parameters) it reads itself
//   3  from it, an answer: every output by its name, F64
//   4  from it, no answer: one line that says why
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "seeds/task.h"

namespace grove::eval {

struct LiveOptions {
  std::string gpu;                     // uuid of the GPU that modules run on; empty = none
  std::string python;                  // empty = importers::FindTorchPython
  std::chrono::seconds start{120};     // until torch is loaded
  std::chrono::seconds deadline{300};  // for an answer
  Bytes memory{0};                     // address space without a GPU; 0 = importers::TorchMemory
};

// Thread-safe; questions are answered one at a time.
class LiveReference {
 public:
  explicit LiveReference(LiveOptions options);
  LiveReference(const LiveReference&) = delete;
  LiveReference& operator=(const LiveReference&) = delete;
  ~LiveReference();

  // The right outputs (f64, in the case's order) for the inputs that `seed` draws, in files that
  // live as long as this object. kInvalidInput when the module cannot answer (its own words)
  // or the case is too large; kUnavailable when there is no torch, or the helper died or hung (it
  // is killed); kResource when the answer cannot be kept. Nothing is kept of an answer that did not
  // arrive whole. REQUIRES: seeds::IsLive.
  Result<std::vector<seeds::Stored>> Outputs(const seeds::Case& task_case, std::uint64_t seed);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Whether a case is small enough to be sent: inputs and fp64 outputs of at most 2 GiB each.
bool FitsLive(const seeds::Case& task_case);

}  // namespace grove::eval
