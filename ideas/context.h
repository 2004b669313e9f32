// What a prompt is made from: plain values that the search fills in and that ideas/idea_prompt.h
// and codegen/implement.h write out. Every text here may be foreign (a kernel's source, an idea's
// words) and is shielded when it is written: it can neither end a section of the prompt nor a
// fence.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "ideas/idea.h"
#include "seeds/task.h"

namespace grove::ideas {

// The task as a prompt shows it.
struct TaskFacts {
  struct Case {
    std::string name;
    std::string role;     // "scored", "smoke", ...
    std::string dims;     // "M=4096 N=65536"
    std::string tensors;  // "x f32 [4096,65536] input; y f32 [4096,65536] output"
    std::string inputs;   // how the inputs are drawn where not normal(0, 1); may be empty
    std::string allowed;  // "relative L2 error of a row at most 1e-05"; may be empty
  };
  std::string name;
  std::string title;
  std::string family;
  std::string contract;
  std::string demanded;     // precision class
  std::string scalars;      // "eps=1e-05 (f32)"; may be empty
  bool library = false;     // plans may use library steps
  std::vector<Case> cases;  // scored cases first
};
TaskFacts DescribeTask(const seeds::Task& task);

struct DeviceFacts {
  std::string name;  // "H200"
  std::string arch;  // "sm_90a": what programs are compiled for
  int sm_count = 0;
  double memory_gbs = 0;   // GB/s, measured copy
  double l2_mb = 0;        // MB
  double fp32_tflops = 0;  // TFLOP/s, dense
  double tf32_tflops = 0;
  double fp16_tflops = 0;
  double bf16_tflops = 0, fp8_tflops = 0;  // 0 = not known
  double mma_efficiency = 1;               // share of a tensor peak that mma.sync can reach
  double clock_ghz = 0;                    // 0 = not known
  int shared_per_sm = 0;                   // bytes; 0 = not known
  int registers_per_sm = 65536, threads_per_sm = 2048, blocks_per_sm = 32;
  int shared_per_block = 0;  // bytes, opt-in maximum
  bool modelled = false;     // times come from the emulator's cost model, not from a GPU
};

// A kernel and what is known about it.
struct KernelFacts {
  std::string id;                        // "seed", "c17"
  std::string source;                    // CUDA C++
  std::string plan;                      // JSON
  std::optional<Nanoseconds> time;       // over the scored cases, geometric mean
  std::optional<Nanoseconds> floor;      // of the demanded class
  std::optional<double> share_of_floor;  // floor / time, 0 to 1
  bool modelled = false;                 // the time is modelled, not measured
  std::string what_counts;               // how large a difference of time must be; may be empty
  std::optional<int> registers;          // per thread
  std::optional<std::int64_t> spill_bytes;
  std::optional<std::int64_t> shared_bytes;  // per block, static and dynamic
  std::vector<std::string> kernels;          // where there are several: one line for each
  std::optional<double> occupancy;           // resident warps / maximum, 0 to 1
  std::string limiter;                       // of the occupancy
  std::string bound;                         // "memory", "fp32", "latency", ...
  std::string precision_class;               // from the measured error
  std::string error;                         // against fp64, with what is allowed; may be empty
  std::optional<Nanoseconds> empty_kernel;   // an empty kernel timed the same way
  std::string counters;                      // profile counters, one per line; may be empty
  // Per timed case a line (time, spread, floor, traffic), then one for each kernel of a plan of
  // several launches.
  std::vector<std::string> cases;
};

// An idea of the past and what came of it.
struct TriedIdea {
  // kDuplicate: each implementation was a program that there was already, so nothing is known of
  // it.
  enum class Outcome { kWin, kTie, kLoss, kFailed, kDuplicate };
  std::string title;
  Category category = Category::kInstructions;
  Outcome outcome = Outcome::kTie;
  std::optional<double> gain;  // ratio of times, parent / best sibling
  std::string note;            // why: a verdict, a resource, a sentence; may be empty
  std::string best;            // the best implementation: name, time, resources; may be empty
  std::string from;            // the kernel that it changed: name, time; empty = this prompt's own
  // One line each: name, time or verdict, resources. They stand in the place of `best` and of the
  // numbers below; where some are left out, `tries` is more than there are.
  std::vector<std::string> implementations;
  // The credit of the idea apart from its implementations; 0 tries = not known.
  int tries = 0, compiled = 0, correct = 0;
  std::optional<double> median_gain{};  // parent / median of the correct siblings
};
std::string_view Name(TriedIdea::Outcome outcome);

// What a prompt has room for, bytes. What does not fit is left out, and the prompt says so.
struct PromptBudget {
  std::size_t tried_here = 12000;  // of its lines together; the newest stay
  std::size_t tried_elsewhere = 8000;
  std::size_t ties = 16000;     // of kernels that tie with the parent, and their changes
  std::size_t changes = 12000;  // of other kernels; the first stay
  std::size_t named = 16000;    // of kernels that an idea names
  std::size_t lineage = 6000;
  std::size_t steps = 2500;  // of the lineage, for who implements an idea
  std::size_t playbook = 12000;
  std::size_t counters = 6000;
  std::size_t plan = 16000;    // the first bytes stay
  std::size_t source = 60000;  // the first and last bytes stay
};
// As many of `lines`, from the end (or the start) on, as fit in `bytes`, in their order; where some
// do not, a line says how many, `more` beyond `lines` among them.
std::vector<std::string> FitLines(const std::vector<std::string>& lines, std::size_t bytes,
                                  bool from_end, std::size_t more = 0);
// The text, or its start and its end with a line between them that says how much is missing.
std::string FitText(std::string_view text, std::size_t bytes);

std::string DescribeGain(double gain);
// For a prompt: "Vectorised loads [memory access]: win, 1.80x; note", then a line for each
// implementation, "  - r2.i1.b1: 812.3 us, 1.80x its parent".
std::string DescribeTried(const TriedIdea& tried);

// Foreign text made safe inside a section: tags that look like a section's get a blank after '<'.
std::string Shield(std::string_view text);
std::vector<std::string> ShieldAll(const std::vector<std::string>& texts);
// Foreign text as a fenced block with a fence longer than any run of backticks in it.
std::string Fenced(std::string_view language, std::string_view text);

// The lines that a prompt says about a kernel: time, floor and what it is, resources. Unknown
// values are left out.
std::string DescribeKernel(const KernelFacts& kernel);
std::string DescribeDevice(const DeviceFacts& device);
std::string DescribeTaskLines(const TaskFacts& task);

}  // namespace grove::ideas
