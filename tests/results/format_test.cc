#include "results/format.h"

#include <limits>
#include <random>

#include <gtest/gtest.h>

namespace grove::results {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(FormatTimeTest, FourDigitsInTheReadableUnit) {
  EXPECT_EQ(FormatTime(Nanoseconds(0)), "0.000 ns");
  EXPECT_EQ(FormatTime(Nanoseconds(812)), "812.0 ns");
  EXPECT_EQ(FormatTime(Microseconds(524.3)), "524.3 us");
  EXPECT_EQ(FormatTime(Microseconds(5.2431)), "5.243 us");
  EXPECT_EQ(FormatTime(Milliseconds(1.204)), "1.204 ms");
  EXPECT_EQ(FormatTime(Seconds(2.5)), "2.500 s");
  EXPECT_EQ(FormatTime(Seconds(1234.5)), "1234 s");
}

TEST(FormatTimeTest, RoundingMovesToTheNextUnitInsteadOfAFifthDigit) {
  EXPECT_EQ(FormatTime(Nanoseconds(999.9)), "999.9 ns");
  EXPECT_EQ(FormatTime(Nanoseconds(999.96)), "1.000 us");
  EXPECT_EQ(FormatTime(Nanoseconds(999960)), "1.000 ms");
}

TEST(FormatTimeTest, WhatIsNoTimeIsADash) {
  EXPECT_EQ(FormatTime(Nanoseconds(kNan)), "-");
  EXPECT_EQ(FormatTime(Nanoseconds(kInfinity)), "-");
  EXPECT_EQ(FormatTime(Nanoseconds(-1)), "-");
}

TEST(FormatTimeTest, TheLabelStandsBesideTheTime) {
  EXPECT_EQ(FormatTime(Microseconds(12), TimeKind::kModelled), "12.00 us modelled");
  EXPECT_EQ(FormatTime(Microseconds(12), TimeKind::kMeasured), "12.00 us measured");
}

TEST(FormatNumbersTest, RatiosSharesCountsAndBytes) {
  EXPECT_EQ(FormatRatio(3.214), "3.21x");
  EXPECT_EQ(FormatRatio(0.5), "0.50x");
  EXPECT_EQ(FormatRatio(1234.4), "1234x");
  EXPECT_EQ(FormatRatio(kNan), "-");
  EXPECT_EQ(FormatShare(0.83), "83.0%");
  EXPECT_EQ(FormatShare(kNan), "-");
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(1234567), "1,234,567");
  EXPECT_EQ(FormatCount(-1234), "-1,234");
  EXPECT_EQ(FormatCount(std::numeric_limits<std::int64_t>::min()), "-9,223,372,036,854,775,808");
  EXPECT_EQ(FormatBytes(Bytes(512)), "512 B");
  EXPECT_EQ(FormatBytes(Bytes(49152)), "48.0 KiB");
  EXPECT_EQ(FormatBytes(Bytes(1048575)), "1.0 MiB");
  EXPECT_EQ(FormatBytes(Bytes(std::numeric_limits<std::int64_t>::max())), "8.0 EiB");
  EXPECT_EQ(FormatNumber(1e-7), "1e-07");
  EXPECT_EQ(FormatNumber(kNan), "nan");
}

TEST(FormatNumbersTest, Durations) {
  EXPECT_EQ(FormatDuration(Seconds(0.42)), "0.4 s");
  EXPECT_EQ(FormatDuration(Seconds(59.96)), "1 min 00 s");
  EXPECT_EQ(FormatDuration(Seconds(185)), "3 min 05 s");
  EXPECT_EQ(FormatDuration(Seconds(7380)), "2 h 03 min");
  EXPECT_EQ(FormatDuration(Seconds(-1)), "-");
}

TEST(FormatNumbersTest, WallTimesAreUtc) {
  EXPECT_EQ(FormatWallTime(WallTime(std::chrono::seconds(0))), "1970-01-01 00:00:00 UTC");
  EXPECT_EQ(FormatWallTime(WallTime(std::chrono::seconds(1764439292))), "2025-11-29 18:01:32 UTC");
}

TEST(VisibleTest, ControlCharactersAreShownAndNotObeyed) {
  EXPECT_EQ(Visible("a\x1b[31mred\a\r\n\tb\x7f"), "a\\x1b[31mred\\x07\\r\\n\\tb\\x7f");
  EXPECT_EQ(Visible(std::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(Visible("\xc2\x9b"
                    "31m"),
            "\\u009b31m");  // the one-byte CSI of C1
}

TEST(VisibleTest, BidiAndInvisibleCharactersAreShown) {
  EXPECT_EQ(Visible("x\xe2\x80\xaey"), "x\\u202ey");       // right-to-left override
  EXPECT_EQ(Visible("x\xe2\x81\xa6y"), "x\\u2066y");       // isolate
  EXPECT_EQ(Visible("x\xe2\x80\x8by"), "x\\u200by");       // zero width space
  EXPECT_EQ(Visible("x\xef\xbb\xbfy"), "x\\ufeffy");       // byte order mark
  EXPECT_EQ(Visible("x\xf3\xa0\x81\x81y"), "x\\ue0041y");  // tag character
}

TEST(VisibleTest, OrdinaryTextOfAnyScriptIsLeftAlone) {
  const std::string text = "Grüße, 核函数, быстрее, ×2 ≤ π 🚀";
  EXPECT_EQ(Visible(text), text);
}

TEST(VisibleTest, BytesThatAreNoUtf8AreShown) {
  EXPECT_EQ(Visible("\xff"), "\\xff");
  EXPECT_EQ(Visible("\xc3"), "\\xc3");                             // cut
  EXPECT_EQ(Visible("\xc0\xaf"), "\\xc0\\xaf");                    // overlong
  EXPECT_EQ(Visible("\xed\xa0\x80"), "\\xed\\xa0\\x80");           // surrogate
  EXPECT_EQ(Visible("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // beyond the last
}

TEST(VisibleTest, ABlockKeepsItsLines) {
  EXPECT_EQ(VisibleBlock("a\r\n\tb\x1b\rc"), "a\n\tb\\x1b\\rc");
}

TEST(VisibleTest, RandomBytesBecomePrintable) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int i = 0; i < 2000; ++i) {
    std::string bytes(random() % 24, '\0');
    for (char& c : bytes) c = static_cast<char>(random() & 0xff);
    const std::string once = Visible(bytes);
    EXPECT_EQ(Visible(once), once);  // nothing left to escape
    const int width = static_cast<int>(random() % 20);
    const std::string cut = Fit(once, width);
    EXPECT_LE(DisplayWidth(cut), width);
    EXPECT_EQ(Visible(cut), cut);  // no character was split
    EXPECT_EQ(DisplayWidth(Pad(once, width)), width);
  }
}

TEST(FitTest, WidthsAreColumnsNotBytes) {
  EXPECT_EQ(DisplayWidth("abc"), 3);
  EXPECT_EQ(DisplayWidth("Grüße"), 5);
  EXPECT_EQ(DisplayWidth("核函数"), 6);
  EXPECT_EQ(DisplayWidth("e\xcc\x81"), 1);  // combining acute
  EXPECT_EQ(DisplayWidth("🚀"), 2);
}

TEST(FitTest, CutsAtCharactersWithAnEllipsis) {
  EXPECT_EQ(Fit("abcdef", 6), "abcdef");
  EXPECT_EQ(Fit("abcdef", 5), "abcd…");
  EXPECT_EQ(Fit("ab cdef", 4), "ab…");
  EXPECT_EQ(Fit("üüüü", 3), "üü…");
  EXPECT_EQ(Fit("核函数", 4), "核…");  // half a wide character does not fit
  EXPECT_EQ(Fit("abc", 1), "…");
  EXPECT_EQ(Fit("abc", 0), "");
  EXPECT_EQ(Fit("e\xcc\x81xyz", 2), "e\xcc\x81…");
}

TEST(FitTest, PadsToTheWidth) {
  EXPECT_EQ(Pad("ab", 4), "ab  ");
  EXPECT_EQ(Pad("核", 4), "核  ");
  EXPECT_EQ(Pad("abcdef", 4), "abc…");
}

}  // namespace
}  // namespace grove::results
