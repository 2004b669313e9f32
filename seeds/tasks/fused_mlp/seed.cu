// Gated feed-forward layer: hidden in an fp32 workspace, one thread per element in both launches,
// everything read from global memory.
extern "C" __global__ void __launch_bounds__(256)
hidden_layer(const tensor::x* x, const tensor::gate* gate, const tensor::up* up, float* hidden) {
  const long long element = blockIdx.x * 256LL + threadIdx.x;
  if (element >= 1LL * dim::B * dim::H) return;
  const tensor::x* row = x + element / dim::H * dim::D;
  const long long weights = element % dim::H * dim::D;
  float gated = 0.0f, raised = 0.0f;
  for (int d = 0; d < dim::D; ++d) {
    const float value = static_cast<float>(row[d]);
    gated += value * static_cast<float>(gate[weights + d]);
    raised += value * static_cast<float>(up[weights + d]);
  }
  hidden[element] = gated / (1.0f + expf(-gated)) * raised;
}

extern "C" __global__ void __launch_bounds__(256)
output_layer(const float* hidden, const tensor::down* down, tensor::y* y) {
  const long long element = blockIdx.x * 256LL + threadIdx.x;
  if (element >= 1LL * dim::B * dim::D) return;
  const float* row = hidden + element / dim::D * dim::H;
  const tensor::down* weights = down + element % dim::D * dim::H;
  float sum = 0.0f;
  for (int j = 0; j < dim::H; ++j) sum += row[j] * static_cast<float>(weights[j]);
  y[element] = static_cast<tensor::y>(sum);
}
