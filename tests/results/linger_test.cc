// Transitions that share a transaction: what is on the disk, and when.
#include <chrono>
#include <cmath>
#include <csignal>
#include <thread>

#include <SQLiteCpp/Database.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/results/sample_run.h"

namespace grove::results {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

constexpr CallKey kCall{llm::Role::kCode, 1, 1, 1, 1, 0};

class LingerTest : public RunsFolder {
 protected:
  // A run whose transitions linger, with a round and the seed in it.
  std::unique_ptr<Store> Begin(milliseconds linger) {
    auto store = Store::Create(runs_, SampleStart("a"), clock_,
                               {.survive_power_loss = false, .linger = linger});
    EXPECT_TRUE(store) << store.error().message;
    round_ = (*store)->BeginRound(1).value();
    seed_ = (*store)->RecordSeed({0, "// seed", "{}", HashText("s")}).value();
    return std::move(*store);
  }
  IdeaId Idea(Store& store) const {
    return store
        .RecordIdeas(round_, seed_, CallId(), std::vector<IdeaDraft>{{"title", "c", "because"}})
        .value()[0];
  }
  RoundId round_;
  CandidateId seed_;
};

TEST_F(LingerTest, WhatOnlyKeepsWhatCameWaitsForWhatLeaves) {
  auto store = Begin(hours(1));
  const IdeaId idea = Idea(*store);
  ASSERT_TRUE(store->RequestCandidate(idea, 1));
  EXPECT_TRUE(Load("a").ideas.empty());
  ASSERT_TRUE(store->BeginCall(kCall, SampleRequest(kCall)));
  const RunData data = Load("a");
  EXPECT_EQ(data.ideas.size(), 1u);
  EXPECT_EQ(data.candidates.size(), 2u);
  EXPECT_EQ(data.calls.size(), 1u);
}

TEST_F(LingerTest, AReservationIsStoredBeforeItIsUsed) {
  auto store = Begin(hours(1));
  const Amount amount{LedgerKind::kGpuSeconds, 3};
  ASSERT_TRUE(store->Reserve("evaluation x #1", std::span(&amount, 1), {}, {}).value());
  EXPECT_EQ(Load("a").ledger.size(), 2u);  // and the time
  ASSERT_TRUE(store->SettleAll("evaluation x #1", std::span(&amount, 1)));
  const auto open = [&] {
    const RunData data = Load("a");
    return std::count_if(data.ledger.begin(), data.ledger.end(),
                         [](const LedgerRow& row) { return !row.settled; });
  };
  EXPECT_EQ(open(), 1);  // counts as spent, should the process end here
  ASSERT_TRUE(store->AddEvent("info", "x"));
  EXPECT_EQ(open(), 0);
}

TEST_F(LingerTest, AReplyIsOnTheDiskBeforeWhatIsMadeOfItAndBeforeWhatItAsksFor) {
  auto store = Begin(hours(1));
  const CallRow call = store->BeginCall(kCall, SampleRequest(kCall)).value();
  llm::Reply reply;
  reply.text = "the answer";
  ASSERT_TRUE(store->AnswerCall(call.id, reply));
  EXPECT_EQ(store->FindReply(kCall).value()->text, "the answer");
  ASSERT_TRUE(store->RequestCandidate(Idea(*store), 1));
  EXPECT_EQ(Load("a").calls[0].status, CallStatus::kPending);
  EXPECT_EQ(Load("a").candidates.size(), 1u) << "not there before the reply";
  CallKey repair = kCall;
  repair.turn = 1;
  ASSERT_TRUE(store->BeginCall(repair, SampleRequest(repair)));  // leaves the process
  EXPECT_EQ(Load("a").calls[0].status, CallStatus::kAnswered);
  EXPECT_EQ(Load("a").candidates.size(), 2u);
}

TEST_F(LingerTest, AReplyThatNothingFollowsIsOnTheDiskWithinTheLinger) {
  auto store = Begin(milliseconds(20));
  const CallRow call = store->BeginCall(kCall, SampleRequest(kCall)).value();
  ASSERT_TRUE(store->AnswerCall(call.id, {}));
  for (int i = 0; i < 500 && Load("a").calls[0].status != CallStatus::kAnswered; ++i) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_EQ(Load("a").calls[0].status, CallStatus::kAnswered);
}

TEST_F(LingerTest, TheWriterSeesWhatIsNotCommittedYet) {
  auto store = Begin(hours(1));
  const IdeaId idea = Idea(*store);
  ASSERT_TRUE(store->RequestCandidate(idea, 1));
  EXPECT_EQ(Load("a").candidates.size(), 1u) << "the seed";
  EXPECT_EQ(store->Load().value().candidates.size(), 2u);
}

TEST_F(LingerTest, ARefusedTransitionTakesBackItsOwnPartOnly) {
  auto store = Begin(hours(1));
  const IdeaId idea = Idea(*store);
  const Amount much{LedgerKind::kTokens, 11};
  const LedgerLimit limit{LedgerKind::kTokens, LedgerSpan::kRun, 10};
  const auto refused =
      store->BeginCall(kCall, SampleRequest(kCall), std::span(&much, 1), std::span(&limit, 1));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kBudget);
  ASSERT_TRUE(store->RequestCandidate(idea, 1));
  store.reset();
  const RunData data = Load("a");
  EXPECT_EQ(data.ideas.size(), 1u);
  EXPECT_EQ(data.candidates.size(), 2u);
  EXPECT_TRUE(data.calls.empty());
  EXPECT_TRUE(CheckStore(runs_ / "a"));
}

// The run's totals are kept, not summed each time.
TEST_F(LingerTest, TotalsFollowWhatIsTakenBack) {
  for (const milliseconds linger : {milliseconds(0), milliseconds(hours(1))}) {
    std::filesystem::remove_all(runs_ / "a");
    auto store = Begin(linger);
    const Amount amounts[] = {{LedgerKind::kTokens, 60}, {LedgerKind::kDollars, 0.1}};
    const LedgerLimit limit{LedgerKind::kTokens, LedgerSpan::kRun, 100};
    const CallRow call =
        store->BeginCall(kCall, SampleRequest(kCall), amounts, std::span(&limit, 1)).value();
    EXPECT_EQ(store->Total(LedgerKind::kTokens)->reserved, 60);
    // Settles the first attempt, and has no room for a second: neither is done.
    const auto again = store->RenewCall(call.id, amounts, std::span(&limit, 1));
    ASSERT_FALSE(again);
    EXPECT_EQ(again.error().code, ErrorCode::kBudget);
    EXPECT_EQ(store->Total(LedgerKind::kTokens)->settled, 0);
    EXPECT_EQ(store->Total(LedgerKind::kTokens)->reserved, 60);
    EXPECT_FALSE(store->Reserve("other", amounts, {}, std::span(&limit, 1)));
    const Amount cost{LedgerKind::kTokens, 10};
    llm::Reply reply;
    reply.text = "x";
    ASSERT_TRUE(store->AnswerCall(call.id, reply, std::span(&cost, 1)));
    EXPECT_TRUE(store->Reserve("other", amounts, {}, std::span(&limit, 1)).value());
    EXPECT_TRUE(store->Settle("other", {LedgerKind::kDollars, 0.3}).value());
    const LedgerTotal tokens = store->Total(LedgerKind::kTokens).value();
    const LedgerTotal dollars = store->Total(LedgerKind::kDollars).value();
    EXPECT_EQ(tokens.settled, 10);
    EXPECT_EQ(tokens.reserved, 60);
    EXPECT_NEAR(dollars.settled, 0.4, 1e-12);
    EXPECT_EQ(dollars.reserved, 0);
    // What another process reads from the file is the same.
    store.reset();
    store = Open("a");
    EXPECT_EQ(store->Total(LedgerKind::kTokens)->settled, tokens.settled);
    EXPECT_EQ(store->Total(LedgerKind::kTokens)->reserved, tokens.reserved);
    EXPECT_NEAR(store->Total(LedgerKind::kDollars)->settled, dollars.settled, 1e-12);
    EXPECT_EQ(store->SettleOpen().value(), 1);
    EXPECT_EQ(store->Total(LedgerKind::kTokens)->settled, 70);
    EXPECT_EQ(store->Total(LedgerKind::kTokens)->reserved, 0);
  }
}

// So are those of its rounds and ideas.
TEST_F(LingerTest, TotalsOfARoundAndAnIdeaAreTheirsAlone) {
  auto store = Begin(hours(1));
  const Amount ten{LedgerKind::kTokens, 10};
  const LedgerLimit limits[] = {{LedgerKind::kTokens, LedgerSpan::kRun, 100},
                                {LedgerKind::kTokens, LedgerSpan::kRound, 100},
                                {LedgerKind::kTokens, LedgerSpan::kIdea, 15}};
  const auto spent = [&](int round, int idea) {
    const auto states = store->LimitStates({round, idea, {}}, limits).value();
    std::vector<double> of;
    for (const LimitState& state : states) of.push_back(state.settled + state.reserved);
    return of;
  };
  EXPECT_TRUE(store->Reserve("a", std::span(&ten, 1), {1, 1, {}}, limits).value());
  EXPECT_TRUE(store->Reserve("b", std::span(&ten, 1), {1, 2, {}}, limits).value());
  EXPECT_TRUE(store->Reserve("c", std::span(&ten, 1), {2, 1, {}}, limits).value());
  const auto refused = store->Reserve("d", std::span(&ten, 1), {1, 2, {}}, limits);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kBudget);
  ASSERT_TRUE(store->SettleAll("a", {}));
  EXPECT_TRUE(store->Settle("b", {LedgerKind::kTokens, 4}).value());
  EXPECT_EQ(spent(1, 1), (std::vector<double>{24, 14, 10}));
  EXPECT_EQ(spent(1, 2), (std::vector<double>{24, 14, 4}));
  EXPECT_EQ(spent(2, 1), (std::vector<double>{24, 10, 10}));
  EXPECT_EQ(spent(3, 1), (std::vector<double>{24, 0, 0}));
  store.reset();
  store = Open("a");
  EXPECT_EQ(spent(1, 2), (std::vector<double>{24, 14, 4}));
  ASSERT_TRUE(store->SettleAll("c", std::span(&ten, 1)));  // reserved by the process before
  EXPECT_EQ(store->Total(LedgerKind::kTokens)->reserved, 0);
}

TEST_F(LingerTest, ACallCostsWhatAllItsAttemptsDid) {
  auto store = Begin(hours(1));
  const Amount half{LedgerKind::kDollars, 0.5};
  const CallRow call =
      store->BeginCall(kCall, SampleRequest(kCall), std::span(&half, 1), {}).value();
  ASSERT_TRUE(store->RenewCall(call.id, std::span(&half, 1), {}));
  const Amount cost{LedgerKind::kDollars, 0.125};
  ASSERT_TRUE(store->FailCall(call.id, "gone", std::span(&cost, 1)));
  // Settles what is settled once more.
  ASSERT_TRUE(store->BeginCall(kCall, SampleRequest(kCall), std::span(&half, 1), {}));
  llm::Reply reply;
  reply.text = "x";
  ASSERT_TRUE(store->AnswerCall(call.id, reply, std::span(&cost, 1)));
  store.reset();
  EXPECT_EQ(Load("a").calls[0].dollars, 0.75);
}

TEST_F(LingerTest, AQuestionThatWasTakenBackIsStoredWithTheNext) {
  auto store = Begin(hours(1));
  const Amount much{LedgerKind::kTokens, 11};
  const LedgerLimit limit{LedgerKind::kTokens, LedgerSpan::kRun, 10};
  ASSERT_FALSE(
      store->BeginCall(kCall, SampleRequest(kCall), std::span(&much, 1), std::span(&limit, 1)));
  const CallRow call = store->BeginCall(kCall, SampleRequest(kCall)).value();
  EXPECT_EQ(store->Text(call.request).value(), RequestJson(SampleRequest(kCall)));
}

TEST_F(LingerTest, TheEndOfTheStoreCommits) {
  auto store = Begin(hours(1));
  Idea(*store);
  store.reset();
  EXPECT_EQ(Load("a").ideas.size(), 1u);
}

TEST_F(LingerTest, NothingWaitsLongerThanTheLinger) {
  auto store = Begin(milliseconds(1));
  Idea(*store);
  while (Load("a").ideas.empty()) std::this_thread::sleep_for(milliseconds(1));  // or for ever
  ASSERT_TRUE(store->RequestCandidate(Load("a").ideas[0].id, 1));
  while (Load("a").candidates.size() < 2) std::this_thread::sleep_for(milliseconds(1));
}

TEST_F(LingerTest, AKilledProcessLeavesWhatWasCommittedLast) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto store = Begin(hours(1));
    const IdeaId idea = Idea(*store);
    const bool stored = store->RequestCandidate(idea, 1) &&
                        store->BeginCall(kCall, SampleRequest(kCall)) &&
                        store->RequestCandidate(idea, 2);
    if (stored) ::raise(SIGKILL);
    ::_exit(1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  const Status whole = CheckStore(runs_ / "a");
  EXPECT_TRUE(whole) << whole.error().message;
  const RunData data = Load("a");
  EXPECT_EQ(data.calls.size(), 1u);
  EXPECT_NE(data.FindCandidate("r1.i1.b1"), nullptr);
  EXPECT_EQ(data.FindCandidate("r1.i1.b2"), nullptr);
}

TEST_F(LingerTest, ManyThreadsShareTransactionsAndEachFindsItsOwnStored) {
  auto store = Begin(milliseconds(5));
  constexpr int kThreads = 8;
  constexpr int kCalls = 20;
  std::atomic<int> missing{0};
  {
    std::vector<std::jthread> threads;
    for (int t = 1; t <= kThreads; ++t) {
      threads.emplace_back([&, t] {
        auto reader = Reader::Open(runs_ / "a");
        for (int n = 1; n <= kCalls; ++n) {
          const CallKey key{llm::Role::kCode, 1, 1, t, n, 0};
          const auto call = store->BeginCall(key, SampleRequest(key));
          if (!call || !reader) {
            ++missing;
            return;
          }
          llm::Reply reply;
          reply.text = ToString(key);
          if (n % 5 == 0) {
            const auto data = (*reader)->Load();
            const bool there = data && std::any_of(data->calls.begin(), data->calls.end(),
                                                   [&](const auto& c) { return c.key == key; });
            if (!there) ++missing;
          }
          if (!store->AnswerCall(call->id, reply)) ++missing;
        }
      });
    }
  }
  EXPECT_EQ(missing, 0);
  store.reset();
  const RunData data = Load("a");
  EXPECT_EQ(data.calls.size(), static_cast<std::size_t>(kThreads * kCalls));
  for (const CallRow& call : data.calls) EXPECT_EQ(call.status, CallStatus::kAnswered);
  EXPECT_TRUE(CheckStore(runs_ / "a"));
}

TEST_F(LingerTest, AfterACommitThatFailedNothingIsTakenUntilTheRunIsOpenedAgain) {
  auto store = Begin(hours(1));
  const IdeaId idea = Idea(*store);
  ASSERT_TRUE(store->AddEvent("info", "before"));
  Error first;
  {
    auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
    rlimit old{};
    ::getrlimit(RLIMIT_FSIZE, &old);
    rlimit none = old;
    none.rlim_cur = 4096;
    ::setrlimit(RLIMIT_FSIZE, &none);
    const auto asked = store->RequestCandidate(idea, 1);
    const Status failed = asked ? store->AddEvent("info", "full") : Status(Failure(asked.error()));
    ::setrlimit(RLIMIT_FSIZE, &old);
    std::signal(SIGXFSZ, handler);
    ASSERT_FALSE(failed);
    first = failed.error();
  }
  EXPECT_EQ(first.code, ErrorCode::kResource) << first.message;
  // What was lost had been reported as written: going on would leave a hole.
  const auto next = store->RequestCandidate(idea, 2);
  ASSERT_FALSE(next);
  EXPECT_EQ(next.error().code, ErrorCode::kResource);
  EXPECT_EQ(next.error().message, first.message);
  store.reset();
  EXPECT_TRUE(CheckStore(runs_ / "a"));
  EXPECT_EQ(Load("a").candidates.size(), 1u);
  store = Open("a");
  EXPECT_TRUE(store->RequestCandidate(idea, 2));
}

// What only keeps what came is not made to be taken back alone.
TEST_F(LingerTest, ATransitionThatBreaksHalfwayEndsTheWritingAsOfTheLastCommit) {
  auto store = Begin(hours(1));
  const IdeaId idea = Idea(*store);
  const CandidateId candidate = store->RequestCandidate(idea, 1).value();
  ASSERT_TRUE(store->AddEvent("info", "committed"));
  ASSERT_TRUE(store->RequestCandidate(idea, 2));
  // Before its first change it harms nobody.
  EXPECT_EQ(store->RequestCandidate(IdeaId(77), 1).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(store->RequestCandidates(idea, 2, 1).value().size(), 1u);
  // A time that is no number, found after the verdict was written.
  EvaluationRow evaluation = SampleEvaluation(1000);
  evaluation.case_times.at(0).time = Nanoseconds(std::nan(""));
  const auto broken = store->RecordVerdict(candidate, evaluation);
  ASSERT_FALSE(broken);
  const Status next = store->AddEvent("info", "after");
  ASSERT_FALSE(next);
  EXPECT_EQ(next.error().message, broken.error().message);
  store.reset();
  EXPECT_TRUE(CheckStore(runs_ / "a"));
  const RunData data = Load("a");
  EXPECT_EQ(data.candidates.size(), 2u) << "as of the last commit";
  EXPECT_FALSE(data.Find(candidate)->evaluation);
  store = Open("a");
  EXPECT_TRUE(store->RequestCandidate(idea, 2));
}

TEST_F(LingerTest, ASearchThatSharesTransactionsIsTheOneThatDoesNot) {
  auto plain = Create("plain");
  ASSERT_TRUE(RunSampleSearch(*plain, {}));
  auto start = SampleStart("shared");
  auto shared =
      Store::Create(runs_, start, clock_, {.survive_power_loss = false, .linger = milliseconds(1)});
  ASSERT_TRUE(shared);
  ASSERT_TRUE(RunSampleSearch(**shared, {}));
  shared->reset();
  plain.reset();
  EXPECT_TRUE(CheckStore(runs_ / "shared"));
  EXPECT_EQ(Essence(Load("shared")), Essence(Load("plain")));
}

}  // namespace
}  // namespace grove::results
