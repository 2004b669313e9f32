#include "base/suggest.h"

#include <vector>

#include <gtest/gtest.h>

namespace grove {
namespace {

const std::vector<std::string> kTasks = {"layernorm", "matmul", "softmax"};

TEST(SuggestTest, FindsTheNearestName) {
  EXPECT_EQ(Nearest("sofmax", kTasks), "softmax");
  EXPECT_EQ(Nearest("mat_mul", kTasks), "matmul");
}

TEST(SuggestTest, SuggestsNothingWhenNothingIsNear) { EXPECT_EQ(Nearest("qr", kTasks), ""); }

TEST(SuggestTest, TheMessageNamesTheValidOnes) {
  EXPECT_EQ(UnknownName("task", "sofmax", kTasks),
            "unknown task 'sofmax'; did you mean 'softmax'? (valid: layernorm, matmul, softmax)");
}

TEST(SuggestTest, DistanceCountsInsertionsDeletionsAndSubstitutions) {
  EXPECT_EQ(EditDistance("", "abc"), 3U);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3U);
  EXPECT_EQ(EditDistance("same", "same"), 0U);
}

}  // namespace
}  // namespace grove
