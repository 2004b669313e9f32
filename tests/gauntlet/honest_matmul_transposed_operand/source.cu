extern "C" __global__ void transpose(const float* b, float* t) {
  __shared__ float tile[16][17];
  int column = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
  if (row < dim::K && column < dim::N) tile[threadIdx.y][threadIdx.x] = b[row * dim::N + column];
  __syncthreads();
  column = blockIdx.y * 16 + threadIdx.x, row = blockIdx.x * 16 + threadIdx.y;
  if (row < dim::N && column < dim::K) t[row * dim::K + column] = tile[threadIdx.x][threadIdx.y];
}
extern "C" __global__ void matmul(const float* a, const float* b, float* c) {
  const int column = blockIdx.x * 16 + threadIdx.x;
  const int row = blockIdx.y * 16 + threadIdx.y;
  if (row >= dim::M || column >= dim::N) return;
  float sum = 0;
  for (int k = 0; k < dim::K; ++k) {
    sum += a[row * dim::K + k] * b[column * dim::K + k];
  }
  c[row * dim::N + column] = sum;
}
