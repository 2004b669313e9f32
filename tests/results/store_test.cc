#include "results/store.h"

#include <algorithm>
#include <cmath>
#include <thread>

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>
#include <nlohmann/json.hpp>

#include "tests/results/sample_run.h"

namespace grove::results {
namespace {

class StoreTest : public RunsFolder {
 protected:
  // A round, an idea and a candidate to write to.
  void MakeCandidate() {
    store_ = Create("a");
    round_ = store_->BeginRound(0).value();
    seed_ = store_->RecordSeed({0, "// seed", "{}", HashText("s")}).value();
    idea_ = store_->RecordIdeas(round_, seed_, CallId(), std::vector<IdeaDraft>{{"t", "c", "r"}})
                .value()[0];
    candidate_ = store_->RequestCandidate(idea_, 1).value();
  }
  CandidateRow Row() {
    const RunData data = Load("a");
    const CandidateRow* row = data.Find(candidate_);
    return row != nullptr ? *row : CandidateRow{};
  }

  std::unique_ptr<Store> store_;
  RoundId round_;
  CandidateId seed_, candidate_;
  IdeaId idea_;
};

TEST_F(StoreTest, ANewRunKeepsWhatItWasStartedWith) {
  Create("a");
  const RunData data = Load("a");
  EXPECT_EQ(data.run.name, "a");
  EXPECT_EQ(data.run.status, RunStatus::kRunning);
  EXPECT_EQ(data.run.config, R"({"rounds":3})");
  EXPECT_EQ(data.run.seed, 0xfedcba9876543210u);
  EXPECT_EQ(data.task.name, "softmax");
  ASSERT_EQ(data.environment.size(), 2u);
  EXPECT_EQ(data.environment[0].value, "H200");
  ASSERT_EQ(data.cases.size(), 2u);
  ASSERT_EQ(data.cases[0].dims.size(), 2u);
  EXPECT_EQ(data.cases[0].dims[0].name, "M");
  EXPECT_EQ(data.cases[0].dims[1].value, 512);
  EXPECT_EQ(data.cases[0].min_bytes, Bytes(16777216));
  EXPECT_EQ(data.cases[1].role, "edge");
}

TEST_F(StoreTest, TheTasksTextsAreReadBackByHash) {
  auto store = Create("a");
  const RunData data = store->Load().value();
  EXPECT_EQ(store->Text(data.task.contract).value(), "y = softmax(x) over the last dim");
  EXPECT_EQ(store->Text(data.task.seed_plan).value(), "{\"version\":1}");
  EXPECT_EQ(store->Text(HashText("never stored")).error().code, ErrorCode::kNotFound);
}

TEST_F(StoreTest, ARunIsNotMadeTwice) {
  Create("a");
  const auto again = Store::Create(runs_, SampleStart("a"), clock_);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, ErrorCode::kInvalidInput);
  EXPECT_NE(again.error().message.find("'a' exists"), std::string::npos);
}

TEST_F(StoreTest, OpeningWhatIsNotThereNamesIt) {
  const auto store = Store::Open(runs_, "nothing", clock_);
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().code, ErrorCode::kNotFound);
  EXPECT_NE(store.error().message.find("nothing"), std::string::npos);
}

TEST_F(StoreTest, NamesThatCouldLeaveTheFolderAreRefused) {
  for (const std::string& name :
       {std::string(), std::string(".."), std::string("../x"), std::string("a/b"),
        std::string(".hidden"), std::string("-rf"), std::string("a b"), std::string("a\0b", 3),
        std::string("ü"), std::string(101, 'a')}) {
    EXPECT_EQ(Store::Create(runs_, SampleStart(name), clock_).error().code,
              ErrorCode::kInvalidInput)
        << name;
    EXPECT_EQ(Store::Open(runs_, name, clock_).error().code, ErrorCode::kInvalidInput) << name;
  }
  EXPECT_FALSE(std::filesystem::exists(runs_));
  EXPECT_TRUE(CheckRunName("softmax-2026.11_b"));
}

TEST_F(StoreTest, StatusAndReasonAreKept) {
  auto store = Create("a");
  ASSERT_TRUE(store->SetStatus(RunStatus::kStopped, "token budget spent"));
  store.reset();
  const RunData data = Load("a");
  EXPECT_EQ(data.run.status, RunStatus::kStopped);
  EXPECT_EQ(data.run.reason, "token budget spent");
  EXPECT_GT(data.run.status_since, data.run.created);
}

TEST_F(StoreTest, ARunWhoseProcessIsGoneIsShownAsInterrupted) {
  auto store = Create("a");
  EXPECT_EQ(Load("a").run.effective_status(), RunStatus::kRunning);
  store.reset();
  EXPECT_EQ(Load("a").run.effective_status(), RunStatus::kInterrupted);
}

TEST_F(StoreTest, AnEvaluationIsReadBackWhole) {
  MakeCandidate();
  EvaluationRow wanted = SampleEvaluation(5000);
  wanted.case_times[0].kind = TimeKind::kMeasured;
  wanted.case_times[0].low = Nanoseconds(4990);
  wanted.case_times[0].high = Nanoseconds(5010.5);
  wanted.case_times[0].dropped = 4;
  wanted.case_times[0].checked_share = 0.25;
  wanted.case_times[0].note = "sampled blocks";
  wanted.case_times[0].empty = Nanoseconds(2100);
  wanted.stages[1].error = 1e-7;
  wanted.stages[1].tolerance = 1e-6;
  wanted.score_kind = TimeKind::kMeasured;
  ASSERT_TRUE(store_->RecordVerdict(candidate_, wanted).value());
  const CandidateRow row = Row();
  ASSERT_TRUE(row.evaluation);
  const EvaluationRow& e = *row.evaluation;
  EXPECT_TRUE(e.verdict.passed());
  EXPECT_EQ(e.precision, "fp32");
  EXPECT_EQ(e.score, Nanoseconds(5000));
  EXPECT_EQ(e.score_kind, TimeKind::kMeasured);
  ASSERT_EQ(e.stages.size(), 3u);
  EXPECT_EQ(e.stages[1].stage, eval::Stage::kCompile);
  EXPECT_EQ(e.stages[1].duration, Milliseconds(120));
  ASSERT_EQ(e.case_times.size(), 1u);
  EXPECT_EQ(e.case_times[0].kind, TimeKind::kMeasured);
  EXPECT_EQ(e.case_times[0].high, Nanoseconds(5010.5));
  EXPECT_EQ(e.case_times[0].floor, Nanoseconds(3500));
  EXPECT_EQ(e.case_times[0].class_floor, Nanoseconds(4000));
  EXPECT_EQ(e.case_times[0].bound, "memory");
  EXPECT_EQ(e.case_times[0].occupancy, 0.75);
  EXPECT_EQ(e.case_times[0].limiter, "registers");
  EXPECT_EQ(e.case_times[0].dropped, 4);
  EXPECT_EQ(e.case_times[0].checked_share, 0.25);
  EXPECT_EQ(e.case_times[0].note, "sampled blocks");
  EXPECT_EQ(e.case_times[0].empty, Nanoseconds(2100));
  EXPECT_EQ(e.stages[1].error, 1e-7);
  EXPECT_EQ(e.stages[1].tolerance, 1e-6);
  ASSERT_EQ(e.launches.size(), 2u);
  EXPECT_EQ(e.launches[0].entry, "rows");
  EXPECT_EQ(e.launches[0].launches, 2);
  EXPECT_EQ(e.launches[0].time, Nanoseconds(4000));
  EXPECT_EQ(e.launches[0].dram_bytes, 6e6);
  EXPECT_EQ(e.launches[0].limiter, "registers");
  EXPECT_EQ(e.launches[1].entry, "merge") << "in the order of the plan";
  EXPECT_EQ(e.launches[1].bound, "latency");
  EXPECT_EQ(e.launches[1].occupancy, 0.5);
  ASSERT_EQ(e.kernels.size(), 1u);
  EXPECT_EQ(e.kernels[0].entry, "softmax");
  EXPECT_EQ(e.kernels[0].registers, 40);
  EXPECT_EQ(e.kernels[0].spill_loads, Bytes(8));
  EXPECT_EQ(e.kernels[0].dynamic_shared, Bytes(2048));
  EXPECT_EQ(e.kernels[0].stack, Bytes(16));
}

TEST_F(StoreTest, AVerdictsPayloadSurvivesNanInfinityAndFullSeeds) {
  MakeCandidate();
  ASSERT_TRUE(store_->RecordVerdict(candidate_, SampleEvaluation(0)));
  const eval::Verdict v = Row().evaluation.value().verdict;
  EXPECT_EQ(v.kind, eval::VerdictKind::kWrongResult);
  EXPECT_EQ(v.stage, eval::Stage::kSmoke);
  EXPECT_EQ(v.case_name, "n512");
  EXPECT_EQ(v.tensor, "y");
  EXPECT_EQ(v.element, 3585);
  EXPECT_EQ(v.seed, 0xffffffffffffffffu);
  EXPECT_EQ(v.expected, 0.25);
  EXPECT_TRUE(std::isnan(v.got));
  EXPECT_TRUE(std::isinf(v.error));
}

TEST_F(StoreTest, EveryVerdictKindAndStageIsReadBack) {
  MakeCandidate();
  for (int k = 0; k <= static_cast<int>(eval::VerdictKind::kInfrastructure); ++k) {
    EvaluationRow e;
    e.verdict.kind = static_cast<eval::VerdictKind>(k);
    e.verdict.stage = static_cast<eval::Stage>(k % 10);
    const CandidateId id = store_->RequestCandidate(idea_, k + 2).value();
    ASSERT_TRUE(store_->RecordVerdict(id, e));
    const RunData data = Load("a");
    EXPECT_EQ(data.Find(id)->evaluation->verdict.kind, e.verdict.kind);
    EXPECT_EQ(data.Find(id)->evaluation->verdict.stage, e.verdict.stage);
  }
}

TEST_F(StoreTest, AnEvaluationWithoutStagesGetsOneFromItsVerdict) {
  MakeCandidate();
  EvaluationRow e;
  e.verdict.kind = eval::VerdictKind::kParseError;
  ASSERT_TRUE(store_->RecordVerdict(candidate_, e));
  ASSERT_EQ(Row().evaluation->stages.size(), 1u);
  EXPECT_EQ(Row().evaluation->stages[0].verdict, eval::VerdictKind::kParseError);
  EXPECT_TRUE(CheckStore(runs_ / "a"));
}

TEST_F(StoreTest, SamplesKeepTheirOrderPerCaseAndMode) {
  MakeCandidate();
  EvaluationRow e = SampleEvaluation(5000);
  e.samples = {{"n512", TimingMode::kCold, 0, Nanoseconds(3)},
               {"n512", TimingMode::kHot, 0, Nanoseconds(9)},
               {"n512", TimingMode::kCold, 0, Nanoseconds(1)},
               {"n512", TimingMode::kCold, 0, Nanoseconds(2)}};
  ASSERT_TRUE(store_->RecordVerdict(candidate_, e));
  const auto samples = Reader::Open(runs_ / "a").value()->Samples(candidate_).value();
  ASSERT_EQ(samples.size(), 4u);
  EXPECT_EQ(samples[0].time, Nanoseconds(3));
  EXPECT_EQ(samples[1].time, Nanoseconds(1));
  EXPECT_EQ(samples[2].time, Nanoseconds(2));
  EXPECT_EQ(samples[2].ordinal, 2);
  EXPECT_EQ(samples[3].mode, TimingMode::kHot);
}

TEST_F(StoreTest, TheFirstVerdictIsFinal) {
  MakeCandidate();
  EXPECT_TRUE(store_->RecordVerdict(candidate_, SampleEvaluation(5000)).value());
  EXPECT_FALSE(store_->RecordVerdict(candidate_, SampleEvaluation(1)).value());
  EXPECT_EQ(Row().evaluation->score, Nanoseconds(5000));
  EXPECT_FALSE(store_->ReceiveProgram(candidate_, {1, "late", "{}", {}}).value());
  EXPECT_EQ(Row().status, CandidateStatus::kEvaluated);
}

TEST_F(StoreTest, AVerdictTakesItsCostWithItUnderANumberThatIsFree) {
  MakeCandidate();
  const std::vector<Amount> cost = {{LedgerKind::kEvaluations, 1}, {LedgerKind::kGpuSeconds, 4}};
  const std::string name = Row().name;
  // A turn that was repaired.
  EXPECT_TRUE(store_->Book(NumberedKey(EvaluationKey(name), 1), cost, {1, 1, {}}).value());
  EXPECT_FALSE(store_->Book(NumberedKey(EvaluationKey(name), 1), cost, {1, 1, {}}).value());
  ASSERT_TRUE(store_->RecordVerdict(candidate_, SampleEvaluation(5000), cost, {1, 1, {}}).value());
  EXPECT_FALSE(store_->RecordVerdict(candidate_, SampleEvaluation(1), cost, {1, 1, {}}).value());
  EXPECT_EQ(store_->Total(LedgerKind::kEvaluations).value().settled, 2);
  const LedgerTotal gpu = store_->Total(LedgerKind::kGpuSeconds).value();
  EXPECT_EQ(gpu.settled, 8);
  EXPECT_EQ(gpu.reserved, 0);
}

TEST_F(StoreTest, BranchesRequestedTogetherAreThoseRequestedOneByOne) {
  MakeCandidate();
  const auto all = store_->RequestCandidates(idea_, 1, 3).value();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0], candidate_);
  EXPECT_EQ(store_->RequestCandidate(idea_, 3).value(), all[2]);
  EXPECT_FALSE(store_->RequestCandidates(idea_, 200, 100))
      << "more branches than an id has room for";
  EXPECT_EQ(store_->RequestCandidates(idea_, 2, 1).value().front(), all[1]);
}

TEST_F(StoreTest, ProgramsMoveForwardByTurnsOnly) {
  MakeCandidate();
  EXPECT_EQ(Row().status, CandidateStatus::kRequested);
  EXPECT_TRUE(store_->ReceiveProgram(candidate_, {0, "v0", "{}", HashText("0")}).value());
  EXPECT_TRUE(store_->ReceiveProgram(candidate_, {1, "v1", "{}", HashText("1")}).value());
  EXPECT_FALSE(store_->ReceiveProgram(candidate_, {1, "other", "{}", HashText("x")}).value());
  EXPECT_FALSE(store_->ReceiveProgram(candidate_, {0, "v0", "{}", HashText("0")}).value());
  EXPECT_EQ(Row().turn, 1);
  EXPECT_EQ(store_->Text(Row().source.value()).value(), "v1");
  EXPECT_EQ(Row().identity, HashText("1"));
}

TEST_F(StoreTest, AReplyWithNothingUsableIsACandidateWithoutTexts) {
  MakeCandidate();
  ASSERT_TRUE(store_->ReceiveProgram(candidate_, {}).value());
  EXPECT_EQ(Row().status, CandidateStatus::kReceived);
  EXPECT_FALSE(Row().source);
  EXPECT_FALSE(Row().plan);
}

TEST_F(StoreTest, FailedTurnsAreKeptBesideTheFinalProgram) {
  MakeCandidate();
  eval::Verdict verdict;
  verdict.kind = eval::VerdictKind::kCompileError;
  verdict.stage = eval::Stage::kCompile;
  verdict.message = "line 3";
  EXPECT_TRUE(
      store_->RecordAttempt(candidate_, {0, "broken", "{}", {}}, verdict, "passed before: smoke")
          .value());
  EXPECT_FALSE(store_->RecordAttempt(candidate_, {0, "again", "{}", {}}, verdict).value());
  const RunData data = Load("a");
  ASSERT_EQ(data.attempts.size(), 1u);
  EXPECT_EQ(data.attempts[0].candidate, candidate_);
  EXPECT_EQ(data.attempts[0].verdict.message, "line 3");
  EXPECT_EQ(data.attempts[0].report, "passed before: smoke");
  EXPECT_EQ(store_->Text(data.attempts[0].source.value()).value(), "broken");
}

TEST_F(StoreTest, NamesFollowTheTree) {
  MakeCandidate();
  const RoundId r2 = store_->BeginRound(2).value();
  const auto ideas = store_->RecordIdeas(
      r2, candidate_, CallId(), std::vector<IdeaDraft>{{"a", "", ""}, {"b", "", "", 1.5, 7}});
  ASSERT_TRUE(store_->RequestCandidate(ideas.value()[1], 3));
  const RunData data = Load("a");
  EXPECT_NE(data.FindCandidate("seed"), nullptr);
  EXPECT_NE(data.FindCandidate("r0.i1.b1"), nullptr);
  ASSERT_NE(data.FindCandidate("r2.i7.b3"), nullptr);
  EXPECT_EQ(data.FindCandidate("r2.i7.b3")->parent, candidate_);
  EXPECT_EQ(data.FindIdea("r2.i1")->title, "a");
  EXPECT_EQ(data.FindIdea("r2.i7")->expected_gain, 1.5);
  EXPECT_EQ(data.FindCandidate("r9.i9.b9"), nullptr);
}

TEST_F(StoreTest, IdeasOfTwoParentsShareTheRoundsNumbers) {
  MakeCandidate();
  const std::vector<IdeaDraft> two = {{"x", "", ""}, {"y", "", ""}};
  const RoundId round = store_->BeginRound(1).value();
  const auto a = store_->RecordIdeas(round, seed_, CallId(), two).value();
  const auto b = store_->RecordIdeas(round, candidate_, CallId(), two).value();
  EXPECT_EQ(store_->RecordIdeas(round, seed_, CallId(), two).value(), a);
  EXPECT_EQ(store_->RecordIdeas(round, candidate_, CallId(), two).value(), b);
  const RunData data = Load("a");
  EXPECT_EQ(data.ideas.size(), 5u);
  EXPECT_EQ(data.Find(b[1])->name, "r1.i4");
  EXPECT_EQ(data.Find(b[1])->ordinal, 2);
}

TEST_F(StoreTest, EveryTransitionDoneTwiceChangesNothing) {
  auto store = Create("a");
  ASSERT_TRUE(RunSampleSearch(*store, {}));
  const std::string once = Essence(store->Load().value());
  const LedgerTotal tokens = store->Total(LedgerKind::kTokens).value();
  ASSERT_TRUE(RunSampleSearch(*store, {}));
  EXPECT_EQ(Essence(store->Load().value()), once);
  EXPECT_EQ(store->Total(LedgerKind::kTokens).value().settled, tokens.settled);
  EXPECT_EQ(store->Total(LedgerKind::kTokens).value().reserved, 0);
  EXPECT_TRUE(CheckStore(runs_ / "a"));
}

TEST_F(StoreTest, AnAnsweredCallIsNotAskedAgain) {
  auto store = Create("a");
  const CallKey key{llm::Role::kCode, 1, 1, 2, 3, 0};
  const CallRow first = store->BeginCall(key, SampleRequest(key)).value();
  EXPECT_EQ(first.status, CallStatus::kPending);
  EXPECT_FALSE(store->FindReply(key).value());
  EXPECT_FALSE(store->HasReplies().value());
  llm::Reply reply;
  reply.text = "```cuda\n```";
  reply.finish = llm::FinishReason::kLength;
  reply.usage = {Tokens(10), Tokens(4), Tokens(20), Tokens(6), true};
  reply.model = "m";
  reply.latency = Milliseconds(1234.5);
  EXPECT_TRUE(store->AnswerCall(first.id, reply).value());
  EXPECT_FALSE(store->AnswerCall(first.id, {}).value());
  ASSERT_TRUE(store->FailCall(first.id, "too late"));
  const CallRow again = store->BeginCall(key, SampleRequest(key)).value();
  EXPECT_EQ(again.id, first.id);
  EXPECT_EQ(again.status, CallStatus::kAnswered);
  EXPECT_EQ(again.attempts, 1);
  const llm::Reply stored = store->FindReply(key).value().value();
  EXPECT_TRUE(store->HasReplies().value());
  EXPECT_EQ(stored.text, reply.text);
  EXPECT_EQ(stored.finish, llm::FinishReason::kLength);
  EXPECT_EQ(stored.usage.cached, Tokens(4));
  EXPECT_EQ(stored.usage.reasoning, Tokens(6));
  EXPECT_TRUE(stored.usage.estimated);
  EXPECT_EQ(stored.latency, Milliseconds(1234.5));
}

TEST_F(StoreTest, KeysThatDifferInOneNumberAreDifferentCalls) {
  auto store = Create("a");
  std::set<std::int64_t> ids;
  for (const CallKey& key :
       {CallKey{llm::Role::kCode, 0, 0, 0, 0, 0}, CallKey{llm::Role::kIdea, 0, 0, 0, 0, 0},
        CallKey{llm::Role::kCode, 1, 0, 0, 0, 0}, CallKey{llm::Role::kCode, 0, 1, 0, 0, 0},
        CallKey{llm::Role::kCode, 0, 0, 1, 0, 0}, CallKey{llm::Role::kCode, 0, 0, 0, 1, 0},
        CallKey{llm::Role::kCode, 0, 0, 0, 0, 1}}) {
    ids.insert(store->BeginCall(key, SampleRequest(key)).value().id.value);
  }
  EXPECT_EQ(ids.size(), 7u);
}

TEST_F(StoreTest, AnInterruptedAttemptCountsAsSpentAndTheNextReservesAnew) {
  auto store = Create("a");
  const CallKey key{llm::Role::kIdea, 0, 1, 0, 0, 0};
  const std::vector<Amount> reserve = {{LedgerKind::kTokens, 1000}, {LedgerKind::kDollars, 0.5}};
  ASSERT_TRUE(store->BeginCall(key, SampleRequest(key), reserve));
  EXPECT_EQ(store->Total(LedgerKind::kTokens).value().reserved, 1000);
  store.reset();
  store = Open("a");
  const CallRow again = store->BeginCall(key, SampleRequest(key), reserve).value();
  EXPECT_EQ(again.attempts, 2);
  EXPECT_EQ(store->Total(LedgerKind::kTokens).value().settled, 1000);
  EXPECT_EQ(store->Total(LedgerKind::kTokens).value().reserved, 1000);
  llm::Reply reply;
  reply.text = "x";
  ASSERT_TRUE(store->AnswerCall(again.id, reply, std::vector<Amount>{{LedgerKind::kTokens, 70}}));
  EXPECT_EQ(store->Total(LedgerKind::kTokens).value().settled, 1070);
  EXPECT_EQ(store->Total(LedgerKind::kTokens).value().reserved, 0);
  EXPECT_EQ(store->Total(LedgerKind::kDollars).value().settled, 1.0);  // not named: in full
}

TEST_F(StoreTest, AFailedCallIsAskedAgain) {
  auto store = Create("a");
  const CallKey key{llm::Role::kRepair, 0, 1, 1, 1, 1};
  const CallRow call = store->BeginCall(key, SampleRequest(key)).value();
  ASSERT_TRUE(store->FailCall(call.id, "503 from the endpoint"));
  EXPECT_EQ(Load("a").calls[0].error, "503 from the endpoint");
  EXPECT_EQ(Load("a").calls[0].status, CallStatus::kFailed);
  const CallRow again = store->BeginCall(key, SampleRequest(key)).value();
  EXPECT_EQ(again.id, call.id);
  EXPECT_EQ(again.status, CallStatus::kPending);
  EXPECT_EQ(again.error, "");
}

TEST_F(StoreTest, WhatRequestsBeginWithIsStoredOnceAndReadInItsPlace) {
  auto store = Create("a");
  const std::string shared = "the parent, \"quoted\"\n";
  std::vector<Hash> asked;
  for (int idea = 1; idea <= 3; ++idea) {
    llm::Request request = SampleRequest({});
    request.messages = {
        {llm::Message::Author::kSystem, "be brief"},
        {llm::Message::Author::kUser, shared + "idea " + std::to_string(idea), shared.size()}};
    const CallRow call = store->BeginCall({llm::Role::kCode, 0, 0, idea, 1, 0}, request).value();
    EXPECT_EQ(call.request, HashText(RequestJson(request)));
    asked.push_back(call.request);
    const auto stored = nlohmann::json::parse(store->Text(call.request).value());
    EXPECT_EQ(stored["messages"][1]["shared"], HashText(shared).Hex());
    EXPECT_EQ(stored["messages"][1]["text"], "idea " + std::to_string(idea));
    // Whole, it reads as one that shares nothing.
    request.messages[1].shared = 0;
    EXPECT_EQ(store->Request(call.request).value(), RequestJson(request));
  }
  EXPECT_EQ(store->Text(HashText(shared)).value(), shared);
  store.reset();
  auto reader = Reader::Open(runs_ / "a").value();
  for (const Hash& request : asked) {
    const auto whole = nlohmann::json::parse(reader->Request(request).value());
    EXPECT_EQ(whole["messages"][1]["text"].get<std::string>().find(shared), 0U);
  }
  ASSERT_TRUE(CheckStore(runs_ / "a"));
  // A run that has lost the text says so.
  {
    SQLite::Database database((runs_ / "a" / "run.db").string(), SQLite::OPEN_READWRITE);
    database.exec("DELETE FROM texts WHERE hash = '" + HashText(shared).Hex() + "'");
  }
  const Status broken = CheckStore(runs_ / "a");
  ASSERT_FALSE(broken);
  EXPECT_NE(broken.error().message.find("the request " + asked[0].Hex()), std::string::npos)
      << broken.error().message;
}

TEST_F(StoreTest, ARequestThatSharesNothingReadsAsItIs) {
  auto store = Create("a");
  const CallRow call =
      store->BeginCall({llm::Role::kCode, 0, 0, 0, 1, 0}, SampleRequest({})).value();
  EXPECT_EQ(store->Request(call.request).value(), store->Text(call.request).value());
  EXPECT_FALSE(store->Request(HashText("unknown")));
}

TEST_F(StoreTest, SamplesOfOneRequestShareItsTextAndAreToldApartByTheSeedOfTheirCall) {
  auto store = Create("a");
  llm::Request request = SampleRequest({});
  const auto ask = [&](int branch, std::uint64_t seed) {
    request.seed = seed;
    return store->BeginCall({llm::Role::kCode, 0, 0, 0, branch, 0}, request).value().request;
  };
  const Hash first = ask(1, 7);
  EXPECT_EQ(ask(2, 0xfedcba9876543210u), first);
  request.max_tokens = request.max_tokens + Tokens(1);
  EXPECT_NE(ask(3, 7), first);
  SQLite::Database database((runs_ / "a" / "run.db").string(), SQLite::OPEN_READONLY);
  SQLite::Statement seeds(database, "SELECT seed FROM calls ORDER BY branch");
  for (const std::uint64_t seed :
       {std::uint64_t{7}, std::uint64_t{0xfedcba9876543210u}, std::uint64_t{7}}) {
    ASSERT_TRUE(seeds.executeStep());
    EXPECT_EQ(static_cast<std::uint64_t>(seeds.getColumn(0).getInt64()), seed);
  }
}

TEST_F(StoreTest, WhatIsNotUtf8InARequestIsReplaced) {
  const llm::Request a = SampleRequest({});
  llm::Request b = a;
  b.messages[1].text += "\xff\xfe";  // not UTF-8
  EXPECT_NE(RequestJson(a), RequestJson(b));
}

TEST_F(StoreTest, LedgerEntriesAreReservedAndSettledOnce) {
  auto store = Create("a");
  EXPECT_TRUE(store->Reserve("k", {LedgerKind::kGpuSeconds, 5}).value());
  EXPECT_FALSE(store->Reserve("k", {LedgerKind::kGpuSeconds, 9}).value());
  EXPECT_TRUE(store->Settle("k", {LedgerKind::kGpuSeconds, 3}).value());
  EXPECT_FALSE(store->Settle("k", {LedgerKind::kGpuSeconds, 4}).value());
  EXPECT_TRUE(store->Settle("not reserved", {LedgerKind::kGpuSeconds, 2}).value());
  const LedgerTotal total = store->Total(LedgerKind::kGpuSeconds).value();
  EXPECT_EQ(total.settled, 5);
  EXPECT_EQ(total.reserved, 0);
  const auto ledger = Load("a").ledger;
  const auto row = std::find_if(ledger.begin(), ledger.end(),
                                [](const LedgerRow& entry) { return entry.key == "k"; });
  ASSERT_NE(row, ledger.end());
  EXPECT_EQ(row->reserved, 5);
}

TEST_F(StoreTest, AFinishedRoundKeepsItsFrontier) {
  MakeCandidate();
  const std::vector<FrontierEntry> frontier = {{candidate_, FrontierKind::kFastest, "fast"},
                                               {seed_, FrontierKind::kReserve, "kept"}};
  ASSERT_TRUE(store_->FinishRound(round_, frontier));
  ASSERT_TRUE(store_->FinishRound(round_, {}));
  const RunData data = Load("a");
  EXPECT_EQ(data.rounds[0].status, RoundStatus::kFinished);
  EXPECT_TRUE(data.rounds[0].finished);
  ASSERT_EQ(data.frontier.size(), 2u);
  EXPECT_EQ(data.frontier[1].candidate, seed_);
  EXPECT_EQ(data.frontier[1].place, 2);
  EXPECT_EQ(data.frontier[1].kind, FrontierKind::kReserve);
}

TEST_F(StoreTest, ARoundThatTheBudgetCutCanBeTakenUpAgain) {
  MakeCandidate();
  const std::vector<FrontierEntry> frontier = {{candidate_, FrontierKind::kFastest, "fast"}};
  EXPECT_EQ(store_->ReopenRound(round_).value(), false);  // it runs
  ASSERT_TRUE(store_->FinishRound(round_, frontier, true));
  EXPECT_TRUE(Load("a").rounds[0].cut);
  EXPECT_EQ(store_->ReopenRound(round_).value(), true);
  const RunData data = Load("a");
  EXPECT_EQ(data.rounds[0].status, RoundStatus::kRunning);
  EXPECT_FALSE(data.rounds[0].finished);
  EXPECT_TRUE(data.frontier.empty());
  ASSERT_TRUE(store_->FinishRound(round_, frontier));
  EXPECT_EQ(store_->ReopenRound(round_).value(), false);  // nothing was left undone
  EXPECT_EQ(Load("a").frontier.size(), 1u);
}

TEST_F(StoreTest, ATransitionThatBreaksARuleStoresNothingOfItself) {
  MakeCandidate();
  const std::vector<FrontierEntry> twice = {{candidate_, FrontierKind::kFastest, ""},
                                            {candidate_, FrontierKind::kReserve, ""}};
  EXPECT_EQ(store_->FinishRound(round_, twice).error().code, ErrorCode::kInternal);
  const RunData data = Load("a");
  EXPECT_EQ(data.rounds[0].status, RoundStatus::kRunning);
  EXPECT_TRUE(data.frontier.empty());
}

TEST_F(StoreTest, WhatRefersToNothingIsRefused) {
  MakeCandidate();
  EXPECT_EQ(store_->RequestCandidate(IdeaId(99), 1).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(store_->RecordVerdict(CandidateId(99), {}).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(store_->FinishRound(RoundId(99), {}).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(store_->AnswerCall(CallId(99), {}).error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(store_->RecordIdeas(round_, CandidateId(99), CallId(),
                                   std::vector<IdeaDraft>{{"t", "c", "r"}}));
  EXPECT_FALSE(store_->RequestCandidate(idea_, 0));
  EXPECT_TRUE(CheckStore(runs_ / "a"));
}

TEST_F(StoreTest, AHintIsTakenOnceAndAgainByTheSameRound) {
  auto store = Create("a");
  const RoundId r0 = store->BeginRound(0).value();
  EXPECT_TRUE(store->AddHint("hints/1.txt", "hint", "try shared memory").value());
  EXPECT_FALSE(store->AddHint("hints/1.txt", "hint", "again").value());
  EXPECT_EQ(store->TakeHints(r0).value().size(), 1u);
  EXPECT_EQ(store->TakeHints(r0).value().size(), 1u);
  const RoundId r1 = store->BeginRound(1).value();
  EXPECT_TRUE(store->TakeHints(r1).value().empty());
  ASSERT_TRUE(store->AnswerHint(1, "done"));
  EXPECT_EQ(Load("a").hints[0].answer, "done");
  EXPECT_EQ(store->AnswerHint(7, "?").error().code, ErrorCode::kNotFound);
}

TEST_F(StoreTest, TextsOfAnyBytesAreStoredOnce) {
  MakeCandidate();
  std::string text("'; DROP TABLE runs; --\0\xff\x1b[31m", 29);
  text += std::string(200000, 'x');
  ASSERT_TRUE(store_->ReceiveProgram(candidate_, {0, text, text, {}}).value());
  EXPECT_EQ(Row().source, Row().plan);
  EXPECT_EQ(store_->Text(*Row().source).value(), text);
  EXPECT_TRUE(CheckStore(runs_ / "a"));
}

TEST_F(StoreTest, HostileIdeasAreStoredAsTheyCame) {
  MakeCandidate();
  const std::string evil("\"x'; DELETE FROM ideas;\0\n\x1b[2J\xe2\x80\xae%s{}", 41);
  ASSERT_TRUE(store_->RecordIdeas(store_->BeginRound(1).value(), seed_, CallId(),
                                  std::vector<IdeaDraft>{{evil, evil, evil}}));
  const RunData data = Load("a");
  ASSERT_EQ(data.ideas.size(), 2u);
  EXPECT_EQ(data.ideas[1].title, evil);
  EXPECT_EQ(data.ideas[1].rationale, evil);
}

TEST_F(StoreTest, ManyThreadsWriteOneStore) {
  MakeCandidate();
  constexpr int kThreads = 4;
  constexpr int kEach = 25;
  std::vector<std::thread> threads;
  std::atomic<int> failed{0};
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) {
        const auto id = store_->RequestCandidate(idea_, 10 + t * kEach + i);
        if (!id || !store_->RecordVerdict(*id, SampleEvaluation(100 + i))) ++failed;
        // And one that all of them write.
        if (!store_->RequestCandidate(idea_, 2) || !store_->AddEvent("test", "x")) ++failed;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failed, 0);
  const RunData data = Load("a");
  EXPECT_EQ(data.candidates.size(), 3u + kThreads * kEach);
  EXPECT_EQ(data.events.size(), std::size_t{kThreads * kEach});
  EXPECT_TRUE(CheckStore(runs_ / "a"));
}

TEST_F(StoreTest, AReaderSeesWholeTransitionsWhileTheRunWrites) {
  auto store = Create("a");
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    EXPECT_TRUE(RunSampleSearch(*store, {.rounds = 6, .ideas = 2, .branches = 3}));
    stop = true;
  });
  auto reader = Reader::Open(runs_ / "a").value();
  std::size_t before = 0;
  int looks = 0;
  for (bool last = false; !last; ++looks) {
    last = stop;
    const auto data = reader->Load();
    if (!data) {
      ADD_FAILURE() << data.error().message;
      break;
    }
    EXPECT_GE(data->candidates.size(), before);
    before = data->candidates.size();
    for (const CandidateRow& c : data->candidates) {
      if (!c.evaluation) continue;
      EXPECT_EQ(c.evaluation->stages.size(), 3u) << c.name;
    }
    EXPECT_TRUE(data->run.live);
  }
  writer.join();
  EXPECT_GT(before, 60u);
  EXPECT_GT(looks, 1);
}

TEST_F(StoreTest, AReaderLeavesTheFileAsItWas) {
  Create("a");
  const auto size = std::filesystem::file_size(runs_ / "a" / "run.db");
  const auto written = std::filesystem::last_write_time(runs_ / "a" / "run.db");
  Load("a");
  ASSERT_TRUE(CheckStore(runs_ / "a"));
  EXPECT_EQ(std::filesystem::file_size(runs_ / "a" / "run.db"), size);
  EXPECT_EQ(std::filesystem::last_write_time(runs_ / "a" / "run.db"), written);
}

TEST_F(StoreTest, RunsAreListedNewestFirstAndBrokenOnesWithTheirProblem) {
  auto a = Create("a");
  ASSERT_TRUE(RunSampleSearch(*a, {}));
  a.reset();
  auto b = Create("b");
  std::filesystem::create_directories(runs_ / "broken");
  std::FILE* file = std::fopen((runs_ / "broken" / "run.db").c_str(), "w");
  std::fputs("this is no database, whatever its name says", file);
  std::fclose(file);
  std::filesystem::create_directories(runs_ / "no-run");
  const auto list = ListRuns(runs_).value();
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(list[0].name, "b");
  EXPECT_TRUE(list[0].run.live);
  EXPECT_EQ(list[1].name, "a");
  EXPECT_EQ(list[1].task, "softmax");
  EXPECT_EQ(list[1].rounds, 3);
  EXPECT_EQ(list[1].candidates, 20);
  EXPECT_EQ(list[1].seed_score, Nanoseconds(20000));
  EXPECT_LT(*list[1].best_score, Nanoseconds(13000));
  EXPECT_FALSE(list[1].run.live);
  EXPECT_EQ(list[2].name, "broken");
  EXPECT_NE(list[2].problem, "");
  EXPECT_TRUE(ListRuns(runs_ / "none").value().empty());
}

}  // namespace
}  // namespace grove::results
