// Tasks that keep tensors in a file: what task.toml may say of them, and what LoadTask finds.
#include <unistd.h>

#include <filesystem>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "seeds/safetensors.h"
#include "seeds/task.h"
#include "tests/support/task_text.h"

namespace grove::seeds {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// y = x + w, and a case whose input and result are kept beside w.
std::string Stored() {
  return testing::TaskText({.stored = "full/w", .more = R"([[case]]
name = "golden"
role = "sweep"
dims = { n = 4 }
flops = 8
reduction = 1
inputs = { x = { kind = "file", key = "g/x" } }
golden = { y = "g/y" }
)"});
}

std::string With(std::string_view from, std::string_view to) {
  std::string text = Stored();
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

std::string Fault(const std::string& text) {
  const auto task = ParseTask(text, "t.toml");
  return task ? "none" : task.error().message;
}

class StoredTask : public ::testing::Test {
 protected:
  StoredTask() : tasks_(fs::path(::testing::TempDir()) / fmt::format("grove-stored-{}", getpid())) {
    fs::remove_all(tasks_);
    fs::create_directories(tasks_ / "stored");
    for (const char* file : {"reference.cu", "reference.json", "seed.cu", "seed.json"}) {
      EXPECT_TRUE(WriteFileAtomic(tasks_ / "stored" / file, "x"));
    }
    EXPECT_TRUE(WriteFileAtomic(tasks_ / "stored/task.toml", Stored()));
  }
  ~StoredTask() override { fs::remove_all(tasks_); }

  static Tensor Of(std::string name, DType dtype) {
    Tensor tensor;
    tensor.name = std::move(name);
    tensor.dtype = dtype;
    tensor.shape = {4};
    return tensor;
  }
  void Data(DType golden) {
    ASSERT_TRUE(WriteSafetensors(
        tasks_ / "stored/data.safetensors",
        {Of("full/w", DType::kF32), Of("g/x", DType::kF32), Of("g/y", golden)},
        {std::string(16, 'w'), std::string(16, 'x'), std::string(4 * SizeOf(golden), 'y')}));
  }
  fs::path tasks_;
};

TEST_F(StoredTask, EveryStoredTensorIsFound) {
  Data(DType::kF64);
  const auto task = LoadTask(tasks_, "stored");
  ASSERT_TRUE(task) << task.error().message;
  const Case& golden = task->cases[1];
  EXPECT_EQ(golden.tensor("x")->distribution.kind, Distribution::Kind::kFile);
  ASSERT_EQ(golden.golden.size(), 1U);
  std::string bytes(32, ' ');
  ASSERT_TRUE(ReadStored(golden.golden[0], 0, std::as_writable_bytes(std::span(bytes))));
  EXPECT_EQ(bytes, std::string(32, 'y'));
  EXPECT_EQ(task->cases[0].flops, 8);
  EXPECT_EQ(task->reduction[0], 4);
}

TEST_F(StoredTask, WithoutItsFileItIsRefused) {
  const auto task = LoadTask(tasks_, "stored");
  ASSERT_FALSE(task);
  EXPECT_THAT(task.error().message, HasSubstr("data.safetensors"));
}

TEST_F(StoredTask, GoldenOutputsOfAnotherTypeAreRefused) {
  Data(DType::kF32);
  const auto task = LoadTask(tasks_, "stored");
  ASSERT_FALSE(task);
  EXPECT_THAT(task.error().message, HasSubstr("'g/y' of 4 elements in f64"));
}

TEST(StoredTaskText, AFileNeedsAKey) {
  EXPECT_THAT(Fault(With(R"(, key = "full/w")", "")), HasSubstr("lacks the key 'key'"));
  EXPECT_THAT(Fault(With("full/w", "")), HasSubstr("'key' is empty"));
}

TEST(StoredTaskText, GoldenOutputsNeedInputsThatAreAlwaysTheSame) {
  EXPECT_THAT(Fault(With(R"(inputs = { x = { kind = "file", key = "g/x" } })", "")),
              HasSubstr("its input x must be a file or a constant"));
}

TEST(StoredTaskText, GoldenNamesAnOutput) {
  EXPECT_THAT(Fault(With("golden = { y =", "golden = { x =")), HasSubstr("output"));
}

TEST(StoredTaskText, ACostForEveryCaseNeedsNoCostOfTheTask) {
  EXPECT_EQ(Fault(Stored()), "none");
  EXPECT_THAT(Fault(With("flops = 8\nreduction = 1\n", "reduction = 1\n")), HasSubstr("'cost'"));
}

}  // namespace
}  // namespace grove::seeds
