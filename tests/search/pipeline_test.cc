// What the pipeline of a round promises: nothing waits for what it does not need, and the order in
// which things finish leaves no trace in the tree.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "llm/playbook/prompt_view.h"
#include "results/store.h"
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

std::string OneIdea(const std::string& title, const std::string& category) {
  return fmt::format(R"({{"title": "{}", "category": "{}", "rationale": "because"}})", title,
                     category);
}

std::string Program(int time, const std::string& directives = "") {
  return "```cuda\n" + testing::TinySource(fmt::format("// @time {}\n{}", time, directives)) +
         "```\n```json\n" + testing::TinyPlan() + "\n```\n";
}

// Something that one part of a test waits for and another brings about. A wait that lasts too long
// ends, and the test sees it.
class Signal {
 public:
  void Set() {
    const std::scoped_lock lock(mutex_);
    set_ = true;
    changed_.notify_all();
  }
  bool Wait() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(60), [this] { return set_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool set_ = false;
};

// Like ScriptedClient, and sees the request's on_text.
class StreamingClient final : public llm::Client {
 public:
  using Script = std::function<Result<std::string>(const llm::Request&)>;
  explicit StreamingClient(Script script) : script_(std::move(script)) {}
  Result<llm::Reply> Complete(const llm::Request& request, std::stop_token) override {
    auto text = script_(request);
    if (!text) return Failure(std::move(text.error()));
    llm::Reply reply;
    reply.text = std::move(*text);
    return reply;
  }
  std::string_view name() const override { return "streaming"; }

 private:
  Script script_;
};

class PipelineTest : public ::testing::Test {
 protected:
  void SetUp() override {
    config_.task = "tiny";
    config_.reserve = 0;
    config_.rounds = 1;
    config_.ideas = 2;
    config_.branches = 2;
    config_.repairs = 0;
    auto evaluator = eval::Evaluator::Create(task_, compiler_, device_, {});
    ASSERT_TRUE(evaluator) << evaluator.error().message;
    evaluator_ = std::move(*evaluator);
  }

  Result<SearchSummary> Run(llm::Client& client, const std::string& name = "run") {
    const bool fresh = !std::filesystem::exists(folder_.path() / name / "run.db");
    auto store = fresh ? results::Store::Create(folder_.path(),
                                                MakeRunStart(name, task_, config_, "test"), clock_)
                       : results::Store::Open(folder_.path(), name, clock_);
    EXPECT_TRUE(store) << store.error().message;
    const SearchParts parts{task_, *evaluator_, device_, client, **store, observer_};
    return RunSearch(parts, config_, {});
  }

  RunData Load(const std::string& name = "run") {
    auto reader = results::Reader::Open(folder_.path() / name);
    EXPECT_TRUE(reader);
    auto data = (*reader)->Load();
    EXPECT_TRUE(data);
    return std::move(*data);
  }

  static std::string TwoIdeas() {
    return "{\"ideas\": [" + OneIdea("alpha", "memory access") + "," +
           OneIdea("beta", "data type and precision") + "]}";
  }

  seeds::Task task_ = testing::TinyTask();
  testing::FakeCompiler compiler_;
  testing::FakeDevice device_;
  testing::FakeClock clock_;
  testing::RecordingObserver observer_;
  testing::ScratchFolder folder_;
  std::unique_ptr<eval::Evaluator> evaluator_;
  SearchConfig config_;
};

TEST_F(PipelineTest, AnIdeaIsImplementedWhileItsReplyStillComesIn) {
  Signal implemented;
  bool in_time = false;
  StreamingClient client([&](const llm::Request& request) -> Result<std::string> {
    if (request.role == llm::Role::kIdea) {
      const std::string first = "{\"ideas\": [" + OneIdea("alpha", "memory access");
      request.on_text(first);
      in_time = implemented.Wait();
      return first + "," + OneIdea("beta", "data type and precision") + "]}";
    }
    if (request.messages[0].text.find("title: alpha") != std::string::npos) implemented.Set();
    return Program(500);
  });
  ASSERT_TRUE(Run(client));
  EXPECT_TRUE(in_time);
  const RunData data = Load();
  ASSERT_EQ(data.ideas.size(), 2U);
  EXPECT_EQ(data.ideas[0].title, "alpha");
  EXPECT_EQ(data.ideas[1].title, "beta");
}

TEST_F(PipelineTest, AProgramIsJudgedWhileItsSiblingsAreStillWritten) {
  Signal judged;
  bool in_time = false;
  device_.on_check = [&, first = std::make_shared<std::atomic<int>>(0)] {
    if (++*first > 4) judged.Set();  // the seed has four checks
  };
  StreamingClient client([&](const llm::Request& request) -> Result<std::string> {
    if (request.role == llm::Role::kIdea) {
      return "{\"ideas\": [" + OneIdea("alpha", "memory access") + "]}";
    }
    if (request.seed % 2 == 1) in_time = judged.Wait();
    return Program(500 + static_cast<int>(request.seed % 2));
  });
  ASSERT_TRUE(Run(client));
  EXPECT_TRUE(in_time);
}

TEST_F(PipelineTest, AsManyCallsAsAllowedAreInFlightWhateverTheCores) {
  config_.branches = 16;
  config_.calls = 32;
  std::atomic<int> waiting{0};
  Signal all;
  std::atomic<int> late{0};
  StreamingClient client([&](const llm::Request& request) -> Result<std::string> {
    if (request.role == llm::Role::kIdea) return TwoIdeas();
    if (++waiting == 32) all.Set();
    if (!all.Wait()) ++late;
    return std::string("no program");
  });
  ASSERT_TRUE(Run(client));
  EXPECT_EQ(late, 0);
}

TEST_F(PipelineTest, OfEqualProgramsTheLowestHasTheVerdictWhicheverCameFirst) {
  config_.branches = 3;
  Signal second_is_judged;
  StreamingClient client([&](const llm::Request& request) -> Result<std::string> {
    if (request.role == llm::Role::kIdea) {
      return "{\"ideas\": [" + OneIdea("alpha", "memory access") + "]}";
    }
    // The first branch comes when the verdicts of both others are stored.
    if (request.seed == config_.seed - 1) {
      for (int i = 0; i < 6000; ++i) {
        const auto lines = observer_.lines();
        const auto judged = std::count_if(lines.begin(), lines.end(), [](const std::string& line) {
          return line.starts_with("  r1.i1.b");
        });
        if (judged == 2) break;
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
    }
    return Program(400);
  });
  const int before = compiler_.calls();
  ASSERT_TRUE(Run(client));
  const RunData data = Load();
  const CandidateRow* first = data.FindCandidate("r1.i1.b1");
  EXPECT_EQ(first->evaluation->verdict.kind, eval::VerdictKind::kPass);
  EXPECT_NEAR(results::ScoreOf(*first)->count(), 400, 1e-6);
  EXPECT_FALSE(first->evaluation->case_times.empty());
  for (const char* name : {"r1.i1.b2", "r1.i1.b3"}) {
    const auto& evaluation = *data.FindCandidate(name)->evaluation;
    EXPECT_EQ(evaluation.verdict.kind, eval::VerdictKind::kDuplicate) << name;
    EXPECT_EQ(evaluation.verdict.message, "the same program as r1.i1.b1") << name;
    EXPECT_TRUE(evaluation.case_times.empty());
    EXPECT_FALSE(evaluation.score);
  }
  EXPECT_EQ(compiler_.calls() - before, 2 * 5);  // the seed's cases and one program's
  EXPECT_TRUE(results::CheckStore(folder_.path() / "run"));
  ASSERT_EQ(data.frontier.size(), 2U);
  EXPECT_EQ(data.frontier[0].candidate, first->id);
}

TEST_F(PipelineTest, AFailedProgramIsCompiledOnceAndRepairedByEachThatHasIt) {
  config_.repairs = 1;
  std::atomic<int> repairs{0};
  StreamingClient client([&](const llm::Request& request) -> Result<std::string> {
    if (request.role == llm::Role::kIdea) return TwoIdeas();
    if (request.role == llm::Role::kCode) return Program(1, "// @compile error\n");
    return Program(500 + ++repairs);
  });
  const int before = compiler_.calls();
  ASSERT_TRUE(Run(client));
  EXPECT_EQ(repairs, 4);
  EXPECT_EQ(compiler_.calls() - before, 5 + 1 + 4 * 5);
  EXPECT_EQ(Load().attempts.size(), 4U);
}

TEST_F(PipelineTest, RefusedIdeasAreAskedForAgainOnceWithTheClashNamed) {
  std::vector<std::string> questions;
  std::mutex mutex;
  config_.branches = 1;
  config_.ideas = 3;
  StreamingClient client([&](const llm::Request& request) -> Result<std::string> {
    if (request.role != llm::Role::kIdea) return Program(500);
    const std::scoped_lock lock(mutex);
    questions.push_back(request.messages[0].text);
    if (questions.size() == 1) {
      return "{\"ideas\": [" + OneIdea("Use vectorised loads of 16 bytes", "memory access") + "," +
             OneIdea("Vectorized 16 byte loads", "data type and precision") + "," +
             OneIdea("Pad shared memory", "memory access") + "]}";
    }
    return "{\"ideas\": [" + OneIdea("Persistent blocks", "parallelism and occupancy") + "," +
           OneIdea("Double buffering", "asynchrony and latency hiding") + "]}";
  });
  ASSERT_TRUE(Run(client));
  ASSERT_EQ(questions.size(), 2U);
  EXPECT_EQ(questions[0].find("<refusals>"), std::string::npos);
  EXPECT_THAT(questions[1], HasSubstr("\"Vectorized 16 byte loads\" is nearly the same as \"Use "
                                      "vectorised loads of 16 bytes\""));
  EXPECT_THAT(questions[1], HasSubstr("\"Pad shared memory\": this round has its share"));
  EXPECT_THAT(questions[1], HasSubstr("ideas wanted: 2"));
  std::vector<std::string> titles;
  for (const auto& idea : Load().ideas) titles.push_back(idea.title);
  EXPECT_EQ(titles, (std::vector<std::string>{"Use vectorised loads of 16 bytes",
                                              "Persistent blocks", "Double buffering"}));
}

TEST_F(PipelineTest, AnEagerRoundAsksForTheNextIdeasBeforeItsLastCandidateIsIn) {
  config_.rounds = 2;
  config_.frontier = 1;
  config_.eager = 50;
  Signal asked;
  bool in_time = false;
  std::mutex mutex;
  std::vector<std::string> second_round;
  StreamingClient client([&](const llm::Request& request) -> Result<std::string> {
    const std::string& text = request.messages[0].text;
    const bool from_seed = text.find("id: seed") != std::string::npos;
    if (request.role == llm::Role::kIdea) {
      if (from_seed) return TwoIdeas();
      const std::scoped_lock lock(mutex);
      second_round.push_back(text);
      asked.Set();
      return "{\"ideas\": [" + OneIdea("gamma", "memory access") + "]}";
    }
    const bool alpha = text.find("title: alpha") != std::string::npos;
    const bool second = request.seed != config_.seed - 1;
    if (from_seed && !alpha && second) in_time = asked.Wait();
    return Program((from_seed ? 500 : 300) + (alpha ? 0 : 20) + (second ? 1 : 0));
  });
  ASSERT_TRUE(Run(client));
  EXPECT_TRUE(in_time);
  // The frontier is as it was chosen early, so the one question served.
  ASSERT_EQ(second_round.size(), 1U);
  EXPECT_THAT(second_round[0], HasSubstr("id: r1.i1.b1"));
  const RunData data = Load();
  EXPECT_EQ(data.ideas.back().title, "gamma");
  EXPECT_EQ(std::count_if(data.events.begin(), data.events.end(),
                          [](const auto& event) { return event.kind == "eager"; }),
            1);
}

TEST_F(PipelineTest, ASpentBudgetEndsTheRunWithWhatThereIs) {
  config_.rounds = 5;
  config_.limits = {{results::LedgerKind::kEvaluations, results::LedgerSpan::kRun, 3}};
  std::atomic<int> programs{0};
  StreamingClient client([&](const llm::Request& request) -> Result<std::string> {
    if (request.role == llm::Role::kIdea) return TwoIdeas();
    return Program(500 - ++programs);
  });
  const auto summary = Run(client);
  ASSERT_TRUE(summary) << summary.error().message;
  EXPECT_EQ(summary->status, RunStatus::kFinished);
  EXPECT_THAT(summary->reason, HasSubstr("budget: "));
  const RunData data = Load();
  ASSERT_EQ(data.rounds.size(), 1U);
  EXPECT_EQ(data.rounds[0].status, results::RoundStatus::kFinished);
  const auto passed = std::count_if(
      data.candidates.begin(), data.candidates.end(), [](const results::CandidateRow& candidate) {
        return candidate.round && results::ScoreOf(candidate).has_value();
      });
  EXPECT_GT(passed, 0);
  EXPECT_LE(passed, 3);
  EXPECT_TRUE(results::CheckStore(folder_.path() / "run"));
}

// What a budget left undone is done first when there is more: as if there had been as much at once.
TEST_F(PipelineTest, ALargerBudgetTakesUpTheRoundThatASmallerOneCut) {
  config_.rounds = 2;
  const auto reply = [](const llm::Request& request) -> Result<std::string> {
    if (request.role == llm::Role::kIdea) return TwoIdeas();
    const std::string& text = request.messages[0].text;
    const int idea = text.find("title: alpha") != text.npos ? 0 : 10;
    const int parent = text.find("id: seed") != text.npos ? 0 : 100;
    return Program(800 - idea - parent - static_cast<int>(request.seed % 2));
  };
  const auto tree_of = [](const RunData& data) {
    std::string text;
    for (const results::CandidateRow& row : data.candidates) {
      text += fmt::format("{} {} {}\n", row.name,
                          row.evaluation ? eval::Name(row.evaluation->verdict.kind) : "none",
                          results::ScoreOf(row) ? results::ScoreOf(row)->count() : 0.0);
    }
    for (const auto& row : data.frontier) {
      text += fmt::format("after {}: {}\n", data.Find(row.round)->index,
                          data.Find(row.candidate)->name);
    }
    return text;
  };
  ScriptedClient at_once(reply);
  ASSERT_TRUE(Run(at_once, "direct"));
  for (const int evaluations : {0, 1, 2, 3, 5, 6}) {
    SCOPED_TRACE(evaluations);
    const std::string name = fmt::format("run{}", evaluations);
    ScriptedClient client(reply);
    config_.limits = {{results::LedgerKind::kEvaluations, results::LedgerSpan::kRun,
                       static_cast<double>(evaluations) + 0.5}};
    const auto cut = Run(client, name);
    ASSERT_TRUE(cut) << cut.error().message;
    EXPECT_THAT(cut->reason, HasSubstr("budget: "));
    const RunData before = Load(name);
    ASSERT_FALSE(before.rounds.empty());
    EXPECT_TRUE(before.rounds.back().cut);
    EXPECT_EQ(before.rounds.back().status, results::RoundStatus::kFinished);
    // As much again evaluates nothing; what costs nothing, as a duplicate, may be seen.
    const auto passed = [](const RunData& data) {
      return std::count_if(data.candidates.begin(), data.candidates.end(),
                           [](const auto& row) { return results::ScoreOf(row).has_value(); });
    };
    ASSERT_TRUE(Run(client, name));
    EXPECT_EQ(passed(Load(name)), passed(before));
    EXPECT_TRUE(Load(name).rounds.back().cut);
    config_.limits.clear();
    const auto whole = Run(client, name);
    ASSERT_TRUE(whole) << whole.error().message;
    EXPECT_EQ(whole->reason, "all 2 rounds are done");
    const RunData after = Load(name);
    EXPECT_EQ(tree_of(after), tree_of(Load("direct")));
    for (const results::RoundRow& round : after.rounds) EXPECT_FALSE(round.cut);
    EXPECT_EQ(client.requests().size(), at_once.requests().size()) << "something was asked twice";
    EXPECT_TRUE(results::CheckStore(folder_.path() / name));
  }
}

TEST_F(PipelineTest, AStagnantSearchRestartsOneBranchFromAnotherFamily) {
  config_.rounds = 3;
  config_.patience = 1;
  config_.frontier = 2;
  config_.branches = 1;
  std::atomic<int> n{0};
  std::atomic<int> fastest{0};
  // The first family gives the two fastest kernels, then nothing is any better.
  StreamingClient client([&](const llm::Request& request) -> Result<std::string> {
    if (request.role == llm::Role::kIdea || request.role == llm::Role::kAdviser) {
      const int id = ++n;
      return "{\"ideas\": [" + OneIdea(fmt::format("alpha{}", id), "memory access") + "," +
             OneIdea(fmt::format("beta{}", id), "data type and precision") + "]}";
    }
    const std::string& text = request.messages[0].text;
    if (text.find("id: seed") != std::string::npos) {
      return Program(text.find("title: alpha") != std::string::npos ? 500 : 800);
    }
    const bool slow_family = text.find("id: r1.i2.b1") != std::string::npos;
    return Program((slow_family ? 900 : 501) + ++fastest);
  });
  ASSERT_TRUE(Run(client));
  const RunData data = Load();
  std::vector<std::string> second;
  for (const results::FrontierRow& row : data.frontier) {
    if (data.Find(row.round)->index == 2) second.push_back(data.Find(row.candidate)->name);
  }
  // Round 2 brought no gain: the reserve is the other family's best.
  ASSERT_EQ(second.size(), 2U);
  EXPECT_EQ(second[0], "r1.i1.b1");
  EXPECT_EQ(second[1], "r1.i2.b1");
}

// Who had an idea is known whether it was taken from the reply or while that came in.
TEST_F(PipelineTest, IdeasNameTheCallThatTheyCameFrom) {
  StreamingClient client([&](const llm::Request& request) -> Result<std::string> {
    if (request.role != llm::Role::kIdea) return Program(900);
    const std::string reply = TwoIdeas();
    if (request.on_text) request.on_text(reply.substr(0, reply.find("}") + 1));
    return reply;
  });
  ASSERT_TRUE(Run(client));
  const RunData data = Load();
  ASSERT_EQ(data.ideas.size(), 2U);
  for (const results::IdeaRow& idea : data.ideas) {
    const auto call = std::find_if(data.calls.begin(), data.calls.end(),
                                   [&](const auto& row) { return row.id == idea.call; });
    ASSERT_NE(call, data.calls.end()) << idea.title;
    EXPECT_EQ(call->key.role, llm::Role::kIdea);
  }
}

// Nothing is known of such an idea, so it may be had again.
TEST_F(PipelineTest, AnIdeaThatNobodyEvaluatedIsNoTriedIdea) {
  config_.rounds = 2;
  config_.limits = {{results::LedgerKind::kEvaluations, results::LedgerSpan::kRound, 0.5}};
  ScriptedClient client([&](const llm::Request& request) -> Result<std::string> {
    if (request.role == llm::Role::kIdea) return TwoIdeas();
    return Program(900);
  });
  ASSERT_TRUE(Run(client));
  const RunData data = Load();
  ASSERT_EQ(data.ideas.size(), 4U);
  EXPECT_EQ(data.ideas[2].title, data.ideas[0].title);
  std::vector<std::string> questions;
  for (const llm::Request& request : client.requests()) {
    if (request.role == llm::Role::kIdea) questions.push_back(request.messages[0].text);
  }
  ASSERT_EQ(questions.size(), 2U);
  EXPECT_EQ(llm::playbook::Section(questions[1], "tried_here"), "");
  EXPECT_EQ(llm::playbook::Section(questions[1], "tried_elsewhere"), "");
}

}  // namespace
}  // namespace grove::search
