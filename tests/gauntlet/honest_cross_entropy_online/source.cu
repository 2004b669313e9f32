extern "C" __global__ void row_loss(const tensor::logits* logits, const tensor::target* target, float* losses) {
  const int i = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (i >= dim::M) return;
  const tensor::logits* row = logits + 1LL * i * dim::V;
  float top = -INFINITY, sum = 0;
  for (int j = lane; j < dim::V; j += 32) {
    const float v = static_cast<float>(row[j]);
    const float next = fmaxf(top, v);
    sum = sum * expf(top - next) + expf(v - next);
    top = next;
  }
  for (int d = 16; d > 0; d /= 2) {
    const float other_top = __shfl_xor_sync(~0u, top, d), other_sum = __shfl_xor_sync(~0u, sum, d);
    const float next = fmaxf(top, other_top);
    sum = (sum == 0 ? 0 : sum * expf(top - next)) + (other_sum == 0 ? 0 : other_sum * expf(other_top - next));
    top = next;
  }
  if (lane == 0) losses[i] = logf(sum) + (top - static_cast<float>(row[target[i]]));
}
extern "C" __global__ void mean_loss(const float* losses, float* loss) {
  float sum = 0;
  for (int i = 0; i < dim::M; ++i) sum += losses[i];
  loss[0] = sum / dim::M;
}
