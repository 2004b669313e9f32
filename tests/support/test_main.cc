// Every test executable's main: a suite in which nothing ran is a failure, not a pass.
#include <cstdio>

#include <gtest/gtest.h>

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const int rc = RUN_ALL_TESTS();
  const auto& unit = *::testing::UnitTest::GetInstance();
  const int ran = unit.successful_test_count() + unit.failed_test_count();
  if (::testing::GTEST_FLAG(list_tests)) return rc;
  if (ran == 0) {
    std::fprintf(stderr, "no test ran (%d skipped): counted as a failure\n",
                 unit.skipped_test_count());
    return 1;
  }
  return rc;
}
