#include "search/batch.h"

#include <atomic>
#include <cmath>
#include <filesystem>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "search/search.h"
#include "tests/search/run_builder.h"
#include "tests/support/fakes.h"
#include "tests/support/program.h"

namespace grove::search {
namespace {

using ::testing::HasSubstr;

constexpr const char* kFile = R"(
tokens = 7_000_000
rounds = 40
[[task]]
name = "softmax"
weight = 0.4
suite = "crfm"
cases = ["crfm"]
[[task]]
name = "layernorm"
)";

TEST(BatchFileTest, IsReadAsItIsWritten) {
  const auto spec = ParseBatch(kFile, "batch.toml");
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->tokens, 7000000);
  EXPECT_EQ(spec->rounds, 40);
  ASSERT_EQ(spec->tasks.size(), 2U);
  EXPECT_EQ(spec->tasks[0].name, "softmax");
  EXPECT_DOUBLE_EQ(spec->tasks[0].weight, 0.4);
  EXPECT_EQ(spec->tasks[0].cases, std::vector<std::string>{"crfm"});
  EXPECT_DOUBLE_EQ(spec->tasks[1].weight, 1);
}

TEST(BatchFileTest, WhatIsWrongIsNamedWithItsPlace) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "no task"},
      {"[[task]]\nname = \"a\"\n[[task]]\nname = \"a\"\n", "twice"},
      {"[[task]]\nweight = 1\n", "a task needs a name"},
      {"[[task]]\nname = \"a\"\nweight = 0\n", "b.toml:3:10: expected a weight above 0"},
      {"[[task]]\nname = \"a\"\nweight = inf\n", "b.toml:3:10"},
      {"[[task]]\nname = \"a\"\nwieght = 1\n", "did you mean 'weight'"},
      {"tokens = -1\n[[task]]\nname = \"a\"\n", "b.toml:1:10"},
      {"tokens = \"many\"\n", "b.toml:1:10"},
      {"task = 3\n", "[[task]]"},
      {"[[task]]\nname = \"../etc\"\n", "name"},
      {"[[task]\n", "b.toml:1"},
  };
  for (const auto& [text, expected] : cases) {
    const auto spec = ParseBatch(text, "b.toml");
    ASSERT_FALSE(spec) << text;
    EXPECT_THAT(spec.error().message, HasSubstr(expected)) << text;
  }
}

TEST(BatchFileTest, SurvivesItsOwnStore) {
  const testing::ScratchFolder folder;
  auto spec = *ParseBatch(kFile, "batch.toml");
  spec.config.rounds = 12;
  spec.config.goals = {"90% of floor"};
  ASSERT_TRUE(WriteBatch(folder.path(), "b", spec));
  const auto read = ReadBatch(folder.path(), "b");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(ToJson(*read), ToJson(spec));
  EXPECT_EQ(RunOf("b", read->tasks[0]), "b.softmax");
  for (const char* broken :
       {"", "[]", "{\"version\": 2}", "{\"version\": 1}", "{\"version\": 1, \"tokens\": \"x\"}"}) {
    EXPECT_FALSE(BatchFromJson(broken)) << broken;
  }
}

TEST(StandingTest, IsReadFromTheRun) {
  testing::RunBuilder run(1000);
  run.Round(1);
  run.Add("a", "seed", "one", 500);
  run.Round(2);
  run.Add("b", "a", "two", 600);
  results::CallRow call;
  call.key.round = 2;
  call.usage.completion = Tokens(70);
  run.data().calls.push_back(call);
  run.data().run.status = results::RunStatus::kStopped;
  const TaskStanding standing = StandingOf({"t", 2, "", {}}, &run.data(), 10);
  EXPECT_EQ(standing.rounds, 2);
  EXPECT_FALSE(standing.ended);
  EXPECT_DOUBLE_EQ(standing.share, 0.5);
  ASSERT_EQ(standing.gains.size(), 2U);
  EXPECT_NEAR(standing.gains[0], std::log(2.0), 1e-12);
  EXPECT_EQ(standing.gains[1], 0);
  EXPECT_EQ(standing.costs[1], 70);
  EXPECT_TRUE(StandingOf({"t", 2, "", {}}, &run.data(), 2).ended);
  run.data().run.status = results::RunStatus::kFinished;
  EXPECT_TRUE(StandingOf({"t", 2, "", {}}, &run.data(), 10).ended);
}

TaskStanding Standing(double weight, std::vector<double> gains) {
  TaskStanding standing;
  standing.weight = weight;
  standing.rounds = static_cast<int>(gains.size());
  double sum = 0;
  for (const double gain : gains) sum += gain;
  standing.share = std::exp(-sum);
  standing.costs.assign(gains.size(), 1000);
  standing.spent = 1000.0 * static_cast<double>(gains.size());
  standing.paid[results::LedgerKind::kTokens] = standing.spent;
  standing.gains = std::move(gains);
  return standing;
}

std::optional<std::size_t> Next(const std::vector<TaskStanding>& standings, BatchSpec spec = {}) {
  return NextTask(standings, spec);
}

TEST(NextTaskTest, TheHeaviestIsFirst) {
  EXPECT_EQ(Next({Standing(0.2, {}), Standing(0.7, {}), Standing(0.1, {})}), 1U);
}

TEST(NextTaskTest, ATaskThatStillGainsGoesOn) {
  EXPECT_EQ(Next({Standing(0.5, {0.6, 0.6}), Standing(0.5, {0.6, 0.0})}), 0U);
}

TEST(NextTaskTest, WhatIsAlreadyFastMattersLess) {
  // Both gain 10% a round, but the first takes a hundredth of its time already.
  EXPECT_EQ(Next({Standing(0.5, {4.6, 0.1, 0.1, 0.1}), Standing(0.5, {0.1, 0.1, 0.1, 0.1})}), 1U);
}

TEST(NextTaskTest, CheapRoundsAreWorthMore) {
  auto cheap = Standing(0.5, {0.2, 0.2});
  auto dear = Standing(0.5, {0.2, 0.2});
  dear.costs = {50000, 50000};
  EXPECT_EQ(Next({dear, cheap}), 1U);
}

TEST(NextTaskTest, ATaskThatDriedUpIsReturnedToWhenTheOthersHave) {
  // The first was heavy and stopped gaining. Rounds of the second gain less and less.
  std::vector<TaskStanding> standings = {Standing(0.6, {1.0, 0.0, 0.0}), Standing(0.4, {})};
  std::vector<std::size_t> order;
  std::vector<double> second;
  for (int i = 0; i < 12; ++i) {
    const std::size_t next = *Next(standings);
    order.push_back(next);
    TaskStanding& standing = standings[next];
    auto gains = standing.gains;
    gains.push_back(next == 1 ? 0.5 * std::pow(0.3, static_cast<double>(gains.size())) : 0.0);
    standing = Standing(standing.weight, gains);
  }
  EXPECT_EQ(order[0], 1U);
  EXPECT_THAT(order, ::testing::Contains(0U));
}

TEST(LimitsTest, WhatAllShareIsNestedInTheLedgerOfTheTask) {
  using results::LedgerKind;
  using results::LedgerSpan;
  BatchSpec spec;
  spec.tokens = 10000;
  spec.config.limits = {{LedgerKind::kDollars, LedgerSpan::kRun, 5},
                        {LedgerKind::kTokens, LedgerSpan::kIdea, 300}};
  std::vector<TaskStanding> standings = {Standing(1, {0.5, 0.5}), Standing(1, {0.5})};
  standings[0].paid[LedgerKind::kDollars] = 4.5;
  const auto limits = LimitsOf(standings, spec, 1);
  ASSERT_EQ(limits.size(), 3U);
  // What bounds parts of a run stays as it is.
  EXPECT_EQ(limits[0].span, LedgerSpan::kIdea);
  EXPECT_EQ(limits[0].most, 300);
  EXPECT_EQ(limits[1].kind, LedgerKind::kDollars);
  EXPECT_EQ(limits[1].span, LedgerSpan::kTask);
  EXPECT_DOUBLE_EQ(limits[1].most, 0.5);
  // 3000 of 10000 are spent, 1000 of them by the task itself.
  EXPECT_EQ(limits[2].kind, LedgerKind::kTokens);
  EXPECT_DOUBLE_EQ(limits[2].most, 1000 + 7000);
  spec.tokens = 2000;
  EXPECT_DOUBLE_EQ(LimitsOf(standings, spec, 1)[2].most, 1000);
}

TEST(StandingTest, WhatWasPaidIsWhatTheLedgerHolds) {
  using results::LedgerKind;
  testing::RunBuilder run(1000);
  const auto entry = [&](LedgerKind kind, double reserved, std::optional<double> settled,
                         int round) {
    results::LedgerRow row;
    row.kind = kind;
    row.reserved = reserved;
    row.settled = settled;
    row.round = round;
    run.data().ledger.push_back(row);
  };
  entry(LedgerKind::kTokens, 5000, 700, 1);
  entry(LedgerKind::kTokens, 5000, std::nullopt, 1);  // in flight when the process died
  entry(LedgerKind::kSeconds, 0, 30, 0);
  entry(LedgerKind::kSeconds, 0, 30, 1);  // the same time, of its round
  const TaskStanding standing = StandingOf({"t", 1, "", {}}, &run.data(), 10);
  EXPECT_EQ(standing.paid.at(LedgerKind::kTokens), 5700);
  EXPECT_EQ(standing.paid.at(LedgerKind::kSeconds), 30);
  EXPECT_EQ(standing.spent, 5700);
}

// Batches as the program runs them, with real stores: round by round, each with what is left.
TEST(BatchBudgetTest, ARoundCannotPassWhatAllShare) {
  const testing::ScratchFolder folder;
  testing::FakeClock clock;
  testing::FakeCompiler compiler;
  testing::FakeDevice device;
  testing::RecordingObserver observer;
  const seeds::Task tiny = testing::TinyTask();
  auto evaluator = eval::Evaluator::Create(tiny, compiler, device, {});
  ASSERT_TRUE(evaluator);
  std::atomic<int> n{0};
  testing::ScriptedClient client([&](const llm::Request& request) -> Result<std::string> {
    const int k = ++n;
    if (request.role == llm::Role::kIdea || request.role == llm::Role::kAdviser) {
      return fmt::format(R"({{"ideas": [{{"title": "i{}", "category": "memory access"}}]}})", k);
    }
    return "```cuda\n" + testing::TinySource(fmt::format("// @time {}\n", 1000 - k)) +
           "```\n```json\n" + testing::TinyPlan() + "\n```\n";
  });
  BatchSpec spec;
  spec.tasks = {{"a", 1, "", {}}, {"b", 1, "", {}}};
  spec.config.task = "tiny";
  spec.config.ideas = 1;
  spec.config.branches = 4;
  spec.config.rounds = 40;
  spec.config.patience = 40;
  spec.tokens = 100000;
  const auto standings = [&] {
    std::vector<TaskStanding> all;
    for (const BatchTask& task : spec.tasks) {
      auto reader = results::Reader::Open(folder.path() / task.name);
      if (!reader) {
        all.push_back(StandingOf(task, nullptr, spec.config.rounds));
        continue;
      }
      const auto data = (*reader)->Load();
      EXPECT_TRUE(data);
      all.push_back(StandingOf(task, data ? &*data : nullptr, spec.config.rounds));
    }
    return all;
  };
  int turns = 0;
  for (auto now = standings();; now = standings()) {
    const auto next = NextTask(now, spec);
    if (!next) break;
    ASSERT_LT(++turns, 200);
    const std::string& name = spec.tasks[*next].name;
    SearchConfig config = spec.config;
    config.limits = LimitsOf(now, spec, *next);
    config.rounds = now[*next].rounds + 1;
    auto store = std::filesystem::exists(folder.path() / name / "run.db")
                     ? results::Store::Open(folder.path(), name, clock)
                     : results::Store::Create(folder.path(),
                                              MakeRunStart(name, tiny, config, "test"), clock);
    ASSERT_TRUE(store) << store.error().message;
    const SearchParts parts{tiny, **evaluator, device, client, **store, observer};
    const auto summary = RunSearch(parts, config, {});
    ASSERT_TRUE(summary) << summary.error().message;
    if (!summary->spent) {
      ASSERT_TRUE((*store)->SetStatus(results::RunStatus::kStopped, "waits"));
    }
  }
  double paid = 0;
  int rounds = 0;
  for (const TaskStanding& standing : standings()) {
    paid += standing.paid.at(results::LedgerKind::kTokens);
    rounds += standing.rounds;
    EXPECT_GT(standing.rounds, 0);
  }
  EXPECT_LE(paid, static_cast<double>(spec.tokens));
  // It was used: a question reserves some 20,000 tokens, and what is left has no room for one.
  EXPECT_GT(paid, 50000);
  EXPECT_GT(rounds, 3);
}

TEST(NextTaskTest, EndsWithTheBudgetTheRoundsOrTheTasks) {
  BatchSpec spec;
  const std::vector<TaskStanding> standings = {Standing(1, {0.5, 0.5}), Standing(1, {0.5})};
  EXPECT_TRUE(Next(standings, spec));
  spec.tokens = 3000;
  EXPECT_FALSE(Next(standings, spec));
  spec.tokens = 3001;
  spec.rounds = 3;
  EXPECT_FALSE(Next(standings, spec));
  spec.rounds = 4;
  EXPECT_TRUE(Next(standings, spec));
  auto ended = standings;
  ended[0].ended = ended[1].ended = true;
  EXPECT_FALSE(Next(ended));
  ended[1].ended = false;
  EXPECT_EQ(Next(ended), 1U);
  spec = {};
  spec.config.limits = {{results::LedgerKind::kTokens, results::LedgerSpan::kRun, 3000}};
  EXPECT_FALSE(Next(standings, spec));
}

}  // namespace
}  // namespace grove::search
