// Softmax as one first writes it: a thread per row, three passes over the row.
extern "C" __global__ void softmax(const tensor::x* x, tensor::y* y) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= dim::M) return;
  const tensor::x* row = x + static_cast<long long>(i) * dim::N;
  tensor::y* out = y + static_cast<long long>(i) * dim::N;

  float largest = static_cast<float>(row[0]);
  for (int j = 1; j < dim::N; ++j) largest = fmaxf(largest, static_cast<float>(row[j]));
  float sum = 0.0f;
  for (int j = 0; j < dim::N; ++j) sum += expf(static_cast<float>(row[j]) - largest);
  for (int j = 0; j < dim::N; ++j) {
    out[j] = static_cast<tensor::y>(expf(static_cast<float>(row[j]) - largest) / sum);
  }
}
