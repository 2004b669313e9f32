#include "eval/cuda/driver.h"

#include <bit>
#include <set>

#include <gtest/gtest.h>

#include "eval/cuda/executor.h"
#include "eval/cuda/memory_pool.h"

#if __has_include(<cuda.h>)
#include <cuda.h>
#endif

namespace grove::cuda {
namespace {

#if __has_include(<cuda.h>)
static_assert(sizeof(CuLaunchConfig) == sizeof(CUlaunchConfig));
static_assert(sizeof(CuLaunchAttribute) == sizeof(CUlaunchAttribute));
static_assert(offsetof(CuLaunchConfig, stream) == offsetof(CUlaunchConfig, hStream));
static_assert(offsetof(CuLaunchConfig, attributes) == offsetof(CUlaunchConfig, attrs));
static_assert(offsetof(CuLaunchAttribute, value) == offsetof(CUlaunchAttribute, value));
static_assert(sizeof(CuTensorMap) == sizeof(CUtensorMap));
// 64 bytes were enough before CUDA 13.
static_assert(alignof(CuTensorMap) >= alignof(CUtensorMap));
static_assert(sizeof(CuMemAllocationProp) == sizeof(CUmemAllocationProp));
static_assert(offsetof(CuMemAllocationProp, location) == offsetof(CUmemAllocationProp, location));
static_assert(sizeof(CuMemAccessDesc) == sizeof(CUmemAccessDesc));
static_assert(sizeof(CuUuid) == sizeof(CUuuid));

TEST(DriverApi, ConstantsAreThoseOfCudaH) {
  EXPECT_EQ(kCuOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(kCuNoBinary, CUDA_ERROR_NO_BINARY_FOR_GPU);
  EXPECT_EQ(kCuNotReady, CUDA_ERROR_NOT_READY);
  EXPECT_EQ(kCuIllegalAddress, CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(kCuLaunchOutOfResources, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  EXPECT_EQ(kCuAssert, CUDA_ERROR_ASSERT);
  EXPECT_EQ(kCuHardwareStackError, CUDA_ERROR_HARDWARE_STACK_ERROR);
  EXPECT_EQ(kCuIllegalInstruction, CUDA_ERROR_ILLEGAL_INSTRUCTION);
  EXPECT_EQ(kCuMisalignedAddress, CUDA_ERROR_MISALIGNED_ADDRESS);
  EXPECT_EQ(kCuInvalidAddressSpace, CUDA_ERROR_INVALID_ADDRESS_SPACE);
  EXPECT_EQ(kCuInvalidPc, CUDA_ERROR_INVALID_PC);
  EXPECT_EQ(kCuLaunchFailed, CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_EQ(kCuCooperativeTooLarge, CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
  EXPECT_EQ(kAttrSmCount, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  EXPECT_EQ(kAttrL2Bytes, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  EXPECT_EQ(kAttrClockRateKhz, CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
  EXPECT_EQ(kAttrSharedPerBlockOptin, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  EXPECT_EQ(kAttrVirtualMemory, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
  EXPECT_EQ(kAttrMaxBlocksPerSm, CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
  EXPECT_EQ(kFuncRegisters, CU_FUNC_ATTRIBUTE_NUM_REGS);
  EXPECT_EQ(kFuncLocalBytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
  EXPECT_EQ(kFuncMaxDynamicShared, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
  EXPECT_EQ(kFuncNonPortableCluster, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);
  EXPECT_EQ(kLaunchCooperative, CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
  EXPECT_EQ(kLaunchClusterDimension, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
  EXPECT_EQ(kLaunchProgrammaticSerialization,
            CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
  EXPECT_EQ(kTensorMapBF16, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
  EXPECT_EQ(kTensorMapF64, CU_TENSOR_MAP_DATA_TYPE_FLOAT64);
  EXPECT_EQ(kLimitPrintfFifo, CU_LIMIT_PRINTF_FIFO_SIZE);
  EXPECT_EQ(kContextBlockingSync, static_cast<unsigned>(CU_CTX_SCHED_BLOCKING_SYNC));
}
#endif

TEST(Driver, AMachineWithoutADriverGetsOneClearLine) {
  const auto driver = Driver::Load("libgrove-no-such-driver.so");
  ASSERT_FALSE(driver);
  EXPECT_EQ(driver.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(driver.error().message.find("no CUDA driver"), std::string::npos);
  EXPECT_EQ(driver.error().message.find('\n'), std::string::npos);
}

TEST(Driver, ALibraryThatIsNotADriverIsRefused) {
  const auto driver = Driver::Load("libm.so.6");
  ASSERT_FALSE(driver);
  EXPECT_NE(driver.error().message.find("older than 12.0"), std::string::npos)
      << driver.error().message;
}

CuError ErrorOf(CuResult code) { return CuError{code, "NAME", "text", "cuCall"}; }

TEST(FaultOf, EveryStickyErrorNamesItsVerdict) {
  const std::pair<CuResult, eval::VerdictKind> rows[] = {
      {kCuIllegalAddress, eval::VerdictKind::kOutOfBounds},
      {kCuMisalignedAddress, eval::VerdictKind::kMisaligned},
      {kCuIllegalInstruction, eval::VerdictKind::kTrap},
      {kCuLaunchFailed, eval::VerdictKind::kTrap},
      {kCuAssert, eval::VerdictKind::kTrap},
      {kCuHardwareStackError, eval::VerdictKind::kTrap},
      {kCuLaunchTimeout, eval::VerdictKind::kTimeout}};
  for (const auto& [code, kind] : rows) {
    const Fault fault = FaultOf(ErrorOf(code));
    EXPECT_EQ(fault.kind, kind) << code;
    EXPECT_TRUE(fault.sticky) << code;
    EXPECT_NE(fault.message.find("cuCall: NAME (text)"), std::string::npos);
  }
}

TEST(FaultOf, LaunchRefusalsAndMemoryLeaveTheContextUsable) {
  EXPECT_FALSE(FaultOf(ErrorOf(kCuInvalidValue)).sticky);
  EXPECT_FALSE(FaultOf(ErrorOf(kCuOutOfMemory)).sticky);
  EXPECT_FALSE(FaultOf(ErrorOf(kCuCooperativeTooLarge)).sticky);
  EXPECT_EQ(FaultOf(ErrorOf(kCuOutOfMemory)).kind, eval::VerdictKind::kOutOfMemory);
}

TEST(FaultOf, AnUnknownErrorIsOursAndEndsTheWorker) {
  const Fault fault = FaultOf(ErrorOf(999));
  EXPECT_EQ(fault.kind, eval::VerdictKind::kInfrastructure);
  EXPECT_TRUE(fault.sticky);
}

TEST(MemoryPool, SizeClassesHoldTheDataAndBothGuardsAndWasteAtMostAnEighth) {
  constexpr std::int64_t kUnit = 2 << 20;
  std::set<std::int64_t> classes;
  for (std::int64_t bytes = 1; bytes < (std::int64_t{1} << 40); bytes = bytes * 9 / 8 + 1) {
    const std::int64_t mapped = MemoryPool::MappedSize(bytes, kUnit);
    EXPECT_GE(mapped, bytes + 8192);
    EXPECT_EQ(mapped % kUnit, 0);
    EXPECT_LE(mapped, bytes + bytes / 7 + 2 * kUnit) << bytes;
    classes.insert(mapped);
  }
  EXPECT_LT(classes.size(), 200U) << "sizes must recur to be reused";
}

}  // namespace
}  // namespace grove::cuda
