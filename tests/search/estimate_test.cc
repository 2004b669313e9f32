// What `--dry-run` says a search may spend at most: whole searches against a provider that bills as
// much as it may, of every kind of question, never book more.
#include "search/estimate.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <random>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "llm/meter.h"
#include "results/store.h"
#include "search/ledger.h"
#include "search/model_calls.h"
#include "search/search.h"
#include "tests/support/fakes.h"
#include "tests/support/program.h"

namespace grove::search {
namespace {

using llm::Role;
using results::LedgerKind;
using results::LedgerSpan;
using testing::TinyPlan;
using testing::TinySource;

constexpr int kLongest = 700;  // tokens of a reply

// Bills every prompt by its bytes and every reply at its limit, lets attempts fail and bills them,
// proposes the same ideas twice so that it is asked again, writes long programs of which few are
// right and none is fast (the adviser is asked), and long rationales.
class Greedy final : public llm::Client {
 public:
  explicit Greedy(std::uint64_t seed, bool failing) : engine_(seed), failing_(failing) {}
  std::string_view name() const override { return "greedy"; }

  Result<llm::Reply> Complete(const llm::Request& request, std::stop_token) override {
    ++asked_[request.role];
    for (int attempt = 1; failing_ && attempt < kMostPaid && Draw(0, 2) > 0; ++attempt) {
      if (!request.meter->Again(true)) return Fail(ErrorCode::kUnavailable, "nothing is left");
    }
    llm::Reply reply;
    reply.model = "greedy";
    reply.usage.prompt = PromptBound(request);
    reply.usage.completion = request.max_tokens;
    const bool ideas = request.role == Role::kIdea || request.role == Role::kAdviser;
    reply.text = ideas ? Ideas() : Program();
    return reply;
  }

  int asked(Role role) { return asked_[role]; }

 private:
  int Draw(int low, int high) {
    const std::lock_guard lock(mutex_);
    return std::uniform_int_distribution<int>(low, high)(engine_);
  }
  std::string Ideas() {
    std::string list;
    for (int i = 0; i < 4; ++i) {
      // The same title again every second time, in long words that resemble no other.
      const int n = i % 2 == 0 ? Draw(1, 1'000'000) : 1;
      list += fmt::format(
          R"({}{{"title": "{}", "category": "{}", "rationale": "{}", "expected_gain": 2}})",
          i == 0 ? "" : ", ", fmt::format("word{} {}", n, std::string(150, 'a' + n % 26)),
          i % 2 == 0 ? "memory access" : "precision", std::string(3900, 'r'));
    }
    return "{\"ideas\": [" + list + "]}";
  }
  std::string Program() {
    const int fate = Draw(0, 3);
    const std::string directives = fate == 0   ? "// @time 2000\n"
                                   : fate == 1 ? "// @compile error\n"
                                               : "// @fail * wrong_result\n";
    // Eight bytes for each token of the reply.
    std::string source = TinySource(directives) + fmt::format("// {}\n", Draw(0, 1'000'000'000));
    const std::size_t room = kLongest * 8 - TinyPlan().size() - 100;
    if (source.size() < room) source += "//" + std::string(room - source.size(), 'x') + "\n";
    return "Here.\n```cuda\n" + source + "```\n```json\n" + TinyPlan() + "\n```\n";
  }

  std::mutex mutex_;
  std::mt19937_64 engine_;
  const bool failing_;
  std::map<Role, std::atomic<int>> asked_{};
};

class EstimateTest : public ::testing::Test {
 protected:
  EstimateTest() {
    config_.task = "tiny";
    config_.rounds = 4;
    config_.ideas = 2;
    config_.branches = 2;
    config_.frontier = 2;
    config_.reserve = 1;
    config_.patience = 1;
    config_.repairs = 2;
    ModelSpec coder;
    coder.name = "openai:coder";
    coder.roles = {"idea", "code", "repair"};
    coder.max_tokens = kLongest;
    coder.price_in = 1;
    coder.price_cached = 1.5;
    coder.price_out = 4;
    ModelSpec adviser = coder;
    adviser.name = "openai:adviser";
    adviser.roles = {"adviser"};
    adviser.price_in = 20;
    adviser.price_out = 80;
    config_.models = {coder, adviser};
  }
  Estimate Make() { return EstimateSpend(task_, config_, *ideas::Library::Load()); }

  // A search against `client`; what its ledger says afterwards.
  results::RunData Run(llm::Client& client, const std::string& name) {
    auto evaluator = eval::Evaluator::Create(task_, compiler_, device_, {});
    EXPECT_TRUE(evaluator);
    results::StoreOptions fast;
    fast.survive_power_loss = false;
    auto store = results::Store::Create(folder_.path(), MakeRunStart(name, task_, config_, "test"),
                                        clock_, fast);
    EXPECT_TRUE(store) << store.error().message;
    const SearchParts parts{task_, **evaluator, device_, client, **store, observer_};
    auto done = RunSearch(parts, config_, {});
    EXPECT_TRUE(done) << done.error().message;
    return *(*store)->Load();
  }
  static std::map<LedgerKind, double> Sums(const results::RunData& data) {
    std::map<LedgerKind, double> sums;
    for (const auto& row : data.ledger) sums[row.kind] += row.settled.value_or(row.reserved);
    return sums;
  }
  static void ExpectWithin(const results::RunData& data, const Spend& most) {
    auto sums = Sums(data);
    EXPECT_LE(static_cast<double>(data.calls.size()), static_cast<double>(most.calls));
    EXPECT_LE(sums[LedgerKind::kTokensIn], static_cast<double>(most.tokens_in));
    EXPECT_LE(sums[LedgerKind::kTokensOut], static_cast<double>(most.tokens_out));
    EXPECT_LE(sums[LedgerKind::kTokens], static_cast<double>(most.tokens));
    EXPECT_LE(sums[LedgerKind::kEvaluations], static_cast<double>(most.evaluations));
    ASSERT_TRUE(most.dollars);
    EXPECT_LE(sums[LedgerKind::kDollars], *most.dollars);
  }

  seeds::Task task_ = testing::TinyTask();
  testing::FakeCompiler compiler_;
  testing::FakeDevice device_;
  testing::FakeClock clock_;
  testing::RecordingObserver observer_;
  testing::ScratchFolder folder_;
  SearchConfig config_;
};

TEST_F(EstimateTest, NoSearchBooksMoreThanTheLargestWithRepairsAdviserReAsksAndRetries) {
  const Estimate estimate = Make();
  int advised = 0;
  int repaired = 0;
  int again = 0;
  int retried = 0;
  for (int seed = 1; seed <= 6; ++seed) {
    Greedy client(static_cast<std::uint64_t>(seed), true);
    const auto data = Run(client, fmt::format("run{}", seed));
    ExpectWithin(data, estimate.largest);
    advised += client.asked(Role::kAdviser);
    repaired += client.asked(Role::kRepair);
    for (const auto& call : data.calls) {
      const bool ideas = call.key.role == Role::kIdea || call.key.role == Role::kAdviser;
      again += ideas && call.key.turn > 0 ? 1 : 0;
      retried += call.attempts > 1 ? 1 : 0;
    }
  }
  // All of it happened.
  EXPECT_GT(advised, 0);
  EXPECT_GT(repaired, 0);
  EXPECT_GT(again, 0);
  EXPECT_GT(retried, 0);
}

TEST_F(EstimateTest, WithoutFailuresTheCalmBoundHoldsAndIsNotFarAway) {
  const Estimate estimate = Make();
  Greedy client(99, false);
  const auto data = Run(client, "calm");
  ExpectWithin(data, estimate.calm);
  // Every single prompt stays below the bound of its kind, which is no fantasy.
  EXPECT_GT(Sums(data)[LedgerKind::kTokensIn], 0.2 * static_cast<double>(estimate.calm.tokens_in) *
                                                   static_cast<double>(data.calls.size()) /
                                                   static_cast<double>(estimate.calm.calls));
}

TEST_F(EstimateTest, ACallIsPaidForSoManyTimesAtMost) {
  // Every attempt fails and is billed, for ever.
  class Broken final : public llm::Client {
   public:
    std::string_view name() const override { return "broken"; }
    Result<llm::Reply> Complete(const llm::Request& request, std::stop_token) override {
      while (request.meter->Again(true)) ++attempts;
      return Fail(ErrorCode::kUnavailable, "500");
    }
    std::atomic<int> attempts{1};
  };
  Broken client;
  auto store =
      results::Store::Create(folder_.path(), MakeRunStart("run", task_, config_, "test"), clock_);
  ASSERT_TRUE(store);
  ModelCalls calls(**store, client, config_);
  llm::Request request;
  request.role = Role::kCode;
  request.messages = {{llm::Message::Author::kUser, "question"}};
  EXPECT_FALSE(calls.Ask({Role::kCode, 1, 1, 1, 1, 0}, request, {}));
  EXPECT_EQ(client.attempts, kMostPaid);
  request.max_tokens = Tokens(kLongest);
  EXPECT_EQ((*store)->Total(LedgerKind::kTokens)->settled,
            static_cast<double>(kMostPaid * (PromptBound(request).value + kLongest)));
}

TEST_F(EstimateTest, LimitsCutWhatIsSaid) {
  const Estimate free = Make();
  EXPECT_EQ(free.largest.tokens, free.largest.tokens_in + free.largest.tokens_out);
  EXPECT_GT(free.largest.tokens, free.calm.tokens);
  EXPECT_GT(free.calm.tokens, free.expected.tokens);
  config_.limits = {{LedgerKind::kTokens, LedgerSpan::kRun, 5000},
                    {LedgerKind::kDollars, LedgerSpan::kRound, 0.01},
                    {LedgerKind::kEvaluations, LedgerSpan::kRun, 3}};
  const Estimate cut = Make();
  EXPECT_EQ(cut.largest.tokens, 5000);
  EXPECT_LE(cut.largest.tokens_in, 5000);
  EXPECT_LE(cut.largest.tokens_out, 5000);
  EXPECT_GT(free.largest.dollars, 0.01 * config_.rounds);
  EXPECT_EQ(cut.largest.dollars, 0.01 * config_.rounds);
  EXPECT_EQ(cut.largest.evaluations, 3);
}

TEST_F(EstimateTest, OneUnknownPriceLeavesDollarsUnknown) {
  config_.models[1].price_out.reset();
  EXPECT_FALSE(Make().largest.dollars);
  EXPECT_FALSE(Make().expected.dollars);
}

// Ten rounds of two tasks are not ten of each.
TEST(BatchEstimateTest, SharedRoundsAreCountedOnce) {
  SearchConfig config;
  config.task = "tiny";
  config.rounds = 10;
  const seeds::Task task = testing::TinyTask();
  const auto library = ideas::Library::Load();
  ASSERT_TRUE(library);
  const TaskEstimate one{EstimateSpend(task, config, *library),
                         EstimateLastRound(task, config, *library)};
  SearchConfig shorter = config;
  shorter.branches = 1;
  const TaskEstimate cheap{EstimateSpend(task, shorter, *library),
                           EstimateLastRound(task, shorter, *library)};
  const std::vector<TaskEstimate> tasks = {one, cheap};
  const Estimate apart = EstimateTogether(tasks, 0, config, 0);
  EXPECT_EQ(apart.largest.calls, one.alone.largest.calls + cheap.alone.largest.calls);
  const Estimate shared = EstimateTogether(tasks, 10, config, 0);
  for (Spend Estimate::*part : {&Estimate::calm, &Estimate::largest}) {
    // No less than all of them for the dearer task alone, and no more than ten of its dearest.
    EXPECT_GE((shared.*part).tokens, (one.alone.*part).tokens);
    EXPECT_LE((shared.*part).tokens, 10 * (one.last_round.*part).tokens);
    EXPECT_LT((shared.*part).calls, (apart.*part).calls);
  }
  EXPECT_LT(shared.expected.tokens, one.alone.expected.tokens);
  EXPECT_GT(shared.expected.tokens, cheap.alone.expected.tokens);
  // More rounds to share than both may have: nothing is cut.
  EXPECT_EQ(EstimateTogether(tasks, 1000, config, 0).largest.tokens, apart.largest.tokens);
  EXPECT_EQ(EstimateTogether(tasks, 10, config, 5000).largest.tokens, 5000);
}

}  // namespace
}  // namespace grove::search
