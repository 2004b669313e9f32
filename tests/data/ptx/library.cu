// What kernels take from the toolkit's headers: cooperative groups, CUB, cuda::barrier, pipelines.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cub/cub.cuh>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda_fp16.h>
namespace cg = cooperative_groups;

extern "C" __global__ void group_reduce(const float* x, float* y) {
  auto block = cg::this_thread_block();
  auto warp = cg::tiled_partition<32>(block);
  float v = cg::reduce(warp, x[threadIdx.x], cg::plus<float>());
  if (warp.thread_rank() == 0) y[threadIdx.x / 32] = v;
  auto eight = cg::tiled_partition<8>(block);
  float most = cg::reduce(eight, x[threadIdx.x], cg::greater<float>());
  if (eight.thread_rank() == 0) y[8 + threadIdx.x / 8] = most;
  if (threadIdx.x % 3 == 0) {
    auto some = cg::coalesced_threads();
    y[64 + threadIdx.x] = some.size() * 100 + some.thread_rank();
  }
}

extern "C" __global__ void block_scan(const float* x, float* sum, int* scan) {
  using Reduce = cub::BlockReduce<float, 128>;
  __shared__ Reduce::TempStorage a;
  float s = Reduce(a).Sum(x[threadIdx.x]);
  if (threadIdx.x == 0) sum[0] = s;
  using Scan = cub::BlockScan<int, 128>;
  __shared__ Scan::TempStorage b;
  int prefix;
  Scan(b).ExclusiveSum(int(threadIdx.x), prefix);
  scan[threadIdx.x] = prefix;
}

extern "C" __global__ void barrier_copy(const float* x, float* y) {
#pragma nv_diag_suppress static_var_with_dynamic_init
  __shared__ cuda::barrier<cuda::thread_scope_block> b;
  __shared__ float s[128];
  if (threadIdx.x == 0) init(&b, blockDim.x);
  __syncthreads();
  for (int i = 0; i < 3; ++i) {
    cuda::memcpy_async(&s[threadIdx.x], &x[i * 128 + threadIdx.x], sizeof(float), b);
    b.arrive_and_wait();
    y[i * 128 + threadIdx.x] = s[127 - threadIdx.x];
    b.arrive_and_wait();
  }
}

extern "C" __global__ void pipelined(const float4* x, float4* y) {
  __shared__ float4 s[2][64];
  auto pipe = cuda::make_pipeline();
  for (int i = 0; i < 2; ++i) {
    pipe.producer_acquire();
    cuda::memcpy_async(&s[i][threadIdx.x], &x[i * 64 + threadIdx.x], cuda::aligned_size_t<16>(16), pipe);
    pipe.producer_commit();
  }
  for (int i = 0; i < 2; ++i) {
    pipe.consumer_wait();
    __syncthreads();
    y[i * 64 + threadIdx.x] = s[i][63 - threadIdx.x];
    pipe.consumer_release();
  }
}

__device__ float twice(float x) { return x * 2; }
__device__ float plus3(float x) { return x + 3; }
__device__ float minus(float x) { return -x; }
__device__ float (*table[3])(float) = {twice, plus3, minus};
extern "C" __global__ void pointers(float* y, const int* which) {
  y[threadIdx.x] = table[which[threadIdx.x]](y[threadIdx.x]) + 1;
}

extern "C" __global__ void half_functions(const half2* x, half2* y) {
  y[threadIdx.x] = h2exp(x[threadIdx.x]);
  y[32 + threadIdx.x] = h2sqrt(__habs2(x[threadIdx.x]));
}
