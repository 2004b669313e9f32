extern "C" __global__ void __launch_bounds__(256) matmul(const float* a, const float* b, float* c) {
  __shared__ float left[64][17], right[16][65];
  const int t = threadIdx.x, tx = t % 16, ty = t / 16;
  const int row0 = blockIdx.y * 64, column0 = blockIdx.x * 64;
  float sum[4][4] = {};
  for (int k = 0; k < dim::K; k += 16) {
    for (int i = t; i < 1024; i += 256) {
      const int r = row0 + i / 16, kk = k + i % 16;
      left[i / 16][i % 16] = r < dim::M && kk < dim::K ? a[r * dim::K + kk] : 0;
      const int s = column0 + i % 64, kr = k + i / 64;
      right[i / 64][i % 64] = s < dim::N && kr < dim::K ? b[kr * dim::N + s] : 0;
    }
    __syncthreads();
    for (int i = 0; i < 16; ++i) {
      for (int u = 0; u < 4; ++u) {
        for (int v = 0; v < 4; ++v) sum[u][v] += left[ty + 16 * u][i] * right[i][tx + 16 * v];
      }
    }
    __syncthreads();
  }
  for (int u = 0; u < 4; ++u) {
    for (int v = 0; v < 4; ++v) {
      const int r = row0 + ty + 16 * u, s = column0 + tx + 16 * v;
      if (r < dim::M && s < dim::N) c[r * dim::N + s] = sum[u][v];
    }
  }
}
