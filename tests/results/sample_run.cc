#include "tests/results/sample_run.h"

#include <algorithm>

#include <fmt/format.h>
#include <unistd.h>

namespace grove::results {

void RunsFolder::SetUp() {
  const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
  runs_ = std::filesystem::path(::testing::TempDir()) /
          fmt::format("{}.{}.{}", info->test_suite_name(), info->name(), ::getpid());
  std::filesystem::remove_all(runs_);
}

void RunsFolder::TearDown() { std::filesystem::remove_all(runs_); }

std::unique_ptr<Store> RunsFolder::Create(const std::string& name) {
  auto store = Store::Create(runs_, SampleStart(name), clock_, {.survive_power_loss = false});
  EXPECT_TRUE(store) << store.error().message;
  return store ? *std::move(store) : nullptr;
}

std::unique_ptr<Store> RunsFolder::Open(const std::string& name) {
  auto store = Store::Open(runs_, name, clock_, {.survive_power_loss = false});
  EXPECT_TRUE(store) << store.error().message;
  return store ? *std::move(store) : nullptr;
}

RunData RunsFolder::Load(const std::string& name) {
  auto reader = Reader::Open(runs_ / name);
  EXPECT_TRUE(reader) << reader.error().message;
  if (!reader) return {};
  auto data = (*reader)->Load();
  EXPECT_TRUE(data) << data.error().message;
  return data ? *std::move(data) : RunData{};
}

RunStart SampleStart(const std::string& name) {
  RunStart start;
  start.name = name;
  start.config = R"({"rounds":3})";
  start.program_version = "0.1.0";
  start.seed = 0xfedcba9876543210u;
  start.environment = {{"gpu", "H200"}, {"toolkit", "NVRTC 13.0"}};
  start.task_name = "softmax";
  start.task_title = "Row softmax";
  start.task_demanded = "fp32";
  start.task_contract = "y = softmax(x) over the last dim";
  start.reference = {"// reference", "{}"};
  start.task_seed = {"// seed", "{\"version\":1}"};
  start.cases = {{"n512", "scored", {{"M", 4096}, {"N", 512}}, 1e7, Bytes(16777216)},
                 {"edge", "edge", {{"M", 3}, {"N", 1}}, 12, Bytes(24)}};
  return start;
}

llm::Request SampleRequest(const CallKey& key) {
  llm::Request request;
  request.role = key.role;
  request.model = "model-a";
  request.messages = {{llm::Message::Author::kSystem, "You write CUDA."},
                      {llm::Message::Author::kUser, "Question " + ToString(key)}};
  request.seed = static_cast<std::uint64_t>(key.branch);
  return request;
}

EvaluationRow SampleEvaluation(double score_ns) {
  EvaluationRow e;
  e.stages = {{eval::Stage::kParse, "", eval::VerdictKind::kPass, Milliseconds(0.5)},
              {eval::Stage::kCompile, "n512", eval::VerdictKind::kPass, Milliseconds(120)}};
  e.launches = {{"n512", "rows", 2, Nanoseconds(4000), 6e6, "memory", 0.75, "registers"},
                {"n512", "merge", 1, Nanoseconds(900), 0, "latency", 0.5, ""}};
  e.kernels = {{"n512", "softmax", 40, Bytes(0), Bytes(8), Bytes(1024), Bytes(2048), Bytes(16)}};
  if (score_ns <= 0) {
    e.verdict.kind = eval::VerdictKind::kWrongResult;
    e.verdict.stage = eval::Stage::kSmoke;
    e.verdict.case_name = "n512";
    e.verdict.message = "row 7 is wrong";
    e.verdict.seed = 0xffffffffffffffffu;
    e.verdict.tensor = "y";
    e.verdict.element = 3585;
    e.verdict.expected = 0.25;
    e.verdict.got = std::numeric_limits<double>::quiet_NaN();
    e.verdict.error = std::numeric_limits<double>::infinity();
    e.verdict.tolerance = 1e-5;
    e.stages.push_back(
        {eval::Stage::kSmoke, "n512", eval::VerdictKind::kWrongResult, Milliseconds(3)});
    return e;
  }
  e.verdict.kind = eval::VerdictKind::kPass;
  e.verdict.stage = eval::Stage::kRecheck;
  e.precision = "fp32";
  e.score = Nanoseconds(score_ns);
  e.stages.push_back({eval::Stage::kTiming, "n512", eval::VerdictKind::kPass, Milliseconds(40)});
  CaseTimeRow time;
  time.case_name = "n512";
  time.time = Nanoseconds(score_ns);
  time.floor = Nanoseconds(3500);
  time.class_floor = Nanoseconds(4000);
  time.bound = "memory";
  time.dram_bytes = 16777216;
  time.occupancy = 0.75;
  time.limiter = "registers";
  time.launches = 1;
  e.case_times = {time};
  for (int i = 0; i < 3; ++i) {
    e.samples.push_back({"n512", TimingMode::kCold, 0, Nanoseconds(score_ns + i)});
  }
  return e;
}

namespace {

class SampleSearch {
 public:
  SampleSearch(Store& store, const SearchSize& size,
               const std::function<void(const std::string&)>& done)
      : store_(store), size_(size), done_(done) {}

  Status Run() {
    auto seed = store_.RecordSeed({0, "// seed", "{\"version\":1}", HashText("seed")});
    if (!seed) return Fail(seed.error());
    if (auto v = store_.RecordVerdict(*seed, SampleEvaluation(20000)); !v) return Fail(v.error());
    Done("seed");
    std::vector<FrontierEntry> frontier = {{*seed, FrontierKind::kFastest, "the seed"}};
    for (int r = 0; r < size_.rounds; ++r) {
      if (Status round = Round(r, frontier); !round) return round;
    }
    return store_.SetStatus(RunStatus::kFinished, "all rounds done");
  }

 private:
  void Done(const std::string& what) const {
    if (done_) done_(what);
  }

  // The stored reply, or a new one.
  Result<std::pair<CallId, std::string>> Ask(const CallKey& key) {
    auto call =
        store_.BeginCall(key, SampleRequest(key), std::vector<Amount>{{LedgerKind::kTokens, 1000}});
    if (!call) return Fail(call.error());
    if (call->status != CallStatus::kAnswered) {
      llm::Reply reply;
      reply.text = "Answer to " + ToString(key);
      reply.usage = {Tokens(100), Tokens(20), Tokens(50), Tokens(5), false};
      reply.model = "model-a-2026";
      reply.latency = Milliseconds(12.5);
      auto answered =
          store_.AnswerCall(call->id, reply, std::vector<Amount>{{LedgerKind::kTokens, 150}});
      if (!answered) return Fail(answered.error());
      Done("call " + ToString(key));
    }
    auto reply = store_.FindReply(key);
    if (!reply) return Fail(reply.error());
    return std::pair(call->id, reply->value().text);
  }

  Status Round(int r, std::vector<FrontierEntry>& frontier) {
    auto round = store_.BeginRound(r);
    if (!round) return Fail(round.error());
    std::vector<FrontierEntry> next;
    int place = 0;
    int number = 0;
    for (const FrontierEntry& parent : frontier) {
      auto answer = Ask({llm::Role::kIdea, r, ++place, 0, 0, 0});
      if (!answer) return Fail(answer.error());
      std::vector<IdeaDraft> drafts;
      for (int i = 0; i < size_.ideas; ++i) {
        drafts.push_back({fmt::format("Idea {} of {}", i + 1, answer->second), "memory",
                          "Because the loads are narrow.", 1.25});
      }
      auto ideas = store_.RecordIdeas(*round, parent.candidate, answer->first, drafts);
      if (!ideas) return Fail(ideas.error());
      for (const IdeaId idea : *ideas) {
        ++number;
        for (int b = 1; b <= size_.branches; ++b) {
          auto candidate = Candidate(r, place, idea, number, b);
          if (!candidate) return Fail(candidate.error());
          if (next.size() < 2 && !Fails(number, b)) {
            next.push_back({*candidate,
                            next.empty() ? FrontierKind::kFastest : FrontierKind::kReserve,
                            fmt::format("chosen in round {}", r)});
          }
        }
      }
    }
    if (Status finished = store_.FinishRound(*round, next); !finished) return finished;
    Done(fmt::format("round {}", r));
    frontier = next;
    return {};
  }

  static bool Fails(int number, int branch) { return (number + branch) % 4 == 0; }
  static bool NeedsRepair(int number, int branch) { return (number + branch) % 3 == 0; }

  Result<CandidateId> Candidate(int r, int place, IdeaId idea, int number, int b) {
    auto candidate = store_.RequestCandidate(idea, b);
    if (!candidate) return candidate;
    int turn = 0;
    CallKey key{llm::Role::kCode, r, place, number, b, turn};
    auto answer = Ask(key);
    if (!answer) return Fail(answer.error());
    const auto program = [&] {
      return ProgramDraft{turn, "// " + answer->second, "{}", HashText(answer->second)};
    };
    if (auto ok = store_.ReceiveProgram(*candidate, program()); !ok) return Fail(ok.error());
    if (NeedsRepair(number, b)) {
      eval::Verdict verdict;
      verdict.kind = eval::VerdictKind::kCompileError;
      verdict.stage = eval::Stage::kCompile;
      verdict.message = "line 3: expected a ';'";
      if (auto ok = store_.RecordAttempt(*candidate, program(), verdict); !ok) {
        return Fail(ok.error());
      }
      turn = key.turn = 1;
      key.role = llm::Role::kRepair;
      answer = Ask(key);
      if (!answer) return Fail(answer.error());
      if (auto ok = store_.ReceiveProgram(*candidate, program()); !ok) return Fail(ok.error());
    }
    const double score = Fails(number, b) ? 0 : 15000.0 - 1000 * r - 10 * number - b;
    auto ok = store_.RecordVerdict(*candidate, SampleEvaluation(score),
                                   std::vector<Amount>{{LedgerKind::kEvaluations, 1}});
    if (!ok) return Fail(ok.error());
    Done(fmt::format("r{}.i{}.b{}", r, number, b));
    return candidate;
  }

  Store& store_;
  const SearchSize size_;
  const std::function<void(const std::string&)>& done_;
};

std::string HexOrNone(const std::optional<Hash>& hash) { return hash ? hash->Hex() : "none"; }

}  // namespace

Status RunSampleSearch(Store& store, const SearchSize& size,
                       const std::function<void(const std::string&)>& done) {
  return SampleSearch(store, size, done).Run();
}

std::string Essence(const RunData& data) {
  std::string out =
      fmt::format("run {} {} {}\n", Name(data.run.status), data.run.config, data.run.seed);
  for (const RoundRow& r : data.rounds) {
    out += fmt::format("round {} {}\n", r.index, Name(r.status));
  }
  const auto name = [&](CandidateId id) {
    const CandidateRow* row = data.Find(id);
    return row != nullptr ? row->name : std::string("none");
  };
  for (const IdeaRow& i : data.ideas) {
    out += fmt::format("idea {} of {} #{} call {} {} {} {} {}\n", i.name, name(i.parent), i.ordinal,
                       i.call.value, i.title, i.category, i.rationale, i.expected_gain.value_or(0));
  }
  for (const CandidateRow& c : data.candidates) {
    out +=
        fmt::format("candidate {} of {} turn {} {} {} {} {}", c.name, name(c.parent), c.turn,
                    Name(c.status), HexOrNone(c.source), HexOrNone(c.plan), HexOrNone(c.identity));
    if (c.evaluation) {
      const EvaluationRow& e = *c.evaluation;
      out += fmt::format(" {} {} {} stages {} times {} kernels {}", eval::Name(e.verdict.kind),
                         e.verdict.message, e.score.value_or(Nanoseconds(0)).count(),
                         e.stages.size(), e.case_times.size(), e.kernels.size());
    }
    out += '\n';
  }
  for (const AttemptRow& a : data.attempts) {
    out += fmt::format("attempt {} {} {} {}\n", name(a.candidate), a.turn, HexOrNone(a.source),
                       a.verdict.message);
  }
  for (const FrontierRow& f : data.frontier) {
    out += fmt::format("frontier {} {} {} {} {}\n", f.round.value, f.place, name(f.candidate),
                       Name(f.kind), f.why);
  }
  for (const CallRow& c : data.calls) {
    out += fmt::format("call {} {} {} {} {} {}\n", ToString(c.key), c.model, c.request.Hex(),
                       Name(c.status), HexOrNone(c.reply), c.usage.total().value);
  }
  return out;
}

}  // namespace grove::results
