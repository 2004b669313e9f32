// Shapes of a task beyond those that it lists, for checks at the edges of a candidate's own tiles
// (tile_edges.h). What a task permits is read off its check cases: a dim is free when their values
// of it have nothing in common, neither with each other (a divisor) nor with another dim's (one
// always dividing the other); and a shape is of the task when every extent is a product of dims in
// all of its cases. Where that cannot be seen, nothing is made: a candidate must never fail on a
// shape that its task does not have. Plain functions, thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "seeds/task.h"

namespace grove::eval {

// A dim that may have any value within what the task's checks have.
struct FreeDim {
  std::string name;
  std::int64_t least = 1, most = 1;
};

// None for a task with an integer input, whose values may be bound to a dim, or with stored
// tensors.
std::vector<FreeDim> FreeDims(const seeds::Task& task);

// A copy of `task` whose only case is like its case `like` (dtypes, inputs) but for the given dims,
// named after them, with the role kEdge. nullopt when an extent is no product of dims, or when the
// dims stand in an order that no check has (k above n, where k never is).
std::optional<seeds::Task> Reshape(const seeds::Task& task, std::size_t like,
                                   const std::vector<seeds::Dim>& dims);

}  // namespace grove::eval
