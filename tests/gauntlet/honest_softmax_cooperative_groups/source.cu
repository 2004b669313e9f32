#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
extern "C" __global__ void softmax(const float* x, float* y) {
  const auto tile = cg::tiled_partition<32>(cg::this_thread_block());
  const float* row = x + 1LL * blockIdx.x * dim::N;
  float top = -INFINITY, sum = 0;
  for (int i = tile.thread_rank(); i < dim::N; i += 32) top = fmaxf(top, row[i]);
  top = cg::reduce(tile, top, cg::greater<float>());
  for (int i = tile.thread_rank(); i < dim::N; i += 32) sum += expf(row[i] - top);
  sum = cg::reduce(tile, sum, cg::plus<float>());
  for (int i = tile.thread_rank(); i < dim::N; i += 32) y[1LL * blockIdx.x * dim::N + i] = expf(row[i] - top) / sum;
}
