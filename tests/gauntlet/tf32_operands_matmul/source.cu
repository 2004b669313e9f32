__device__ float Tf32(float v) {
  unsigned r;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(v));
  return __uint_as_float(r);
}

extern "C" __global__ void matmul(const float* a, const float* b, float* c) {
  const int column = blockIdx.x * 16 + threadIdx.x;
  const int row = blockIdx.y * 16 + threadIdx.y;
  if (row >= dim::M || column >= dim::N) return;
  float sum = 0;
  for (int k = 0; k < dim::K; ++k) {
    sum += Tf32(a[row * dim::K + k]) * Tf32(b[k * dim::N + column]);
  }
  c[row * dim::N + column] = sum;
}
