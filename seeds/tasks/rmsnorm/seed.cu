// RMS normalisation: one block per row, scalar accesses, two passes over the row.
__device__ float BlockSum(float* partial, float value) {
  const int t = threadIdx.x;
  partial[t] = value;
  __syncthreads();
  for (int width = 128; width > 0; width /= 2) {
    if (t < width) partial[t] += partial[t + width];
    __syncthreads();
  }
  const float sum = partial[0];
  __syncthreads();
  return sum;
}

extern "C" __global__ void rmsnorm(const tensor::x* x, const tensor::weight* weight, tensor::y* y) {
  __shared__ float partial[256];
  const tensor::x* row = x + static_cast<long long>(blockIdx.x) * dim::N;
  tensor::y* out = y + static_cast<long long>(blockIdx.x) * dim::N;

  float squares = 0.0f;
  for (int j = threadIdx.x; j < dim::N; j += 256) {
    const float value = static_cast<float>(row[j]);
    squares += value * value;
  }
  const float scale = 1.0f / sqrtf(BlockSum(partial, squares) / dim::N + scalar::eps);

  for (int j = threadIdx.x; j < dim::N; j += 256) {
    out[j] = static_cast<tensor::y>(static_cast<float>(row[j]) * scale *
                                    static_cast<float>(weight[j]));
  }
}
