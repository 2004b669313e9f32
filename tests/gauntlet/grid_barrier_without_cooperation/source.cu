__device__ volatile int go;
extern "C" __global__ void softmax(const float* x, float* y) {
  if (blockIdx.x == 0) {
    while (go == 0) {
    }
  }
  y[blockIdx.x] = x[blockIdx.x];
}
