#include "base/hash.h"

#include <gtest/gtest.h>

namespace grove {
namespace {

TEST(HashTest, EqualTextsHaveEqualAddresses) {
  EXPECT_EQ(HashText("kernel"), HashText("kernel"));
  EXPECT_NE(HashText("kernel"), HashText("kernel "));
  EXPECT_EQ(HashText("kernel").Hex().size(), 32U);
}

TEST(HashTest, BoundariesOfListsCount) {
  const std::string_view a[] = {"ab", "c"};
  const std::string_view b[] = {"a", "bc"};
  EXPECT_NE(HashTexts(a), HashTexts(b));
}

}  // namespace
}  // namespace grove
