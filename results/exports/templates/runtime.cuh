// --- how a launch plan is executed ---------------------------------------------------------------
// Errors are std::runtime_error with the CUDA call and its reason.
namespace grove_plan {

enum Type { kF64, kF32, kF16, kBF16, kI64, kI32, kI8, kU8, kBool };

inline long long SizeOf(int type) {
  return type == kF64 || type == kI64 ? 8 : type == kF32 || type == kI32 ? 4 : type == kF16 || type == kBF16 ? 2 : 1;
}

// Integer expressions of the plan, exact in 64 bits.
inline long long min(long long a, long long b) { return a < b ? a : b; }
inline long long max(long long a, long long b) { return a > b ? a : b; }
template <class... More>
long long min(long long a, long long b, More... more) { return min(min(a, b), more...); }
template <class... More>
long long max(long long a, long long b, More... more) { return max(max(a, b), more...); }
inline long long ceil_div(long long a, long long b) {
  return a / b + (a % b != 0 && (a < 0) == (b < 0) ? 1 : 0);
}

struct Tensor {
  const char* name;
  int type;
  bool output;
  std::vector<long long> shape;  // row-major, outermost first
  long long elements() const {
    long long product = 1;
    for (long long extent : shape) product *= extent;
    return product;
  }
  long long bytes() const { return elements() * SizeOf(type); }
};

struct Matrix {
  void* address;
  int type;
  long long offset, ld, stride;  // elements
  bool transpose;
};

struct Three {
  long long x, y, z;
};

inline void Check(cudaError_t code, const char* what) {
  if (code == cudaSuccess) return;
  throw std::runtime_error(std::string(what) + ": " + cudaGetErrorName(code) + ", " + cudaGetErrorString(code));
}

// A function of the driver, through the runtime, so that nothing links against libcuda.
template <class Function>
Function Driver(const char* name) {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
  Check(cudaGetDriverEntryPointByVersion(name, &entry, 12000, cudaEnableDefault, &found), name);
#else
  Check(cudaGetDriverEntryPoint(name, &entry, cudaEnableDefault, &found), name);
#endif
  if (found != cudaDriverEntryPointSuccess) throw std::runtime_error(std::string("the driver has no ") + name);
  return reinterpret_cast<Function>(entry);
}

struct Shape {
  Three grid, block;
  long long shared;  // bytes, dynamic
  Three cluster;     // x = 0: none
  bool cooperative, dependent;
};

@@LAUNCH@@
// One execution of a plan, enqueued on a stream. Without tensors it only adds up the workspaces.
class Run {
 public:
  Run() = default;
  Run(void* const* tensors, void* workspace, cudaStream_t stream, void* blas)
      : tensors_(tensors), workspace_(workspace), stream_(stream), blas_(blas) {}

  bool measuring() const { return tensors_ == nullptr; }
  long long workspace_bytes() const { return used_; }
  long long launches() const { return launches_; }

  void* Tensor(int index) const { return measuring() ? nullptr : tensors_[index]; }

  // Workspaces stand behind each other, each aligned as cudaMalloc aligns.
  void* Workspace(const char* name, long long bytes, bool zero) {
    const long long at = used_;
    used_ += (bytes + 255) / 256 * 256;
    if (measuring()) return nullptr;
    void* address = static_cast<char*>(workspace_) + at;
    if (zero) Check(cudaMemsetAsync(address, 0, static_cast<size_t>(bytes), stream_), name);
    return address;
  }

  static long long Device(const char* name) {
    int device = 0, value = 0;
    Check(cudaGetDevice(&device), "cudaGetDevice");
    const cudaDeviceAttr attribute = *name == 's'   ? cudaDevAttrMultiProcessorCount
                                     : *name == 'm' ? cudaDevAttrMaxSharedMemoryPerBlockOptin
                                                    : cudaDevAttrL2CacheSize;
    Check(cudaDeviceGetAttribute(&value, attribute, device), name);
    return value;
  }

  [[noreturn]] static void NoVariant(const char* name) {
    throw std::runtime_error(std::string("no variant of the launch plan holds for ") + name);
  }

  // A TMA descriptor. Shapes come outermost first, the driver counts from the innermost.
  static CUtensorMap TensorMap(const char* name, int type, void* address, const std::vector<long long>& shape,
                               const std::vector<long long>& box, const std::vector<long long>& element_strides,
                               int swizzle, int interleave, int promotion) {
    static const auto encode = Driver<decltype(&cuTensorMapEncodeTiled)>("cuTensorMapEncodeTiled");
    static constexpr CUtensorMapDataType kTypes[] = {
        CU_TENSOR_MAP_DATA_TYPE_FLOAT64, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, CU_TENSOR_MAP_DATA_TYPE_INT64, CU_TENSOR_MAP_DATA_TYPE_INT32,
        CU_TENSOR_MAP_DATA_TYPE_UINT8, CU_TENSOR_MAP_DATA_TYPE_UINT8, CU_TENSOR_MAP_DATA_TYPE_UINT8};
    cuuint64_t dims[5] = {}, strides[5] = {};  // strides in bytes, from the second innermost on
    cuuint32_t boxes[5] = {}, steps[5] = {};
    const size_t rank = shape.size();
    cuuint64_t stride = static_cast<cuuint64_t>(SizeOf(type));
    for (size_t i = 0; i < rank; ++i) {
      dims[i] = static_cast<cuuint64_t>(shape[rank - 1 - i]);
      boxes[i] = static_cast<cuuint32_t>(box[rank - 1 - i]);
      steps[i] = static_cast<cuuint32_t>(element_strides[rank - 1 - i]);
      stride *= dims[i];
      strides[i] = stride;
    }
    CUtensorMap map;
    const CUresult code =
        encode(&map, kTypes[type], static_cast<cuuint32_t>(rank), address, dims, strides, boxes, steps,
               static_cast<CUtensorMapInterleave>(interleave), static_cast<CUtensorMapSwizzle>(swizzle),
               static_cast<CUtensorMapL2promotion>(promotion), CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (code != CUDA_SUCCESS) {
      throw std::runtime_error(std::string("cuTensorMapEncodeTiled of ") + name + ": error " + std::to_string(code));
    }
    return map;
  }

  template <class... Args>
  void Launch(const void* kernel, Three grid, Three block, long long shared, Three cluster, bool cooperative,
              bool dependent, const Args&... args) {
    void* parameters[sizeof...(Args) + 1] = {const_cast<void*>(static_cast<const void*>(&args))..., nullptr};
    // What the kernel declares itself counts too: both together are held to 48 KB until it opts in.
    if (shared > 0 && shared + StaticShared(kernel) > 48 * 1024) AllowShared(kernel, shared);
    if (cluster.x * cluster.y * cluster.z > 8) AllowLargeClusters(kernel);
    // Not the first: it must not overlap what stood on the stream before. Nor behind a library's kernel.
    Enqueue(kernel, {grid, block, shared, cluster, cooperative, dependent && behind_kernel_}, stream_, parameters);
    behind_kernel_ = true;
    ++launches_;
  }

#ifdef GROVE_BLAS
  // Row-major c = alpha a b + beta c. cuBLAS is column-major: C^T = B^T A^T.
  void Gemm(long long m, long long n, long long k, long long batch, double alpha, double beta, const char* compute,
            const Matrix& a, const Matrix& b, const Matrix& c) {
    if (m == 0 || n == 0 || batch == 0) return;
    const std::string how = compute;
    cublasComputeType_t type = CUBLAS_COMPUTE_32F_PEDANTIC;
    if (how == "tf32") type = CUBLAS_COMPUTE_32F_FAST_TF32;
    if (how == "fp16") type = CUBLAS_COMPUTE_32F_FAST_16F;
    if (how == "bf16") type = CUBLAS_COMPUTE_32F_FAST_16BF;
    if (how == "fp64") type = CUBLAS_COMPUTE_64F;
#if CUBLAS_VERSION >= 120900
    if (how == "bf16x9") type = CUBLAS_COMPUTE_32F_EMULATED_16BFX9;
#endif
    if (how == "fp32" && a.type != kF32) type = CUBLAS_COMPUTE_32F;
    const float alpha32 = static_cast<float>(alpha), beta32 = static_cast<float>(beta);
    const bool wide = how == "fp64";
    const auto at = [](const Matrix& x) { return static_cast<char*>(x.address) + x.offset * SizeOf(x.type); };
    const auto kind = [](const Matrix& x) {
      return x.type == kF64 ? CUDA_R_64F : x.type == kF16 ? CUDA_R_16F : x.type == kBF16 ? CUDA_R_16BF : CUDA_R_32F;
    };
    const auto handle = static_cast<cublasHandle_t>(blas_);
    cublasMath_t mode = CUBLAS_DEFAULT_MATH;
    cublasGetMathMode(handle, &mode);  // a framework may allow TF32 everywhere
    cublasSetMathMode(handle, CUBLAS_DEFAULT_MATH);
    cublasSetStream(handle, stream_);
    const cublasStatus_t code = cublasGemmStridedBatchedEx(
        handle, b.transpose ? CUBLAS_OP_T : CUBLAS_OP_N, a.transpose ? CUBLAS_OP_T : CUBLAS_OP_N,
        static_cast<int>(n), static_cast<int>(m), static_cast<int>(k),
        wide ? static_cast<const void*>(&alpha) : &alpha32, at(b), kind(b), static_cast<int>(b.ld), b.stride, at(a),
        kind(a), static_cast<int>(a.ld), a.stride, wide ? static_cast<const void*>(&beta) : &beta32, at(c), kind(c),
        static_cast<int>(c.ld), c.stride, static_cast<int>(batch), type, CUBLAS_GEMM_DEFAULT);
    cublasSetMathMode(handle, mode);
    if (code != CUBLAS_STATUS_SUCCESS) {
      throw std::runtime_error("cublasGemmStridedBatchedEx: status " + std::to_string(static_cast<int>(code)));
    }
    behind_kernel_ = false;
    ++launches_;
  }
#endif

 private:
  void* const* tensors_ = nullptr;
  void* workspace_ = nullptr;
  cudaStream_t stream_ = nullptr;
  [[maybe_unused]] void* blas_ = nullptr;
  long long used_ = 0;
  long long launches_ = 0;
  bool behind_kernel_ = false;
};

}  // namespace grove_plan
