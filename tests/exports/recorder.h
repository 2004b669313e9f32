// Stands in for the CUDA runtime, the driver and cuBLAS in a program made of exported host code:
// every call becomes a line on standard output, every module that is loaded a file. A kernel that
// the driver launches and one that the runtime launches make the same lines. Compiled by the test
// itself (host_launch_test.cc), with the toolkit's own headers.
#pragma once

#include <elf.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <cublas_v2.h>
#include <cuda.h>
#include <cuda_runtime.h>

namespace recorder {
// Kernel i of every plan is the address of kernels[i].
inline char kernels[64];
inline const void* table[64];
// Bytes of each parameter of each kernel, set before a plan runs.
inline std::vector<std::vector<int>> sizes;
inline int maps = 0;
// Modules become files module0, module1, ... of this folder.
inline std::string folder;
inline int modules = 0;
inline long KernelIndex(const void* kernel) { return static_cast<const char*>(kernel) - kernels; }
inline void* Tensor(int index) { return reinterpret_cast<void*>((index + 1LL) << 40); }
inline void* Workspace() { return reinterpret_cast<void*>(100LL << 40); }
}  // namespace recorder

extern "C" {
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  *value = attribute == cudaDevAttrMultiProcessorCount            ? 132
           : attribute == cudaDevAttrMaxSharedMemoryPerBlockOptin ? 232448
           : attribute == cudaDevAttrL2CacheSize                  ? 52428800
           : attribute == cudaDevAttrComputeCapabilityMajor       ? 9
           : attribute == cudaDevAttrComputeCapabilityMinor       ? 0
                                                                  : -1;
  return cudaSuccess;
}
const char* cudaGetErrorName(cudaError_t) { return "error"; }
const char* cudaGetErrorString(cudaError_t) { return "error"; }
cudaError_t cudaMemsetAsync(void* address, int value, size_t bytes, cudaStream_t stream) {
  std::printf("memset %p %d %zu stream %p\n", address, value, bytes, static_cast<void*>(stream));
  return cudaSuccess;
}
// Every kernel declares 2 KB itself (expected.cc: kStaticShared).
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  attributes->sharedSizeBytes = 2048;
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  std::printf("attribute %ld %d %d\n", recorder::KernelIndex(kernel), static_cast<int>(attribute),
              value);
  return cudaSuccess;
}
static void RecordArguments(const void* kernel, void** args) {
  std::printf(" args");
  const std::vector<int>& sizes =
      recorder::sizes[static_cast<size_t>(recorder::KernelIndex(kernel))];
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (args[i] == nullptr) {
      std::printf(" none");
      continue;
    }
    unsigned char bytes[8] = {};
    std::memcpy(bytes, args[i], sizes[i] > 8 ? 8 : static_cast<size_t>(sizes[i]));
    std::printf(" ");
    for (int k = 0; k < sizes[i] && k < 8; ++k) std::printf("%02x", bytes[k]);
  }
  std::printf("%s\n", args[sizes.size()] == nullptr ? "" : " more");
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* c, const void* kernel, void** args) {
  std::printf("launch %ld grid %u %u %u block %u %u %u shared %zu stream %p",
              recorder::KernelIndex(kernel), c->gridDim.x, c->gridDim.y, c->gridDim.z,
              c->blockDim.x, c->blockDim.y, c->blockDim.z, c->dynamicSmemBytes,
              static_cast<void*>(c->stream));
  for (unsigned i = 0; i < c->numAttrs; ++i) {
    const cudaLaunchAttribute& a = c->attrs[i];
    if (a.id == cudaLaunchAttributeClusterDimension) {
      std::printf(" cluster %u %u %u", a.val.clusterDim.x, a.val.clusterDim.y, a.val.clusterDim.z);
    } else if (a.id == cudaLaunchAttributeCooperative) {
      std::printf(" cooperative %d", a.val.cooperative);
    } else if (a.id == cudaLaunchAttributeProgrammaticStreamSerialization) {
      std::printf(" dependent %d", a.val.programmaticStreamSerializationAllowed);
    } else {
      std::printf(" unknown");
    }
  }
  RecordArguments(kernel, args);
  return cudaSuccess;
}

// --- the driver ---
static CUresult RecordLaunch(const CUlaunchConfig* c, CUfunction kernel, void** args,
                             void** extra) {
  std::printf("launch %ld grid %u %u %u block %u %u %u shared %u stream %p",
              recorder::KernelIndex(kernel), c->gridDimX, c->gridDimY, c->gridDimZ, c->blockDimX,
              c->blockDimY, c->blockDimZ, c->sharedMemBytes, static_cast<void*>(c->hStream));
  for (unsigned i = 0; i < c->numAttrs; ++i) {
    const CUlaunchAttribute& a = c->attrs[i];
    if (a.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
      std::printf(" cluster %u %u %u", a.value.clusterDim.x, a.value.clusterDim.y,
                  a.value.clusterDim.z);
    } else if (a.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) {
      std::printf(" cooperative %d", a.value.cooperative);
    } else if (a.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION) {
      std::printf(" dependent %d", a.value.programmaticStreamSerializationAllowed);
    } else {
      std::printf(" unknown");
    }
  }
  if (extra != nullptr) std::printf(" extra");
  RecordArguments(kernel, args);
  return CUDA_SUCCESS;
}
static CUresult RecordGetAttribute(int* value, CUfunction_attribute attribute, CUfunction) {
  *value = attribute == CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES ? 2048 : -1;
  return CUDA_SUCCESS;
}
static CUresult RecordSetAttribute(CUfunction kernel, CUfunction_attribute attribute, int value) {
  std::printf("attribute %ld %d %d\n", recorder::KernelIndex(kernel), static_cast<int>(attribute),
              value);
  return CUDA_SUCCESS;
}
static CUresult RecordErrorString(CUresult, const char** text) {
  *text = "error";
  return CUDA_SUCCESS;
}
static CUresult RecordModule(CUmodule* module, const void* image) {
  Elf64_Ehdr head;
  std::memcpy(&head, image, sizeof head);
  const auto size = std::max<size_t>(head.e_shoff + size_t{head.e_shnum} * head.e_shentsize,
                                     head.e_phoff + size_t{head.e_phnum} * head.e_phentsize);
  const std::string path = recorder::folder + "/module" + std::to_string(recorder::modules++);
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr || std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0) return CUDA_ERROR_UNKNOWN;
  std::fwrite(image, 1, size, file);
  std::fclose(file);
  *module = reinterpret_cast<CUmodule>(recorder::kernels);
  return CUDA_SUCCESS;
}
static CUresult RecordFunction(CUfunction* function, CUmodule module, const char* name) {
  std::printf("function %s\n", name);
  *function = reinterpret_cast<CUfunction>(module);
  return CUDA_SUCCESS;
}

static CUresult RecordTensorMap(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank,
                                void* address, const cuuint64_t* dims, const cuuint64_t* strides,
                                const cuuint32_t* box, const cuuint32_t* steps,
                                CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  std::memset(map, 0, sizeof *map);
  const long long number = ++recorder::maps;
  std::memcpy(map, &number, sizeof number);
  std::printf("map %lld type %d address %p modes %d %d %d %d", number, static_cast<int>(type),
              address, static_cast<int>(interleave), static_cast<int>(swizzle),
              static_cast<int>(promotion), static_cast<int>(fill));
  for (cuuint32_t i = 0; i < rank; ++i) {
    std::printf(" dim %llu box %u step %u", static_cast<unsigned long long>(dims[i]), box[i],
                steps[i]);
    if (i + 1 < rank) std::printf(" stride %llu", static_cast<unsigned long long>(strides[i]));
  }
  std::printf("\n");
  return CUDA_SUCCESS;
}
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** entry, unsigned int,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* found) {
  const std::pair<const char*, void*> functions[] = {
      {"cuTensorMapEncodeTiled", reinterpret_cast<void*>(&RecordTensorMap)},
      {"cuLaunchKernelEx", reinterpret_cast<void*>(&RecordLaunch)},
      {"cuFuncGetAttribute", reinterpret_cast<void*>(&RecordGetAttribute)},
      {"cuFuncSetAttribute", reinterpret_cast<void*>(&RecordSetAttribute)},
      {"cuGetErrorString", reinterpret_cast<void*>(&RecordErrorString)},
      {"cuModuleLoadData", reinterpret_cast<void*>(&RecordModule)},
      {"cuModuleGetFunction", reinterpret_cast<void*>(&RecordFunction)},
  };
  *found = cudaDriverEntryPointSymbolNotFound;
  for (const auto& [known, function] : functions) {
    if (std::strcmp(name, known) != 0) continue;
    *found = cudaDriverEntryPointSuccess;
    *entry = function;
  }
  return cudaSuccess;
}
cudaError_t cudaFree(void*) { return cudaSuccess; }
#if CUDART_VERSION < 13000
cudaError_t cudaGetDriverEntryPoint(const char* name, void** entry, unsigned long long,
                                    cudaDriverEntryPointQueryResult* found) {
  return cudaGetDriverEntryPointByVersion(name, entry, 0, 0, found);
}
#endif
cublasStatus_t cublasGetMathMode(cublasHandle_t, cublasMath_t* mode) {
  *mode = CUBLAS_TF32_TENSOR_OP_MATH;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetMathMode(cublasHandle_t, cublasMath_t mode) {
  std::printf("math %d\n", static_cast<int>(mode));
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetStream_v2(cublasHandle_t, cudaStream_t) { return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasGemmStridedBatchedEx(
    cublasHandle_t, cublasOperation_t transa, cublasOperation_t transb, int m, int n, int k,
    const void* alpha, const void* a, cudaDataType atype, int lda, long long stridea, const void* b,
    cudaDataType btype, int ldb, long long strideb, const void* beta, void* c, cudaDataType ctype,
    int ldc, long long stridec, int batch, cublasComputeType_t compute, cublasGemmAlgo_t algo) {
  const bool wide = compute == CUBLAS_COMPUTE_64F;
  const auto scalar = [&](const void* p) {
    float narrow = 0;
    double value = 0;
    if (wide) std::memcpy(&value, p, 8);
    if (!wide) std::memcpy(&narrow, p, 4);
    return wide ? value : static_cast<double>(narrow);
  };
  std::printf(
      "gemm %d %d %d %d %d batch %d scale %a %a a %p %d %d %lld b %p %d %d %lld c %p %d %d %lld "
      "compute %d %d\n",
      static_cast<int>(transa), static_cast<int>(transb), m, n, k, batch, scalar(alpha),
      scalar(beta), a, static_cast<int>(atype), lda, stridea, b, static_cast<int>(btype), ldb,
      strideb, c, static_cast<int>(ctype), ldc, stridec, static_cast<int>(compute),
      static_cast<int>(algo));
  return CUBLAS_STATUS_SUCCESS;
}
}
