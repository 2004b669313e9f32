// The safetensors reader: what it reads, and that a hostile file is refused with its fault.
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "seeds/safetensors.h"

namespace grove::seeds {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string File(const std::string& header, const std::string& data) {
  std::string text;
  for (int i = 0; i < 8; ++i) text += static_cast<char>(header.size() >> (8 * i) & 0xff);
  return text + header + data;
}

std::string Fault(const std::string& header, std::int64_t data) {
  const auto parsed = ParseSafetensorsHeader(header, static_cast<std::int64_t>(header.size()) + 8,
                                             static_cast<std::int64_t>(header.size()) + 8 + data);
  if (parsed) return "none";
  EXPECT_EQ(parsed.error().code, ErrorCode::kInvalidInput);
  return parsed.error().message;
}

class SafetensorsFile : public ::testing::Test {
 protected:
  SafetensorsFile()
      : path_(fs::path(::testing::TempDir()) / fmt::format("grove-{}.safetensors", getpid())) {}
  ~SafetensorsFile() override { fs::remove(path_); }
  void Write(const std::string& text) { ASSERT_TRUE(WriteFileAtomic(path_, text)); }
  fs::path path_;
};

TEST_F(SafetensorsFile, TensorsHaveTheirPlaceTypeAndShape) {
  const std::string header =
      R"({"b":{"dtype":"I64","shape":[],"data_offsets":[8,16]},"a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},"__metadata__":{"k":"v"}})";
  Write(File(header, "0123456789abcdef"));
  const auto read = ReadSafetensorsHeader(path_);
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_EQ(read->tensors.size(), 2U);
  const StoredTensor* a = read->Find("a");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(a->dtype, DType::kF32);
  EXPECT_THAT(a->shape, ElementsAre(2, 1));
  EXPECT_EQ(read->Find("c"), nullptr);

  std::string bytes(8, ' ');
  const Stored stored{"b", path_.string(), read->Find("b")->offset};
  ASSERT_TRUE(ReadStored(stored, 0, std::as_writable_bytes(std::span(bytes))));
  EXPECT_EQ(bytes, "89abcdef");
  std::string part(2, ' ');
  ASSERT_TRUE(ReadStored(stored, 4, std::as_writable_bytes(std::span(part))));
  EXPECT_EQ(part, "cd");
}

TEST_F(SafetensorsFile, WhatIsWrittenIsRead) {
  Tensor x;
  x.name = "x";
  x.dtype = DType::kF16;
  x.shape = {2, 3};
  ASSERT_TRUE(WriteSafetensors(path_, {x}, {"abcdefghijkl"}));
  const auto read = ReadSafetensorsHeader(path_);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->Find("x")->bytes, 12);
  EXPECT_EQ(read->Find("x")->offset % 8, 0);
}

TEST_F(SafetensorsFile, AFileThatIsCutShortSaysSoWhenItIsRead) {
  Write(File(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", "abcd"));
  const auto read = ReadSafetensorsHeader(path_);
  ASSERT_TRUE(read) << read.error().message;
  const Stored stored{"a", path_.string(), read->Find("a")->offset};
  fs::resize_file(path_, fs::file_size(path_) - 1);
  std::string bytes(4, ' ');
  const auto done = ReadStored(stored, 0, std::as_writable_bytes(std::span(bytes)));
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::kResource);
  EXPECT_THAT(done.error().message, HasSubstr("ends too early"));
}

TEST_F(SafetensorsFile, AHeaderLongerThanTheFileIsRefusedBeforeItIsRead) {
  Write(std::string("\xff\xff\xff\xff\xff\xff\xff\x7f", 8) + "{}");
  const auto read = ReadSafetensorsHeader(path_);
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().message, HasSubstr("a header of 9223372036854775807 bytes"));
  EXPECT_THAT(read.error().message, HasSubstr(path_.string()));
}

TEST_F(SafetensorsFile, NoFileIsNotFound) {
  const auto read = ReadSafetensorsHeader(path_);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::kNotFound);
}

TEST(SafetensorsHeader, OffsetsMustLieInTheData) {
  EXPECT_THAT(Fault(R"({"a":{"dtype":"U8","shape":[9],"data_offsets":[0,9]}})", 8),
              HasSubstr("data_offsets do not lie"));
  EXPECT_THAT(Fault(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[-1,0]}})", 8),
              HasSubstr("data_offsets do not lie"));
  EXPECT_THAT(Fault(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[5,4]}})", 8),
              HasSubstr("data_offsets do not lie"));
}

TEST(SafetensorsHeader, SizeAndShapeMustAgree) {
  EXPECT_THAT(Fault(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8),
              HasSubstr("cannot have 8 bytes"));
  EXPECT_THAT(
      Fault(R"({"a":{"dtype":"F32","shape":[9223372036854775807,4],"data_offsets":[0,8]}})", 8),
      HasSubstr("too large"));
  EXPECT_THAT(
      Fault(R"({"a":{"dtype":"F64","shape":[4611686018427387904],"data_offsets":[0,8]}})", 8),
      HasSubstr("cannot have"));
  EXPECT_THAT(Fault(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,8]}})", 8),
              HasSubstr("shape"));
}

TEST(SafetensorsHeader, OverlapsAndDoublesAreRefused) {
  EXPECT_THAT(Fault(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                    R"("b":{"dtype":"U8","shape":[4],"data_offsets":[3,7]}})",
                    8),
              HasSubstr("overlap"));
  EXPECT_THAT(Fault(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                    R"("a":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})",
                    8),
              HasSubstr("two tensors have the name"));
}

TEST(SafetensorsHeader, WhatIsNoHeaderIsRefused) {
  EXPECT_THAT(Fault("[]", 8), HasSubstr("not an object"));
  EXPECT_THAT(Fault("{", 8), HasSubstr("not JSON"));
  EXPECT_THAT(Fault(R"({"a":1})", 8), HasSubstr("lacks dtype"));
  EXPECT_THAT(Fault(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0]}})", 8),
              HasSubstr("not two numbers"));
  EXPECT_THAT(Fault(R"({"a":{"dtype":"U8","shape":["x"],"data_offsets":[0,1]}})", 8),
              HasSubstr("shape"));
}

TEST(SafetensorsHeader, TypesThatTasksDoNotHaveAreLeftOut) {
  EXPECT_EQ(Fault(R"({"a":{"dtype":"F8_E4M3","shape":[3],"data_offsets":[0,3]}})", 3), "none");
}

}  // namespace
}  // namespace grove::seeds
