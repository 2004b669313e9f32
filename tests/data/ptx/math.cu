// Library functions, as NVRTC expands them: many instructions at once, checked against the host.
extern "C" __global__ void functions(const float* in, float* out, int n) {
  int i = threadIdx.x;
  float x = in[i];
  out[i] = expf(x);
  out[n + i] = logf(fabsf(x) + 0.1f);
  out[2 * n + i] = sinf(x);
  out[3 * n + i] = powf(fabsf(x), 1.7f);
  out[4 * n + i] = tanhf(x);
  out[5 * n + i] = erff(x);
  out[6 * n + i] = sqrtf(fabsf(x));
  out[7 * n + i] = x / 3.0f;
  out[8 * n + i] = floorf(x) + rintf(x) + (float)(int)x;
  out[9 * n + i] = __expf(x);
  out[10 * n + i] = sinf(x * 1e6f);
}
extern "C" __global__ void doubles(const double* in, double* out, int n) {
  int i = threadIdx.x;
  double x = in[i];
  out[i] = exp(x);
  out[n + i] = log(fabs(x) + 0.1);
  out[2 * n + i] = sin(x);
  out[3 * n + i] = x / 3.0;
  out[4 * n + i] = sqrt(fabs(x));
  out[5 * n + i] = fma(x, x, 1.0);
}

extern "C" __global__ void softmax(const float* x, float* y, int n) {
  __shared__ float part[32];
  const float* row = x + blockIdx.x * (long long)n;
  float m = -INFINITY;
  for (int i = threadIdx.x; i < n; i += blockDim.x) m = fmaxf(m, row[i]);
  for (int k = 16; k; k >>= 1) m = fmaxf(m, __shfl_xor_sync(~0u, m, k));
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = m;
  __syncthreads();
  m = part[0];
  for (int i = 1; i < blockDim.x / 32; ++i) m = fmaxf(m, part[i]);
  __syncthreads();
  float s = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) s += expf(row[i] - m);
  for (int k = 16; k; k >>= 1) s += __shfl_xor_sync(~0u, s, k);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = s;
  __syncthreads();
  s = 0;
  for (int i = 0; i < blockDim.x / 32; ++i) s += part[i];
  for (int i = threadIdx.x; i < n; i += blockDim.x) y[blockIdx.x * (long long)n + i] = expf(row[i] - m) / s;
}

// 64 x 64 tiles, 4 x 4 per thread: the inner loop of real GEMM kernels.
extern "C" __global__ void gemm64(const float* a, const float* b, float* c, int n) {
  __shared__ float as[16][64], bs[16][64];
  int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  float acc[4][4] = {};
  for (int k0 = 0; k0 < n; k0 += 16) {
    for (int i = threadIdx.x; i < 1024; i += 256) {
      as[i % 16][i / 16] = a[(blockIdx.y * 64 + i / 16) * n + k0 + i % 16];
      bs[i / 64][i % 64] = b[(k0 + i / 64) * n + blockIdx.x * 64 + i % 64];
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 16; ++k) {
      float x[4], y[4];
      for (int i = 0; i < 4; ++i) { x[i] = as[k][ty * 4 + i]; y[i] = bs[k][tx * 4 + i]; }
      for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) acc[i][j] += x[i] * y[j];
    }
    __syncthreads();
  }
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) c[(blockIdx.y * 64 + ty * 4 + i) * n + blockIdx.x * 64 + tx * 4 + j] = acc[i][j];
}
