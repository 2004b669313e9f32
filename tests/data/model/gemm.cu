// Four matrix products C = A B of n x n row-major matrices, from the worst to the best. The cost
// model must put them in this order.
#include <cuda_fp16.h>
#include <mma.h>

extern "C" __global__ void naive(const float* __restrict__ a, const float* __restrict__ b,
                                 float* __restrict__ c, int n) {
  const int row = blockIdx.y * 32 + threadIdx.y, column = blockIdx.x * 32 + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < n; ++k) sum += a[row * n + k] * b[k * n + column];
  c[row * n + column] = sum;
}

extern "C" __global__ void shared_tiles(const float* __restrict__ a, const float* __restrict__ b,
                                        float* __restrict__ c, int n) {
  __shared__ float tile_a[32][32], tile_b[32][32];
  const int row = blockIdx.y * 32 + threadIdx.y, column = blockIdx.x * 32 + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < n; k += 32) {
    tile_a[threadIdx.y][threadIdx.x] = a[row * n + k + threadIdx.x];
    tile_b[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + column];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 32; ++i) sum += tile_a[threadIdx.y][i] * tile_b[i][threadIdx.x];
    __syncthreads();
  }
  c[row * n + column] = sum;
}

// 128 x 128 x 8 tiles, 256 threads, 8 x 8 outputs a thread.
extern "C" __global__ void __launch_bounds__(256) register_tiles(const float* __restrict__ a,
                                                                 const float* __restrict__ b,
                                                                 float* __restrict__ c, int n) {
  __shared__ float tile_a[8][128], tile_b[8][128];
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  const int row0 = blockIdx.y * 128, column0 = blockIdx.x * 128;
  const int load_row = threadIdx.x / 2, load_k = threadIdx.x % 2 * 4;
  const int load_kb = threadIdx.x / 32, load_column = threadIdx.x % 32 * 4;
  float sum[8][8] = {};
  for (int k = 0; k < n; k += 8) {
    const float4 va = *reinterpret_cast<const float4*>(a + (row0 + load_row) * n + k + load_k);
    const float4 vb =
        *reinterpret_cast<const float4*>(b + (k + load_kb) * n + column0 + load_column);
    tile_a[load_k][load_row] = va.x;
    tile_a[load_k + 1][load_row] = va.y;
    tile_a[load_k + 2][load_row] = va.z;
    tile_a[load_k + 3][load_row] = va.w;
    *reinterpret_cast<float4*>(&tile_b[load_kb][load_column]) = vb;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      float x[8], y[8];
#pragma unroll
      for (int j = 0; j < 8; j += 4) {
        *reinterpret_cast<float4*>(x + j) = *reinterpret_cast<float4*>(&tile_a[i][ty * 4 + j * 16]);
        *reinterpret_cast<float4*>(y + j) = *reinterpret_cast<float4*>(&tile_b[i][tx * 4 + j * 16]);
      }
#pragma unroll
      for (int p = 0; p < 8; ++p) {
#pragma unroll
        for (int q = 0; q < 8; ++q) sum[p][q] += x[p] * y[q];
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int p = 0; p < 8; ++p) {
    const int row = row0 + ty * 4 + p % 4 + p / 4 * 64;
#pragma unroll
    for (int q = 0; q < 8; q += 4) {
      *reinterpret_cast<float4*>(c + row * n + column0 + tx * 4 + q * 16) =
          make_float4(sum[p][q], sum[p][q + 1], sum[p][q + 2], sum[p][q + 3]);
    }
  }
}

// fp16 in, fp32 out, 128 x 128 x 32 tiles, 8 warps of 64 x 32.
extern "C" __global__ void __launch_bounds__(256) tensor_cores(const __half* __restrict__ a,
                                                               const __half* __restrict__ b,
                                                               float* __restrict__ c, int n) {
  using namespace nvcuda;
  __shared__ __align__(128) __half tile_a[128][40];
  __shared__ __align__(128) __half tile_b[32][136];
  const int warp = threadIdx.x / 32;
  const int row0 = blockIdx.y * 128, column0 = blockIdx.x * 128;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum[4][2];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int j = 0; j < 2; ++j) wmma::fill_fragment(sum[i][j], 0.0f);
  }
  for (int k = 0; k < n; k += 32) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int at = (i * 256 + threadIdx.x) * 8;
      *reinterpret_cast<uint4*>(&tile_a[at / 32][at % 32]) =
          *reinterpret_cast<const uint4*>(a + (row0 + at / 32) * n + k + at % 32);
      *reinterpret_cast<uint4*>(&tile_b[at / 128][at % 128]) =
          *reinterpret_cast<const uint4*>(b + (k + at / 128) * n + column0 + at % 128);
    }
    __syncthreads();
#pragma unroll
    for (int kk = 0; kk < 32; kk += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> fa[4];
      wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> fb[2];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        wmma::load_matrix_sync(fa[i], &tile_a[warp / 4 * 64 + i * 16][kk], 40);
      }
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        wmma::load_matrix_sync(fb[j], &tile_b[kk][warp % 4 * 32 + j * 16], 136);
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 2; ++j) wmma::mma_sync(sum[i][j], fa[i], fb[j], sum[i][j]);
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      wmma::store_matrix_sync(c + (row0 + warp / 4 * 64 + i * 16) * n + column0 + warp % 4 * 32 + j * 16,
                              sum[i][j], n, wmma::mem_row_major);
    }
  }
}
