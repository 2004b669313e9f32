#include "eval/cuda/executor.h"

#include <algorithm>
#include <array>
#include <cstring>

#include <fmt/format.h>

namespace grove::cuda {
namespace {

using codegen::ResolvedArg;
using codegen::ResolvedLaunch;
using codegen::ResolvedTensorMap;
using eval::VerdictKind;

tl::unexpected<Fault> PlanFault(const ResolvedLaunch& launch, std::string message) {
  return tl::unexpected(
      Fault{VerdictKind::kPlanError, fmt::format("{}: {}", launch.place, message), false});
}

tl::unexpected<Fault> FaultAt(const ResolvedLaunch& launch, const CuError& error) {
  Fault fault = FaultOf(error);
  fault.message = fmt::format("{} (kernel {}): {}", launch.place, launch.kernel, fault.message);
  return tl::unexpected(std::move(fault));
}

// The parameters of a kernel as the driver lays them out.
CuExpected<std::vector<std::size_t>> ParamSizes(const Driver& driver, CuFunction function) {
  std::vector<std::size_t> sizes;
  for (;;) {
    std::size_t offset = 0;
    std::size_t size = 0;
    const CuResult code = driver.FuncGetParamInfo(function, sizes.size(), &offset, &size);
    if (code == kCuInvalidValue) return sizes;  // past the last one
    if (auto ok = driver.Check(code, "cuFuncGetParamInfo"); !ok) return tl::unexpected(ok.error());
    sizes.push_back(size);
  }
}

int TensorMapType(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return kTensorMapF64;
    case DType::kF32:
      return kTensorMapF32;
    case DType::kF16:
      return kTensorMapF16;
    case DType::kBF16:
      return kTensorMapBF16;
    case DType::kI64:
      return kTensorMapI64;
    case DType::kI32:
      return kTensorMapI32;
    case DType::kI8:
    case DType::kU8:
    case DType::kBool:
      return kTensorMapU8;
  }
  return kTensorMapU8;
}

// Position in a list of names, or -1.
int IndexOf(std::string_view name, std::initializer_list<std::string_view> names) {
  int index = 0;
  for (std::string_view candidate : names) {
    if (candidate == name) return index;
    ++index;
  }
  return -1;
}

Executed<CuTensorMap> Encode(const Driver& driver, const ResolvedTensorMap& map,
                             CuDevicePtr address) {
  const auto refuse = [&](std::string message) {
    return tl::unexpected(
        Fault{VerdictKind::kPlanError, fmt::format("tensor map {}: {}", map.name, message), false});
  };
  constexpr std::size_t kMaxRank = 5;
  const std::size_t rank = map.shape.size();
  if (rank == 0 || rank > kMaxRank || map.box.size() != rank) {
    return refuse(
        fmt::format("rank {} with a box of rank {}; 1 to 5 needed", rank, map.box.size()));
  }
  const int swizzle = IndexOf(map.swizzle, {"none", "32B", "64B", "128B"});
  const int interleave = IndexOf(map.interleave, {"none", "16B", "32B"});
  const int promotion = IndexOf(map.l2_promotion, {"none", "64B", "128B", "256B"});
  if (swizzle < 0 || interleave < 0 || promotion < 0) return refuse("unknown mode");
  std::array<std::uint64_t, kMaxRank> dims{};
  std::array<std::uint64_t, kMaxRank> strides{};  // bytes, from the second innermost dim on
  std::array<std::uint32_t, kMaxRank> box{};
  std::array<std::uint32_t, kMaxRank> steps{};
  std::uint64_t stride = SizeOf(map.dtype);
  for (std::size_t i = 0; i < rank; ++i) {  // the driver counts from the innermost
    const std::size_t from = rank - 1 - i;
    dims[i] = static_cast<std::uint64_t>(map.shape[from]);
    box[i] = static_cast<std::uint32_t>(std::clamp<std::int64_t>(map.box[from], 0, 65535));
    steps[i] = map.element_strides.empty() ? 1U
                                           : static_cast<std::uint32_t>(std::clamp<std::int64_t>(
                                                 map.element_strides[from], 0, 65535));
    stride *= dims[i];
    strides[i] = stride;
  }
  CuTensorMap encoded{};
  void* global = nullptr;
  std::memcpy(&global, &address, sizeof global);
  const CuResult code = driver.TensorMapEncodeTiled(
      &encoded, TensorMapType(map.dtype), static_cast<std::uint32_t>(rank), global, dims.data(),
      strides.data(), box.data(), steps.data(), interleave, swizzle, promotion, 0);
  if (code != kCuSuccess) {
    return refuse(driver.Check(code, "cuTensorMapEncodeTiled").error().Message() +
                  ": box, strides, swizzle and alignment do not go together");
  }
  return encoded;
}

}  // namespace

Fault FaultOf(const CuError& error) {
  struct Row {
    CuResult code;
    VerdictKind kind;
    bool sticky;
    std::string_view meaning;
  };
  static constexpr std::array kRows = {
      Row{kCuInvalidValue, VerdictKind::kPlanError, false, "the driver refused the launch"},
      Row{kCuOutOfMemory, VerdictKind::kOutOfMemory, false, "the device has not that much memory"},
      Row{kCuNoBinary, VerdictKind::kUnsupported, false,
          "compiled for another architecture than this device's"},
      Row{kCuIllegalAddress, VerdictKind::kOutOfBounds, true, "access to an unmapped address"},
      Row{kCuLaunchOutOfResources, VerdictKind::kPlanError, false,
          "the block needs more registers or shared memory than there are"},
      Row{kCuLaunchTimeout, VerdictKind::kTimeout, true, "the kernel ran past the time limit"},
      Row{kCuAssert, VerdictKind::kTrap, true, "a device-side assertion failed"},
      Row{kCuHardwareStackError, VerdictKind::kTrap, true, "stack overflow or corrupted stack"},
      Row{kCuIllegalInstruction, VerdictKind::kTrap, true, "trap or illegal instruction"},
      Row{kCuMisalignedAddress, VerdictKind::kMisaligned, true,
          "access to an address that is not a multiple of its size"},
      Row{kCuInvalidAddressSpace, VerdictKind::kOutOfBounds, true,
          "access through a pointer into the wrong address space"},
      Row{kCuInvalidPc, VerdictKind::kTrap, true, "jump to an invalid address"},
      Row{kCuLaunchFailed, VerdictKind::kTrap, true, "trap or unspecific launch failure"},
      Row{kCuCooperativeTooLarge, VerdictKind::kPlanError, false,
          "a cooperative launch needs all its blocks resident at once, and these are too many"},
      Row{912, VerdictKind::kPlanError, false, "this cluster size cannot be resident"},
  };
  for (const Row& row : kRows) {
    if (row.code == error.code) {
      return Fault{row.kind, fmt::format("{}: {}", row.meaning, error.Message()), row.sticky};
    }
  }
  return Fault{VerdictKind::kInfrastructure, error.Message(), true};
}

Executed<LoadedProgram> LoadedProgram::Load(const Context& context, std::string_view cubin,
                                            const codegen::ResolvedPlan& plan,
                                            std::vector<std::string> tensor_names) {
  const Driver& driver = context.driver();
  LoadedProgram program;
  program.driver_ = &driver;
  program.plan_ = plan;
  program.tensor_names_ = std::move(tensor_names);
  auto module = LoadModule(driver, cubin);
  if (!module) {
    Fault fault = FaultOf(module.error());
    if (fault.kind == VerdictKind::kInfrastructure) {
      fault = Fault{VerdictKind::kUnsupported, module.error().Message(), false};
    }
    return tl::unexpected(std::move(fault));
  }
  program.module_ = std::move(*module);
  for (const ResolvedLaunch& launch : program.plan_.launches) {
    if (launch.gemm) {
      program.functions_.push_back(nullptr);
      program.resources_.push_back({.kernel = launch.kernel});
      continue;
    }
    CuFunction function = nullptr;
    if (driver.ModuleGetFunction(&function, program.module_.get(), launch.kernel.c_str()) !=
        kCuSuccess) {
      return PlanFault(launch, fmt::format("no kernel named '{}'", launch.kernel));
    }
    // Loaded now: at its first launch, loading could wait for a blocking kernel that waits for us.
    if (auto ok = driver.Check(driver.FuncLoad(function), "cuFuncLoad"); !ok) {
      return FaultAt(launch, ok.error());
    }
    auto sizes = ParamSizes(driver, function);
    if (!sizes) return FaultAt(launch, sizes.error());
    if (sizes->size() != launch.args.size()) {
      return PlanFault(launch, fmt::format("kernel {} has {} parameters, the plan gives {}",
                                           launch.kernel, sizes->size(), launch.args.size()));
    }
    for (std::size_t i = 0; i < sizes->size(); ++i) {
      if ((*sizes)[i] != launch.args[i].size) {
        return PlanFault(launch,
                         fmt::format("parameter {} of kernel {} has {} bytes, the plan gives {}", i,
                                     launch.kernel, (*sizes)[i], launch.args[i].size));
      }
    }
    constexpr std::int64_t kDefaultShared = 48 << 10;
    // A kernel's own static arrays count as well.
    int fixed = 0;
    driver.FuncGetAttribute(&fixed, kFuncStaticShared, function);
    if (launch.shared_bytes + fixed > kDefaultShared && launch.shared_bytes > 0) {
      if (auto ok = driver.Check(driver.FuncSetAttribute(function, kFuncMaxDynamicShared,
                                                         static_cast<int>(launch.shared_bytes)),
                                 "cuFuncSetAttribute(dynamic shared memory)");
          !ok) {
        return PlanFault(launch, fmt::format("{} bytes of dynamic shared memory: {}",
                                             launch.shared_bytes, ok.error().Message()));
      }
    }
    constexpr std::int64_t kPortableCluster = 8;
    if (launch.cluster) {
      const auto& c = *launch.cluster;
      if (c[0] * c[1] * c[2] > kPortableCluster) {
        if (auto ok = driver.Check(driver.FuncSetAttribute(function, kFuncNonPortableCluster, 1),
                                   "cuFuncSetAttribute(cluster size)");
            !ok) {
          return PlanFault(launch, ok.error().Message());
        }
      }
    }
    LaunchResources resources;
    resources.kernel = launch.kernel;
    resources.threads = static_cast<int>(launch.threads());
    resources.dynamic_shared = launch.shared_bytes;
    driver.FuncGetAttribute(&resources.registers, kFuncRegisters, function);
    driver.FuncGetAttribute(&resources.local_bytes, kFuncLocalBytes, function);
    driver.FuncGetAttribute(&resources.static_shared, kFuncStaticShared, function);
    int max_threads = 0;
    driver.FuncGetAttribute(&max_threads, kFuncMaxThreads, function);
    if (max_threads > 0 && launch.threads() > max_threads) {
      return PlanFault(launch, fmt::format("{} threads a block, but kernel {} allows {}",
                                           launch.threads(), launch.kernel, max_threads));
    }
    driver.OccupancyMaxActiveBlocks(&resources.blocks_per_sm, function, resources.threads,
                                    static_cast<std::size_t>(launch.shared_bytes));
    program.functions_.push_back(function);
    program.resources_.push_back(std::move(resources));
  }
  return program;
}

Executed<BoundProgram> LoadedProgram::Bind(std::span<const CuDevicePtr> tensors, MemoryPool& pool,
                                           Blas* blas) const {
  BoundProgram bound;
  bound.program_ = this;
  bound.blas_ = blas;
  if (blas == nullptr && codegen::HasLibrarySteps(plan_)) {
    return tl::unexpected(Fault{VerdictKind::kUnsupported,
                                "the plan's library steps need cuBLAS, which is not here", false});
  }
  for (const codegen::ResolvedWorkspace& workspace : plan_.workspaces) {
    auto buffer = pool.Acquire(workspace.bytes().value);
    if (!buffer) {
      Fault fault = FaultOf(buffer.error());
      fault.message = fmt::format("workspace {} of {} bytes: {}", workspace.name,
                                  workspace.bytes().value, fault.message);
      return tl::unexpected(std::move(fault));
    }
    bound.workspaces_.push_back(std::move(*buffer));
  }
  if (auto ok = bound.Rebind(tensors); !ok) return tl::unexpected(ok.error());
  return bound;
}

Executed<void> BoundProgram::Rebind(std::span<const CuDevicePtr> tensors) {
  tensors_.assign(tensors.begin(), tensors.end());
  tensor_maps_.clear();
  const codegen::ResolvedPlan& plan = program_->plan_;
  for (const ResolvedTensorMap& map : plan.tensor_maps) {
    CuDevicePtr address = 0;
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      if (program_->tensor_names_[i] == map.tensor) address = tensors_[i];
    }
    for (std::size_t i = 0; i < workspaces_.size(); ++i) {
      if (plan.workspaces[i].name == map.tensor) address = workspaces_[i].data();
    }
    auto encoded = Encode(*program_->driver_, map, address);
    if (!encoded) return tl::unexpected(encoded.error());
    tensor_maps_.push_back(*encoded);
  }
  return {};
}

std::size_t BoundProgram::items() const {
  std::size_t count = program_->plan_.launches.size();
  for (const codegen::ResolvedWorkspace& workspace : program_->plan_.workspaces) {
    count += workspace.zero ? 1 : 0;
  }
  return count;
}

CuStatus BoundProgram::Enqueue(CuStream stream) const { return EnqueueWithEvents(stream, {}); }

CuStatus BoundProgram::EnqueueWithEvents(CuStream stream, std::span<const Event> events) const {
  const Driver& driver = *program_->driver_;
  const codegen::ResolvedPlan& plan = program_->plan_;
  for (std::size_t i = 0; i < workspaces_.size(); ++i) {
    if (!plan.workspaces[i].zero) continue;
    if (auto ok = driver.Check(
            driver.MemsetD8Async(workspaces_[i].data(), 0,
                                 static_cast<std::size_t>(workspaces_[i].bytes()), stream),
            "cuMemsetD8Async");
        !ok) {
      return ok;
    }
  }
  const auto record = [&](std::size_t index) -> CuStatus {
    if (events.empty()) return {};
    return driver.Check(driver.EventRecord(events[index].get(), stream), "cuEventRecord");
  };
  if (auto ok = record(0); !ok) return ok;
  for (std::size_t index = 0; index < plan.launches.size(); ++index) {
    if (auto ok = Launch(stream, index); !ok) return ok;
    if (auto ok = record(index + 1); !ok) return ok;
  }
  return {};
}

CuStatus BoundProgram::Multiply(const ResolvedLaunch& step) const {
  const codegen::ResolvedGemm& gemm = *step.gemm;
  const auto start = [&](const codegen::ResolvedMatrix& m) {
    return m.kind == ResolvedArg::Kind::kTensor ? tensors_.at(m.index)
                                                : workspaces_.at(m.index).data();
  };
  if (auto ok = blas_->Multiply(gemm, start(gemm.a), start(gemm.b), start(gemm.c)); !ok) {
    CuError error;
    error.code = kCuInvalidValue;
    error.name = "library step refused";
    error.call = fmt::format("{} ({})", ok.error().message, step.place);
    return tl::unexpected(std::move(error));
  }
  return {};
}

CuStatus BoundProgram::Launch(CuStream stream, std::size_t index) const {
  const Driver& driver = *program_->driver_;
  const ResolvedLaunch& launch = program_->plan_.launches[index];
  if (launch.gemm) return Multiply(launch);
  std::vector<CuDevicePtr> pointers(launch.args.size());
  std::vector<void*> params(launch.args.size());
  for (std::size_t i = 0; i < launch.args.size(); ++i) {
    const ResolvedArg& arg = launch.args[i];
    const void* value = nullptr;
    switch (arg.kind) {
      case ResolvedArg::Kind::kTensor:
        pointers[i] = tensors_.at(arg.index);
        break;
      case ResolvedArg::Kind::kWorkspace:
        pointers[i] = workspaces_.at(arg.index).data();
        break;
      case ResolvedArg::Kind::kTensorMap:
        value = &tensor_maps_.at(arg.index);
        break;
      case ResolvedArg::Kind::kScalar:
        value = arg.bytes.data();
        break;
    }
    if (value == nullptr) value = &pointers[i];
    params[i] = const_cast<void*>(value);  // the driver only reads through it
  }
  std::array<CuLaunchAttribute, 3> attributes;
  CuLaunchConfig config;
  config.grid_x = static_cast<unsigned>(launch.grid[0]);
  config.grid_y = static_cast<unsigned>(launch.grid[1]);
  config.grid_z = static_cast<unsigned>(launch.grid[2]);
  config.block_x = static_cast<unsigned>(launch.block[0]);
  config.block_y = static_cast<unsigned>(launch.block[1]);
  config.block_z = static_cast<unsigned>(launch.block[2]);
  config.shared_bytes = static_cast<unsigned>(launch.shared_bytes);
  config.stream = stream;
  config.attributes = attributes.data();
  if (launch.cluster) {
    CuLaunchAttribute& a = attributes[config.attribute_count++];
    a.id = kLaunchClusterDimension;
    a.value.cluster = {static_cast<unsigned>((*launch.cluster)[0]),
                       static_cast<unsigned>((*launch.cluster)[1]),
                       static_cast<unsigned>((*launch.cluster)[2])};
  }
  if (launch.cooperative) {
    CuLaunchAttribute& a = attributes[config.attribute_count++];
    a.id = kLaunchCooperative;
    a.value.number = 1;
  }
  // The first launch must not overlap what we enqueued before it (flush, stamps, poison).
  // Nor may it overlap a library's kernel, which knows nothing of it.
  if (launch.dependent && index > 0 && !program_->plan_.launches[index - 1].gemm) {
    CuLaunchAttribute& a = attributes[config.attribute_count++];
    a.id = kLaunchProgrammaticSerialization;
    a.value.number = 1;
  }
  if (auto ok = driver.Check(
          driver.LaunchKernelEx(&config, program_->functions_[index], params.data(), nullptr),
          "cuLaunchKernelEx");
      !ok) {
    CuError error = ok.error();
    error.call = fmt::format("cuLaunchKernelEx of {} ({})", launch.kernel, launch.place);
    return tl::unexpected(std::move(error));
  }
  return {};
}

}  // namespace grove::cuda
