// `grove gallery`, and the commands around packages, as a user meets them without a GPU.
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "tests/support/program.h"

namespace grove {
namespace {

using ::testing::HasSubstr;
using testing::ProgramOptions;
using testing::ProgramResult;

class GalleryTest : public ::testing::Test {
 protected:
  ProgramResult Grove(std::vector<std::string> arguments) {
    ProgramOptions options;
    options.folder = folder_.path();
    options.environment = {"GROVE_CACHE=" + ::testing::TempDir() + "grove-test-cache"};
    options.deadline = std::chrono::seconds(600);
    arguments.insert(arguments.begin(),
                     {"--tasks", std::string(GROVE_SOURCE_DIR) + "/tests/data/tasks"});
    return testing::RunProgram("grove", std::move(arguments), options);
  }
  void Search() {
    const ProgramResult run =
        Grove({"run", "softmax_small", "--name", "one", "--rounds", "1", "--ideas", "1",
               "--branches", "1", "--device", "emulator", "--quiet"});
    ASSERT_EQ(run.exit_code, 0) << run.err;
  }

  testing::ScratchFolder folder_;
};

TEST_F(GalleryTest, AKernelIsAddedListedAndVerifiedUntilItIsAnother) {
  Search();
  const ProgramResult added = Grove({"gallery", "--folder", "g", "add", "one/best"});
  ASSERT_EQ(added.exit_code, 0) << added.err;
  const ProgramResult listed = Grove({"gallery", "--folder", "g"});
  EXPECT_THAT(listed.out, HasSubstr("softmax_small"));
  const ProgramResult same = Grove({"gallery", "--folder", "g", "verify", "--device", "emulator"});
  EXPECT_EQ(same.exit_code, 0) << same.out << same.err;
  EXPECT_THAT(same.out, HasSubstr("1 of 1 kernels are as they were"));

  const auto file = folder_.path() / "g" / "softmax_small" / "program.cu";
  std::string source = *ReadFile(file);
  const auto brace = source.rfind('}');
  source.insert(brace, " if (threadIdx.x == 0) y[0] = 7; ");
  std::ofstream(file) << source;
  const ProgramResult other = Grove({"gallery", "--folder", "g", "verify", "--device", "emulator"});
  EXPECT_EQ(other.exit_code, 1) << other.out << other.err;
  EXPECT_THAT(other.out, HasSubstr("0 of 1"));
}

TEST_F(GalleryTest, WhatIsNotThereIsOneMessage) {
  const ProgramResult none = Grove({"gallery", "--folder", "nowhere"});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.err, HasSubstr("no gallery at nowhere"));
  std::filesystem::create_directories(folder_.path() / "g" / "a");
  EXPECT_EQ(Grove({"gallery", "--folder", "g", "verify", "b"}).exit_code, 2);
  EXPECT_EQ(Grove({"gallery", "--folder", "g", "verify"}).exit_code, 2);
  EXPECT_EQ(Grove({"gallery", "--folder", "g", "add", "one/best"}).exit_code, 2);
}

TEST_F(GalleryTest, ASearchUntilEvaluatePacksItsSeedAndSaysWhatComesNext) {
  const ProgramResult run = Grove({"run", "softmax_small", "--until", "evaluate", "--name", "one"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("grove eval-package 0001.package"));
  EXPECT_THAT(run.out, HasSubstr("grove absorb 0001.result --run one"));
  const std::string package = "runs/one/packages/0001.package";
  EXPECT_TRUE(std::filesystem::exists(folder_.path() / package));
  // No result, but a package: nothing is taken in.
  const ProgramResult wrong = Grove({"absorb", package});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("no result of grove"));
  const ProgramResult here = Grove({"eval-package", package, "--device", "emulator"});
  EXPECT_NE(here.exit_code, 0);
  const ProgramResult device =
      Grove({"run", "softmax_small", "--until", "evaluate", "--device", "cuda"});
  EXPECT_EQ(device.exit_code, 2);
  EXPECT_EQ(Grove({"run", "softmax_small", "--until", "lunch"}).exit_code, 2);
}

}  // namespace
}  // namespace grove
