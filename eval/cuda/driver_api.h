// The part of the CUDA driver's binary interface that we call, declared here so that the program
// builds on machines without a toolkit. Names and values follow NVIDIA's cuda.h; where that header
// is present, tests/cuda/driver_test.cc proves sizes and constants equal. The library itself is
// loaded at run time (driver.h). Only driver.cc and the files that call through the table include
// this.
#pragma once

#include <cstddef>
#include <cstdint>

namespace grove::cuda {

using CuResult = int;
using CuDevice = int;
using CuDevicePtr = std::uint64_t;
using CuMemHandle = std::uint64_t;
using CuContext = struct CuContextOpaque*;
using CuModule = struct CuModuleOpaque*;
using CuFunction = struct CuFunctionOpaque*;
using CuStream = struct CuStreamOpaque*;
using CuEvent = struct CuEventOpaque*;
using CuGraph = struct CuGraphOpaque*;
using CuGraphExec = struct CuGraphExecOpaque*;

// CUresult, as far as we tell them apart.
inline constexpr CuResult kCuSuccess = 0;
inline constexpr CuResult kCuInvalidValue = 1;
inline constexpr CuResult kCuOutOfMemory = 2;
inline constexpr CuResult kCuNoBinary = 209;
inline constexpr CuResult kCuNotReady = 600;
inline constexpr CuResult kCuIllegalAddress = 700;
inline constexpr CuResult kCuLaunchOutOfResources = 701;
inline constexpr CuResult kCuLaunchTimeout = 702;
inline constexpr CuResult kCuAssert = 710;
inline constexpr CuResult kCuHardwareStackError = 714;
inline constexpr CuResult kCuIllegalInstruction = 715;
inline constexpr CuResult kCuMisalignedAddress = 716;
inline constexpr CuResult kCuInvalidAddressSpace = 717;
inline constexpr CuResult kCuInvalidPc = 718;
inline constexpr CuResult kCuLaunchFailed = 719;
inline constexpr CuResult kCuCooperativeTooLarge = 720;

// CUdevice_attribute
inline constexpr int kAttrMaxThreadsPerBlock = 1;
inline constexpr int kAttrClockRateKhz = 13;
inline constexpr int kAttrSmCount = 16;
inline constexpr int kAttrMemoryClockKhz = 36;
inline constexpr int kAttrMemoryBusBits = 37;
inline constexpr int kAttrL2Bytes = 38;
inline constexpr int kAttrMaxThreadsPerSm = 39;
inline constexpr int kAttrComputeMajor = 75;
inline constexpr int kAttrComputeMinor = 76;
inline constexpr int kAttrSharedPerSm = 81;
inline constexpr int kAttrRegistersPerSm = 82;
inline constexpr int kAttrSharedPerBlockOptin = 97;
inline constexpr int kAttrVirtualMemory = 102;
inline constexpr int kAttrMaxBlocksPerSm = 106;

// CUfunction_attribute
inline constexpr int kFuncMaxThreads = 0;
inline constexpr int kFuncStaticShared = 1;
inline constexpr int kFuncLocalBytes = 3;
inline constexpr int kFuncRegisters = 4;
inline constexpr int kFuncMaxDynamicShared = 8;
inline constexpr int kFuncNonPortableCluster = 14;

// CUlaunchAttributeID
inline constexpr int kLaunchCooperative = 2;
inline constexpr int kLaunchClusterDimension = 4;
inline constexpr int kLaunchProgrammaticSerialization = 6;

inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventDefault = 0;
inline constexpr unsigned kContextBlockingSync = 4;  // CU_CTX_SCHED_BLOCKING_SYNC
inline constexpr unsigned kContextYield = 2;         // CU_CTX_SCHED_YIELD
inline constexpr int kCaptureModeRelaxed = 2;
inline constexpr int kLimitStackSize = 0;
inline constexpr int kLimitPrintfFifo = 1;
inline constexpr int kLimitPersistingL2 = 6;
inline constexpr unsigned kHostAllocDeviceMap = 2;

struct CuUuid {
  unsigned char bytes[16];
};

struct CuLaunchAttribute {
  int id = 0;
  char pad[4] = {};
  union {
    char bytes[64];
    int number;  // cooperative, programmatic serialization
    struct {
      unsigned x, y, z;
    } cluster;
  } value{};
};

struct CuLaunchConfig {
  unsigned grid_x = 1, grid_y = 1, grid_z = 1;
  unsigned block_x = 1, block_y = 1, block_z = 1;
  unsigned shared_bytes = 0;
  CuStream stream = nullptr;
  CuLaunchAttribute* attributes = nullptr;
  unsigned attribute_count = 0;
};

struct alignas(128) CuTensorMap {
  std::uint64_t opaque[16];
};

// CUtensorMapDataType
inline constexpr int kTensorMapU8 = 0;
inline constexpr int kTensorMapI32 = 3;
inline constexpr int kTensorMapI64 = 5;
inline constexpr int kTensorMapF16 = 6;
inline constexpr int kTensorMapF32 = 7;
inline constexpr int kTensorMapF64 = 8;
inline constexpr int kTensorMapBF16 = 9;

struct CuMemLocation {
  int type = 1;  // CU_MEM_LOCATION_TYPE_DEVICE
  int id = 0;
};

struct CuMemAllocationProp {
  int type = 1;  // CU_MEM_ALLOCATION_TYPE_PINNED
  int requested_handle_types = 0;
  CuMemLocation location;
  void* win32_handle_meta_data = nullptr;
  unsigned char alloc_flags[8] = {};
};

struct CuMemAccessDesc {
  CuMemLocation location;
  int flags = 3;  // CU_MEM_ACCESS_FLAGS_PROT_READWRITE
};

// Entry points: X(member, name, CUDA version whose signature is asked for, signature).
// cuGetProcAddress hands out the newest variant not newer than that version.
#define GROVE_CUDA_ENTRY_POINTS(X)                                                                \
  X(Init, cuInit, 2000, CuResult (*)(unsigned))                                                   \
  X(DriverGetVersion, cuDriverGetVersion, 2020, CuResult (*)(int*))                               \
  X(GetErrorName, cuGetErrorName, 6000, CuResult (*)(CuResult, const char**))                     \
  X(GetErrorString, cuGetErrorString, 6000, CuResult (*)(CuResult, const char**))                 \
  X(DeviceGetCount, cuDeviceGetCount, 2000, CuResult (*)(int*))                                   \
  X(DeviceGet, cuDeviceGet, 2000, CuResult (*)(CuDevice*, int))                                   \
  X(DeviceGetName, cuDeviceGetName, 2000, CuResult (*)(char*, int, CuDevice))                     \
  X(DeviceGetUuid, cuDeviceGetUuid, 11040, CuResult (*)(CuUuid*, CuDevice))                       \
  X(DeviceTotalMem, cuDeviceTotalMem, 3020, CuResult (*)(std::size_t*, CuDevice))                 \
  X(DeviceGetAttribute, cuDeviceGetAttribute, 2000, CuResult (*)(int*, int, CuDevice))            \
  X(PrimaryCtxRetain, cuDevicePrimaryCtxRetain, 7000, CuResult (*)(CuContext*, CuDevice))         \
  X(PrimaryCtxRelease, cuDevicePrimaryCtxRelease, 11000, CuResult (*)(CuDevice))                  \
  X(PrimaryCtxSetFlags, cuDevicePrimaryCtxSetFlags, 11000, CuResult (*)(CuDevice, unsigned))      \
  X(CtxSetCurrent, cuCtxSetCurrent, 4000, CuResult (*)(CuContext))                                \
  X(CtxSynchronize, cuCtxSynchronize, 2000, CuResult (*)())                                       \
  X(CtxSetLimit, cuCtxSetLimit, 3010, CuResult (*)(int, std::size_t))                             \
  X(CtxResetPersistingL2, cuCtxResetPersistingL2Cache, 11000, CuResult (*)())                     \
  X(ModuleLoadData, cuModuleLoadData, 2000, CuResult (*)(CuModule*, const void*))                 \
  X(ModuleUnload, cuModuleUnload, 2000, CuResult (*)(CuModule))                                   \
  X(ModuleGetFunction, cuModuleGetFunction, 2000,                                                 \
    CuResult (*)(CuFunction*, CuModule, const char*))                                             \
  X(FuncLoad, cuFuncLoad, 12040, CuResult (*)(CuFunction))                                        \
  X(FuncGetAttribute, cuFuncGetAttribute, 2020, CuResult (*)(int*, int, CuFunction))              \
  X(FuncSetAttribute, cuFuncSetAttribute, 9000, CuResult (*)(CuFunction, int, int))               \
  X(FuncGetParamInfo, cuFuncGetParamInfo, 12040,                                                  \
    CuResult (*)(CuFunction, std::size_t, std::size_t*, std::size_t*))                            \
  X(OccupancyMaxActiveBlocks, cuOccupancyMaxActiveBlocksPerMultiprocessor, 6050,                  \
    CuResult (*)(int*, CuFunction, int, std::size_t))                                             \
  X(LaunchKernelEx, cuLaunchKernelEx, 11060,                                                      \
    CuResult (*)(const CuLaunchConfig*, CuFunction, void**, void**))                              \
  X(StreamCreate, cuStreamCreate, 2000, CuResult (*)(CuStream*, unsigned))                        \
  X(StreamDestroy, cuStreamDestroy, 4000, CuResult (*)(CuStream))                                 \
  X(StreamSynchronize, cuStreamSynchronize, 2000, CuResult (*)(CuStream))                         \
  X(StreamQuery, cuStreamQuery, 2000, CuResult (*)(CuStream))                                     \
  X(StreamBeginCapture, cuStreamBeginCapture, 10010, CuResult (*)(CuStream, int))                 \
  X(StreamEndCapture, cuStreamEndCapture, 10000, CuResult (*)(CuStream, CuGraph*))                \
  X(EventCreate, cuEventCreate, 2000, CuResult (*)(CuEvent*, unsigned))                           \
  X(EventDestroy, cuEventDestroy, 4000, CuResult (*)(CuEvent))                                    \
  X(EventRecord, cuEventRecord, 2000, CuResult (*)(CuEvent, CuStream))                            \
  X(EventQuery, cuEventQuery, 2000, CuResult (*)(CuEvent))                                        \
  X(EventElapsedTime, cuEventElapsedTime, 2000, CuResult (*)(float*, CuEvent, CuEvent))           \
  X(MemAlloc, cuMemAlloc, 3020, CuResult (*)(CuDevicePtr*, std::size_t))                          \
  X(MemFree, cuMemFree, 3020, CuResult (*)(CuDevicePtr))                                          \
  X(MemGetInfo, cuMemGetInfo, 3020, CuResult (*)(std::size_t*, std::size_t*))                     \
  X(MemAddressReserve, cuMemAddressReserve, 10020,                                                \
    CuResult (*)(CuDevicePtr*, std::size_t, std::size_t, CuDevicePtr, unsigned long long))        \
  X(MemAddressFree, cuMemAddressFree, 10020, CuResult (*)(CuDevicePtr, std::size_t))              \
  X(MemCreate, cuMemCreate, 10020,                                                                \
    CuResult (*)(CuMemHandle*, std::size_t, const CuMemAllocationProp*, unsigned long long))      \
  X(MemRelease, cuMemRelease, 10020, CuResult (*)(CuMemHandle))                                   \
  X(MemMap, cuMemMap, 10020,                                                                      \
    CuResult (*)(CuDevicePtr, std::size_t, std::size_t, CuMemHandle, unsigned long long))         \
  X(MemUnmap, cuMemUnmap, 10020, CuResult (*)(CuDevicePtr, std::size_t))                          \
  X(MemSetAccess, cuMemSetAccess, 10020,                                                          \
    CuResult (*)(CuDevicePtr, std::size_t, const CuMemAccessDesc*, std::size_t))                  \
  X(MemHostAlloc, cuMemHostAlloc, 2020, CuResult (*)(void**, std::size_t, unsigned))              \
  X(MemFreeHost, cuMemFreeHost, 2000, CuResult (*)(void*))                                        \
  X(MemHostGetDevicePointer, cuMemHostGetDevicePointer, 3020,                                     \
    CuResult (*)(CuDevicePtr*, void*, unsigned))                                                  \
  X(MemsetD8Async, cuMemsetD8Async, 3020,                                                         \
    CuResult (*)(CuDevicePtr, unsigned char, std::size_t, CuStream))                              \
  X(MemcpyDtoHAsync, cuMemcpyDtoHAsync, 3020,                                                     \
    CuResult (*)(void*, CuDevicePtr, std::size_t, CuStream))                                      \
  X(MemcpyHtoDAsync, cuMemcpyHtoDAsync, 3020,                                                     \
    CuResult (*)(CuDevicePtr, const void*, std::size_t, CuStream))                                \
  X(MemcpyDtoDAsync, cuMemcpyDtoDAsync, 3020,                                                     \
    CuResult (*)(CuDevicePtr, CuDevicePtr, std::size_t, CuStream))                                \
  X(GraphInstantiate, cuGraphInstantiateWithFlags, 11040,                                         \
    CuResult (*)(CuGraphExec*, CuGraph, unsigned long long))                                      \
  X(GraphLaunch, cuGraphLaunch, 10000, CuResult (*)(CuGraphExec, CuStream))                       \
  X(GraphDestroy, cuGraphDestroy, 10000, CuResult (*)(CuGraph))                                   \
  X(GraphExecDestroy, cuGraphExecDestroy, 10000, CuResult (*)(CuGraphExec))                       \
  X(TensorMapEncodeTiled, cuTensorMapEncodeTiled, 12000,                                          \
    CuResult (*)(CuTensorMap*, int, std::uint32_t, void*, const std::uint64_t*,                   \
                 const std::uint64_t*, const std::uint32_t*, const std::uint32_t*, int, int, int, \
                 int))

}  // namespace grove::cuda
