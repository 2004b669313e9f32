// Stands in for the CUDA runtime, the driver's tensor maps and cuBLAS in a program made of exported
// host code: every call becomes a line on standard output. Compiled by the test itself
// (host_launch_test.cc), with the toolkit's own headers.
#pragma once

#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
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
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* c, const void* kernel, void** args) {
  const long index = recorder::KernelIndex(kernel);
  std::printf("launch %ld grid %u %u %u block %u %u %u shared %zu stream %p", index, c->gridDim.x,
              c->gridDim.y, c->gridDim.z, c->blockDim.x, c->blockDim.y, c->blockDim.z,
              c->dynamicSmemBytes, static_cast<void*>(c->stream));
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
  std::printf(" args");
  const std::vector<int>& sizes = recorder::sizes[static_cast<size_t>(index)];
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
  return cudaSuccess;
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
  *found = std::strcmp(name, "cuTensorMapEncodeTiled") == 0 ? cudaDriverEntryPointSuccess
                                                            : cudaDriverEntryPointSymbolNotFound;
  *entry = reinterpret_cast<void*>(&RecordTensorMap);
  return cudaSuccess;
}
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
