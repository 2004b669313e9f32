extern "C" __global__ void matmul(const float* a, const float* b, float* c) {
  const int column = blockIdx.x * 16 + threadIdx.x;
  const int row = blockIdx.y * 16 + threadIdx.y;
  if (row >= dim::M || column >= dim::N) return;
  float sum = 0, lost = 0;
  for (int k = 0; k < dim::K; ++k) {
    const float term = __fmaf_rn(a[row * dim::K + k], b[k * dim::N + column], -lost);
    const float next = __fadd_rn(sum, term);
    lost = __fsub_rn(__fsub_rn(next, sum), term);
    sum = next;
  }
  c[row * dim::N + column] = sum;
}
