#include "search/search.h"

#include <algorithm>
#include <atomic>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "results/store.h"
#include "search/makeup.h"
#include "search/selection.h"
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

// Ideas of alternating categories. Titles of one word each keep them apart.
std::string IdeasReply(const std::vector<std::string>& titles) {
  std::string reply = "{\"ideas\": [";
  for (std::size_t i = 0; i < titles.size(); ++i) {
    reply += fmt::format(
        R"({}{{"title": "{}", "category": "{}", "rationale": "because", "expected_gain": 1.5}})",
        i == 0 ? "" : ", ", titles[i], i % 2 == 0 ? "memory access" : "data type and precision");
  }
  return reply + "]}";
}

std::string ProgramReply(const std::string& directives) {
  return "Here it is.\n```cuda\n" + TinySource(directives) + "```\n```json\n" + TinyPlan() +
         "\n```\n";
}

class SearchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    config_.task = "tiny";
    config_.rounds = 2;
    config_.ideas = 2;
    config_.branches = 2;
    config_.frontier = 2;
    config_.reserve = 0;
    config_.repairs = 0;
    auto evaluator = eval::Evaluator::Create(task_, compiler_, device_, {});
    ASSERT_TRUE(evaluator) << evaluator.error().message;
    evaluator_ = std::move(*evaluator);
  }

  // A model whose n-th program takes 1000 - n ns, and whose ideas never repeat.
  ScriptedClient::Script Improving() {
    return [this](const llm::Request& request) -> Result<std::string> {
      if (request.role == llm::Role::kIdea) {
        const int n = ++ideas_;
        return IdeasReply({fmt::format("alpha{}", n), fmt::format("beta{}", n)});
      }
      const int n = ++programs_;
      return ProgramReply(fmt::format("// @time {}\n", 1000 - n));
    };
  }

  Result<SearchSummary> Run(ScriptedClient& client, std::stop_token stop = {}) {
    const bool fresh = !std::filesystem::exists(folder_.path() / "run" / "run.db");
    auto store = fresh ? results::Store::Create(folder_.path(),
                                                MakeRunStart("run", task_, config_, "test"), clock_)
                       : results::Store::Open(folder_.path(), "run", clock_);
    EXPECT_TRUE(store) << store.error().message;
    const SearchParts parts{task_, *evaluator_, device_, client, **store, observer_};
    return RunSearch(parts, config_, std::move(stop));
  }

  RunData Load() {
    auto reader = results::Reader::Open(folder_.path() / "run");
    EXPECT_TRUE(reader);
    auto data = (*reader)->Load();
    EXPECT_TRUE(data);
    return std::move(*data);
  }

  seeds::Task task_ = testing::TinyTask();
  testing::FakeCompiler compiler_;
  testing::FakeDevice device_;
  testing::FakeClock clock_;
  testing::RecordingObserver observer_;
  testing::ScratchFolder folder_;
  std::unique_ptr<eval::Evaluator> evaluator_;
  SearchConfig config_;
  std::atomic<int> ideas_{0};
  std::atomic<int> programs_{0};
};

TEST_F(SearchTest, ARoundHasIdeasTimesBranchesOfEveryFrontierKernel) {
  ScriptedClient client(Improving());
  const auto summary = Run(client);
  ASSERT_TRUE(summary) << summary.error().message;
  EXPECT_EQ(summary->status, RunStatus::kFinished);
  EXPECT_EQ(summary->rounds, 2);
  const RunData data = Load();
  int first = 0;
  int second = 0;
  for (const CandidateRow& candidate : data.candidates) {
    if (!candidate.round) continue;
    (data.Find(candidate.round)->index == 1 ? first : second)++;
  }
  EXPECT_EQ(first, 1 * 2 * 2);   // from the seed alone
  EXPECT_EQ(second, 2 * 2 * 2);  // from two kernels
}

TEST_F(SearchTest, TheFastestCorrectKernelsSeedTheNextRound) {
  ScriptedClient client(Improving());
  ASSERT_TRUE(Run(client));
  const RunData data = Load();
  std::set<CandidateId> frontier;
  double slowest_chosen = 0;
  for (const results::FrontierRow& row : data.frontier) {
    if (data.Find(row.round)->index != 1) continue;
    frontier.insert(row.candidate);
    slowest_chosen = std::max(slowest_chosen, results::ScoreOf(*data.Find(row.candidate))->count());
  }
  EXPECT_EQ(frontier.size(), 2U);
  for (const CandidateRow& candidate : data.candidates) {
    if (frontier.contains(candidate.id)) continue;
    // Of siblings the fastest alone is taken, while others are there.
    const bool sibling_chosen = std::any_of(frontier.begin(), frontier.end(), [&](CandidateId id) {
      const CandidateRow& chosen = *data.Find(id);
      return candidate.idea && chosen.idea == candidate.idea &&
             *results::ScoreOf(chosen) < *results::ScoreOf(candidate);
    });
    if (sibling_chosen) continue;
    if (candidate.round && data.Find(candidate.round)->index == 2) {
      EXPECT_TRUE(frontier.contains(candidate.parent)) << candidate.name;
    } else {
      EXPECT_GE(results::ScoreOf(candidate)->count(), slowest_chosen) << candidate.name;
    }
  }
}

TEST_F(SearchTest, AFailedCandidateIsDataAndNeverSeedsARound) {
  ScriptedClient client([](const llm::Request& request) -> Result<std::string> {
    if (request.role == llm::Role::kIdea) return IdeasReply({"one", "two"});
    return ProgramReply("// @time 1\n// @fail sweep out_of_bounds\n");
  });
  config_.rounds = 1;
  ASSERT_TRUE(Run(client));
  const RunData data = Load();
  ASSERT_EQ(data.frontier.size(), 1U);
  EXPECT_EQ(data.Find(data.frontier[0].candidate)->name, "seed");
  EXPECT_EQ(data.FindCandidate("r1.i1.b1")->evaluation->verdict.kind,
            eval::VerdictKind::kOutOfBounds);
}

TEST_F(SearchTest, AnExactDuplicateIsDroppedBeforeItIsCompiled) {
  ScriptedClient client([](const llm::Request& request) -> Result<std::string> {
    if (request.role == llm::Role::kIdea) return IdeasReply({"one", "two"});
    return ProgramReply("// @time 700\n");
  });
  config_.rounds = 1;
  const int before = compiler_.calls();
  ASSERT_TRUE(Run(client));
  const RunData data = Load();
  EXPECT_EQ(data.FindCandidate("r1.i1.b1")->evaluation->verdict.kind, eval::VerdictKind::kPass);
  for (const char* name : {"r1.i1.b2", "r1.i2.b1", "r1.i2.b2"}) {
    const eval::Verdict& verdict = data.FindCandidate(name)->evaluation->verdict;
    EXPECT_EQ(verdict.kind, eval::VerdictKind::kDuplicate) << name;
    EXPECT_THAT(verdict.message, HasSubstr("r1.i1.b1"));
  }
  EXPECT_EQ(compiler_.calls() - before, 2 * 5);  // the seed's cases and one program's
}

TEST_F(SearchTest, AReplyWithoutAProgramIsAVerdictToo) {
  ScriptedClient client([](const llm::Request& request) -> Result<std::string> {
    if (request.role == llm::Role::kIdea) return IdeasReply({"one", "two"});
    return std::string("I cannot do that.");
  });
  config_.rounds = 1;
  ASSERT_TRUE(Run(client));
  EXPECT_EQ(Load().FindCandidate("r1.i1.b1")->evaluation->verdict.kind,
            eval::VerdictKind::kParseError);
}

TEST_F(SearchTest, ARepairTurnMayMendAFailedProgram) {
  config_.rounds = 1;
  config_.repairs = 1;
  ScriptedClient client([](const llm::Request& request) -> Result<std::string> {
    if (request.role == llm::Role::kIdea) return IdeasReply({"one", "two"});
    if (request.role == llm::Role::kRepair) return ProgramReply("// @time 600\n");
    return ProgramReply("// @compile error\n");
  });
  ASSERT_TRUE(Run(client));
  const RunData data = Load();
  EXPECT_EQ(data.FindCandidate("r1.i1.b1")->evaluation->verdict.kind, eval::VerdictKind::kPass);
  EXPECT_EQ(data.FindCandidate("r1.i1.b1")->turn, 1);
  ASSERT_FALSE(data.attempts.empty());
  EXPECT_EQ(data.attempts[0].verdict.kind, eval::VerdictKind::kCompileError);
}

TEST_F(SearchTest, NoGainForLongEnoughEndsTheSearch) {
  config_.rounds = 50;
  config_.patience = 3;
  std::atomic<int> n{0};
  ScriptedClient client([&](const llm::Request& request) -> Result<std::string> {
    if (request.role == llm::Role::kIdea || request.role == llm::Role::kAdviser) {
      return IdeasReply({fmt::format("idea{}", ++n)});
    }
    return ProgramReply(fmt::format("// @time {}\n", 2000 + ++n));
  });
  const auto summary = Run(client);
  ASSERT_TRUE(summary);
  // Three without a gain, the adviser's, and one to build on it.
  EXPECT_EQ(summary->rounds, 5);
  EXPECT_THAT(summary->reason, HasSubstr("converged: no gain in 5 rounds"));
  std::set<std::string> advised;
  for (const llm::Request& request : client.requests()) {
    if (request.role == llm::Role::kAdviser) advised.insert(results::RequestJson(request));
  }
  EXPECT_FALSE(advised.empty());
  const RunData data = Load();
  for (const results::CallRow& call : data.calls) {
    EXPECT_EQ(call.key.role == llm::Role::kAdviser, call.key.round == 4 && call.key.idea == 0)
        << results::ToString(call.key);
  }
}

TEST_F(SearchTest, AnIdeaTriedFromTheSameKernelIsNotTriedAgain) {
  config_.rounds = 2;
  config_.frontier = 1;
  ScriptedClient client([](const llm::Request& request) -> Result<std::string> {
    if (request.role == llm::Role::kIdea) return IdeasReply({"the only idea"});
    return ProgramReply("// @time 5000\n");
  });
  ASSERT_TRUE(Run(client));
  EXPECT_EQ(Load().ideas.size(), 1U);
}

// A catalogue that is used up is no mystery: the round is empty, and a line says why.
TEST_F(SearchTest, AParentForWhichTheModelHasNoIdeasIsNamed) {
  config_.rounds = 1;
  ScriptedClient client([](const llm::Request&) -> Result<std::string> { return IdeasReply({}); });
  const auto summary = Run(client);
  ASSERT_TRUE(summary) << summary.error().message;
  EXPECT_THAT(observer_.lines(), ::testing::Contains(HasSubstr("no ideas from seed")));
}

TEST_F(SearchTest, KernelsOfOneFrontierDoNotBreedTheSameProgramTwice) {
  // Whatever the parent is, the model offers the same three ideas: x after y is y after x.
  ScriptedClient client([](const llm::Request& request) -> Result<std::string> {
    if (request.role == llm::Role::kIdea) {
      return std::string(
          R"({"ideas": [{"title": "alpha", "category": "memory access"},
                        {"title": "beta", "category": "data type and precision"},
                        {"title": "gamma", "category": "parallelism and occupancy"}]})");
    }
    // Each idea makes the parent's time less by its own factor.
    const std::string& text = request.messages[0].text;
    double time = 1000;
    for (const auto& [title, factor] :
         {std::pair("alpha", 0.5), std::pair("beta", 0.6), std::pair("gamma", 0.7)}) {
      const bool new_one = text.find(fmt::format("title: {}", title)) != std::string::npos;
      const bool had = text.find(fmt::format("// has {}", title)) != std::string::npos;
      if (new_one || had) time *= factor;
    }
    std::string source = fmt::format("// @time {}\n", time);
    for (const char* title : {"alpha", "beta", "gamma"}) {
      if (text.find(fmt::format("title: {}", title)) != std::string::npos ||
          text.find(fmt::format("// has {}", title)) != std::string::npos) {
        source += fmt::format("// has {}\n", title);
      }
    }
    return ProgramReply(source);
  });
  config_.rounds = 3;
  config_.ideas = 3;
  config_.branches = 1;
  config_.frontier = 3;
  ASSERT_TRUE(Run(client));
  const RunData data = Load();
  std::multiset<Makeup> makeups;
  for (const CandidateRow& candidate : data.candidates) {
    if (results::ScoreOf(candidate)) makeups.insert(MakeupOf(data, candidate));
  }
  for (const auto& makeup : makeups) {
    EXPECT_EQ(makeups.count(makeup), 1U) << fmt::format("{}", fmt::join(makeup, "+"));
  }
  // All of them are there nevertheless: seed, 3 single ones, 3 pairs, the triple.
  EXPECT_EQ(makeups.size(), 8U);
  bool said = false;
  for (const llm::Request& request : client.requests()) {
    said = said ||
           request.messages[0].text.find("the same ideas in another order") != std::string::npos;
  }
  EXPECT_TRUE(said);
}

TEST_F(SearchTest, AFinishedRunResumesToNothing) {
  ScriptedClient client(Improving());
  ASSERT_TRUE(Run(client));
  const std::size_t asked = client.requests().size();
  const auto summary = Run(client);
  ASSERT_TRUE(summary);
  EXPECT_EQ(client.requests().size(), asked);
  EXPECT_EQ(summary->status, RunStatus::kFinished);
}

TEST_F(SearchTest, AStoppedRunGoesOnWithoutAskingAgain) {
  std::stop_source stop;
  std::atomic<int> checks{0};
  device_.on_check = [&] {
    if (++checks == 12) stop.request_stop();
  };
  ScriptedClient client(Improving());
  const auto stopped = Run(client, stop.get_token());
  ASSERT_TRUE(stopped);
  EXPECT_EQ(stopped->status, RunStatus::kInterrupted);
  EXPECT_EQ(Load().run.status, RunStatus::kInterrupted);
  std::set<std::string> asked;
  for (const llm::Request& request : client.requests()) {
    asked.insert(results::RequestJson(request) + std::to_string(request.seed));
  }
  device_.on_check = nullptr;
  const std::size_t before = client.requests().size();
  const auto resumed = Run(client);
  ASSERT_TRUE(resumed);
  EXPECT_EQ(resumed->status, RunStatus::kFinished);
  const auto requests = client.requests();
  for (std::size_t i = before; i < requests.size(); ++i) {
    EXPECT_FALSE(
        asked.contains(results::RequestJson(requests[i]) + std::to_string(requests[i].seed)));
  }
  EXPECT_TRUE(results::CheckStore(folder_.path() / "run"));
}

TEST_F(SearchTest, AModelThatIsDownLeavesTheRunResumable) {
  bool down = true;
  ScriptedClient client([&](const llm::Request& request) -> Result<std::string> {
    if (down && request.role == llm::Role::kCode) {
      return Fail(ErrorCode::kUnavailable, "endpoint is down");
    }
    return Improving()(request);
  });
  const auto failed = Run(client);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(Load().run.status, RunStatus::kInterrupted);
  down = false;
  const auto resumed = Run(client);
  ASSERT_TRUE(resumed) << resumed.error().message;
  EXPECT_EQ(resumed->status, RunStatus::kFinished);
}

TEST_F(SearchTest, ASeedThatDoesNotPassIsReportedWithItsVerdict) {
  task_.seed.source = TinySource("// @fail edge trap\n");
  ScriptedClient client(Improving());
  const auto summary = Run(client);
  ASSERT_FALSE(summary);
  EXPECT_EQ(summary.error().code, ErrorCode::kInvalidInput);
  EXPECT_THAT(summary.error().message, HasSubstr("trap"));
}

TEST_F(SearchTest, TheSamePromptsAndRepliesGiveTheSameTree) {
  // Programs depend on the request alone, whatever order the requests arrive in.
  const auto script = [](const llm::Request& request) -> Result<std::string> {
    const auto hash =
        HashText(fmt::format("{} {}", results::RequestJson(request), request.seed)).low;
    if (request.role == llm::Role::kIdea) {
      return IdeasReply({fmt::format("idea{}", hash % 997), fmt::format("plan{}", hash % 887)});
    }
    return ProgramReply(fmt::format("// @time {}\n", 300 + hash % 600));
  };
  std::vector<std::string> trees;
  for (int repetition = 0; repetition < 3; ++repetition) {
    std::filesystem::remove_all(folder_.path() / "run");
    ScriptedClient client(script);
    ASSERT_TRUE(Run(client));
    std::string tree;
    for (const CandidateRow& candidate : Load().candidates) {
      tree += fmt::format("{} {} {} {}: {}\n", candidate.id.value, candidate.name,
                          eval::Name(candidate.evaluation->verdict.kind),
                          candidate.evaluation->score ? candidate.evaluation->score->count() : 0,
                          candidate.evaluation->verdict.message);
    }
    trees.push_back(std::move(tree));
  }
  EXPECT_EQ(trees[0], trees[1]);
  EXPECT_EQ(trees[0], trees[2]);
}

}  // namespace
}  // namespace grove::search
