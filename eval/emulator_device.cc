#include "eval/emulator_device.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tbb/task_arena.h>

#include "eval/check.h"
#include "eval/emulator/emulator.h"
#include "eval/host_memory.h"
#include "eval/inputs.h"
#include "eval/live_reference.h"
#include "eval/once_cache.h"
#include "eval/plan_memory.h"
#include "seeds/live.h"
#include "seeds/safetensors.h"

namespace grove::eval {
namespace {

using emulator::Counters;
using seeds::Case;
using seeds::Tensor;
using seeds::TensorRole;

// The references are ours and may take their time.
constexpr std::int64_t kReferenceBudget = std::int64_t{1} << 45;
// What a launch may cost at least whose blocks begin in another order than before.
constexpr std::int64_t kReorderedBudget = std::int64_t{1} << 22;
constexpr std::uint64_t kOtherDraw = 0x5851f42d4c957f2dULL;
// Sampled blocks must write this share of what they would write if all blocks wrote alike.
constexpr double kLeastCoverage = 0.85;
// Plans with more launches than this have about so many of each shape sampled, and those between
// modelled as the one before.
constexpr std::size_t kManyLaunches = 32;
constexpr std::int64_t kSamplesOfShape = 8;
// Launches that a report shows; their time is the sum of all the same.
constexpr std::size_t kMostReports = 64;

std::optional<ExecutionFault> Unsupported(const codegen::ResolvedPlan& plan) {
  if (plan.tensor_maps.empty()) return std::nullopt;
  return ExecutionFault{VerdictKind::kUnsupported,
                        fmt::format("tensor map {} (TMA) needs a GPU", plan.tensor_maps[0].name)};
}

// The tensors' order and types are checked when the task is loaded (seeds/task_resolve.cc).
std::vector<Gate> CheckQr(const Case& task_case, const TensorMemory& inputs,
                          const TensorMemory& outputs) {
  const auto floats = [](const HostMemory& memory, const Tensor& tensor) {
    return std::span<const float>(reinterpret_cast<const float*>(memory.data()),
                                  static_cast<std::size_t>(tensor.elements()));
  };
  const std::vector<Tensor>& t = task_case.tensors;
  const std::int64_t n = t[0].shape[1];
  const auto columns = QrColumns(floats(inputs[0], t[0]), floats(outputs[1], t[1]),
                                 floats(outputs[2], t[2]), t[0].shape[0], n);
  return JudgeQr(columns, n, task_case.profile);
}

// A case by what its memory depends on: another task of the same name may have other shapes.
std::string IdentityOf(const CaseContext& context) {
  const Case& task_case = context.task_case();
  std::string identity = context.task->name + "/" + task_case.name;
  for (const Tensor& tensor : task_case.tensors) {
    identity += fmt::format("/{}{}", Name(tensor.dtype), fmt::join(tensor.shape, ","));
  }
  return identity;
}

// Isolated: while this thread waits for its own parallel work it must not pick up another
// candidate, which could come back for this very slot.
template <typename T, typename Make>
Result<std::shared_ptr<T>> MadeOnce(OnceCache<T>& cache, const CaseContext& context,
                                    std::uint64_t seed, const Make& make) {
  return cache.Get({IdentityOf(context), seed},
                   [&] { return tbb::this_task_arena::isolate(make); });
}

// The reference's outputs (f64) of a case: whole, or block by block as they are asked for.
struct Reference {
  std::mutex mutex;  // guards the lazy parts below
  std::shared_ptr<const emulator::Module> module;
  TensorMemory outputs;
  bool complete = false;
  std::vector<bool> blocks_done;
};

// The outputs that another program computed, instead of the reference's.
Status ReadGolden(const Case& task_case, const std::vector<seeds::Stored>& golden,
                  TensorMemory& outputs) {
  std::size_t output = 0;
  for (std::size_t i = 0; i < task_case.tensors.size(); ++i) {
    const Tensor& tensor = task_case.tensors[i];
    if (tensor.role != TensorRole::kOutput) continue;
    const auto bytes = static_cast<std::size_t>(tensor.elements()) * sizeof(double);
    auto read = seeds::ReadStored(golden[output++], 0, outputs[i].bytes().first(bytes));
    if (!read) return read;
  }
  return {};
}

class EmulatorDevice final : public Device {
 public:
  EmulatorDevice(const DeviceSpec& model, const EmulatorOptions& options)
      : model_(model),
        options_(options),
        inputs_(options.cache_limit.value / 2),
        references_(options.cache_limit.value / 2) {}

  std::string name() const override { return "emulator"; }
  const DeviceSpec& spec() const override { return model_; }
  codegen::DeviceLimits limits() const override { return LimitsOf(model_); }
  Result<CheckOutcome> Check(const CheckRequest& request) override;
  Result<TimeOutcome> Time(const TimeRequest& request) override;

 private:
  Result<std::shared_ptr<TensorMemory>> Inputs(const CaseContext& context, std::uint64_t seed);
  Result<std::shared_ptr<Reference>> ReferenceOf(const CaseContext& context, std::uint64_t seed);
  // Makes the reference's outputs complete.
  Status CompleteReference(const CaseContext& context, std::uint64_t seed,
                           const TensorMemory& inputs, Reference& reference);
  // Makes them complete over the ranges, where the task says which block writes what.
  Status CoverReference(const CaseContext& context, const TensorMemory& inputs,
                        const std::vector<ElementRange>& ranges, Reference& reference);
  Status RunReference(const CaseContext& context, const TensorMemory& inputs, Reference& reference,
                      std::vector<std::int64_t> blocks);

  std::vector<ErrorReport> CompareAll(const Case& task_case,
                                      const std::vector<std::span<const std::byte>>& outputs,
                                      const Reference& reference) const;
  struct Sample;
  Result<Sample> SampleLaunches(const TimeRequest& request, const emulator::Module& module,
                                PlanMemory& memory);
  // False when the sampled blocks wrote too little to tell anything; `outcome` then is as it was.
  Result<bool> SpotCheck(const TimeRequest& request, const TensorMemory& inputs,
                         const PlanMemory& memory, const TensorMemory& outputs, double share,
                         TimeOutcome& outcome);
  Status FullCheck(const TimeRequest& request, const emulator::Module& module,
                   const TensorMemory& inputs, TimeOutcome& outcome);

  const DeviceSpec model_;
  const EmulatorOptions options_;
  OnceCache<TensorMemory> inputs_;
  OnceCache<Reference> references_;
  LiveReference live_{{}};
};

Result<std::shared_ptr<TensorMemory>> EmulatorDevice::Inputs(const CaseContext& context,
                                                             std::uint64_t seed) {
  using Made = std::pair<std::shared_ptr<TensorMemory>, std::int64_t>;
  return MadeOnce(inputs_, context, seed, [&]() -> Result<Made> {
    const Case& task_case = context.task_case();
    auto memory = AllocateTensors(task_case, TensorRole::kInput, false);
    if (!memory) return Failure(std::move(memory.error()));
    std::int64_t bytes = 0;
    for (std::size_t i = 0; i < memory->size(); ++i) {
      const Tensor& tensor = task_case.tensors[i];
      if (tensor.role != TensorRole::kInput) continue;
      const auto contents =
          (*memory)[i].bytes().first(static_cast<std::size_t>(tensor.bytes().value));
      if (auto made = MakeInput(tensor, seed, i, contents); !made) {
        return Failure(std::move(made.error()));
      }
      bytes += tensor.bytes().value;
    }
    return Made{std::make_shared<TensorMemory>(std::move(*memory)), bytes};
  });
}

Result<std::shared_ptr<Reference>> EmulatorDevice::ReferenceOf(const CaseContext& context,
                                                               std::uint64_t seed) {
  using Made = std::pair<std::shared_ptr<Reference>, std::int64_t>;
  return MadeOnce(references_, context, seed, [&]() -> Result<Made> {
    auto reference = std::make_shared<Reference>();
    auto module = emulator::LoadModule(context.reference.compiled->ptx);
    if (!module) return Fail(std::move(module.error()), "reference");
    reference->module = std::move(*module);
    auto outputs = AllocateTensors(context.task_case(), TensorRole::kOutput, true);
    if (!outputs) return Failure(std::move(outputs.error()));
    std::int64_t bytes = 0;
    for (const HostMemory& output : *outputs) bytes += static_cast<std::int64_t>(output.size());
    reference->outputs = std::move(*outputs);
    return Made{std::move(reference), bytes};
  });
}

Status EmulatorDevice::RunReference(const CaseContext& context, const TensorMemory& inputs,
                                    Reference& reference, std::vector<std::int64_t> blocks) {
  auto memory =
      PlanMemory::Make(context.reference.plan, context.task_case(), inputs, reference.outputs, {});
  if (!memory) return Failure(std::move(memory.error()));
  emulator::LaunchOptions options;
  options.instruction_budget = kReferenceBudget;
  for (const codegen::ResolvedLaunch& launch : context.reference.plan.launches) {
    emulator::LaunchConfig config = (*memory)->Configure(launch);
    config.blocks = blocks;
    // Isolated for the same reason as in OnceCache: the caller holds the reference's lock.
    const auto outcome = tbb::this_task_arena::isolate(
        [&] { return emulator::Run(*reference.module, config, (*memory)->space(), options); });
    if (outcome.fault) {
      return Fail(ErrorCode::kInternal,
                  fmt::format("reference of task {}, case {}: {}", context.task->name,
                              context.task_case().name,
                              ToExecutionFault(*outcome.fault, launch.kernel).message));
    }
  }
  return {};
}

Status EmulatorDevice::CompleteReference(const CaseContext& context, std::uint64_t seed,
                                         const TensorMemory& inputs, Reference& reference) {
  const std::scoped_lock lock(reference.mutex);
  if (reference.complete) return {};
  const Case& task_case = context.task_case();
  if (!task_case.golden.empty()) {
    std::vector<seeds::Stored> golden = task_case.golden;
    if (seeds::IsLive(task_case)) {
      auto answer = live_.Outputs(task_case, seed);
      if (!answer) return Failure(std::move(answer.error()));
      golden = std::move(*answer);
    }
    auto done = ReadGolden(task_case, golden, reference.outputs);
    if (done) reference.complete = true;
    return done;
  }
  if (auto done = RunReference(context, inputs, reference, {}); !done) return done;
  reference.complete = true;
  return {};
}

Status EmulatorDevice::CoverReference(const CaseContext& context, const TensorMemory& inputs,
                                      const std::vector<ElementRange>& ranges,
                                      Reference& reference) {
  const std::scoped_lock lock(reference.mutex);
  if (reference.complete) return {};
  const Case& task_case = context.task_case();
  // Of a live reference's only samples are compared here: the kernels give those.
  if (!task_case.golden.empty() && !seeds::IsLive(task_case)) {
    auto done = ReadGolden(task_case, task_case.golden, reference.outputs);
    if (done) reference.complete = true;
    return done;
  }
  const std::int64_t per_block = context.task->reference_elements_per_block[context.case_index];
  const std::int64_t blocks = context.reference.plan.launches.front().blocks();
  reference.blocks_done.resize(static_cast<std::size_t>(blocks));
  std::vector<std::int64_t> missing;
  for (const ElementRange& range : ranges) {
    for (std::int64_t b = range.begin / per_block; b <= (range.end - 1) / per_block; ++b) {
      auto done = reference.blocks_done[static_cast<std::size_t>(b)];
      if (!done) missing.push_back(b);
      done = true;
    }
  }
  if (missing.empty()) return {};
  return RunReference(context, inputs, reference, std::move(missing));
}

std::vector<ErrorReport> EmulatorDevice::CompareAll(
    const Case& task_case, const std::vector<std::span<const std::byte>>& outputs,
    const Reference& reference) const {
  std::vector<ErrorReport> errors;
  for (std::size_t i = 0; i < task_case.tensors.size(); ++i) {
    const Tensor& tensor = task_case.tensors[i];
    if (tensor.role != TensorRole::kOutput) continue;
    const auto* expected = reinterpret_cast<const double*>(reference.outputs[i].data());
    errors.push_back(Compare(tensor, outputs[i],
                             {expected, static_cast<std::size_t>(tensor.elements())},
                             task_case.row_elements));
  }
  return errors;
}

Result<CheckOutcome> EmulatorDevice::Check(const CheckRequest& request) {
  const CaseContext& context = *request.context;
  const Case& task_case = context.task_case();
  const codegen::ResolvedPlan& plan = request.candidate->plan;
  CheckOutcome outcome;
  if ((outcome.fault = Unsupported(plan))) return outcome;
  auto module = emulator::LoadModule(request.candidate->compiled->ptx);
  if (!module) {
    outcome.fault = ExecutionFault{VerdictKind::kUnsupported, module.error().message};
    return outcome;
  }
  auto inputs = Inputs(context, request.seed);
  if (!inputs) return Failure(std::move(inputs.error()));

  // Inputs of the candidate's own where they will change under it, at one address.
  const bool again = request.runs > 1;
  TensorMemory own;
  if (again) {
    auto copied = AllocateTensors(task_case, TensorRole::kInput, false);
    if (!copied) return Failure(std::move(copied.error()));
    own = std::move(*copied);
    for (std::size_t i = 0; i < own.size(); ++i) {
      if (own[i].data() == nullptr) continue;
      std::memcpy(own[i].data(), (**inputs)[i].data(), own[i].size());
    }
  }
  auto outputs = AllocateTensors(task_case, TensorRole::kOutput, false);
  if (!outputs) return Failure(std::move(outputs.error()));
  PlanMemory::Options memory_options;
  memory_options.track_uninitialised = request.detect;
  auto memory = PlanMemory::Make(plan, task_case, again ? own : **inputs, *outputs, memory_options);
  if (!memory) return Failure(std::move(memory.error()));

  // One execution into outputs filled with poison number `poison`.
  std::int64_t most_instructions = 0;
  const auto execute = [&](int poison, bool first_run,
                           emulator::LaunchOptions::Order order) -> std::optional<ExecutionFault> {
    for (std::size_t i = 0; i < outputs->size(); ++i) {
      if ((*outputs)[i].data() == nullptr) continue;
      FillPoison((*outputs)[i].bytes(), task_case.tensors[i].dtype, poison);
    }
    if (!first_run) (*memory)->ResetWorkspaces(plan);
    emulator::LaunchOptions options;
    options.instruction_budget = options_.check_budget;
    options.detect_races = request.detect && first_run;
    options.detect_uninitialised = request.detect && first_run;
    options.order = order;
    if (order != emulator::LaunchOptions::Order::kNatural) {
      options.instruction_budget =
          std::min(options.instruction_budget, 4 * most_instructions + kReorderedBudget);
    }
    return ExecuteWhole(**module, plan, **memory, options,
                        first_run ? &most_instructions : nullptr);
  };

  using Order = emulator::LaunchOptions::Order;
  std::vector<std::vector<std::byte>> first(outputs->size());
  for (int run = 0; run < request.runs; ++run) {
    const Order order = run == 0       ? Order::kNatural
                        : run % 2 == 1 ? Order::kReversed
                                       : Order::kScattered;
    auto fault = execute(0, run == 0, order);
    // A block that waits for an earlier one cannot run before it; on a GPU it does not have to.
    if (fault && fault->kind == VerdictKind::kTimeout && order != Order::kNatural) continue;
    if (fault) {
      outcome.fault = std::move(fault);
      return outcome;
    }
    for (std::size_t i = 0; i < outputs->size(); ++i) {
      const auto bytes = (*outputs)[i].bytes();
      if (run == 0) {
        first[i].assign(bytes.begin(), bytes.end());
      } else if (!bytes.empty() && std::memcmp(bytes.data(), first[i].data(), bytes.size()) != 0) {
        outcome.deterministic = false;
      }
    }
  }

  // An element that shows its poison may be a coincidence; one that shows two poisons is unwritten.
  for (std::size_t i = 0; i < first.size(); ++i) {
    if (first[i].empty()) continue;
    const DType dtype = task_case.tensors[i].dtype;
    if (!ShowsPoison(first[i], dtype)) continue;
    if (auto fault = execute(1, false, Order::kNatural)) {
      outcome.fault = std::move(fault);
      return outcome;
    }
    const std::int64_t element = FirstPoison(first[i], (*outputs)[i].bytes(), dtype);
    if (element >= 0) {
      outcome.unwritten_tensor = i;
      outcome.unwritten_element = element;
      outcome.deterministic = true;  // of what is written, nothing is known
      return outcome;
    }
  }

  const auto compare = [&](std::uint64_t seed, const TensorMemory& of,
                           const auto& values) -> Result<std::vector<ErrorReport>> {
    auto reference = ReferenceOf(context, seed);
    if (!reference) return Failure(std::move(reference.error()));
    if (auto done = CompleteReference(context, seed, of, **reference); !done) {
      return Failure(std::move(done.error()));
    }
    return CompareAll(task_case, values, **reference);
  };
  std::vector<std::span<const std::byte>> values(first.begin(), first.end());
  const bool checker = task_case.checker == seeds::Checker::kHouseholderQr;
  if (checker) {
    // Of the first run, whatever ran after it.
    for (std::size_t i = 0; i < first.size(); ++i) {
      if (!first[i].empty()) {
        std::memcpy((*outputs)[i].data(), first[i].data(), first[i].size());
      }
    }
    outcome.gates = CheckQr(task_case, **inputs, *outputs);
  } else {
    auto errors = compare(request.seed, **inputs, values);
    if (!errors) return Failure(std::move(errors.error()));
    outcome.errors = std::move(*errors);
  }
  if (!again) return outcome;

  // One more call, on other inputs at the same addresses, in the same process: what a kernel that
  // replays an earlier answer gets wrong. The larger of the errors counts.
  const std::uint64_t other = request.seed ^ kOtherDraw;
  auto fresh = Inputs(context, other);
  if (!fresh) return Failure(std::move(fresh.error()));
  for (std::size_t i = 0; i < own.size(); ++i) {
    if (own[i].data() == nullptr) continue;
    std::memcpy(own[i].data(), (**fresh)[i].data(), own[i].size());
  }
  if (auto fault = execute(0, false, Order::kNatural)) {
    outcome.fault = std::move(fault);
    return outcome;
  }
  if (checker) {
    auto gates = CheckQr(task_case, **fresh, *outputs);
    const bool passed =
        std::all_of(gates.begin(), gates.end(), [](const Gate& gate) { return gate.passed(); });
    if (!passed) outcome.gates = std::move(gates);
    return outcome;
  }
  for (std::size_t i = 0; i < outputs->size(); ++i) values[i] = (*outputs)[i].bytes();
  auto errors = compare(other, **fresh, values);
  if (!errors) return Failure(std::move(errors.error()));
  for (std::size_t i = 0; i < errors->size(); ++i) {
    if (!((*errors)[i].worst_row_l2 <= outcome.errors[i].worst_row_l2)) {
      outcome.errors[i] = (*errors)[i];
    }
  }
  return outcome;
}

static LaunchReport ReportOf(const codegen::ResolvedLaunch& launch,
                             const ModelledLaunch& modelled) {
  LaunchReport report;
  report.kernel = launch.kernel;
  report.time = modelled.time;
  report.occupancy = modelled.occupancy;
  report.bound = modelled.bound;
  report.dram_bytes = modelled.dram_bytes;
  return report;
}

// What executing a product on the host costs, in thread-instructions of about the same time.
static std::int64_t GemmInstructions(const codegen::ResolvedGemm& g) {
  constexpr double kTermsPerInstruction = 8;
  return static_cast<std::int64_t>(std::min(
      1e18, static_cast<double>(g.m) * static_cast<double>(g.n) * static_cast<double>(g.k) *
                static_cast<double>(g.batch) / kTermsPerInstruction));
}

// All tensors and workspaces that a launch is given.
static Bytes FootprintOf(const codegen::ResolvedLaunch& launch, const codegen::ResolvedPlan& plan,
                         const Case& task_case) {
  std::set<std::pair<codegen::ResolvedArg::Kind, std::size_t>> counted;
  Bytes sum;
  for (const codegen::ResolvedArg& arg : launch.args) {
    if (!counted.insert({arg.kind, arg.index}).second) continue;
    if (arg.kind == codegen::ResolvedArg::Kind::kTensor) {
      sum = sum + task_case.tensors[arg.index].bytes();
    } else if (arg.kind == codegen::ResolvedArg::Kind::kWorkspace) {
      sum = sum + plan.workspaces[arg.index].bytes();
    }
  }
  return sum;
}

// What sampling every launch of a plan gave.
struct EmulatorDevice::Sample {
  std::optional<ExecutionFault> fault;
  std::vector<LaunchReport> launches;
  Nanoseconds time{0};
  std::int64_t estimated_instructions = 0;  // of one whole execution
  std::int64_t atomics = 0;
  double share = 1;  // of the blocks of the last launch that were executed
};

Result<EmulatorDevice::Sample> EmulatorDevice::SampleLaunches(const TimeRequest& request,
                                                              const emulator::Module& module,
                                                              PlanMemory& memory) {
  const codegen::ResolvedPlan& plan = request.candidate->plan;
  Sample sample;
  using Shape = std::tuple<std::string, std::array<std::int64_t, 3>, std::array<std::int64_t, 3>>;
  // The launches of one shape: a blocked algorithm has many, of work that grows or shrinks.
  struct Group {
    std::int64_t launches = 0;
    std::int64_t seen = 0;
    std::size_t sampled = 0;  // index of the one sampled last
    std::int64_t instructions = 0;
  };
  std::map<Shape, Group> groups;
  for (const codegen::ResolvedLaunch& launch : plan.launches) {
    if (!launch.gemm) ++groups[{launch.kernel, launch.grid, launch.block}].launches;
  }
  std::vector<ModelledLaunch> launches;
  for (const codegen::ResolvedLaunch& launch : plan.launches) {
    if (launch.gemm) {  // not executed: what it would read was not computed whole either
      const ModelledLaunch modelled = ModelGemm(model_, *launch.gemm);
      sample.launches.push_back(ReportOf(launch, modelled));
      launches.push_back(modelled);
      sample.estimated_instructions += GemmInstructions(*launch.gemm);
      continue;
    }
    Group& group = groups[{launch.kernel, launch.grid, launch.block}];
    const std::int64_t every = std::max<std::int64_t>(1, group.launches / kSamplesOfShape);
    if (plan.launches.size() > kManyLaunches && group.seen++ % every != 0) {
      sample.launches.push_back(sample.launches[group.sampled]);
      launches.push_back(launches[group.sampled]);
      sample.estimated_instructions += group.instructions;
      continue;
    }
    const auto& entries = request.candidate->compiled->entries;
    const auto entry = std::find_if(entries.begin(), entries.end(), [&](const auto& candidate) {
      return candidate.name == launch.kernel;
    });
    if (entry == entries.end()) {
      return Fail(ErrorCode::kInternal, "launch of a kernel that was not validated");
    }
    emulator::LaunchOptions options;
    emulator::LaunchConfig config = memory.Configure(launch);
    const bool sampled = !launch.cooperative && launch.blocks() > 1;
    if (sampled) {
      // A pilot block says how many blocks the budget allows.
      options.instruction_budget = options_.pilot_budget;
      config.blocks = {launch.blocks() / 2};
      const auto pilot = emulator::Run(module, config, memory.space(), options);
      if (pilot.fault) {
        sample.fault = ToExecutionFault(*pilot.fault, launch.kernel);
        return sample;
      }
      const std::int64_t per_block = std::max<std::int64_t>(pilot.counters.thread_instructions, 1);
      const std::int64_t count =
          std::clamp<std::int64_t>(options_.sample_budget / per_block, 1, options_.sample_blocks);
      config.blocks = SampleBlocks(launch, count);
    }
    options.instruction_budget = options_.pilot_budget;
    options.count_memory = true;
    const auto outcome = emulator::Run(module, config, memory.space(), options);
    if (outcome.fault) {
      sample.fault = ToExecutionFault(*outcome.fault, launch.kernel);
      return sample;
    }
    const ModelledLaunch modelled =
        ModelLaunch(model_, launch, *entry, outcome.counters,
                    FootprintOf(launch, plan, request.context->task_case()));
    launches.push_back(modelled);
    sample.atomics += outcome.counters.atomics;
    const std::int64_t blocks = std::max<std::int64_t>(outcome.counters.blocks, 1);
    sample.share = static_cast<double>(blocks) / static_cast<double>(launch.blocks());
    group.instructions = outcome.counters.thread_instructions / blocks * launch.blocks();
    sample.estimated_instructions += group.instructions;
    group.sampled = sample.launches.size();
    sample.launches.push_back(ReportOf(launch, modelled));
  }
  sample.time = SumLaunches(launches);
  return sample;
}

// Compares what the sampled blocks of a single launch wrote.
Result<bool> EmulatorDevice::SpotCheck(const TimeRequest& request, const TensorMemory& inputs,
                                       const PlanMemory& memory, const TensorMemory& outputs,
                                       double share, TimeOutcome& outcome) {
  const CaseContext& context = *request.context;
  const Case& task_case = context.task_case();
  std::int64_t covered = 0;
  std::int64_t total = 0;
  std::vector<ErrorReport> errors;
  for (std::size_t i = 0; i < task_case.tensors.size(); ++i) {
    const Tensor& tensor = task_case.tensors[i];
    if (tensor.role != TensorRole::kOutput) continue;
    const auto ranges = memory.Written(i, SizeOf(tensor.dtype));
    std::int64_t written = 0;
    for (const ElementRange& range : ranges) written += range.end - range.begin;
    const double least = share < 1 ? kLeastCoverage * share : 1.0;
    if (static_cast<double>(written) < least * static_cast<double>(tensor.elements())) {
      return false;
    }
    auto reference = ReferenceOf(context, request.seed);
    if (!reference) return Failure(std::move(reference.error()));
    if (auto done = CoverReference(context, inputs, ranges, **reference); !done) {
      return Failure(std::move(done.error()));
    }
    const auto* expected = reinterpret_cast<const double*>((*reference)->outputs[i].data());
    errors.push_back(Compare(tensor, outputs[i].bytes(),
                             {expected, static_cast<std::size_t>(tensor.elements())},
                             task_case.row_elements, ranges));
    covered += written;
    total += tensor.elements();
  }
  outcome.errors = std::move(errors);
  outcome.checked_share = static_cast<double>(covered) / static_cast<double>(total);
  outcome.note = "checked at the elements that the sampled blocks wrote";
  return true;
}

// Executes the plan whole on the scored case and compares everything.
Status EmulatorDevice::FullCheck(const TimeRequest& request, const emulator::Module& module,
                                 const TensorMemory& inputs, TimeOutcome& outcome) {
  const CaseContext& context = *request.context;
  const Case& task_case = context.task_case();
  auto outputs = AllocateTensors(task_case, TensorRole::kOutput, false);
  if (!outputs) return Failure(std::move(outputs.error()));
  PlanMemory::Options memory_options;
  memory_options.poison_workspaces = false;
  auto memory =
      PlanMemory::Make(request.candidate->plan, task_case, inputs, *outputs, memory_options);
  if (!memory) return Failure(std::move(memory.error()));
  emulator::LaunchOptions options;
  options.instruction_budget = 4 * options_.full_budget;
  outcome.fault = ExecuteWhole(module, request.candidate->plan, **memory, options);
  if (outcome.fault) return {};
  outcome.checked_share = 1;
  outcome.note = "executed and checked whole";
  if (task_case.checker == seeds::Checker::kHouseholderQr) {
    outcome.gates = CheckQr(task_case, inputs, *outputs);
    return {};
  }
  auto reference = ReferenceOf(context, request.seed);
  if (!reference) return Failure(std::move(reference.error()));
  if (auto done = CompleteReference(context, request.seed, inputs, **reference); !done) return done;
  std::vector<std::span<const std::byte>> values;
  for (const HostMemory& output : *outputs) values.emplace_back(output.bytes());
  outcome.errors = CompareAll(task_case, values, **reference);
  return {};
}

Result<TimeOutcome> EmulatorDevice::Time(const TimeRequest& request) {
  const CaseContext& context = *request.context;
  const Case& task_case = context.task_case();
  const codegen::ResolvedPlan& plan = request.candidate->plan;
  TimeOutcome outcome;
  outcome.modelled = true;
  if ((outcome.fault = Unsupported(plan))) return outcome;
  auto module = emulator::LoadModule(request.candidate->compiled->ptx);
  if (!module) {
    outcome.fault = ExecutionFault{VerdictKind::kUnsupported, module.error().message};
    return outcome;
  }
  auto inputs = Inputs(context, request.seed);
  if (!inputs) return Failure(std::move(inputs.error()));
  auto outputs = AllocateTensors(task_case, TensorRole::kOutput, false);
  if (!outputs) return Failure(std::move(outputs.error()));
  PlanMemory::Options memory_options;
  memory_options.poison_workspaces = false;
  memory_options.track_uninitialised = true;  // only to see what was written
  auto memory = PlanMemory::Make(plan, task_case, **inputs, *outputs, memory_options);
  if (!memory) return Failure(std::move(memory.error()));

  auto sample = SampleLaunches(request, **module, **memory);
  if (!sample) return Failure(std::move(sample.error()));
  outcome.fault = std::move(sample->fault);
  outcome.launches = std::move(sample->launches);
  if (outcome.launches.size() > kMostReports) outcome.launches.resize(kMostReports);
  outcome.time = sample->time;
  if (outcome.fault) return outcome;

  const bool independent_blocks =
      plan.launches.size() == 1 && sample->atomics == 0 &&
      context.task->reference_elements_per_block[context.case_index] > 0;
  Status checked;
  bool told = false;
  if (independent_blocks) {
    auto spot = SpotCheck(request, **inputs, **memory, *outputs, sample->share, outcome);
    if (!spot) return Failure(std::move(spot.error()));
    told = *spot;
  }
  if (told) {
    // The sample covers what it should.
  } else if (sample->estimated_instructions <= options_.full_budget) {
    memory->reset();
    outputs->clear();
    checked = FullCheck(request, **module, **inputs, outcome);
  } else if (independent_blocks) {
    outcome.fault = ExecutionFault{
        VerdictKind::kUnwritten,
        fmt::format("the blocks sampled on this case wrote less than {:.0f}% of their share of the "
                    "outputs",
                    100 * kLeastCoverage)};
  } else {
    outcome.note = fmt::format(
        "not rechecked at this size: its blocks depend on each other, and a whole execution needs "
        "about {:.1f}e9 thread-instructions",
        static_cast<double>(sample->estimated_instructions) / 1e9);
  }
  if (!checked) return Failure(std::move(checked.error()));
  return outcome;
}

}  // namespace

std::unique_ptr<Device> MakeEmulatorDevice(const DeviceSpec& model,
                                           const EmulatorOptions& options) {
  return std::make_unique<EmulatorDevice>(model, options);
}

namespace {

// Runs a plan once on inputs drawn with one seed per tensor, and gives its outputs (in f64 where
// `in_f64`), one buffer per tensor of the case.
Result<TensorMemory> RunOnce(const Case& task_case, const Prepared& program,
                             const std::vector<std::uint64_t>& seeds, bool in_f64) {
  auto inputs = AllocateTensors(task_case, TensorRole::kInput, false);
  if (!inputs) return Failure(std::move(inputs.error()));
  auto outputs = AllocateTensors(task_case, TensorRole::kOutput, in_f64);
  if (!outputs) return Failure(std::move(outputs.error()));
  for (std::size_t i = 0; i < inputs->size(); ++i) {
    const Tensor& tensor = task_case.tensors[i];
    if (tensor.role != TensorRole::kInput) continue;
    const auto bytes = (*inputs)[i].bytes().first(static_cast<std::size_t>(tensor.bytes().value));
    if (auto made = MakeInput(tensor, seeds[i], i, bytes); !made) {
      return Failure(std::move(made.error()));
    }
  }
  auto module = emulator::LoadModule(program.compiled->ptx);
  if (!module) return Failure(std::move(module.error()));
  auto memory = PlanMemory::Make(program.plan, task_case, *inputs, *outputs, {});
  if (!memory) return Failure(std::move(memory.error()));
  emulator::LaunchOptions options;
  options.instruction_budget = kReferenceBudget;
  if (auto fault = ExecuteWhole(**module, program.plan, **memory, options)) {
    return Fail(ErrorCode::kInternal, fault->message);
  }
  return std::move(*outputs);
}

}  // namespace

Result<std::vector<std::vector<double>>> EmulateReference(const CaseContext& context,
                                                          const std::vector<std::uint64_t>& seeds) {
  const Case& task_case = context.task_case();
  auto outputs = RunOnce(task_case, context.reference, seeds, true);
  if (!outputs) {
    return Fail(std::move(outputs.error()),
                fmt::format("reference of task {}, case {}", context.task->name, task_case.name));
  }
  std::vector<std::vector<double>> values;
  for (std::size_t i = 0; i < outputs->size(); ++i) {
    const Tensor& tensor = task_case.tensors[i];
    if (tensor.role != TensorRole::kOutput) continue;
    const auto* data = reinterpret_cast<const double*>((*outputs)[i].data());
    values.emplace_back(data, data + tensor.elements());
  }
  return values;
}

Result<std::vector<std::string>> EmulateProgram(const Case& task_case, const Prepared& program) {
  auto outputs =
      RunOnce(task_case, program, std::vector<std::uint64_t>(task_case.tensors.size(), 1), false);
  if (!outputs) return Failure(std::move(outputs.error()));
  std::vector<std::string> values;
  for (std::size_t i = 0; i < outputs->size(); ++i) {
    const Tensor& tensor = task_case.tensors[i];
    if (tensor.role != TensorRole::kOutput) continue;
    values.emplace_back(reinterpret_cast<const char*>((*outputs)[i].data()),
                        static_cast<std::size_t>(tensor.bytes().value));
  }
  return values;
}

}  // namespace grove::eval
