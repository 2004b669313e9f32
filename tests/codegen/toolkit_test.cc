#include <cstdlib>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/compile_farm.h"
#include "tests/codegen/temporary_folder.h"

namespace grove::codegen {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Sets a variable for one test.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() {
    if (old_.empty()) {
      ::unsetenv(name_);
    } else {
      ::setenv(name_, old_.c_str(), 1);
    }
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::string old_;
};

void Touch(const fs::path& path) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << "x";
}

TEST(Toolkit, TheNewestLibraryOfAFolderIsTaken) {
  const TemporaryFolder root;
  for (const char* name : {"libnvrtc.so.9.2", "libnvrtc.so.12", "libnvrtc.so.12.4.127",
                           "libnvrtc.alt.so.13", "libnvrtc-builtins.so.13.0"}) {
    Touch(root.path() / "lib64" / name);
  }
  Touch(root.path() / "include" / "cuda_fp16.h");
  Touch(root.path() / "include" / "cccl" / "nv" / "target");
  const auto toolkit = FindToolkit(root.path());
  ASSERT_TRUE(toolkit) << toolkit.error().message;
  EXPECT_EQ(toolkit->nvrtc_library, root.path() / "lib64" / "libnvrtc.so.12.4.127");
  EXPECT_THAT(toolkit->include_folders,
              ElementsAre(root.path() / "include", root.path() / "include" / "cccl"));
}

TEST(Toolkit, CudaHomeComesFirst) {
  const TemporaryFolder root;
  Touch(root.path() / "lib" / "libnvrtc.so.12");
  const Variable home("CUDA_HOME", root.path().string());
  const auto toolkit = FindToolkit();
  ASSERT_TRUE(toolkit) << toolkit.error().message;
  EXPECT_EQ(toolkit->nvrtc_library, root.path() / "lib" / "libnvrtc.so.12");
}

TEST(Toolkit, AMissingOneIsOneLineThatNamesTheFolder) {
  const TemporaryFolder root;
  const auto toolkit = FindToolkit(root.path());
  ASSERT_FALSE(toolkit);
  EXPECT_EQ(toolkit.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(toolkit.error().message, HasSubstr(root.path().string()));
  EXPECT_EQ(toolkit.error().message.find('\n'), std::string::npos);
}

TEST(Toolkit, TheFolderOfAPythonWheelIsAToolkitToo) {
  const TemporaryFolder root;
  const fs::path wheel = root.path() / "site-packages" / "nvidia" / "cu13";
  Touch(wheel / "lib" / "libnvrtc.so.13");
  Touch(wheel / "include" / "cuda_fp16.h");
  const fs::path cccl = wheel.parent_path() / "cuda_cccl" / "include";
  Touch(cccl / "nv" / "target");
  const auto toolkit = FindToolkit(wheel);
  ASSERT_TRUE(toolkit) << toolkit.error().message;
  EXPECT_EQ(toolkit->nvrtc_library, wheel / "lib" / "libnvrtc.so.13");
  EXPECT_THAT(toolkit->include_folders, ElementsAre(wheel / "include", cccl));
}

// cooperative_groups.h includes nv/target, which some wheels of the headers come without.
TEST(Toolkit, HeadersThatAWheelLacksAreThoseOfTheEnvironmentsToolkit) {
  const TemporaryFolder root;
  const fs::path wheel = root.path() / "nvidia" / "cu13";
  Touch(wheel / "lib" / "libnvrtc.so.13");
  Touch(wheel / "include" / "cuda_fp16.h");
  const fs::path whole = root.path() / "cuda";
  Touch(whole / "include" / "cuda_fp16.h");
  Touch(whole / "include" / "cccl" / "nv" / "target");
  {
    const Variable home("CUDA_HOME", whole.string());
    const auto toolkit = FindToolkit(wheel);
    ASSERT_TRUE(toolkit) << toolkit.error().message;
    EXPECT_THAT(toolkit->include_folders,
                ElementsAre(wheel / "include", whole / "include" / "cccl"));
  }
  // Of older toolkits it stands among the others: behind the wheel's own.
  const fs::path old = root.path() / "old";
  Touch(old / "include" / "nv" / "target");
  const Variable home("CUDA_HOME", old.string());
  const auto toolkit = FindToolkit(wheel);
  ASSERT_TRUE(toolkit) << toolkit.error().message;
  EXPECT_THAT(toolkit->include_folders, ElementsAre(wheel / "include", old / "include"));
}

TEST(Toolkit, TheCacheFolderFollowsTheEnvironment) {
  const Variable home("HOME", "/h");
  {
    const Variable xdg("XDG_CACHE_HOME", "/x");
    EXPECT_EQ(DefaultCacheFolder(), "/x/grove");
    const Variable own("GROVE_CACHE", "/own");
    EXPECT_EQ(DefaultCacheFolder(), "/own");
  }
  const Variable none("XDG_CACHE_HOME", "");
  EXPECT_EQ(DefaultCacheFolder(), "/h/.cache/grove");
}

}  // namespace
}  // namespace grove::codegen
