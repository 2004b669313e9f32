// One block per row, in double: simple enough to be trusted. Outputs are double here.
extern "C" __global__ void reference(const tensor::x* x, const tensor::bias* bias, tensor::y* y) {
  const long long row = blockIdx.x * static_cast<long long>(dim::N);
  for (int j = threadIdx.x; j < dim::N; j += blockDim.x) {
    y[row + j] = static_cast<double>(x[row + j]) + static_cast<double>(bias[j]);
  }
}
