#include "base/expr.h"

#include <limits>
#include <map>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace grove {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::map<std::string, std::int64_t, std::less<>> kNames = {
    {"M", 4096},
    {"N", 1000},
    {"zero", 0},
    {"neg", -7},
    {"big", std::numeric_limits<std::int64_t>::max()},
    {"low", std::numeric_limits<std::int64_t>::min()}};

std::optional<std::int64_t> Find(std::string_view name) {
  const auto found = kNames.find(name);
  if (found == kNames.end()) return std::nullopt;
  return found->second;
}

std::int64_t Value(std::string_view text) {
  const Result<Expr> expression = Expr::Parse(text);
  EXPECT_TRUE(expression) << text << ": " << expression.error().message;
  if (!expression) return -999;
  const Result<std::int64_t> value = expression->Evaluate(Find);
  EXPECT_TRUE(value) << text << ": " << value.error().message;
  return value.value_or(-999);
}

// The message of the parse or evaluation error; empty when there is none.
std::string Complaint(std::string_view text) {
  const Result<Expr> expression = Expr::Parse(text);
  if (!expression) return expression.error().message;
  const Result<std::int64_t> value = expression->Evaluate(Find);
  return value ? "" : value.error().message;
}

TEST(ExprTest, PrecedenceIsThatOfC) {
  EXPECT_EQ(Value("1 + 2 * 3"), 7);
  EXPECT_EQ(Value("(1 + 2) * 3"), 9);
  EXPECT_EQ(Value("1 < 2 == 1"), 1);
  EXPECT_EQ(Value("0 || 1 && 0"), 0);
  EXPECT_EQ(Value("1 + 1 == 2 && 3 > 2"), 1);
  EXPECT_EQ(Value("-2 * 3"), -6);
  EXPECT_EQ(Value("!0 + 1"), 2);
  EXPECT_EQ(Value("- - 3"), 3);
  EXPECT_EQ(Value("-M / 4"), -1024);
}

TEST(ExprTest, OperatorsAreLeftAssociative) {
  EXPECT_EQ(Value("10 - 3 - 2"), 5);
  EXPECT_EQ(Value("100 / 10 / 2"), 5);
  EXPECT_EQ(Value("100 / 10 * 2"), 20);
  EXPECT_EQ(Value("3 > 2 > 1"), 0);
}

TEST(ExprTest, SelectNestsToTheRight) {
  EXPECT_EQ(Value("0 ? 1 : 0 ? 2 : 3"), 3);
  EXPECT_EQ(Value("1 ? 0 ? 1 : 2 : 3"), 2);
  EXPECT_EQ(Value("N > 512 ? 256 : 128"), 256);
}

TEST(ExprTest, DivisionTruncatesTowardsZeroAsInC) {
  EXPECT_EQ(Value("neg / 2"), -3);
  EXPECT_EQ(Value("neg % 2"), -1);
  EXPECT_EQ(Value("7 / -2"), -3);
  EXPECT_EQ(Value("7 % -2"), 1);
}

TEST(ExprTest, CeilDivRoundsUpForEverySign) {
  EXPECT_EQ(Value("ceil_div(1000, 256)"), 4);
  EXPECT_EQ(Value("ceil_div(1024, 256)"), 4);
  EXPECT_EQ(Value("ceil_div(-7, 2)"), -3);
  EXPECT_EQ(Value("ceil_div(7, -2)"), -3);
  EXPECT_EQ(Value("ceil_div(-7, -2)"), 4);
  EXPECT_EQ(Value("ceil_div(0, 5)"), 0);
}

TEST(ExprTest, MinAndMaxTakeTwoOrMore) {
  EXPECT_EQ(Value("min(3, 1, 2)"), 1);
  EXPECT_EQ(Value("max(3, M, 2)"), 4096);
  EXPECT_THAT(Complaint("min(3)"), HasSubstr("at least 2 arguments, found 1"));
  EXPECT_THAT(Complaint("ceil_div(1,2,3)"), HasSubstr("2 arguments, found 3"));
}

TEST(ExprTest, NumbersAreDecimalOrHex) {
  EXPECT_EQ(Value("0x1F"), 31);
  EXPECT_EQ(Value("0XfF"), 255);
  EXPECT_EQ(Value("0010"), 10);
  EXPECT_EQ(Value("9223372036854775807"), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(Value("-9223372036854775808"), std::numeric_limits<std::int64_t>::min());
}

TEST(ExprTest, NumbersOutOfRangeAreRefusedWithTheColumn) {
  EXPECT_EQ(Complaint("1 + 9223372036854775808"), "column 5: the number does not fit in 64 bits");
  EXPECT_THAT(Complaint("0x10000000000000000"), HasSubstr("does not fit"));
  EXPECT_THAT(Complaint("99999999999999999999999999999999999"), HasSubstr("does not fit"));
}

TEST(ExprTest, FractionsSuffixesAndExponentsAreRefused) {
  EXPECT_EQ(Complaint("1.5"),
            "column 2: expected an integer without suffix or fraction, found '.'");
  EXPECT_THAT(Complaint("5u"), HasSubstr("column 2"));
  EXPECT_THAT(Complaint("1e3"), HasSubstr("column 2"));
  EXPECT_THAT(Complaint("0x"), HasSubstr("a hex digit"));
}

TEST(ExprTest, OverflowIsAnErrorWithTheColumnOfTheOperator) {
  EXPECT_THAT(Complaint("big + 1"), StartsWith("column 5: 64-bit overflow"));
  EXPECT_THAT(Complaint("low - 1"), HasSubstr("overflow"));
  EXPECT_THAT(Complaint("big * 2"), HasSubstr("overflow"));
  EXPECT_THAT(Complaint("-low"), HasSubstr("overflow"));
  EXPECT_THAT(Complaint("low / -1"), HasSubstr("overflow"));
  EXPECT_THAT(Complaint("ceil_div(low, -1)"), HasSubstr("overflow"));
  EXPECT_EQ(Value("low % -1"), 0);
}

TEST(ExprTest, DivisionByZeroIsAnError) {
  EXPECT_EQ(Complaint("M / zero"), "column 3: division by zero");
  EXPECT_THAT(Complaint("M % 0"), HasSubstr("division by zero"));
  EXPECT_THAT(Complaint("ceil_div(M, N - 1000)"), HasSubstr("division by zero"));
}

TEST(ExprTest, OnlyTheNeededOperandIsEvaluated) {
  EXPECT_EQ(Value("zero && 1 / zero"), 0);
  EXPECT_EQ(Value("1 || unknown"), 1);
  EXPECT_EQ(Value("zero ? 1 / zero : 5"), 5);
}

TEST(ExprTest, UnknownNamesCarryNameAndColumn) {
  EXPECT_EQ(Complaint("M + K"), "column 5: unknown name 'K'");
  EXPECT_FALSE(Expr::Parse("a")->Evaluate(nullptr));
}

TEST(ExprTest, SyntaxErrorsSayWhatWasExpected) {
  EXPECT_EQ(Complaint(""), "column 1: expected a number, a name or '(', but the expression ends");
  EXPECT_EQ(Complaint("M +"),
            "column 4: expected a number, a name or '(', but the expression ends");
  EXPECT_EQ(Complaint("(M"), "column 3: expected ')', but the expression ends");
  EXPECT_EQ(Complaint("M N"), "column 3: expected an operator or the end, found 'N'");
  EXPECT_EQ(Complaint("M = 3"), "column 3: expected an operator or the end, found '='");
  EXPECT_EQ(Complaint("1 ? 2"), "column 6: expected ':' of '?:', but the expression ends");
  EXPECT_EQ(Complaint("min"), "column 4: expected '(' after 'min', but the expression ends");
  EXPECT_EQ(Complaint("\xff"), "column 1: expected a number, a name or '(', found byte 0xff");
  EXPECT_THAT(Complaint("M & 1"), HasSubstr("column 3"));
  EXPECT_THAT(Complaint(std::string_view("M\0", 2)), HasSubstr("byte 0x00"));
}

TEST(ExprTest, UnknownFunctionsAreRefusedWithTheNearest) {
  EXPECT_THAT(Complaint("1 + cdiv(M, 4)"), StartsWith("column 5: unknown function 'cdiv'"));
  EXPECT_THAT(Complaint("ceildiv(M, 4)"), HasSubstr("did you mean 'ceil_div'"));
}

TEST(ExprTest, DepthIsLimitedForEveryKindOfNesting) {
  const std::string deep(64, '(');
  EXPECT_THAT(Complaint(deep + "1"), HasSubstr("nested deeper than 64"));
  EXPECT_THAT(Complaint(std::string(4000, '-') + "M"), HasSubstr("nested deeper than 64"));
  std::string chain;
  for (int i = 0; i < 500; ++i) chain += "1?1:";
  EXPECT_THAT(Complaint(chain + "1"), HasSubstr("nested deeper than 64"));
  EXPECT_EQ(Value(std::string(60, '(') + "7" + std::string(60, ')')), 7);
}

TEST(ExprTest, LongFlatChainsAreFine) {
  std::string chain = "1";
  while (chain.size() < 4094) chain += "+1";
  EXPECT_EQ(Value(chain), static_cast<std::int64_t>(chain.size() / 2 + 1));
}

TEST(ExprTest, TextOver4096BytesIsRefused) {
  EXPECT_EQ(Value(std::string(4095, ' ') + "1"), 1);
  EXPECT_THAT(Complaint(std::string(4096, ' ') + "1"), HasSubstr("longer than 4096"));
}

TEST(ExprTest, NamesComeOnceInOrderOfAppearance) {
  EXPECT_THAT(Expr::Parse("N * M + min(N, k) + (0 ? z : N)")->Names(),
              ElementsAre("N", "M", "k", "z"));
  EXPECT_TRUE(Expr::Constant(4).Names().empty());
}

TEST(ExprTest, TheDefaultIsZeroAndConstantsPrintThemselves) {
  EXPECT_EQ(*Expr().Evaluate(nullptr), 0);
  EXPECT_EQ(Expr().text(), "0");
  const Expr least = Expr::Constant(std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(Value(least.text()), std::numeric_limits<std::int64_t>::min());
}

// --- random expressions against an independent evaluation in 128 bits ---------------------------

__extension__ typedef __int128 Wide;
constexpr Wide kLow = std::numeric_limits<std::int64_t>::min();
constexpr Wide kHigh = std::numeric_limits<std::int64_t>::max();

struct Sample {
  std::string text;
  int level;                  // precedence of the outermost operator
  std::optional<Wide> value;  // nullopt: an evaluation error
};

class Generator {
 public:
  explicit Generator(unsigned seed) : random_(seed) {}

  Sample Make(int depth) {
    switch (depth == 0 ? Pick(2) : Pick(9)) {
      case 0: {
        static const std::vector<std::int64_t> kInteresting = {
            0,
            1,
            2,
            3,
            7,
            255,
            4096,
            std::int64_t{1} << 31,
            std::int64_t{1} << 62,
            std::numeric_limits<std::int64_t>::max()};
        const std::int64_t value = kInteresting[Pick(static_cast<int>(kInteresting.size()))];
        return {std::to_string(value), 9, value};
      }
      case 1: {
        auto name = kNames.begin();
        std::advance(name, Pick(static_cast<int>(kNames.size())));
        return {name->first, 9, name->second};
      }
      case 2: {
        // A sign directly before a number would become part of the literal.
        const Sample a = Make(depth - 1);
        const bool minus = Pick(2) == 0;
        const std::string text = (minus ? "-" : "!") + Space() + Wrapped(a, 7);
        if (!a.value) return {text, 7, std::nullopt};
        return {text, 7, minus ? Fit(-*a.value) : std::optional<Wide>(*a.value == 0 ? 1 : 0)};
      }
      case 3: {
        const Sample a = Make(depth - 1), b = Make(depth - 1), c = Make(depth - 1);
        const std::string text =
            Wrapped(a, 1) + Space() + "?" + b.text + ":" + Space() + Wrapped(c, 0);
        if (!a.value) return {text, 0, std::nullopt};
        return {text, 0, *a.value != 0 ? b.value : c.value};
      }
      case 4: {
        const Sample a = Make(depth - 1), b = Make(depth - 1);
        static const std::vector<std::string> kCalls = {"min", "max", "ceil_div"};
        const int which = Pick(3);
        const std::string text =
            kCalls[which] + Space() + "(" + a.text + Space() + "," + b.text + ")";
        if (!a.value || !b.value) return {text, 9, std::nullopt};
        if (which == 0) return {text, 9, std::min(*a.value, *b.value)};
        if (which == 1) return {text, 9, std::max(*a.value, *b.value)};
        if (*b.value == 0) return {text, 9, std::nullopt};
        Wide quotient = *a.value / *b.value;
        if (quotient * *b.value != *a.value && (*a.value > 0) == (*b.value > 0)) ++quotient;
        return {text, 9, Fit(quotient)};
      }
      default:
        return Binary(Make(depth - 1), Make(depth - 1));
    }
  }

 private:
  int Pick(int n) { return std::uniform_int_distribution<int>(0, n - 1)(random_); }
  std::string Space() { return std::string(static_cast<std::size_t>(Pick(2)), ' '); }
  std::string Wrapped(const Sample& s, int least) {
    return s.level < least || Pick(5) == 0 ? "(" + s.text + ")" : s.text;
  }
  static std::optional<Wide> Fit(Wide value) {
    if (value < kLow || value > kHigh) return std::nullopt;
    return value;
  }

  Sample Binary(const Sample& a, const Sample& b) {
    struct Row {
      const char* text;
      int level;
    };
    static const std::vector<Row> kRows = {{"||", 1}, {"&&", 2}, {"==", 3}, {"!=", 3}, {"<", 4},
                                           {"<=", 4}, {">", 4},  {">=", 4}, {"+", 5},  {"-", 5},
                                           {"*", 6},  {"/", 6},  {"%", 6}};
    const int which = Pick(static_cast<int>(kRows.size()));
    const int level = kRows[which].level;
    const std::string text =
        Wrapped(a, level) + Space() + kRows[which].text + " " + Wrapped(b, level + 1);
    const auto done = [&](std::optional<Wide> v) { return Sample{text, level, v}; };
    if (!a.value) return done(std::nullopt);
    if (which == 0 && *a.value != 0) return done(1);
    if (which == 1 && *a.value == 0) return done(0);
    if (!b.value) return done(std::nullopt);
    const Wide x = *a.value, y = *b.value;
    switch (which) {
      case 0:
      case 1:
        return done(y != 0 ? 1 : 0);
      case 2:
        return done(x == y ? 1 : 0);
      case 3:
        return done(x != y ? 1 : 0);
      case 4:
        return done(x < y ? 1 : 0);
      case 5:
        return done(x <= y ? 1 : 0);
      case 6:
        return done(x > y ? 1 : 0);
      case 7:
        return done(x >= y ? 1 : 0);
      case 8:
        return done(Fit(x + y));
      case 9:
        return done(Fit(x - y));
      case 10:
        return done(Fit(x * y));
      case 11:
        return done(y == 0 ? std::nullopt : Fit(x / y));
      default:
        return done(y == 0 ? std::nullopt : Fit(x % y));
    }
  }

  std::mt19937 random_;
};

TEST(ExprRandomTest, AgreesWithA128BitReference) {
  int values = 0, errors = 0;
  for (unsigned seed = 1; seed <= 20000; ++seed) {
    const Sample sample = Generator(seed).Make(static_cast<int>(seed % 5));
    const Result<Expr> expression = Expr::Parse(sample.text);
    ASSERT_TRUE(expression) << "seed " << seed << ": " << sample.text << ": "
                            << expression.error().message;
    const Result<std::int64_t> value = expression->Evaluate(Find);
    ASSERT_EQ(value.has_value(), sample.value.has_value())
        << "seed " << seed << ": " << sample.text;
    if (value) {
      ASSERT_EQ(*value, static_cast<std::int64_t>(*sample.value))
          << "seed " << seed << ": " << sample.text;
    }
    ++(value ? values : errors);
  }
  EXPECT_GT(values, 5000);
  EXPECT_GT(errors, 500);
}

TEST(ExprRandomTest, RandomTextNeverMisbehaves) {
  static constexpr std::string_view kPieces[] = {
      "1", "N", "(", ")", "+", "-", "*",    "/",  "%",          "<",    "=",        "&",
      "|", "?", ":", "!", ",", " ", "min(", "0x", "9999999999", "\xc3", "ceil_div("};
  std::mt19937 random(7);
  int parsed = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    const unsigned length = random() % 12;
    for (unsigned k = 0; k < length; ++k) text += kPieces[random() % std::size(kPieces)];
    const Result<Expr> expression = Expr::Parse(text);
    if (!expression) {
      EXPECT_THAT(expression.error().message, StartsWith("column ")) << text;
      continue;
    }
    ++parsed;
    const Result<std::int64_t> value = expression->Evaluate(Find);
    if (!value) {
      EXPECT_THAT(value.error().message, StartsWith("column ")) << text;
    }
  }
  EXPECT_GT(parsed, 100);
}

}  // namespace
}  // namespace grove
