// Edge shapes from a candidate's own plan: the sizes at which its tiles end.
//
// A plan says how a dim is cut into tiles by its expressions: a grid of ceil_div(M, 128), one of
// (M + 127) / 128 * ceil_div(N, 64), a repeat to N in steps of 32, a workspace of ceil_div(N, 256).
// The expressions are not taken apart but evaluated: where the value changes at every t-th size of
// a dim and nowhere between, the dim is cut into tiles of t. A dim that no expression knows is
// walked by the threads of a block: their number is its tile.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/plan.h"
#include "eval/edge_shapes.h"
#include "seeds/task.h"

namespace grove::eval {

struct DimTile {
  std::string dim;
  std::int64_t tile = 1;
};

// For each free dim, in their order, its largest tile over all variants of the plan that the dim's
// range has room for, the other dims as in `task_case`; dims without any are left out.
std::vector<DimTile> FindTiles(const codegen::LaunchPlan& plan, const seeds::Case& task_case,
                               const codegen::DeviceLimits& limits,
                               const std::vector<FreeDim>& free_dims);

// The dims of up to three cases: every tiled dim at one less than its tile, at the tile, at one
// more, inside the dim's range. None when there are no tiles; two that come out alike are one.
std::vector<std::vector<seeds::Dim>> EdgeDims(const std::vector<DimTile>& tiles,
                                              const std::vector<FreeDim>& free_dims);

}  // namespace grove::eval
