// Four softmax kernels that everyone writes, rows of `n` fp32, from the worst to the best. The cost
// model must put them in this order.

// A thread a row, three passes.
extern "C" __global__ void thread_per_row(const float* x, float* y, int n) {
  const long long row = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
  const float* in = x + row * n;
  float high = -3.402823466e38f, sum = 0;
  for (int i = 0; i < n; ++i) high = fmaxf(high, in[i]);
  for (int i = 0; i < n; ++i) sum += __expf(in[i] - high);
  for (int i = 0; i < n; ++i) y[row * n + i] = __expf(in[i] - high) / sum;
}

template <typename F>
__device__ float Reduce(float v, float* partial, F f) {
  for (int d = 16; d > 0; d /= 2) v = f(v, __shfl_xor_sync(0xffffffffu, v, d));
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = v;
  __syncthreads();
  v = partial[0];
  for (int w = 1; w < blockDim.x / 32; ++w) v = f(v, partial[w]);
  __syncthreads();
  return v;
}
struct Max {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};
struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};

// A block a row, scalar accesses, three passes.
extern "C" __global__ void block_per_row(const float* x, float* y, int n) {
  __shared__ float partial[32];
  const float* in = x + blockIdx.x * static_cast<long long>(n);
  float* out = y + blockIdx.x * static_cast<long long>(n);
  float high = -3.402823466e38f, sum = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) high = fmaxf(high, in[i]);
  high = Reduce(high, partial, Max{});
  for (int i = threadIdx.x; i < n; i += blockDim.x) sum += __expf(in[i] - high);
  sum = Reduce(sum, partial, Sum{});
  for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = __expf(in[i] - high) / sum;
}

// A block a row, four floats an access, maximum and sum in one pass, then the output.
extern "C" __global__ void vector_online(const float4* x, float4* y, int n) {
  __shared__ float partial[32];
  const float4* in = x + blockIdx.x * static_cast<long long>(n / 4);
  float4* out = y + blockIdx.x * static_cast<long long>(n / 4);
  float high = -3.402823466e38f, sum = 0;
  for (int i = threadIdx.x; i < n / 4; i += blockDim.x) {
    const float4 v = in[i];
    const float next = fmaxf(high, fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w)));
    sum = sum * __expf(high - next) + __expf(v.x - next) + __expf(v.y - next) +
          __expf(v.z - next) + __expf(v.w - next);
    high = next;
  }
  const float top = Reduce(high, partial, Max{});
  sum = Reduce(sum * __expf(high - top), partial, Sum{});
  const float scale = 1 / sum;
  for (int i = threadIdx.x; i < n / 4; i += blockDim.x) {
    float4 v = in[i];
    v.x = __expf(v.x - top) * scale;
    v.y = __expf(v.y - top) * scale;
    v.z = __expf(v.z - top) * scale;
    v.w = __expf(v.w - top) * scale;
    out[i] = v;
  }
}

// One pass: a block keeps a row of 32768 floats in registers, 32 a thread. (A row of 65536 would fill
// the register file of an SM.)
extern "C" __global__ void __launch_bounds__(1024, 1) resident(const float4* x, float4* y, int n) {
  __shared__ float partial[32];
  const float4* in = x + blockIdx.x * 8192ll;
  float4* out = y + blockIdx.x * 8192ll;
  float4 v[8];
  float high = -3.402823466e38f, sum = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) v[i] = in[i * 1024 + threadIdx.x];
#pragma unroll
  for (int i = 0; i < 8; ++i) high = fmaxf(high, fmaxf(fmaxf(v[i].x, v[i].y), fmaxf(v[i].z, v[i].w)));
  high = Reduce(high, partial, Max{});
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    v[i].x = __expf(v[i].x - high);
    v[i].y = __expf(v[i].y - high);
    v[i].z = __expf(v[i].z - high);
    v[i].w = __expf(v[i].w - high);
    sum += v[i].x + v[i].y + v[i].z + v[i].w;
  }
  const float scale = 1 / Reduce(sum, partial, Sum{});
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    v[i].x *= scale;
    v[i].y *= scale;
    v[i].z *= scale;
    v[i].w *= scale;
    out[i * 1024 + threadIdx.x] = v[i];
  }
}
