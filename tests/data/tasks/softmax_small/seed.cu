// Softmax as one first writes it: a thread per row, three passes over the row.
extern "C" __global__ void softmax(const float* x, float* y) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= dim::M) return;
  const float* row = x + static_cast<long long>(i) * dim::N;
  float* out = y + static_cast<long long>(i) * dim::N;

  float largest = row[0];
  for (int j = 1; j < dim::N; ++j) largest = fmaxf(largest, row[j]);
  float sum = 0.0f;
  for (int j = 0; j < dim::N; ++j) sum += expf(row[j] - largest);
  for (int j = 0; j < dim::N; ++j) out[j] = expf(row[j] - largest) / sum;
}
