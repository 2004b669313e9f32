// Expressions in other languages are worth what the plan's own evaluator says.
#include "codegen/expr_text.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace grove::codegen {
namespace {

namespace fs = std::filesystem;

std::optional<std::int64_t> Value(std::string_view name) {
  if (name == "n") return 4096;
  if (name == "m") return -7;
  if (name == "k") return 33;
  return std::nullopt;
}

// Random expressions of every operator, and the edges by hand.
std::vector<Expr> Expressions() {
  std::vector<std::string> texts = {"-9223372036854775808",
                                    "9223372036854775807",
                                    "0x7fffffffffffffff",
                                    "-0x8000000000000000",
                                    "010 + 007",
                                    "-5 % 3",
                                    "5 % -3",
                                    "-7 / 2",
                                    "7 / -2",
                                    "ceil_div(-7, 2)",
                                    "ceil_div(7, -2)",
                                    "ceil_div(n, 256)",
                                    "4294967296 * 1024 + n * n * n",
                                    "n > 3 ? k : 1 / 0",
                                    "0 && 1 / 0",
                                    "1 || 1 / 0",
                                    "!n + !0",
                                    "- - 3",
                                    "-(n < k)",
                                    "1 < 2 < 3 == 1",
                                    "2 - 3 - 4",
                                    "100 / 7 / 3 % 5",
                                    "min(n, k, m, 3)",
                                    "max(n < 3, k == 33, m)",
                                    "n ? k ? 1 : 2 : 3"};
  std::mt19937 random(7);
  const auto pick = [&](int count) {
    return static_cast<int>(random() % static_cast<unsigned>(count));
  };
  const std::function<std::string(int)> make = [&](int depth) -> std::string {
    if (depth == 0 || pick(6) == 0) {
      constexpr const char* kLeaves[] = {"n", "m",  "k",  "0",    "1",
                                         "2", "17", "-3", "0x1F", "100000"};
      return kLeaves[pick(10)];
    }
    constexpr const char* kBinary[] = {
        "+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", "&&", "||"};
    switch (pick(8)) {
      case 0:
        return fmt::format("({} ? {} : {})", make(depth - 1), make(depth - 1), make(depth - 1));
      case 1:
        return fmt::format("{}({}, {})", pick(2) == 0 ? "min" : "max", make(depth - 1),
                           make(depth - 1));
      case 2:
        return fmt::format("ceil_div({}, {})", make(depth - 1), make(depth - 1));
      case 3:
        return fmt::format("{}({})", pick(2) == 0 ? "-" : "!", make(depth - 1));
      case 4:
        return fmt::format("({})", make(depth - 1));
      default:
        return fmt::format("{} {} {}", make(depth - 1), kBinary[pick(13)], make(depth - 1));
    }
  };
  for (int i = 0; i < 2000; ++i) texts.push_back(make(4));
  std::vector<Expr> list;
  for (const std::string& text : texts) {
    auto e = Expr::Parse(text);
    EXPECT_TRUE(e) << text;
    // What overflows or divides by zero is no part of a plan that was resolved.
    if (e && e->Evaluate(Value)) list.push_back(*std::move(e));
  }
  EXPECT_GT(list.size(), 1000U);
  return list;
}

std::vector<std::string> Lines(const std::string& command) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(::popen(command.c_str(), "r"),
                                                             ::pclose);
  std::vector<std::string> lines;
  char buffer[4096];
  while (std::fgets(buffer, sizeof buffer, pipe.get()) != nullptr) {
    lines.emplace_back(buffer);
    while (!lines.back().empty() && lines.back().back() == '\n') lines.back().pop_back();
  }
  return lines;
}

void Compare(const std::vector<Expr>& list, const std::vector<std::string>& got) {
  ASSERT_EQ(got.size(), list.size()) << (got.empty() ? "" : got.back());
  for (std::size_t i = 0; i < list.size(); ++i) {
    EXPECT_EQ(got[i], std::to_string(*list[i].Evaluate(Value))) << list[i].text();
  }
}

class ExprText : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) / fmt::format("grove_expr_text_{}", ::getpid());
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  fs::path folder_;
};

TEST_F(ExprText, InCpp) {
  const std::vector<Expr> list = Expressions();
  std::ofstream file(folder_ / "e.cc");
  file << "#include <cstdio>\nnamespace grove_plan {\n"
          "inline long long min(long long a, long long b) { return a < b ? a : b; }\n"
          "inline long long max(long long a, long long b) { return a > b ? a : b; }\n"
          "template <class... M> long long min(long long a, long long b, M... m) { return "
          "min(min(a, b), m...); }\n"
          "template <class... M> long long max(long long a, long long b, M... m) { return "
          "max(max(a, b), m...); }\n"
          "inline long long ceil_div(long long a, long long b) {\n"
          "  return a / b + (a % b != 0 && (a < 0) == (b < 0) ? 1 : 0); }\n}\n"
          "static long long v_n = 4096, v_m = -7, v_k = 33;\nstatic const long long values[] = {\n";
  for (const Expr& e : list) {
    file << "  static_cast<long long>("
         << ExpressionText(e, HostLanguage::kCpp,
                           [](std::string_view name) { return fmt::format("v_{}", name); })
         << "),\n";
  }
  file << "};\nint main() { for (long long v : values) std::printf(\"%lld\\n\", v); }\n";
  file.close();
  const std::string path = folder_.string();
  Compare(list, Lines(fmt::format("g++ -std=c++17 -O0 -w {0}/e.cc -o {0}/e 2>&1 && {0}/e", path)));
}

TEST_F(ExprText, InPython) {
  const std::vector<Expr> list = Expressions();
  std::ofstream file(folder_ / "e.py");
  file << "def _div(a, b):\n    return -(-a // b) if (a < 0) != (b < 0) else a // b\n"
          "def _mod(a, b):\n    return a - b * _div(a, b)\ndef _ceil_div(a, b):\n    return -(-a "
          "// b)\n"
          "v_n, v_m, v_k = 4096, -7, 33\n";
  for (const Expr& e : list) {
    file << "print(" << ExpressionText(e, HostLanguage::kPython, [](std::string_view name) {
      return fmt::format("v_{}", name);
    }) << ")\n";
  }
  file.close();
  Compare(list, Lines(fmt::format("python3 {}/e.py 2>&1", folder_.string())));
}

}  // namespace
}  // namespace grove::codegen
