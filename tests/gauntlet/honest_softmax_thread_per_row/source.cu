// grove: grid=ceil_div(M, 64) block=64
extern "C" __global__ void softmax(const float* x, float* y) {
  const int i = blockIdx.x * 64 + threadIdx.x;
  if (i >= dim::M) return;
  const float* row = x + 1LL * i * dim::N;
  float top = row[0];
  for (int j = 1; j < dim::N; ++j) top = fmaxf(top, row[j]);
  float sum = 0;
  for (int j = 0; j < dim::N; ++j) sum += expf(row[j] - top);
  for (int j = 0; j < dim::N; ++j) y[1LL * i * dim::N + j] = expf(row[j] - top) / sum;
}
