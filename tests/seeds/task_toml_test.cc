// The task.toml reader: what it accepts, and where it says a broken file is broken.
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "seeds/live.h"
#include "seeds/task.h"

namespace grove::seeds {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Line numbers below count in this text.
constexpr std::string_view kGood = R"(name = "scale"
title = "Scale a matrix"
family = "elementwise"
contract = "y = factor * x"
dims = ["M", "N"]
[scalars]
factor = 2.5
count = { dtype = "i32", value = 7 }
[dtypes]
T = "f32"
[[tensor]]
name = "x"
role = "input"
dtype = "T"
shape = ["M", "2 * N"]
input = { kind = "uniform", low = -1, high = 1 }
[[tensor]]
name = "y"
role = "output"
dtype = "T"
shape = ["M", "2 * N"]
[cost]
flops = "2 * M * N"
reduction = 1
[[case]]
name = "small"
role = "smoke"
dims = { M = 3, N = 5 }
[[case]]
name = "big"
role = "scored"
dims = { M = 64, N = 32 }
dtypes = { T = "f16" }
inputs = { x = { kind = "normal", mean = 4 } }
tolerance = 0.01
)";

std::string With(std::string_view from, std::string_view to) {
  std::string text(kGood);
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  if (at != std::string::npos) text.replace(at, from.size(), to);
  return text;
}

std::string ErrorOf(std::string_view text) {
  const auto task = ParseTask(text, "t.toml");
  if (task) return "no error";
  EXPECT_EQ(task.error().code, ErrorCode::kInvalidInput);
  return task.error().message;
}
std::string ErrorWith(std::string_view from, std::string_view to) {
  return ErrorOf(With(from, to));
}

Task Good() {
  auto task = ParseTask(kGood, "t.toml");
  EXPECT_TRUE(task) << (task ? "" : task.error().message);
  return task ? *task : Task{};
}

TEST(TaskToml, ResolvesShapesPerCase) {
  const Task task = Good();
  ASSERT_EQ(task.cases.size(), 2U);
  EXPECT_THAT(task.cases[0].tensor("x")->shape, ElementsAre(3, 10));
  EXPECT_THAT(task.cases[1].tensor("y")->shape, ElementsAre(64, 64));
  EXPECT_EQ(task.cases[1].flops, 2 * 64 * 32);
}

TEST(TaskToml, ALiveReferenceIsOfEveryCase) {
  const auto task = ParseTask(With("dims = [", "reference = \"live\"\ndims = ["), "t.toml");
  ASSERT_TRUE(task) << task.error().message;
  for (const Case& c : task->cases) {
    EXPECT_TRUE(IsLive(c));
    ASSERT_EQ(c.golden.size(), 1U);
    EXPECT_EQ(c.golden[0].key, "y");
  }
  const auto kernels = ParseTask(With("dims = [", "reference = \"kernels\"\ndims = ["), "t.toml");
  ASSERT_TRUE(kernels) << kernels.error().message;
  EXPECT_TRUE(kernels->cases[0].golden.empty());
  EXPECT_FALSE(IsLive(kernels->cases[0]));
  EXPECT_THAT(ErrorWith("dims = [", "reference = \"alive\"\ndims = ["),
              HasSubstr("t.toml:5:13: unknown reference 'alive'"));
  EXPECT_THAT(ErrorWith("dims = [", "checker = \"householder_qr\"\nreference = \"live\"\ndims = ["),
              HasSubstr("a task with a 'checker' has no 'reference'"));
}

TEST(TaskToml, ACaseSetsADTypeSymbol) {
  const Task task = Good();
  EXPECT_EQ(task.cases[0].tensor("x")->dtype, DType::kF32);
  EXPECT_EQ(task.cases[1].tensor("x")->dtype, DType::kF16);
  EXPECT_EQ(task.cases[1].min_bytes, Bytes(2 * 64 * 64 * 2));
}

TEST(TaskToml, ACaseSetsADistribution) {
  const Task task = Good();
  EXPECT_EQ(task.cases[0].tensor("x")->distribution.kind, Distribution::Kind::kUniform);
  EXPECT_EQ(task.cases[0].tensor("x")->distribution.a, -1);
  EXPECT_EQ(task.cases[1].tensor("x")->distribution.kind, Distribution::Kind::kNormal);
  EXPECT_EQ(task.cases[1].tensor("x")->distribution.a, 4);
  EXPECT_EQ(task.cases[1].tensor("x")->distribution.b, 1);
}

TEST(TaskToml, AListOfDTypesMakesACaseForEach) {
  const auto task =
      ParseTask(With("dtypes = { T = \"f16\" }", "dtypes = { T = [\"f16\", \"bf16\"] }"), "t.toml");
  ASSERT_TRUE(task) << task.error().message;
  ASSERT_EQ(task->cases.size(), 3U);
  EXPECT_EQ(task->cases[1].name, "big_f16");
  EXPECT_EQ(task->cases[1].tensor("x")->dtype, DType::kF16);
  EXPECT_EQ(task->cases[2].name, "big_bf16");
  EXPECT_EQ(task->cases[2].tensor("y")->dtype, DType::kBF16);
  EXPECT_EQ(task->cases[2].role, CaseRole::kScored);
  EXPECT_EQ(task->cases[2].tolerance, 0.01);
}

TEST(TaskToml, AListOfDTypesIsCheckedLikeAnyOther) {
  const std::string from = "dtypes = { T = \"f16\" }";
  EXPECT_THAT(ErrorWith(from, "dtypes = { T = [\"f17\"] }"), HasSubstr("unknown dtype 'f17'"));
  EXPECT_THAT(ErrorWith(from, "dtypes = { T = [] }"), HasSubstr("lists no dtype"));
  EXPECT_THAT(ErrorWith(from, "dtypes = { T = [\"f16\", \"f16\"] }"),
              HasSubstr("the case name 'big_f16' is taken"));
  EXPECT_THAT(ErrorWith(from, "dtypes = { T = [\"f16\"], U = [\"f16\"] }"),
              HasSubstr("only one dtype symbol"));
}

TEST(TaskToml, TheClassOfACaseIsThatOfItsOutputWhereTheTaskSaysNothing) {
  const Task task = Good();
  EXPECT_EQ(task.cases[0].demanded, PrecisionClass::kFp32);
  EXPECT_EQ(task.cases[1].demanded, PrecisionClass::kFp16);
}

TEST(TaskToml, TheClassOfACaseIsTheTasksUnlessItsOutputIsLessPrecise) {
  const auto task = ParseTask(With("dims =", "demanded = \"tf32\"\ndims ="), "t.toml");
  ASSERT_TRUE(task);
  EXPECT_EQ(task->cases[0].demanded, PrecisionClass::kTf32);
  EXPECT_EQ(task->cases[1].demanded, PrecisionClass::kFp16);
}

std::string WithSuites(std::string_view of_the_task, std::string_view of_small,
                       std::string_view of_big) {
  std::string text = With("dims = [", std::string(of_the_task) + "\ndims = [");
  const auto add = [&](std::string_view before, std::string_view line) {
    text.insert(text.find(before) + before.size(), std::string(line) + "\n");
  };
  add("role = \"smoke\"\n", of_small);
  add("role = \"scored\"\n", of_big);
  return text;
}

TEST(TaskToml, ACaseBelongsToAllSuitesUnlessItSaysWhich) {
  const auto task =
      ParseTask(WithSuites("suites = [\"a\", \"b\"]", "suites = [\"b\"]", ""), "t.toml");
  ASSERT_TRUE(task) << task.error().message;
  EXPECT_THAT(task->cases[0].suites, ElementsAre("b"));
  EXPECT_THAT(task->cases[1].suites, ElementsAre("a", "b"));
}

TEST(TaskToml, ACaseCannotBeOfASuiteThatTheTaskLacks) {
  EXPECT_THAT(ErrorOf(WithSuites("suites = [\"aa\", \"b\"]", "suites = [\"ab\"]", "")),
              HasSubstr("unknown suite 'ab'"));
}

TEST(TaskToml, EverySuiteNeedsAScoredCase) {
  EXPECT_THAT(ErrorOf(WithSuites("suites = [\"a\", \"b\"]", "", "suites = [\"b\"]")),
              HasSubstr("no case of suite 'a' has the role 'scored'"));
}

TEST(TaskToml, DefaultsAreThoseDocumented) {
  const Task task = Good();
  EXPECT_EQ(task.demanded, PrecisionClass::kFp16) << "the class of the scored outputs";
  EXPECT_FALSE(task.allow_nondeterminism);
  EXPECT_EQ(task.reference_elements_per_block[0], 0);
  EXPECT_EQ(task.cases[0].row_elements, 0);
  EXPECT_EQ(task.cases[0].tolerance, std::nullopt);
  EXPECT_EQ(task.cases[1].tolerance, 0.01);
}

TEST(TaskToml, DimsKeepTheOrderOfTheFile) {
  const auto task = ParseTask(With("dims = [\"M\", \"N\"]", "dims = [\"N\", \"M\"]"), "t.toml");
  ASSERT_TRUE(task);
  EXPECT_EQ(task->cases[0].dims[0].name, "N");
  EXPECT_EQ(task->cases[0].dims[1].name, "M");
}

TEST(TaskToml, ScalarsKeepTheirTypes) {
  const Task task = Good();
  ASSERT_EQ(task.cases[0].scalars.size(), 2U);
  EXPECT_EQ(task.cases[0].scalars[0].name, "count");
  EXPECT_EQ(task.cases[0].scalars[0].dtype, DType::kI32);
  EXPECT_EQ(task.cases[0].scalars[0].value, 7);
  EXPECT_EQ(task.cases[0].scalars[1].dtype, DType::kF32);
}

TEST(TaskToml, DistributionsOfEveryKindAreRead) {
  const std::string from = R"({ kind = "uniform", low = -1, high = 1 })";
  const auto read = [&](std::string_view text) {
    const auto task = ParseTask(With(from, text), "t.toml");
    EXPECT_TRUE(task) << (task ? "" : task.error().message);
    return task ? task->cases[0].tensor("x")->distribution : Distribution{};
  };
  const auto mixed = read(R"({ kind = "mixed", scales = [1e3, 1e-3] })");
  EXPECT_EQ(mixed.kind, Distribution::Kind::kMixed);
  EXPECT_EQ(mixed.a, 1e3);
  EXPECT_EQ(mixed.b, 1e-3);
  EXPECT_EQ(read(R"({ kind = "constant", value = 3 })").a, 3);
  EXPECT_EQ(read(R"({ kind = "tail", mean = 10, std = 2 })").b, 2);
}

TEST(TaskTomlErrors, SyntaxGivesLineAndColumn) {
  EXPECT_THAT(ErrorOf("name = \"x\"\ntitle = = 3\n"), StartsWith("t.toml:2:9: "));
  EXPECT_THAT(ErrorOf("name = \"a\"\nname = \"b\"\n"), StartsWith("t.toml:2:"));
}

TEST(TaskTomlErrors, AnUnknownKeySuggestsTheNearest) {
  EXPECT_THAT(ErrorWith("family =", "famly ="),
              StartsWith("t.toml:3:1: unknown key 'famly'; did you "
                         "mean 'family'?"));
  EXPECT_THAT(ErrorWith("role = \"scored\"", "rol = \"scored\""),
              StartsWith("t.toml:31:1: unknown key 'rol'; did you mean 'role'?"));
}

TEST(TaskTomlErrors, AMissingKeyNamesItsTable) {
  EXPECT_THAT(ErrorWith("reduction = 1\n", ""),
              StartsWith("t.toml:22:1: [cost] lacks the key 'reduction'"));
}

TEST(TaskTomlErrors, AWrongTypeSaysWhatWasExpected) {
  EXPECT_EQ(ErrorWith("title = \"Scale a matrix\"", "title = 3"),
            "t.toml:2:9: 'title' is an integer; expected a string");
  EXPECT_EQ(ErrorWith("M = 3,", "M = 3.5,"),
            "t.toml:28:14: 'M' is a number with a fraction; expected an integer");
  EXPECT_THAT(ErrorWith("shape = [\"M\", \"2 * N\"]", "shape = \"M\""),
              StartsWith("t.toml:15:9: 'shape' is a string; expected an array"));
}

TEST(TaskTomlErrors, TheFirstFaultOfTheFileIsReported) {
  std::string text = With("title = \"Scale a matrix\"", "title = 3");
  text += "zzz = 1\n";
  EXPECT_THAT(ErrorOf(text), StartsWith("t.toml:2:9: "));
}

TEST(TaskTomlErrors, ABadExpressionGivesItsColumn) {
  const std::string error = ErrorWith("flops = \"2 * M * N\"", "flops = \"2 * * N\"");
  EXPECT_THAT(error, StartsWith("t.toml:23:9: in expression '2 * * N': "));
  EXPECT_THAT(error, HasSubstr("column 5"));
}

TEST(TaskTomlErrors, AnUnknownNameInAnExpression) {
  EXPECT_THAT(ErrorWith("flops = \"2 * M * N\"", "flops = \"2 * M * Q\""),
              StartsWith("t.toml:23:9: in expression '2 * M * Q': unknown dim 'Q'"));
  EXPECT_THAT(ErrorWith("shape = [\"M\", \"2 * N\"]", "shape = [\"M\", \"2 * n\"]"),
              StartsWith("t.toml:15:15: in expression '2 * n': unknown dim 'n'"));
}

TEST(TaskTomlErrors, DuplicateNames) {
  EXPECT_EQ(ErrorWith("name = \"y\"", "name = \"x\""),
            "t.toml:18:8: the name 'x' of this tensor is taken");
  EXPECT_EQ(ErrorWith("name = \"y\"", "name = \"M\""),
            "t.toml:18:8: the name 'M' of this tensor is taken");
  EXPECT_EQ(ErrorWith("name = \"big\"", "name = \"small\""),
            "t.toml:30:8: the case name 'small' is taken");
  EXPECT_THAT(ErrorWith("factor = 2.5", "x = 2.5"),
              HasSubstr("the name 'x' of this scalar is taken"));
}

TEST(TaskTomlErrors, NamesThatBreakThePreludeOrAPlan) {
  for (const char* name : {"float", "2x", "a b", "max", "f32", "a__b", ""}) {
    EXPECT_THAT(ErrorWith("name = \"y\"", fmt::format("name = \"{}\"", name)),
                StartsWith("t.toml:18:8: "))
        << name;
  }
  EXPECT_THAT(ErrorWith("name = \"big\"", "name = \"../big\""), StartsWith("t.toml:30:8: "));
  EXPECT_THAT(ErrorWith("factor = 2.5", "double = 2.5"), StartsWith("t.toml:7:1: "));
  EXPECT_THAT(ErrorWith("\"M\", \"N\"]", "\"M\", \"sm_count\"]"), StartsWith("t.toml:5:14: "));
}

TEST(TaskTomlErrors, ValuesOfEnumsAreSuggested) {
  EXPECT_THAT(ErrorWith("role = \"scored\"", "role = \"score\""),
              StartsWith("t.toml:31:8: unknown role 'score'; did you mean 'scored'?"));
  EXPECT_THAT(ErrorWith("kind = \"uniform\"", "kind = \"unifrm\""),
              StartsWith("t.toml:16:18: unknown kind 'unifrm'; did you mean 'uniform'?"));
  EXPECT_THAT(ErrorWith("T = \"f16\"", "T = \"f61\""),
              StartsWith("t.toml:33:16: unknown dtype 'f61'"));
}

TEST(TaskTomlErrors, ADimOfACaseMustBeDeclaredAndGiven) {
  EXPECT_THAT(ErrorWith("{ M = 3, N = 5 }", "{ M = 3, N = 5, Q = 1 }"),
              StartsWith("t.toml:28:24: unknown dim 'Q'"));
  EXPECT_THAT(ErrorWith("{ M = 3, N = 5 }", "{ M = 3 }"),
              StartsWith("t.toml:26:8: case small gives no value for dim N"));
}

TEST(TaskTomlErrors, AnOverrideMustNameAnInput) {
  EXPECT_THAT(ErrorWith("inputs = { x =", "inputs = { y ="),
              StartsWith("t.toml:34:12: unknown input 'y'"));
  EXPECT_THAT(ErrorWith("dtypes = { T =", "dtypes = { U ="),
              StartsWith("t.toml:33:12: unknown dtype symbol 'U'"));
}

TEST(TaskTomlErrors, ADTypeSymbolMustBeSet) {
  EXPECT_THAT(ErrorWith("T = \"f32\"\n", "\n"),
              StartsWith("t.toml:14:9: dtype 'T' of tensor x is neither a type"));
}

TEST(TaskTomlErrors, ParametersOfADistribution) {
  EXPECT_THAT(ErrorWith("low = -1, high = 1", "low = 1, high = 1"),
              HasSubstr("'low' is not below"));
  EXPECT_THAT(ErrorWith("low = -1, high = 1", "mean = 1"), HasSubstr("unknown key 'mean'"));
  EXPECT_THAT(ErrorWith("low = -1", "low = nan"), HasSubstr("'low' is not finite"));
  EXPECT_THAT(ErrorWith("mean = 4", "std = -4"), HasSubstr("'std' is negative"));
  EXPECT_THAT(ErrorWith("{ kind = \"normal\", mean = 4 }", "{ kind = \"mixed\", scales = [1] }"),
              HasSubstr("'scales' needs two numbers"));
}

TEST(TaskTomlErrors, AnOutputHasNoDistribution) {
  EXPECT_THAT(ErrorWith("role = \"output\"", "role = \"output\"\ninput = { kind = \"normal\" }"),
              StartsWith("t.toml:20:9: an output has no 'input'"));
}

TEST(TaskTomlErrors, ATaskNeedsAScoredCaseAndAnOutput) {
  EXPECT_THAT(ErrorWith("role = \"scored\"", "role = \"sweep\""),
              HasSubstr("no case has the role 'scored'"));
  EXPECT_THAT(ErrorWith("role = \"output\"", "role = \"input\""),
              HasSubstr("no tensor has the role 'output'"));
}

TEST(TaskTomlErrors, ATolerationOfEverythingIsRefused) {
  EXPECT_THAT(ErrorWith("tolerance = 0.01", "tolerance = 1"), StartsWith("t.toml:35:13: "));
  EXPECT_THAT(ErrorWith("tolerance = 0.01", "tolerance = 0"), StartsWith("t.toml:35:13: "));
}

TEST(TaskTomlErrors, AScalarMustFitItsType) {
  EXPECT_THAT(ErrorWith("value = 7", "value = 7.5"), HasSubstr("not an integer of its dtype"));
  EXPECT_THAT(ErrorWith("value = 7", "value = 3000000000"), HasSubstr("not an integer"));
  EXPECT_THAT(ErrorWith("dtype = \"i32\"", "dtype = \"f16\""), HasSubstr("a scalar is f32"));
}

TEST(TaskTomlHostile, NegativeZeroAndHugeDimsAreRefused) {
  EXPECT_EQ(ErrorWith("M = 3", "M = -3"), "t.toml:28:14: dim M is -3; expected 1 to 2147483647");
  EXPECT_THAT(ErrorWith("M = 3", "M = 0"), HasSubstr("dim M is 0"));
  EXPECT_THAT(ErrorWith("M = 3", "M = 2147483648"), HasSubstr("dim M is 2147483648"));
}

TEST(TaskTomlHostile, SizesThatOverflowAreRefused) {
  EXPECT_THAT(ErrorWith("{ M = 3, N = 5 }", "{ M = 2147483647, N = 2147483647 }"),
              HasSubstr("elements in case small"));
  EXPECT_THAT(ErrorWith("flops = \"2 * M * N\"", "flops = \"M * 9000000000000000000\""),
              HasSubstr("overflow"));
}

TEST(TaskTomlHostile, AnExtentBelowOneIsRefused) {
  EXPECT_THAT(ErrorWith("\"2 * N\"", "\"N - 5\""),
              HasSubstr("extent 'N - 5' is 0 in case small; expected at least 1"));
  EXPECT_THAT(ErrorWith("reduction = 1", "reduction = \"M - 10\""),
              HasSubstr("expected at least 1"));
}

TEST(TaskTomlHostile, AMillionCasesAreRefusedBySize) {
  std::string text(kGood);
  for (int i = 0; text.size() < (1U << 20); ++i) {
    text +=
        fmt::format("[[case]]\nname = \"c{}\"\nrole = \"edge\"\ndims = {{ M = 1, N = 1 }}\n", i);
  }
  EXPECT_THAT(ErrorOf(text), HasSubstr("larger than"));
}

TEST(TaskTomlHostile, MoreThanAThousandCasesAreRefused) {
  std::string text(kGood);
  for (int i = 0; i < 1000; ++i) {
    text +=
        fmt::format("[[case]]\nname = \"c{}\"\nrole = \"edge\"\ndims = {{ M = 1, N = 1 }}\n", i);
  }
  EXPECT_THAT(ErrorOf(text), HasSubstr("'case' has 1002 entries; at most 1000"));
}

TEST(TaskTomlHostile, DeepNestingAndBadTextAreErrorsNotCrashes) {
  EXPECT_THAT(ErrorOf("a = " + std::string(100000, '[')), StartsWith("t.toml:1:"));
  EXPECT_THAT(ErrorOf(std::string("name = \"\xff\xfe\"")), StartsWith("t.toml:1:"));
  EXPECT_THAT(ErrorOf(std::string("na\0me = 1", 9)), StartsWith("t.toml:1:"));
  EXPECT_NE(ErrorOf(""), "no error");
}

TEST(TaskTomlHostile, EveryPrefixOfAGoodFileIsRefusedOrRead) {
  for (std::size_t length = 0; length < kGood.size(); ++length) {
    const auto task = ParseTask(kGood.substr(0, length), "t.toml");
    if (task) {
      EXPECT_EQ(task->cases.size(), 2U) << "cut at " << length;
    } else {
      EXPECT_THAT(task.error().message, StartsWith("t.toml:")) << "cut at " << length;
    }
  }
}

// A task that a checker decides, complete but for what a test replaces.
std::string Factorisation(std::string_view from = "", std::string_view to = "") {
  std::string text = R"(name = "qr"
title = "t"
family = "qr"
contract = "c"
checker = "householder_qr"
profile = "competition"
library = ["gemm"]
baselines = ["cusolver_geqrf"]
dims = ["b", "n"]
[[tensor]]
name = "a"
role = "input"
dtype = "f32"
shape = ["b", "n", "n"]
input = { kind = "matrix", structure = "mixed", cond = 2 }
[[tensor]]
name = "h"
role = "output"
dtype = "f32"
shape = ["b", "n", "n"]
[[tensor]]
name = "tau"
role = "output"
dtype = "f32"
shape = ["b", "n"]
[cost]
flops = 1
reduction = "n"
[[case]]
name = "only"
role = "scored"
dims = { b = 2, n = 8 }
)";
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  if (at != std::string::npos) text.replace(at, from.size(), to);
  return text;
}

std::string FactorisationComplaint(std::string_view from, std::string_view to) {
  const auto task = ParseTask(Factorisation(from, to), "task.toml");
  return task ? "" : task.error().message;
}

TEST(TaskToml, ACheckerItsProfileAndLibraryStepsReachEveryCase) {
  const auto task = ParseTask(Factorisation(), "task.toml");
  ASSERT_TRUE(task) << task.error().message;
  EXPECT_EQ(task->checker, Checker::kHouseholderQr);
  EXPECT_THAT(task->library, ElementsAre("gemm"));
  EXPECT_THAT(task->baselines, ElementsAre("cusolver_geqrf"));
  const Case& only = task->cases[0];
  EXPECT_EQ(only.checker, Checker::kHouseholderQr);
  EXPECT_EQ(only.profile, CheckerProfile::kCompetition);
  EXPECT_THAT(only.library, ElementsAre("gemm"));
  EXPECT_EQ(only.tensors[0].distribution.kind, Distribution::Kind::kMatrix);
  EXPECT_EQ(only.tensors[0].distribution.structure, Distribution::Structure::kMixed);
  EXPECT_EQ(only.tensors[0].distribution.a, 2);
}

TEST(TaskToml, ACheckerThatIsMisspeltOrDoesNotFitItsTensorsIsRefused) {
  EXPECT_THAT(FactorisationComplaint("\"householder_qr\"", "\"householder\""),
              HasSubstr("task.toml:5:11: unknown checker 'householder'"));
  EXPECT_THAT(FactorisationComplaint("\"competition\"", "\"lenient\""), HasSubstr("'lenient'"));
  EXPECT_THAT(FactorisationComplaint("checker = \"householder_qr\"\n", ""),
              HasSubstr("there is none"));
  EXPECT_THAT(FactorisationComplaint("[\"gemm\"]", "[\"trsm\"]"), HasSubstr("'trsm'"));
  EXPECT_THAT(FactorisationComplaint("shape = [\"b\", \"n\"]\n[cost]", "shape = [\"n\"]\n[cost]"),
              HasSubstr("needs three f32 tensors"));
  EXPECT_THAT(FactorisationComplaint("n = 8", "n = 20000"), HasSubstr("n at most 16384"));
  EXPECT_THAT(FactorisationComplaint("\"mixed\"", "\"mixd\""), HasSubstr("did you mean 'mixed'"));
  EXPECT_THAT(FactorisationComplaint("cond = 2", "cond = 31"), HasSubstr("0 to 30"));
}

}  // namespace
}  // namespace grove::seeds
