extern "C" __global__ void part(const float* a, const float* b, float* parts) {
  const int column = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
  if (row >= dim::M || column >= dim::N) return;
  float sum = 0;
  for (int k = blockIdx.z; k < dim::K; k += 4) sum += a[row * dim::K + k] * b[k * dim::N + column];
  parts[(blockIdx.z * dim::M + row) * dim::N + column] = sum;
}
extern "C" __global__ void add(const float* parts, float* c) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= dim::M * dim::N) return;
  float sum = 0;
  for (int p = 0; p < 4; ++p) sum += parts[p * dim::M * dim::N + i];
  c[i] = sum;
}
