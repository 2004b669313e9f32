#include "eval/plan_memory.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include <fmt/format.h>

#include "eval/host_gemm.h"
#include "eval/inputs.h"

namespace grove::eval {

using emulator::AddressSpace;
using seeds::Case;
using seeds::Tensor;
using seeds::TensorRole;

namespace {

VerdictKind KindOf(emulator::Fault::Kind kind) {
  using Kind = emulator::Fault::Kind;
  switch (kind) {
    case Kind::kOutOfBounds:
      return VerdictKind::kOutOfBounds;
    case Kind::kWriteToInput:
      return VerdictKind::kInputModified;
    case Kind::kMisaligned:
      return VerdictKind::kMisaligned;
    case Kind::kRace:
      return VerdictKind::kRace;
    case Kind::kUninitialised:
      return VerdictKind::kUninitialised;
    case Kind::kBarrierDivergence:
      return VerdictKind::kBarrierDivergence;
    case Kind::kTrap:
      return VerdictKind::kTrap;
    case Kind::kBudget:
      return VerdictKind::kTimeout;
    case Kind::kUnsupported:
      return VerdictKind::kUnsupported;
    case Kind::kStackOverflow:
      return VerdictKind::kTrap;
    case Kind::kBadLaunch:
      return VerdictKind::kPlanError;
  }
  return VerdictKind::kInfrastructure;
}

}  // namespace

ExecutionFault ToExecutionFault(const emulator::Fault& fault, const std::string& kernel) {
  return {KindOf(fault.kind), fmt::format("kernel {}: {}", kernel, fault.message)};
}

Result<TensorMemory> AllocateTensors(const Case& task_case, TensorRole role, bool in_f64) {
  TensorMemory memory(task_case.tensors.size());
  for (std::size_t i = 0; i < memory.size(); ++i) {
    const Tensor& tensor = task_case.tensors[i];
    if (tensor.role != role) continue;
    auto block = HostMemory::Allocate(in_f64 ? Bytes(tensor.elements() * 8) : tensor.bytes());
    if (!block) return Failure(std::move(block.error()));
    memory[i] = std::move(*block);
  }
  return memory;
}

Result<std::unique_ptr<PlanMemory>> PlanMemory::Make(const codegen::ResolvedPlan& plan,
                                                     const Case& task_case,
                                                     const TensorMemory& inputs,
                                                     const TensorMemory& outputs,
                                                     const Options& options) {
  auto memory = std::make_unique<PlanMemory>();
  for (std::size_t i = 0; i < task_case.tensors.size(); ++i) {
    const Tensor& tensor = task_case.tensors[i];
    const bool input = tensor.role == TensorRole::kInput;
    const HostMemory& host = input ? inputs[i] : outputs[i];
    memory->tensor_hosts_.push_back(host.data());
    AddressSpace::Buffer buffer;
    buffer.name = tensor.name;
    buffer.host = host.data();
    buffer.bytes = static_cast<std::int64_t>(host.size());
    buffer.writable = !input;
    buffer.track_uninitialised = !input && options.track_uninitialised;
    memory->tensors_.push_back(memory->space_.Map(buffer));
    memory->names_.push_back(tensor.name);
  }
  for (const codegen::ResolvedWorkspace& workspace : plan.workspaces) {
    auto host = HostMemory::Allocate(workspace.bytes());
    if (!host) return Failure(std::move(host.error()));
    if (!workspace.zero && options.poison_workspaces) {
      FillPoison(host->bytes(), workspace.dtype, 0);
    }
    AddressSpace::Buffer buffer;
    buffer.name = workspace.name;
    buffer.host = host->data();
    buffer.bytes = workspace.bytes().value;
    buffer.track_uninitialised = !workspace.zero && options.track_uninitialised;
    memory->workspaces_.push_back(memory->space_.Map(buffer));
    memory->names_.push_back(workspace.name);
    memory->owned_.push_back(std::move(*host));
  }
  return memory;
}

emulator::LaunchConfig PlanMemory::Configure(const codegen::ResolvedLaunch& launch) const {
  emulator::LaunchConfig config;
  config.kernel = launch.kernel;
  config.grid = launch.grid;
  config.block = launch.block;
  config.shared_bytes = launch.shared_bytes;
  config.cluster = launch.cluster;
  config.cooperative = launch.cooperative;
  for (const codegen::ResolvedArg& arg : launch.args) {
    std::vector<std::byte> bytes(arg.size);
    switch (arg.kind) {
      case codegen::ResolvedArg::Kind::kTensor:
        std::memcpy(bytes.data(), &tensors_[arg.index], 8);
        break;
      case codegen::ResolvedArg::Kind::kWorkspace:
        std::memcpy(bytes.data(), &workspaces_[arg.index], 8);
        break;
      case codegen::ResolvedArg::Kind::kScalar:
        std::memcpy(bytes.data(), arg.bytes.data(), std::min<std::size_t>(arg.size, 8));
        break;
      case codegen::ResolvedArg::Kind::kTensorMap:
        break;  // refused before any launch
    }
    config.params.push_back(std::move(bytes));
  }
  return config;
}

void PlanMemory::ResetWorkspaces(const codegen::ResolvedPlan& plan) {
  for (std::size_t i = 0; i < owned_.size(); ++i) {
    const codegen::ResolvedWorkspace& workspace = plan.workspaces[i];
    if (workspace.zero) {
      std::memset(owned_[i].data(), 0, owned_[i].size());
    } else {
      FillPoison(owned_[i].bytes(), workspace.dtype, 0);
    }
  }
}

std::optional<ExecutionFault> PlanMemory::RunLibrary(const codegen::ResolvedLaunch& step,
                                                     bool detect) {
  const codegen::ResolvedGemm& g = *step.gemm;
  if (detect) {
    for (const auto& [m, rows, columns, name] :
         {std::tuple{&g.a, g.m, g.k, "a"}, std::tuple{&g.b, g.k, g.n, "b"},
          std::tuple{&g.c, g.m, g.n, "c"}}) {
      if (m == &g.c && g.beta == 0) continue;
      const std::int64_t element = FirstUnwritten(*m, rows, columns, g.batch);
      if (element < 0) continue;
      return ExecutionFault{VerdictKind::kUninitialised,
                            fmt::format("{}: {} reads element {} of buffer {}, which nobody wrote",
                                        step.place, name, element, names_[Number(*m)])};
    }
  }
  RunGemm(g, hosts(g.a), hosts(g.b), hosts(g.c));
  EachRow(g.c, g.m, g.n, g.batch, [&](std::int64_t at, std::int64_t count) {
    const auto size = static_cast<std::int64_t>(SizeOf(g.c.dtype));
    space_.MarkWritten(Address(g.c), at * size, count * size);
    return true;
  });
  return std::nullopt;
}

std::vector<ElementRange> PlanMemory::Written(std::size_t tensor, std::size_t element_size) const {
  const auto size = static_cast<std::int64_t>(element_size);
  std::vector<ElementRange> ranges;
  for (const auto& [begin, end] : space_.Written(tensors_[tensor])) {
    ranges.push_back({begin / size, (end + size - 1) / size});
  }
  return ranges;
}

std::int64_t PlanMemory::FirstUnwritten(const codegen::ResolvedMatrix& m, std::int64_t rows,
                                        std::int64_t columns, std::int64_t batch) const {
  const auto size = static_cast<std::int64_t>(SizeOf(m.dtype));
  std::int64_t found = -1;
  EachRow(m, rows, columns, batch, [&](std::int64_t at, std::int64_t count) {
    found = space_.FirstUnwritten(Address(m), at * size, count * size);
    if (found >= 0) found /= size;
    return found < 0;
  });
  return found;
}

bool ShowsPoison(std::span<const std::byte> values, DType dtype) {
  std::byte poison[8];
  const std::size_t size = SizeOf(dtype);
  FillPoison({poison, size}, dtype, 0);
  for (std::size_t at = 0; at + size <= values.size(); at += size) {
    if (std::memcmp(values.data() + at, poison, size) == 0) return true;
  }
  return false;
}

std::optional<ExecutionFault> ExecuteWhole(const emulator::Module& module,
                                           const codegen::ResolvedPlan& plan, PlanMemory& memory,
                                           const emulator::LaunchOptions& options,
                                           std::int64_t* most_instructions) {
  for (const codegen::ResolvedLaunch& launch : plan.launches) {
    if (launch.gemm) {
      if (auto fault = memory.RunLibrary(launch, options.detect_uninitialised)) return fault;
      continue;
    }
    const auto outcome = emulator::Run(module, memory.Configure(launch), memory.space(), options);
    if (outcome.fault) return ToExecutionFault(*outcome.fault, launch.kernel);
    if (most_instructions != nullptr) {
      *most_instructions = std::max(*most_instructions, outcome.counters.thread_instructions);
    }
  }
  return std::nullopt;
}

}  // namespace grove::eval
