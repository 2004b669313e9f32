#include "eval/package.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zstd.h>

#include "codegen/program.h"
#include "tests/support/fakes.h"

namespace grove::eval {
namespace {

using ::testing::HasSubstr;
using testing::TinyPlan;
using testing::TinySource;

EvaluationPackage Package() {
  EvaluationPackage package;
  package.run = "softmax-1";
  package.run_key = HashText("a run");
  package.number = 3;
  package.version = "0.1.0";
  package.task = "tiny";
  package.files = {{"seed.cu", "// \xc3\xa9\n"}, {"task.toml", "title = \"x\"\n"}};
  package.cases = {"big"};
  package.gpu = "H200";
  package.seed = std::numeric_limits<std::uint64_t>::max();
  const auto program = codegen::MakeProgram(TinySource(""), TinyPlan());
  package.programs = {{"r1.i1.b1", program->identity(), TinySource(""), TinyPlan()}};
  package.incumbents = package.programs;
  return package;
}

PackageResult ResultOf() {
  PackageResult result;
  result.run = "softmax-1";
  result.run_key = HashText("a run");
  result.number = 3;
  result.package = HashText("the file");
  result.complete = true;
  result.gpus = {{"GPU-1", "NVIDIA H200", "580.1", 0}};
  result.environment = {{"gpu", "H200"}};
  Evaluation e;
  e.verdict.kind = VerdictKind::kWrongResult;
  e.verdict.stage = Stage::kStability;
  e.verdict.case_name = "large";
  e.verdict.message = "wrong";
  e.verdict.tensor = "y";
  e.verdict.element = 17;
  e.verdict.expected = 1.5;
  e.verdict.got = std::numeric_limits<double>::quiet_NaN();
  e.verdict.error = std::numeric_limits<double>::infinity();
  StageRecord stage;
  stage.stage = Stage::kScreen;
  stage.undecided = VerdictKind::kUnsupported;
  stage.duration = Milliseconds(12.25);
  e.stages = {stage};
  CaseTime time;
  time.case_name = "big";
  time.time = Nanoseconds(524288.125);
  time.samples = {Nanoseconds(1.5), Nanoseconds(2.5)};
  time.modes.emplace_back().mode = "hot";
  LaunchReport& launch = time.launches.emplace_back();
  launch.kernel = "softmax";
  launch.occupancy.blocks_per_sm = 2;
  launch.bound = "memory";
  time.gpu_uuid = "GPU-1";
  e.times = {time};
  KernelRecord& kernel = e.kernels.emplace_back();
  kernel.case_name = "big";
  kernel.entry.registers = 40;
  GateRecord& gate = e.gates.emplace_back();
  gate.gate.name = "QtA=R";
  gate.gate.column = 4;
  e.measured_class = seeds::PrecisionClass::kTf32;
  e.worst_error = 1e-4;
  result.evaluations = {{HashText("p"), e}};
  CasePair pair;
  pair.case_name = "big";
  pair.outcome.base = {Nanoseconds(2)};
  pair.outcome.challenger = {Nanoseconds(1)};
  pair.outcome.ratio = 0.5;
  pair.outcome.result = PairOutcome::Result::kFaster;
  result.contests = {{HashText("p"), HashText("q"), {pair}}};
  StoredBaseline baseline;
  baseline.task = "tiny";
  baseline.name = "torch_eager";
  baseline.time = Nanoseconds(9);
  baseline.low = Nanoseconds(8);
  result.baselines = {baseline};
  result.profiles = {{HashText("p"), "DRAM 84% of peak\n", "all of it"}};
  return result;
}

TEST(PackageTest, APackageComesBackAsItWas) {
  const EvaluationPackage package = Package();
  const std::string file = Encode(package);
  const auto back = DecodePackage(file);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->run_key, package.run_key);
  EXPECT_EQ(back->seed, package.seed);
  EXPECT_EQ(back->files, package.files);
  EXPECT_EQ(back->cases, package.cases);
  EXPECT_EQ(back->programs.at(0).source, package.programs[0].source);
  EXPECT_EQ(Encode(*back), file);
}

TEST(PackageTest, AFileThatIsNoTextComesBackByteByByte) {
  EvaluationPackage package = Package();
  std::string bytes;
  for (int i = 0; i < 512; ++i) bytes += static_cast<char>(i * 7);
  package.files.emplace_back("data.safetensors", bytes);
  const auto back = DecodePackage(Encode(package));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->files, package.files);
}

TEST(PackageTest, AResultComesBackAsItWasNumbersThatAreNoneIncluded) {
  const std::string file = Encode(ResultOf());
  const auto back = DecodeResult(file);
  ASSERT_TRUE(back) << back.error().message;
  const Evaluation& e = back->evaluations.at(0).evaluation;
  EXPECT_TRUE(std::isnan(e.verdict.got));
  EXPECT_TRUE(std::isinf(e.verdict.error));
  EXPECT_EQ(e.stages.at(0).undecided, VerdictKind::kUnsupported);
  EXPECT_EQ(e.times.at(0).time, Nanoseconds(524288.125));
  EXPECT_EQ(e.times.at(0).modes.at(0).mode, "hot");
  EXPECT_EQ(e.kernels.at(0).entry.registers, 40);
  EXPECT_EQ(e.gates.at(0).gate.column, 4);
  EXPECT_EQ(e.measured_class, seeds::PrecisionClass::kTf32);
  EXPECT_FALSE(e.score);
  EXPECT_EQ(back->contests.at(0).pairs.at(0).outcome.result, PairOutcome::Result::kFaster);
  EXPECT_EQ(back->baselines.at(0).low, Nanoseconds(8));
  EXPECT_FALSE(back->baselines.at(0).high);
  EXPECT_EQ(back->profiles.at(0).summary, "DRAM 84% of peak\n");
  EXPECT_EQ(Encode(*back), file);
}

TEST(PackageTest, AProfileThatNoPromptCouldHoldIsRefused) {
  PackageResult result = ResultOf();
  result.profiles[0].summary.assign(kLongestSummary + 1, 'x');
  EXPECT_FALSE(DecodeResult(Encode(result)));
}

TEST(PackageTest, TheFastestThatPassedAndTheFirstIncumbentAreWorthAProfile) {
  EvaluationPackage package;
  PackageResult result;
  const auto add = [&](const std::string& name, double ns) {
    package.programs.push_back({name, HashText(name), "", ""});
    Evaluation e;
    e.verdict.kind = ns > 0 ? VerdictKind::kPass : VerdictKind::kWrongResult;
    if (ns > 0) e.score = Nanoseconds(ns);
    result.evaluations.push_back({HashText(name), e});
  };
  add("slow", 30);
  add("wrong", 0);
  add("fast", 10);
  add("middle", 20);
  package.incumbents = {{"best", HashText("best"), "", ""}, {"second", HashText("second"), "", ""}};
  const auto names = [&](std::size_t most) {
    std::string text;
    for (const auto* program : WorthProfiling(package, result, most)) text += program->name + " ";
    return text;
  };
  EXPECT_EQ(names(2), "fast middle best ");
  EXPECT_EQ(names(9), "fast middle slow best ");
  EXPECT_EQ(names(0), "");
  package.incumbents = {package.programs[2]};  // judged again
  EXPECT_EQ(names(2), "fast middle ");
}

// A run keeps its results for good, and a resumed search reads those of its first rounds again.
TEST(PackageTest, AResultOfAnOlderVersionCanStillBeRead) {
  PackageResult result = ResultOf();
  result.contests[0].pairs[0].outcome.median_delta = -0.25;
  result.evaluations[0].evaluation.kernels[0].dynamic_shared = 2048;
  const std::string file = Encode(result);
  EXPECT_EQ(DecodeResult(file)->evaluations[0].evaluation.kernels[0].dynamic_shared, 2048);
  const std::string packed = file.substr(file.find('\n') + 1 + 33);
  std::string text(ZSTD_getFrameContentSize(packed.data(), packed.size()), '\0');
  ASSERT_EQ(ZSTD_decompress(text.data(), text.size(), packed.data(), packed.size()), text.size());
  const auto replace = [&](const std::string& old, const std::string& by) {
    const auto at = text.find(old);
    ASSERT_NE(at, std::string::npos) << old;
    text.replace(at, old.size(), by);
  };
  replace("\"median_delta\"", "\"mean_delta\"");
  replace("\"dynamic_shared\":2048", "\"other\":0");
  std::string again(ZSTD_compressBound(text.size()), '\0');
  again.resize(ZSTD_compress(again.data(), again.size(), text.data(), text.size(), 3));
  const auto back =
      DecodeResult(file.substr(0, file.find('\n') + 1) + HashText(again).Hex() + "\n" + again);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->contests[0].pairs[0].outcome.median_delta, -0.25);
  EXPECT_EQ(back->evaluations[0].evaluation.kernels[0].dynamic_shared, 0);
}

TEST(PackageTest, EveryCutAndEveryFlippedByteIsFound) {
  const std::string file = Encode(Package());
  for (std::size_t n = 0; n < file.size(); ++n) {
    EXPECT_FALSE(DecodePackage(std::string_view(file).substr(0, n))) << n;
    std::string flipped = file;
    flipped[n] ^= 4;
    EXPECT_FALSE(DecodePackage(flipped)) << n;
  }
}

TEST(PackageTest, TheOtherKindAndTheOtherVersionAreNamed) {
  const auto kind = DecodeResult(Encode(Package()));
  ASSERT_FALSE(kind);
  EXPECT_THAT(kind.error().message, HasSubstr("it begins with 'grove package 1'"));
  std::string file = Encode(Package());
  file.replace(file.find('1'), 1, "2");
  const auto version = DecodePackage(file);
  ASSERT_FALSE(version);
  EXPECT_THAT(version.error().message, HasSubstr("version 2"));
}

TEST(PackageTest, FilesThatLeaveTheTasksFolderAreRefused) {
  for (const char* name : {"../x", "a/b", "", ".hidden", "a\nb"}) {
    EvaluationPackage package = Package();
    package.files[0].first = name;
    EXPECT_FALSE(DecodePackage(Encode(package))) << name;
  }
  EvaluationPackage package = Package();
  package.task = "..";
  EXPECT_FALSE(DecodePackage(Encode(package)));
}

TEST(PackageTest, AProgramThatIsNotTheOneItsIdentityNamesIsRefused) {
  EvaluationPackage package = Package();
  package.programs[0].identity.low ^= 1;
  const auto decoded = DecodePackage(Encode(package));
  ASSERT_FALSE(decoded);
  EXPECT_THAT(decoded.error().message, HasSubstr("r1.i1.b1"));
}

TEST(PackageTest, AVerdictAndAScoreThatContradictEachOtherAreRefused) {
  PackageResult result = ResultOf();
  result.evaluations[0].evaluation.verdict.kind = VerdictKind::kPass;
  EXPECT_FALSE(DecodeResult(Encode(result)));
  result = ResultOf();
  result.evaluations[0].evaluation.score = Nanoseconds(5);
  EXPECT_FALSE(DecodeResult(Encode(result)));
  result = ResultOf();
  result.gpus.clear();
  EXPECT_FALSE(DecodeResult(Encode(result)));
}

}  // namespace
}  // namespace grove::eval
