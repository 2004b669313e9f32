// Kernels are functions that nvcc compiled.
inline long long StaticShared(const void* kernel) {
  cudaFuncAttributes attributes = {};
  Check(cudaFuncGetAttributes(&attributes, kernel), "cudaFuncGetAttributes");
  return static_cast<long long>(attributes.sharedSizeBytes);
}

inline void AllowShared(const void* kernel, long long bytes) {
  Check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
        "dynamic shared memory");
}

inline void AllowLargeClusters(const void* kernel) {
  Check(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1), "cluster size");
}

inline void Enqueue(const void* kernel, const Shape& shape, cudaStream_t stream, void** parameters) {
  const auto three = [](Three t) {
    return dim3(static_cast<unsigned>(t.x), static_cast<unsigned>(t.y), static_cast<unsigned>(t.z));
  };
  cudaLaunchAttribute attributes[3] = {};
  cudaLaunchConfig_t config = {};
  config.gridDim = three(shape.grid);
  config.blockDim = three(shape.block);
  config.dynamicSmemBytes = static_cast<size_t>(shape.shared);
  config.stream = stream;
  config.attrs = attributes;
  if (shape.cluster.x > 0) {
    cudaLaunchAttribute& a = attributes[config.numAttrs++];
    a.id = cudaLaunchAttributeClusterDimension;
    a.val.clusterDim.x = static_cast<unsigned>(shape.cluster.x);
    a.val.clusterDim.y = static_cast<unsigned>(shape.cluster.y);
    a.val.clusterDim.z = static_cast<unsigned>(shape.cluster.z);
  }
  if (shape.cooperative) {
    cudaLaunchAttribute& a = attributes[config.numAttrs++];
    a.id = cudaLaunchAttributeCooperative;
    a.val.cooperative = 1;
  }
  if (shape.dependent) {
    cudaLaunchAttribute& a = attributes[config.numAttrs++];
    a.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    a.val.programmaticStreamSerializationAllowed = 1;
  }
  Check(cudaLaunchKernelExC(&config, kernel, parameters), "cudaLaunchKernelExC");
}
