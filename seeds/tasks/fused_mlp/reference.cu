// Gated feed-forward layer in fp64: hidden in a workspace, one thread per element in both launches.
// Every input type reaches double exactly by way of float.
template <typename T>
__device__ double Wide(T value) {
  return static_cast<double>(static_cast<float>(value));
}

extern "C" __global__ void __launch_bounds__(256)
hidden_reference(const tensor::x* x, const tensor::gate* gate, const tensor::up* up, double* hidden) {
  const long long element = blockIdx.x * 256LL + threadIdx.x;
  if (element >= 1LL * dim::B * dim::H) return;
  const tensor::x* row = x + element / dim::H * dim::D;
  const long long weights = element % dim::H * dim::D;
  double gated = 0, raised = 0;
  for (int d = 0; d < dim::D; ++d) {
    const double value = Wide(row[d]);
    gated += value * Wide(gate[weights + d]);
    raised += value * Wide(up[weights + d]);
  }
  hidden[element] = gated / (1.0 + exp(-gated)) * raised;
}

extern "C" __global__ void __launch_bounds__(256)
output_reference(const double* hidden, const tensor::down* down, tensor::y* y) {
  const long long element = blockIdx.x * 256LL + threadIdx.x;
  if (element >= 1LL * dim::B * dim::D) return;
  const double* row = hidden + element / dim::D * dim::H;
  const tensor::down* weights = down + element % dim::D * dim::H;
  double sum = 0;
  for (int j = 0; j < dim::H; ++j) sum += row[j] * Wide(weights[j]);
  y[element] = static_cast<tensor::y>(sum);
}
