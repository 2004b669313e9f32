// A grid that synchronises as a whole.
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void grid_sum(int* data, int* out) {
  auto grid = cg::this_grid();
  int i = grid.thread_rank();
  data[i] = i * 3;
  grid.sync();
  int next = data[(i + blockDim.x) % grid.size()];
  grid.sync();
  out[i] = next + (int)grid.size();
}
