extern "C" __global__ void matmul(const float* a, const float* b, float* c) {
  __shared__ float left[16][16], right[16][16];
  const int tx = threadIdx.x, ty = threadIdx.y;
  const int row = blockIdx.y * 16 + ty, column = blockIdx.x * 16 + tx;
  float sum = 0;
  for (int k = 0; k < dim::K; k += 16) {
    left[ty][tx] = row < dim::M && k + tx < dim::K ? a[row * dim::K + k + tx] : 0;
    right[ty][tx] = column < dim::N && k + ty < dim::K ? b[(k + ty) * dim::N + column] : 0;
    __syncthreads();
    for (int i = 0; i < 16; ++i) sum += left[ty][i] * right[i][tx];
  }
  if (row < dim::M && column < dim::N) c[row * dim::N + column] = sum;
}
