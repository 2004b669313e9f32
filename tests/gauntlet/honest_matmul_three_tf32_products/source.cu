__device__ unsigned Tf32(float v) {
  unsigned r;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(v));
  return r;
}
__device__ void Mma(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
extern "C" __global__ void matmul(const float* a, const float* b, float* c) {
  const int lane = threadIdx.x, group = lane / 4, in_group = lane % 4;
  const int row0 = blockIdx.y * 16, column0 = blockIdx.x * 8;
  float sum[4] = {};
  for (int k = 0; k < dim::K; k += 8) {
    unsigned high[4], low[4], b_high[2], b_low[2];
    for (int i = 0; i < 4; ++i) {
      const int r = row0 + group + (i % 2) * 8, kk = k + in_group + (i / 2) * 4;
      const float v = r < dim::M && kk < dim::K ? a[r * dim::K + kk] : 0;
      high[i] = Tf32(v);
      low[i] = Tf32(v - __uint_as_float(high[i]));
    }
    for (int i = 0; i < 2; ++i) {
      const int kk = k + in_group + i * 4, s = column0 + group;
      const float v = s < dim::N && kk < dim::K ? b[kk * dim::N + s] : 0;
      b_high[i] = Tf32(v);
      b_low[i] = Tf32(v - __uint_as_float(b_high[i]));
    }
    Mma(sum, low, b_high);
    Mma(sum, high, b_low);
    Mma(sum, high, b_high);
  }
  for (int i = 0; i < 4; ++i) {
    const int r = row0 + group + (i / 2) * 8, s = column0 + in_group * 2 + i % 2;
    if (r < dim::M && s < dim::N) c[r * dim::N + s] = sum[i];
  }
}
