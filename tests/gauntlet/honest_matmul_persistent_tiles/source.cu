extern "C" __global__ void matmul(const float* a, const float* b, int* next, float* c) {
  __shared__ int tile;
  constexpr int kAcross = (dim::N + 15) / 16, kTiles = kAcross * ((dim::M + 15) / 16);
  for (;;) {
    if (threadIdx.x == 0 && threadIdx.y == 0) tile = atomicAdd(next, 1);
    __syncthreads();
    const int mine = tile;
    __syncthreads();
    if (mine >= kTiles) return;
    const int column = mine % kAcross * 16 + threadIdx.x, row = mine / kAcross * 16 + threadIdx.y;
    if (row < dim::M && column < dim::N) {
      float sum = 0;
      for (int k = 0; k < dim::K; ++k) sum += a[row * dim::K + k] * b[k * dim::N + column];
      c[row * dim::N + column] = sum;
    }
  }
}
