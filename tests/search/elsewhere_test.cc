// A search whose programs are evaluated on another machine, with the files that travel.
#include "search/elsewhere.h"

#include <atomic>
#include <filesystem>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "results/store.h"
#include "search/profiling.h"
#include "search/search.h"
#include "tests/support/fakes.h"
#include "tests/support/program.h"

namespace grove::search {
namespace {

using results::CandidateRow;
using results::RunData;
using results::RunStatus;
using ::testing::HasSubstr;
using testing::ScriptedClient;
using testing::TinyPlan;
using testing::TinySource;

class ElsewhereTest : public ::testing::Test {
 protected:
  void SetUp() override {
    config_.task = "tiny";
    config_.until = "evaluate";
    config_.rounds = 2;
    config_.ideas = 2;
    config_.branches = 2;
    config_.frontier = 1;
    config_.reserve = 0;
    config_.repairs = 1;
    auto evaluator = eval::Evaluator::Create(task_, compiler_, device_, {});
    ASSERT_TRUE(evaluator) << evaluator.error().message;
    evaluator_ = std::move(*evaluator);
  }

  std::filesystem::path folder(const std::string& run = "run") { return scratch_.path() / run; }

  std::unique_ptr<results::Store> OpenStore(const std::string& run) {
    const bool fresh = !std::filesystem::exists(folder(run) / "run.db");
    auto store = fresh ? results::Store::Create(scratch_.path(),
                                                MakeRunStart(run, task_, config_, "test"), clock_)
                       : results::Store::Open(scratch_.path(), run, clock_);
    EXPECT_TRUE(store) << store.error().message;
    return std::move(*store);
  }

  // The same replies whenever they are asked for; of four programs of a round one fails on the
  // device, whatever repair is asked for.
  static Result<std::string> Reply(const llm::Request& request) {
    if (request.role == llm::Role::kIdea) {
      return std::string(
          R"({"ideas": [{"title": "alpha", "category": "memory access", "rationale": "because"},)"
          R"({"title": "beta", "category": "data type and precision", "rationale": "because"}]})");
    }
    const std::string text = request.messages.back().text;
    const bool beta = text.find("beta") != text.npos;
    const bool second = request.seed % 2 == 0;
    std::string directives =
        fmt::format("// @time {}\n", 500 + (beta ? 10 : 0) + (second ? 5 : 0) +
                                         (text.find("id: seed") == text.npos ? -90 : 0));
    if (beta && second) directives += "// @fail smoke out_of_bounds\n";
    return "```cuda\n" + TinySource(directives) + "```\n```json\n" + TinyPlan() + "\n```\n";
  }

  // One leg of the search here; the package it wrote, if it waits for one.
  struct Leg {
    SearchSummary summary;
    std::optional<Elsewhere::Packed> packed;
  };
  Leg Here(const std::string& run = "run") {
    auto store = OpenStore(run);
    const RunData data = *store->Load();
    auto elsewhere = Elsewhere::Open(folder(run), RunKey(data.run));
    EXPECT_TRUE(elsewhere) << elsewhere.error().message;
    ScriptedClient client(Reply);
    SearchParts parts{task_, *evaluator_, device_, client, *store, observer_};
    parts.elsewhere = elsewhere->get();
    auto summary = RunSearch(parts, config_, {});
    EXPECT_TRUE(summary) << summary.error().message;
    requests_ = client.requests();
    Leg leg{*summary, std::nullopt};
    if ((*elsewhere)->awaited().empty()) return leg;
    eval::EvaluationPackage draft;
    draft.run = run;
    draft.run_key = RunKey(data.run);
    draft.task = "tiny";
    auto packed = (*elsewhere)->Pack(draft);
    EXPECT_TRUE(packed) << packed.error().message;
    leg.packed = *packed;
    return leg;
  }

  // The other machine: evaluates all programs of a package, or the first `most`.
  std::string There(const std::filesystem::path& package_file, std::size_t most = 1000,
                    const std::string& gpu = "NVIDIA H200") {
    const std::string text = *ReadFile(package_file);
    auto package = eval::DecodePackage(text);
    EXPECT_TRUE(package) << package.error().message;
    eval::PackageResult result;
    result.run = package->run;
    result.run_key = package->run_key;
    result.number = package->number;
    result.package = HashText(text);
    result.gpus.push_back({"GPU-1", gpu, "580.1", 0});
    for (const eval::PackagedProgram& program : package->programs) {
      if (result.evaluations.size() == most) break;
      auto evaluation = evaluator_->Evaluate(*codegen::MakeProgram(program.source, program.plan));
      EXPECT_TRUE(evaluation);
      result.evaluations.push_back({program.identity, std::move(*evaluation)});
    }
    if (profiler_) {
      profiled_ = ProfilePackage(profiler_, *package, result, 2, std::chrono::seconds(60), {});
    }
    return Encode(result);
  }

  Result<Absorbed> Take(const std::string& result, const std::string& run = "run") {
    auto reader = results::Reader::Open(folder(run));
    EXPECT_TRUE(reader);
    return Absorb(folder(run), (*reader)->Load()->run, result);
  }

  RunData Load(const std::string& run = "run") {
    auto reader = results::Reader::Open(folder(run));
    EXPECT_TRUE(reader);
    return *(*reader)->Load();
  }

  // What a tree says, without what differs between two runs.
  static std::string TreeOf(const RunData& data) {
    std::string text;
    for (const CandidateRow& row : data.candidates) {
      text += fmt::format("{} {} {} turn {}\n", row.name,
                          row.evaluation ? eval::Name(row.evaluation->verdict.kind) : "none",
                          results::ScoreOf(row) ? results::ScoreOf(row)->count() : 0.0, row.turn);
    }
    for (const auto& row : data.frontier) {
      text += fmt::format("frontier {}\n", data.Find(row.candidate)->name);
    }
    return text;
  }

  seeds::Task task_ = testing::TinyTask();
  testing::FakeCompiler compiler_;
  testing::FakeDevice device_;
  testing::FakeClock clock_;
  testing::RecordingObserver observer_;
  testing::ScratchFolder scratch_;
  std::unique_ptr<eval::Evaluator> evaluator_;
  SearchConfig config_;
  Profiler profiler_;  // of the other machine
  std::vector<std::string> profiled_;
  std::vector<llm::Request> requests_;  // of the last leg
};

TEST_F(ElsewhereTest, TheSeedIsTheFirstPackageAndNothingIsAskedBeforeItIsBack) {
  const Leg leg = Here();
  EXPECT_EQ(leg.summary.status, RunStatus::kStopped);
  EXPECT_TRUE(leg.summary.awaits);
  ASSERT_TRUE(leg.packed);
  EXPECT_EQ(leg.packed->programs, 1U);
  EXPECT_TRUE(Load().calls.empty());
}

TEST_F(ElsewhereTest, TheTreeIsTheOneOfASearchThatEvaluatesItself) {
  int legs = 0;
  for (;; ++legs) {
    ASSERT_LT(legs, 12);
    const Leg leg = Here();
    if (!leg.packed) {
      EXPECT_EQ(leg.summary.status, RunStatus::kFinished);
      break;
    }
    const auto absorbed = Take(There(leg.packed->file));
    ASSERT_TRUE(absorbed) << absorbed.error().message;
    EXPECT_EQ(absorbed->missing, 0U);
  }
  EXPECT_GE(legs, 3);  // the seed, and at least one package a round
  config_.until.clear();
  {
    auto store = OpenStore("direct");
    ScriptedClient client(Reply);
    const SearchParts parts{task_, *evaluator_, device_, client, *store, observer_};
    ASSERT_TRUE(RunSearch(parts, config_, {}));
  }
  EXPECT_EQ(TreeOf(Load()), TreeOf(Load("direct")));
}

TEST_F(ElsewhereTest, ResumedWithoutAResultItNamesTheSamePackageAndAsksNothing) {
  ASSERT_TRUE(Take(There(Here().packed->file)));
  const Leg first = Here();
  const std::size_t calls = Load().calls.size();
  const Leg again = Here();
  ASSERT_TRUE(first.packed && again.packed);
  EXPECT_EQ(again.packed->file, first.packed->file);
  EXPECT_TRUE(first.packed->fresh);
  EXPECT_FALSE(again.packed->fresh);
  EXPECT_EQ(Load().calls.size(), calls);
  double evaluations = 0;
  for (const auto& row : Load().ledger) {
    if (row.kind == results::LedgerKind::kEvaluations) evaluations += *row.settled;
  }
  // Booked once, when they were packed.
  EXPECT_EQ(evaluations, static_cast<double>(first.packed->programs));
}

TEST_F(ElsewhereTest, WhatAResultLacksIsPackedAgain) {
  ASSERT_TRUE(Take(There(Here().packed->file)));
  const Leg leg = Here();
  ASSERT_GE(leg.packed->programs, 2U);
  const auto absorbed = Take(There(leg.packed->file, 1));
  ASSERT_TRUE(absorbed) << absorbed.error().message;
  EXPECT_EQ(absorbed->missing, leg.packed->programs - 1);
  const Leg rest = Here();
  ASSERT_TRUE(rest.packed);
  EXPECT_EQ(rest.packed->number, leg.packed->number + 1);
  EXPECT_EQ(rest.packed->programs, leg.packed->programs - 1);
}

TEST_F(ElsewhereTest, AResultIsAbsorbedOnceAndByItsOwnRunOnly) {
  const Leg leg = Here();
  const std::string result = There(leg.packed->file);
  ASSERT_TRUE(Here("other").packed);
  const auto foreign = Take(result, "other");
  ASSERT_FALSE(foreign);
  EXPECT_THAT(foreign.error().message, HasSubstr("belongs to another run"));
  ASSERT_TRUE(Take(result));
  const auto twice = Take(result);
  ASSERT_FALSE(twice);
  EXPECT_EQ(twice.error().code, ErrorCode::kInvalidInput);
  EXPECT_THAT(twice.error().message, HasSubstr("absorbed before"));
}

TEST_F(ElsewhereTest, AResultOfAPackageThatTheRunDidNotWriteIsRefused) {
  const Leg leg = Here();
  auto result = eval::DecodeResult(There(leg.packed->file));
  ASSERT_TRUE(result);
  result->package.low ^= 1;
  EXPECT_FALSE(Take(Encode(*result)));
  result->package.low ^= 1;
  result->number = 7;
  EXPECT_FALSE(Take(Encode(*result)));
  result->number = 1;
  result->evaluations.front().identity.low ^= 1;
  const auto strange = Take(Encode(*result));
  ASSERT_FALSE(strange);
  EXPECT_THAT(strange.error().message, HasSubstr("does not hold"));
  EXPECT_TRUE(Here().packed);  // still waits
}

TEST_F(ElsewhereTest, TimesOfAnotherModelOfGpuAreRefused) {
  ASSERT_TRUE(Take(There(Here().packed->file)));
  const auto other = Take(There(Here().packed->file, 1000, "NVIDIA L4"));
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message, HasSubstr("NVIDIA L4"));
}

TEST_F(ElsewhereTest, ADamagedResultChangesNothing) {
  const Leg leg = Here();
  std::string result = There(leg.packed->file);
  result[result.size() / 2] ^= 1;
  const auto damaged = Take(result);
  ASSERT_FALSE(damaged);
  EXPECT_THAT(damaged.error().message, HasSubstr("damaged"));
  EXPECT_FALSE(std::filesystem::exists(PackagesFolder(folder()) / "0001.result"));
}

// People copy a result to where results lie, and then go on or absorb it.
TEST_F(ElsewhereTest, AResultThatWasCopiedIntoTheRunIsCheckedAndTaken) {
  const Leg leg = Here();
  const std::filesystem::path place = PackagesFolder(folder()) / "0001.result";
  const std::string result = There(leg.packed->file);
  ASSERT_TRUE(WriteFileAtomic(place, result));
  auto reader = results::Reader::Open(folder());
  const auto run = (*reader)->Load()->run;
  const auto absorbed = Absorb(folder(), run, result, place);
  ASSERT_TRUE(absorbed) << absorbed.error().message;
  EXPECT_TRUE(absorbed->in_place);
  EXPECT_EQ(absorbed->evaluations, 1U);
  // The same from somewhere else is a second one, and says what to do.
  const auto second = Absorb(folder(), run, result, scratch_.path() / "0001.result");
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().message, HasSubstr("go on with: grove resume run"));
  const Leg next = Here();
  ASSERT_TRUE(next.packed);
  EXPECT_EQ(next.packed->number, 2);
}

TEST_F(ElsewhereTest, ACopiedResultThatAbsorbWouldRefuseStopsTheRunAndChangesNothing) {
  const Leg leg = Here();
  const std::filesystem::path place = PackagesFolder(folder()) / "0001.result";
  const Hash key = RunKey(Load().run);
  auto result = *eval::DecodeResult(There(leg.packed->file));
  result.evaluations.front().identity.low ^= 1;
  ASSERT_TRUE(WriteFileAtomic(place, Encode(result)));
  const auto strange = Elsewhere::Open(folder(), key);
  ASSERT_FALSE(strange);
  EXPECT_THAT(strange.error().message, HasSubstr("0001.result"));
  EXPECT_THAT(strange.error().message, HasSubstr("does not hold; take the file away"));
  result.evaluations.clear();
  result.package.low ^= 1;
  ASSERT_TRUE(WriteFileAtomic(place, Encode(result)));
  EXPECT_FALSE(Elsewhere::Open(folder(), key)) << "of another package";
  std::filesystem::remove(place);
  EXPECT_TRUE(Elsewhere::Open(folder(), key));
}

TEST_F(ElsewhereTest, ACopiedResultOfAnotherModelOfGpuIsRefused) {
  ASSERT_TRUE(Take(There(Here().packed->file)));
  const std::string other = There(Here().packed->file, 1000, "NVIDIA L4");
  ASSERT_TRUE(WriteFileAtomic(PackagesFolder(folder()) / "0002.result", other));
  const auto mixed = Elsewhere::Open(folder(), RunKey(Load().run));
  ASSERT_FALSE(mixed);
  EXPECT_THAT(mixed.error().message, HasSubstr("NVIDIA L4"));
}

TEST_F(ElsewhereTest, AResultUnderAnotherNameIsNotPassedOverInSilence) {
  const Leg leg = Here();
  ASSERT_TRUE(
      WriteFileAtomic(PackagesFolder(folder()) / "run-0001.result", There(leg.packed->file)));
  const auto named = Elsewhere::Open(folder(), RunKey(Load().run));
  ASSERT_FALSE(named);
  EXPECT_THAT(named.error().message, HasSubstr("grove absorb run-0001.result"));
}

// The counters of the machine with the GPU reach the models' prompts and `grove show`.
TEST_F(ElsewhereTest, ProfilesOfTheOtherMachineStandInTheNextRoundsPrompts) {
  config_.repairs = 0;
  profiler_ = [](const codegen::KernelProgram& program) -> Result<KernelProfile> {
    const auto at = program.source.find("@time ");
    return KernelProfile{"DRAM 71% of peak at " + program.source.substr(at + 6, 3), "all counters"};
  };
  for (int legs = 0;; ++legs) {
    ASSERT_LT(legs, 12);
    const Leg leg = Here();
    if (Load().rounds.size() == 2) {
      int told = 0;
      for (const llm::Request& request : requests_) {
        told += request.role == llm::Role::kIdea &&
                request.messages[0].text.find("DRAM 71% of peak at 500") != std::string::npos;
      }
      if (told > 0) {
        EXPECT_EQ(told, 1);
        break;
      }
    }
    ASSERT_TRUE(leg.packed) << "no prompt had the counters";
    const auto absorbed = Take(There(leg.packed->file));
    ASSERT_TRUE(absorbed) << absorbed.error().message;
    EXPECT_GE(absorbed->profiles, 1U);
    EXPECT_LE(absorbed->profiles, 2U) << "this test's package has no incumbents";
  }
  const RunData data = Load();
  EXPECT_EQ(data.FindCandidate("r1.i1.b2")->profile, "DRAM 71% of peak at 500");
  EXPECT_EQ(data.FindCandidate("r1.i1.b1")->profile, "DRAM 71% of peak at 505");
  EXPECT_EQ(data.FindCandidate("seed")->profile, "DRAM 71% of peak at 100");
  EXPECT_EQ(data.FindCandidate("r1.i2.b1")->profile, "") << "not among the two fastest";
  EXPECT_TRUE(results::CheckStore(folder()));
}

TEST_F(ElsewhereTest, WhatCannotBeProfiledIsSaidOnceAndTheResultGoesHome) {
  profiler_ = [&](const codegen::KernelProgram&) -> Result<KernelProfile> {
    return Fail(ErrorCode::kUnavailable, "counters are not permitted");
  };
  ASSERT_TRUE(Take(There(Here().packed->file)));
  EXPECT_THAT(profiled_, ::testing::ElementsAre("  not profiled: counters are not permitted"));
  const Leg leg = Here();
  const auto absorbed = Take(There(leg.packed->file));
  ASSERT_TRUE(absorbed) << absorbed.error().message;
  EXPECT_EQ(absorbed->profiles, 0U);
  EXPECT_THAT(profiled_, ::testing::ElementsAre("  not profiled: counters are not permitted"));
}

TEST_F(ElsewhereTest, AProfileOfAStrangeProgramIsRefused) {
  auto result = *eval::DecodeResult(There(Here().packed->file));
  result.profiles.push_back({HashText("another"), "fast", "fast"});
  const auto strange = Take(Encode(result));
  ASSERT_FALSE(strange);
  EXPECT_THAT(strange.error().message, HasSubstr("profiles a program that the package does not"));
}

}  // namespace
}  // namespace grove::search
