// Kernels are the driver's functions (CUfunction), of modules that NVRTC compiled.
inline void CheckDriver(CUresult code, const char* what) {
  if (code == CUDA_SUCCESS) return;
  const char* reason = nullptr;
  Driver<decltype(&cuGetErrorString)>("cuGetErrorString")(code, &reason);
  throw std::runtime_error(std::string(what) + ": CUDA error " + std::to_string(code) + ", " +
                           (reason != nullptr ? reason : "unknown"));
}

inline CUfunction Function(const void* kernel) { return static_cast<CUfunction>(const_cast<void*>(kernel)); }

inline long long StaticShared(const void* kernel) {
  static const auto get = Driver<decltype(&cuFuncGetAttribute)>("cuFuncGetAttribute");
  int bytes = 0;
  CheckDriver(get(&bytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, Function(kernel)), "cuFuncGetAttribute");
  return bytes;
}

inline void SetAttribute(const void* kernel, CUfunction_attribute attribute, int value, const char* what) {
  static const auto set = Driver<decltype(&cuFuncSetAttribute)>("cuFuncSetAttribute");
  CheckDriver(set(Function(kernel), attribute, value), what);
}

inline void AllowShared(const void* kernel, long long bytes) {
  SetAttribute(kernel, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, static_cast<int>(bytes),
               "dynamic shared memory");
}

inline void AllowLargeClusters(const void* kernel) {
  SetAttribute(kernel, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1, "cluster size");
}

inline void Enqueue(const void* kernel, const Shape& shape, cudaStream_t stream, void** parameters) {
  static const auto launch = Driver<decltype(&cuLaunchKernelEx)>("cuLaunchKernelEx");
  CUlaunchAttribute attributes[3] = {};
  CUlaunchConfig config = {};
  config.gridDimX = static_cast<unsigned>(shape.grid.x);
  config.gridDimY = static_cast<unsigned>(shape.grid.y);
  config.gridDimZ = static_cast<unsigned>(shape.grid.z);
  config.blockDimX = static_cast<unsigned>(shape.block.x);
  config.blockDimY = static_cast<unsigned>(shape.block.y);
  config.blockDimZ = static_cast<unsigned>(shape.block.z);
  config.sharedMemBytes = static_cast<unsigned>(shape.shared);
  config.hStream = stream;
  config.attrs = attributes;
  if (shape.cluster.x > 0) {
    CUlaunchAttribute& a = attributes[config.numAttrs++];
    a.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    a.value.clusterDim.x = static_cast<unsigned>(shape.cluster.x);
    a.value.clusterDim.y = static_cast<unsigned>(shape.cluster.y);
    a.value.clusterDim.z = static_cast<unsigned>(shape.cluster.z);
  }
  if (shape.cooperative) {
    CUlaunchAttribute& a = attributes[config.numAttrs++];
    a.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    a.value.cooperative = 1;
  }
  if (shape.dependent) {
    CUlaunchAttribute& a = attributes[config.numAttrs++];
    a.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    a.value.programmaticStreamSerializationAllowed = 1;
  }
  CheckDriver(launch(&config, Function(kernel), parameters, nullptr), "cuLaunchKernelEx");
}
