struct Part {
  float count, mean, squares;
};
__device__ Part Merge(Part a, Part b) {
  const float count = a.count + b.count;
  if (count == 0) return a;
  const float delta = b.mean - a.mean;
  return {count, a.mean + delta * (b.count / count), a.squares + b.squares + delta * delta * (a.count * b.count / count)};
}
extern "C" __global__ void layernorm(const float* x, const float* gamma, const float* beta, float* y) {
  __shared__ Part parts[256];
  constexpr int kRow = dim::C * dim::H * dim::W;
  const float* row = x + 1LL * blockIdx.x * kRow;
  Part p{0, 0, 0};
  for (int i = threadIdx.x; i < kRow; i += 256) {
    p.count += 1;
    const float delta = row[i] - p.mean;
    p.mean += delta / p.count;
    p.squares += delta * (row[i] - p.mean);
  }
  parts[threadIdx.x] = p;
  __syncthreads();
  for (int half = 128; half > 0; half /= 2) {
    if (threadIdx.x < half) parts[threadIdx.x] = Merge(parts[threadIdx.x], parts[threadIdx.x + half]);
    __syncthreads();
  }
  p = parts[0];
  const float scale = rsqrtf(p.squares / kRow + scalar::eps);
  for (int i = threadIdx.x; i < kRow; i += 256) y[1LL * blockIdx.x * kRow + i] = (row[i] - p.mean) * scale * gamma[i] + beta[i];
}
