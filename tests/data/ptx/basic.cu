// Small kernels of every kind of control flow and memory.
#include <cstdio>

extern "C" __global__ void vector_add(const float* a, const float* b, float* c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}

extern "C" __global__ void block_sum(const float* in, float* out) {
  __shared__ float s[256];
  int t = threadIdx.x;
  s[t] = in[blockIdx.x * 256 + t];
  __syncthreads();
  for (int k = 128; k > 0; k >>= 1) {
    if (t < k) s[t] += s[t + k];
    __syncthreads();
  }
  if (t == 0) out[blockIdx.x] = s[0];
}

extern "C" __global__ void block_sum_racy(const float* in, float* out) {
  __shared__ float s[256];
  int t = threadIdx.x;
  s[t] = in[t];
  for (int k = 128; k > 0; k >>= 1) {
    if (t < k) s[t] += s[t + k];
  }
  if (t == 0) out[0] = s[0];
}

// Collatz steps with break, continue and early return: lanes part and meet again.
extern "C" __global__ void diverge(const int* in, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int v = in[i], steps = 0;
  if (v == 13) { out[i] = -13; return; }
  for (int k = 0; k < 1000; ++k) {
    if (v % 7 == 3) { v = v * 2 + 1; steps += 100; continue; }
    if (v <= 1) break;
    if (v & 1) {
      int w = v;
      while (w > 10) { w /= 3; steps++; }
      v = (3 * v + 1) % 100003;
    } else {
      v /= 2;
    }
    steps++;
  }
  out[i] = steps * 1000 + v % 1000;
}

extern "C" __global__ void warp_sum(const float* in, float* out) {
  float v = in[threadIdx.x];
  for (int k = 16; k > 0; k >>= 1) v += __shfl_xor_sync(~0u, v, k);
  float w = in[threadIdx.x];
  for (int k = 16; k > 0; k >>= 1) w += __shfl_down_sync(~0u, w, k, 32);
  float x = __shfl_sync(~0u, in[threadIdx.x], 5, 8);
  float y = __shfl_up_sync(~0u, in[threadIdx.x], 3, 16);
  out[threadIdx.x * 4] = v;
  out[threadIdx.x * 4 + 1] = w;
  out[threadIdx.x * 4 + 2] = x;
  out[threadIdx.x * 4 + 3] = y;
}

__device__ int counter;
__device__ float table[4] = {1.5f, 2.5f, 3.5f, 4.5f};
__constant__ int weights[3] = {7, 11, 13};

extern "C" __global__ void atomics(int* ints, float* floats, double* doubles) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(&ints[0], t);
  atomicMax(&ints[1], t);
  atomicMin(&ints[2], -t);
  atomicOr(&ints[3], 1 << (t & 31));
  atomicInc((unsigned*)&ints[4], 9);
  int old = ints[5];
  while (true) {
    int seen = atomicCAS(&ints[5], old, old + 2);
    if (seen == old) break;
    old = seen;
  }
  atomicExch(&ints[6], 77);
  atomicAdd(&floats[0], 0.5f);
  atomicAdd(&doubles[0], 0.25);
  atomicAdd(&counter, 1);
  if (t == 0) ints[7] = weights[1];
  floats[1] = table[2];
}
extern "C" __global__ void read_counter(int* out) { out[0] = counter; }

extern "C" __global__ void local_array(const int* in, int* out, int n) {
  int hist[16];
  for (int i = 0; i < 16; ++i) hist[i] = 0;
  for (int i = 0; i < n; ++i) hist[(in[i] + threadIdx.x) & 15]++;
  int best = 0;
  for (int i = 0; i < 16; ++i) best = best * 3 + hist[(i * in[0]) & 15];
  out[threadIdx.x] = best;
}

__device__ __noinline__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
__device__ __noinline__ float scale(float x, double y, short z) { return x * (float)y + z; }
extern "C" __global__ void calls(const int* in, int* out, float* f) {
  int t = threadIdx.x;
  out[t] = fib(in[t]);
  f[t] = t % 3 == 0 ? scale(t, 2.5, t) : scale(-t, 0.5, 7);
}
__device__ __noinline__ int endless(int n) { return n == -1 ? 0 : endless(n + 1) * 3 + n; }
extern "C" __global__ void recursion(int* out) { out[0] = endless(out[0]); }

extern "C" __global__ void dynamic_shared(const float* in, float* out) {
  extern __shared__ float dyn[];
  __shared__ int fixed[8];
  if (threadIdx.x < 8) fixed[threadIdx.x] = threadIdx.x * 100;
  dyn[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = dyn[blockDim.x - 1 - threadIdx.x] + fixed[threadIdx.x & 7];
}

extern "C" __global__ void tiled_gemm(const float* a, const float* b, float* c, int m, int n, int k) {
  __shared__ float as[16][16], bs[16][17];
  int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
  float sum = 0;
  for (int k0 = 0; k0 < k; k0 += 16) {
    as[threadIdx.y][threadIdx.x] = row < m && k0 + threadIdx.x < k ? a[row * k + k0 + threadIdx.x] : 0;
    bs[threadIdx.y][threadIdx.x] = col < n && k0 + threadIdx.y < k ? b[(k0 + threadIdx.y) * n + col] : 0;
    __syncthreads();
    for (int j = 0; j < 16; ++j) sum += as[threadIdx.y][j] * bs[j][threadIdx.x];
    __syncthreads();
  }
  if (row < m && col < n) c[row * n + col] = sum;
}

extern "C" __global__ void vectors(const float4* in, float4* out, const short* s, int* t) {
  float4 v = in[threadIdx.x];
  out[threadIdx.x] = make_float4(v.w, v.z, v.y, v.x);
  t[threadIdx.x] = s[threadIdx.x] * 2;
}

extern "C" __global__ void spin() {
  volatile int go = 0;
  while (threadIdx.x == 7 && go == 0) {}
}

extern "C" __global__ void half_barrier(float* out) {
  if (threadIdx.x < 64) {
    asm volatile("bar.sync 1, 128;");
  }
  out[threadIdx.x] = 1;
}

extern "C" __global__ void uninitialised(float* out) {
  __shared__ float s[64];
  if (threadIdx.x < 32) s[threadIdx.x] = threadIdx.x;
  __syncthreads();
  out[threadIdx.x] = s[threadIdx.x];
}

extern "C" __global__ void past_end(float* out, int n) { out[n - 1 + (int)threadIdx.x] = 1; }
extern "C" __global__ void misaligned(char* p) { *(int*)(p + 2) = 1; }
extern "C" __global__ void trap_kernel(int* p) { if (p[0] == 3) __trap(); }
extern "C" __global__ void prints(int* p) { printf("%d\n", p[0]); p[1] = 5; }

// Producers and consumers through named barriers: correct, and not by __syncthreads.
extern "C" __global__ void named_barriers(const float* in, float* out) {
  __shared__ float s[64];
  int t = threadIdx.x;
  for (int i = 0; i < 3; ++i) {
    if (t < 64) {
      if (i > 0) asm volatile("bar.sync 2, 128;" ::: "memory");
      s[t] = in[t] + i;
      asm volatile("bar.arrive 1, 128;" ::: "memory");
    } else {
      asm volatile("bar.sync 1, 128;" ::: "memory");
      out[i * 64 + t - 64] = s[127 - t];
      if (i < 2) asm volatile("bar.arrive 2, 128;" ::: "memory");
    }
  }
}

// A warp waits for a flag that another warp sets later.
extern "C" __global__ void flag_wait(int* out) {
  __shared__ volatile int flag;
  __shared__ int value;
  if (threadIdx.x == 0) flag = 0;
  __syncthreads();
  if (threadIdx.x < 32) {
    while (flag == 0) {}
    __threadfence_block();
    out[threadIdx.x] = value;
  } else if (threadIdx.x == 32) {
    value = 42;
    __threadfence_block();
    flag = 1;
  }
}

// Lanes of one warp take a lock in turn.
extern "C" __global__ void lock(int* state) {
  bool done = false;
  while (!done) {
    if (atomicCAS(&state[0], 0, 1) == 0) {
      state[1] += 3;
      __threadfence();
      atomicExch(&state[0], 0);
      done = true;
    }
  }
}
extern "C" __global__ void lock_spin(int* state) {
  while (atomicCAS(&state[0], 0, 1) != 0) {}
  state[1] += 3;
  __threadfence();
  atomicExch(&state[0], 0);
}

extern "C" __global__ void switches(const int* in, int* out) {
  int v = in[threadIdx.x], r = 0;
  switch (v) {
    case 0: r = v * 3 + 1; break;
    case 1: r = v ^ 0x55; break;
    case 2: r = out[threadIdx.x + 64] * 5; break;
    case 3: r = -v; break;
    case 4: r = __popc(v * 77); break;
    case 5: r = v / 3 + 1000; break;
    case 6: r = __clz(v); break;
    case 7: r = __brev(v); break;
    default: r = -1;
  }
  out[threadIdx.x] = r;
}

extern "C" __global__ void votes(const int* in, unsigned* out) {
  int v = in[threadIdx.x];
  out[threadIdx.x] = __ballot_sync(~0u, v & 1);
  out[32 + threadIdx.x] = __match_any_sync(~0u, v & 3);
  out[64 + threadIdx.x] = __reduce_add_sync(~0u, (unsigned)v);
  out[96 + threadIdx.x] = __syncthreads_count(v > 4);
  out[128 + threadIdx.x] = __any_sync(~0u, v == 9) + 2 * __all_sync(~0u, v >= 0);
}
