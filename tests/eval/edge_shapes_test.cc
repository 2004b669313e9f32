#include "eval/edge_shapes.h"

#include <gtest/gtest.h>

namespace grove::eval {
namespace {

std::vector<std::string> Free(const std::string& name) {
  const auto whole = seeds::LoadTask(seeds::DefaultTasksFolder(), name);
  EXPECT_TRUE(whole) << whole.error().message;
  if (!whole) return {};
  std::vector<std::string> names;
  for (const FreeDim& dim : FreeDims(seeds::SelectCases(*whole, "", {}).value())) {
    names.push_back(dim.name);
  }
  return names;
}

// A task of one input x and one output y with the dims A and B as they are in each check.
seeds::Task TaskOf(const std::vector<std::pair<std::int64_t, std::int64_t>>& dims,
                   std::int64_t (*extent)(std::int64_t a, std::int64_t b)) {
  seeds::Task task;
  task.name = "t";
  for (const auto& [a, b] : dims) {
    seeds::Case c;
    c.name = "c" + std::to_string(task.cases.size());
    c.role = seeds::CaseRole::kSweep;
    c.dims = {{"A", a}, {"B", b}};
    c.tensors = {{"x", seeds::TensorRole::kInput, DType::kF32, {a, b}, {}},
                 {"y", seeds::TensorRole::kOutput, DType::kF32, {extent(a, b)}, {}}};
    c.row_elements = a;
    c.flops = static_cast<double>(a * b);
    task.cases.push_back(std::move(c));
    task.reduction.push_back(b);
    task.reference_elements_per_block.push_back(a);
  }
  return task;
}

const std::vector<std::pair<std::int64_t, std::int64_t>> kDims = {
    {4, 6}, {5, 128}, {33, 7}, {64, 65}, {9, 9}};

TEST(FreeDims, TheTasksThatComeWithTheProgram) {
  EXPECT_EQ(Free("softmax"), (std::vector<std::string>{"M", "N"}));
  EXPECT_EQ(Free("matmul"), (std::vector<std::string>{"M", "N", "K"}));
  EXPECT_EQ(Free("qr"), (std::vector<std::string>{"batch", "n"}));
  // Class numbers are drawn below a size that the file writes out.
  EXPECT_TRUE(Free("cross_entropy").empty());
}

TEST(FreeDims, ADimThatAlwaysIsAMultipleIsNotFree) {
  auto task = TaskOf({{4, 7}, {16, 9}, {64, 11}, {8, 5}}, [](auto a, auto) { return a; });
  const auto dims = FreeDims(task);
  ASSERT_EQ(dims.size(), 1U);
  EXPECT_EQ(dims[0].name, "B");
  EXPECT_EQ(dims[0].least, 5);
  EXPECT_EQ(dims[0].most, 11);
}

TEST(FreeDims, DimsOfWhichOneAlwaysDividesTheOtherAreNotFree) {
  EXPECT_TRUE(
      FreeDims(TaskOf({{6, 3}, {10, 5}, {14, 7}, {9, 9}}, [](auto a, auto) { return a; })).empty());
}

TEST(FreeDims, AnIntegerInputMayBeBoundToADim) {
  auto task = TaskOf(kDims, [](auto a, auto) { return a; });
  EXPECT_EQ(FreeDims(task).size(), 2U);
  task.cases[0].tensors[0].dtype = DType::kI32;
  EXPECT_TRUE(FreeDims(task).empty());
}

TEST(Reshape, EveryExtentFollowsItsDims) {
  const auto task = TaskOf(kDims, [](auto a, auto b) { return 3 * a * b; });
  const auto made = Reshape(task, 0, {{"B", 65}});
  ASSERT_TRUE(made);
  const seeds::Case& c = made->cases.front();
  EXPECT_EQ(c.name, "tile_edge_B65");
  EXPECT_EQ(c.role, seeds::CaseRole::kEdge);
  EXPECT_EQ(c.tensors[0].shape, (std::vector<std::int64_t>{4, 65}));
  EXPECT_EQ(c.tensors[1].shape, (std::vector<std::int64_t>{3 * 4 * 65}));
  EXPECT_EQ(c.row_elements, 4);
  EXPECT_EQ(made->reduction, std::vector<std::int64_t>{65});
  EXPECT_DOUBLE_EQ(c.flops, 4 * 65);
  EXPECT_NE(made->name, task.name);
}

TEST(Reshape, WhatIsNoProductOfDimsIsLeftAlone) {
  const auto task = TaskOf(kDims, [](auto a, auto b) { return (a + 2 * b) / 3 + 1; });
  EXPECT_FALSE(Reshape(task, 0, {{"B", 65}}));
}

TEST(Reshape, AnOrderThatNoCheckHasIsLeftAlone) {
  // B never is above A.
  const auto task = TaskOf({{6, 5}, {11, 7}, {13, 3}, {64, 9}}, [](auto a, auto) { return a; });
  EXPECT_TRUE(Reshape(task, 0, {{"B", 6}}));
  EXPECT_FALSE(Reshape(task, 0, {{"B", 7}}));
}

}  // namespace
}  // namespace grove::eval
