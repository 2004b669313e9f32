__device__ float BlockReduce(float value, bool maximum) {
  __shared__ float shared[256];
  __syncthreads();
  shared[threadIdx.x] = value;
  __syncthreads();
  for (int half = 128; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      const float other = shared[threadIdx.x + half];
      shared[threadIdx.x] = maximum ? fmaxf(shared[threadIdx.x], other) : shared[threadIdx.x] + other;
    }
    __syncthreads();
  }
  return shared[0];
}

constexpr int kPart = 512;
constexpr int kParts = (dim::N + kPart - 1) / kPart;
extern "C" __global__ void part(const float* x, float2* parts) {
  const float* row = x + 1LL * blockIdx.y * dim::N;
  const int begin = blockIdx.x * kPart, end = min(begin + kPart, dim::N);
  float top = -INFINITY, sum = 0;
  for (int i = begin + threadIdx.x; i < end; i += 256) top = fmaxf(top, row[i]);
  top = BlockReduce(top, true);
  for (int i = begin + threadIdx.x; i < end; i += 256) sum += expf(row[i] - top);
  sum = BlockReduce(sum, false);
  if (threadIdx.x == 0) parts[blockIdx.y * kParts + blockIdx.x] = make_float2(top, sum);
}
extern "C" __global__ void merge(const float2* parts, float2* rows) {
  const int i = blockIdx.x * 32 + threadIdx.x;
  if (i >= dim::M) return;
  float top = -INFINITY, sum = 0;
  for (int p = 0; p < kParts; ++p) top = fmaxf(top, parts[i * kParts + p].x);
  for (int p = 0; p < kParts; ++p) sum += parts[i * kParts + p].y * expf(parts[i * kParts + p].x - top);
  rows[i] = make_float2(top, sum);
}
extern "C" __global__ void write(const float* x, const float2* rows, float* y) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= dim::N) return;
  const float2 r = rows[blockIdx.y];
  y[1LL * blockIdx.y * dim::N + i] = expf(x[1LL * blockIdx.y * dim::N + i] - r.x) / r.y;
}
