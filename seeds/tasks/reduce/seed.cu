// Row sums: one thread per row.
extern "C" __global__ void reduce(const tensor::x* x, tensor::y* y) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= dim::M) return;
  const tensor::x* row = x + static_cast<long long>(i) * dim::N;
  float sum = 0.0f;
  for (int j = 0; j < dim::N; ++j) sum += static_cast<float>(row[j]);
  y[i] = static_cast<tensor::y>(sum);
}
