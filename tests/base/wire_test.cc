#include "base/wire.h"

#include <limits>

#include <gtest/gtest.h>

namespace grove {
namespace {

TEST(Wire, EveryKindComesBackAsWritten) {
  WireWriter out;
  out.U32(0xdeadbeef);
  out.U64(std::numeric_limits<std::uint64_t>::max());
  out.I64(-7);
  out.F64(-0.1);
  out.Text(std::string_view("a\0b\xff", 4));
  const std::string bytes = std::move(out).Take();
  WireReader in(bytes);
  EXPECT_EQ(in.U32(), 0xdeadbeefu);
  EXPECT_EQ(in.U64(), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(in.I64(), -7);
  EXPECT_EQ(in.F64(), -0.1);
  EXPECT_EQ(in.Text(), std::string("a\0b\xff", 4));
  EXPECT_TRUE(in.AtEnd());
}

TEST(Wire, NumbersAreLittleEndian) {
  WireWriter out;
  out.U32(0x01020304);
  EXPECT_EQ(std::move(out).Take(), std::string("\4\3\2\1"));
}

TEST(Wire, EveryCutIsNoticedAndStaysNoticed) {
  WireWriter out;
  out.U32(1);
  out.Text("hello");
  const std::string bytes = std::move(out).Take();
  for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
    WireReader in(std::string_view(bytes).substr(0, cut));
    in.U32();
    const std::string text = in.Text();
    EXPECT_FALSE(in.ok()) << cut;
    EXPECT_EQ(text, "") << cut;
    EXPECT_EQ(in.U64(), 0u) << cut;
    EXPECT_FALSE(in.AtEnd()) << cut;
  }
}

TEST(Wire, ATextLongerThanTheBytesIsRefused) {
  WireWriter out;
  out.U64(std::numeric_limits<std::uint64_t>::max());
  const std::string bytes = std::move(out).Take() + "abc";
  WireReader in(bytes);
  EXPECT_EQ(in.Text(), "");
  EXPECT_FALSE(in.ok());
}

TEST(Wire, ACountThatCannotFitIsRefusedBeforeMemoryIsTaken) {
  WireWriter out;
  out.U64(4);
  const std::string bytes = std::move(out).Take() + std::string(15, 'x');
  WireReader three_fit(bytes);
  EXPECT_EQ(three_fit.Count(4), 0u);
  EXPECT_FALSE(three_fit.ok());
  WireReader all_fit(bytes);
  EXPECT_EQ(all_fit.Count(3), 4u);
  EXPECT_TRUE(all_fit.ok());
}

TEST(Wire, BytesLeftOverAreNotTheEnd) {
  const std::string bytes(5, '\0');
  WireReader in(bytes);
  in.U32();
  EXPECT_TRUE(in.ok());
  EXPECT_FALSE(in.AtEnd());
}

}  // namespace
}  // namespace grove
