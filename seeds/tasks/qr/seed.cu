// traits: op=qr strategy=naive
// Unblocked Householder QR, column after column, straight from the definition. Two ways: one block a
// matrix (many matrices), or for each column one launch that makes the reflector and one that applies
// it with a warp for every 32 columns (few large matrices).

constexpr int n = dim::n;
constexpr int kThreads = 256;

// Sum over a block; every thread gets it. The barrier in front lets `parts` be used again.
__device__ float BlockSum(float value, float* parts) {
  for (int d = 16; d > 0; d /= 2) value += __shfl_xor_sync(0xffffffffu, value, d);
  __syncthreads();
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < kThreads / 32; ++i) sum += parts[i];
  return sum;
}

// The reflector of column k from what is on and below the diagonal there; returns tau. All threads.
__device__ float MakeReflector(float* h, int k, float* parts) {
  float square = 0;
  for (int i = k + 1 + threadIdx.x; i < n; i += kThreads) {
    const float x = h[(size_t)i * n + k];
    square += x * x;
  }
  square = BlockSum(square, parts);
  if (square == 0) return 0;
  const float alpha = h[(size_t)k * n + k];
  const float beta = -copysignf(sqrtf(alpha * alpha + square), alpha);
  const float scale = 1.0f / (alpha - beta);
  float vtv = 0;
  for (int i = k + 1 + threadIdx.x; i < n; i += kThreads) {
    const float v = h[(size_t)i * n + k] * scale;
    h[(size_t)i * n + k] = v;
    vtv += v * v;
  }
  // From v as it is stored, so that the two belong together.
  vtv = BlockSum(vtv, parts);
  if (threadIdx.x == 0) h[(size_t)k * n + k] = beta;
  return 2.0f / (1.0f + vtv);
}

extern "C" __global__ void qr_matrix(const float* a, float* h, float* tau) {
  __shared__ float parts[kThreads / 32];
  a += (size_t)blockIdx.x * n * n;
  h += (size_t)blockIdx.x * n * n;
  tau += (size_t)blockIdx.x * n;
  for (int i = threadIdx.x; i < n * n; i += kThreads) h[i] = a[i];
  __syncthreads();
  for (int k = 0; k < n; ++k) {
    const float t = MakeReflector(h, k, parts);
    if (threadIdx.x == 0) tau[k] = t;
    __syncthreads();
    if (t == 0) continue;
    // A thread has a column to itself.
    for (int j = k + 1 + threadIdx.x; j < n; j += kThreads) {
      float sum = h[(size_t)k * n + j];
      for (int i = k + 1; i < n; ++i) sum += h[(size_t)i * n + k] * h[(size_t)i * n + j];
      sum *= t;
      h[(size_t)k * n + j] -= sum;
      for (int i = k + 1; i < n; ++i) h[(size_t)i * n + j] -= sum * h[(size_t)i * n + k];
    }
    __syncthreads();
  }
}

extern "C" __global__ void qr_copy(const float* a, float* h) {
  const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < (size_t)dim::batch * n * n) h[i] = a[i];
}

extern "C" __global__ void qr_reflector(float* h, float* tau, int k) {
  __shared__ float parts[kThreads / 32];
  const float t = MakeReflector(h + (size_t)blockIdx.x * n * n, k, parts);
  if (threadIdx.x == 0) tau[(size_t)blockIdx.x * n + k] = t;
}

// 32 columns a block; its warps share the rows.
extern "C" __global__ void qr_apply(float* h, const float* tau, int k) {
  constexpr int kWarps = kThreads / 32;
  __shared__ float partial[kWarps][32];
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const int j = k + 1 + blockIdx.x * 32 + lane;
  h += (size_t)blockIdx.y * n * n;
  const float t = tau[(size_t)blockIdx.y * n + k];
  if (t == 0) return;
  float sum = 0;
  if (j < n) {
    for (int i = k + 1 + warp; i < n; i += kWarps) {
      sum += h[(size_t)i * n + k] * h[(size_t)i * n + j];
    }
  }
  partial[warp][lane] = sum;
  float old = 0;
  if (j < n) old = h[(size_t)k * n + j];
  __syncthreads();
  sum = old;
  for (int w = 0; w < kWarps; ++w) sum += partial[w][lane];
  sum *= t;
  if (j >= n) return;
  for (int i = k + 1 + warp; i < n; i += kWarps) {
    h[(size_t)i * n + j] -= sum * h[(size_t)i * n + k];
  }
  if (warp == 0) h[(size_t)k * n + j] = old - sum;
}
