#include "tests/support/synthetic_run.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include <fmt/format.h>

namespace grove::testing {

using namespace results;  // NOLINT: a test's own file

const char* const kHostileTitle =
    "</script><script>window.owned=1</script><img src=x onerror=window.owned=1> & \xe2\x80\xaetxet "
    "\xe2\x80\xa8"
    "line \x1b[31mred\x07 \xff ${1+1} {{constructor}}";

namespace {

constexpr const char* kCategories[] = {"memory access", "parallelism and occupancy",
                                       "instructions and arithmetic", "launch and fusion",
                                       "algorithm"};
constexpr const char* kTitles[] = {
    "Vectorised 16-byte loads and stores", "Keep the row on chip between reads",
    "One warp per row, held in registers", "Two rows per block to hide latency",
    "Online maximum and sum in one pass",  "Asynchronous copies into shared memory",
    "Exponentials on the special unit",    "Persistent blocks with a tile queue"};

std::string Source(int lines, int salt) {
  std::string out = fmt::format(
      "// variant {}\nextern \"C\" __global__ void softmax(const "
      "float* __restrict__ x, float* y) {{\n  __shared__ float tile[{}];\n",
      salt, 256 + salt % 7 * 128);
  for (int i = 0; i < lines; ++i) {
    out += fmt::format("  tile[threadIdx.x] += x[blockIdx.x * {} + threadIdx.x + {}] * {}.5f;\n",
                       1024 + salt % 13, i * 128, (i * 7 + salt * 31) % 97);
  }
  return out + "  y[blockIdx.x] = tile[0];\n}\n";
}

class Maker {
 public:
  Maker(Store& store, const SyntheticRun& options) : store_(store), options_(options) {}

  Status Make() {
    auto seed = store_.RecordSeed(
        {0, Source(30, 0), std::string(R"({"version":1,"launches":[]})"), HashText("seed")});
    if (!seed) return Fail(seed.error());
    if (auto v = store_.RecordVerdict(*seed, Passed(2.0e6)); !v) return Fail(v.error());
    std::vector<FrontierEntry> frontier = {{*seed, FrontierKind::kFastest, "the seed"}};
    best_ = 2.0e6;
    const int rounds = std::max(1, options_.candidates / (options_.candidates > 1000 ? 240 : 12));
    for (int r = 1; r <= rounds; ++r) {
      if (Status s = Round(r, rounds, frontier); !s) return s;
    }
    if (auto s = store_.AddEvent("round", Text("all rounds are done")); !s) return s;
    return store_.SetStatus(RunStatus::kFinished, Text("all rounds are done"));
  }

 private:
  std::string Text(const std::string& text) const {
    return options_.hostile ? text + " " + kHostileTitle : text;
  }

  EvaluationRow Passed(double score) {
    EvaluationRow e;
    e.verdict.kind = eval::VerdictKind::kPass;
    e.verdict.stage = eval::Stage::kRecheck;
    e.precision = "fp32";
    e.score = Nanoseconds(score);
    e.score_kind = options_.measured ? TimeKind::kMeasured : TimeKind::kModelled;
    for (const auto stage : {eval::Stage::kParse, eval::Stage::kCompile, eval::Stage::kSmoke,
                             eval::Stage::kSweep, eval::Stage::kTiming, eval::Stage::kRecheck}) {
      e.stages.push_back({stage, "", eval::VerdictKind::kPass, Milliseconds(12)});
    }
    for (const auto& [name, factor] : {std::pair("n1024", 0.5), std::pair("n4096", 2.0)}) {
      CaseTimeRow time;
      time.case_name = name;
      time.kind = e.score_kind;
      time.time = Nanoseconds(score * factor);
      time.floor = Nanoseconds(60000 * factor);
      time.class_floor = Nanoseconds(72000 * factor);
      time.bound = "memory";
      time.dram_bytes = 3.3e7 * factor;
      time.occupancy = 0.75;
      time.limiter = "registers";
      time.launches = 1;
      time.checked_share = 1;
      if (options_.measured) {
        time.low = time.time * 0.99;
        time.high = time.time * 1.02;
        std::normal_distribution<double> noise(1, 0.008);
        for (int i = 0; i < 20; ++i) {
          e.samples.push_back({name, TimingMode::kCold, 0, time.time * std::abs(noise(random_))});
        }
      }
      e.case_times.push_back(time);
    }
    e.kernels = {{"n1024", "softmax", 40, Bytes(0), Bytes(0), Bytes(1024), Bytes(0), Bytes(0)}};
    return e;
  }

  EvaluationRow Failed(int salt) const {
    constexpr eval::VerdictKind kKinds[] = {
        eval::VerdictKind::kWrongResult, eval::VerdictKind::kCompileError,
        eval::VerdictKind::kOutOfBounds, eval::VerdictKind::kImpossible,
        eval::VerdictKind::kDuplicate};
    constexpr eval::Stage kStages[] = {eval::Stage::kSmoke, eval::Stage::kCompile,
                                       eval::Stage::kSweep, eval::Stage::kTiming,
                                       eval::Stage::kParse};
    EvaluationRow e;
    const auto at = static_cast<std::size_t>(salt) % std::size(kKinds);
    e.verdict.kind = kKinds[at];
    e.verdict.stage = kStages[at];
    e.verdict.case_name = "n1024";
    e.verdict.message = Text("row 7 differs from the reference");
    if (at == 0) {
      e.verdict.tensor = "y";
      e.verdict.element = 3585;
      e.verdict.expected = 0.25;
      e.verdict.got = 0.5;
      e.verdict.error = 1;
      e.verdict.tolerance = 1e-5;
    }
    e.stages = {{kStages[at], "n1024", e.verdict.kind, Milliseconds(4)}};
    return e;
  }

  Result<CallId> Ask(const CallKey& key) {
    llm::Request request;
    request.role = key.role;
    request.model = key.role == llm::Role::kIdea ? "large-model" : "small-model";
    request.messages = {
        {llm::Message::Author::kSystem, "You write CUDA kernels and answer with one program."},
        {llm::Message::Author::kUser,
         Text("The kernel to improve:\n\n" + Source(options_.source_lines, key.idea % 50))}};
    request.seed = static_cast<std::uint64_t>(key.branch);
    auto call = store_.BeginCall(
        key, request,
        std::vector<Amount>{{LedgerKind::kTokens, 4000}, {LedgerKind::kDollars, 0.01}});
    if (!call) return Fail(call.error());
    llm::Reply reply;
    reply.text = Text("Here is the kernel.") + "\n\n```cuda\n" +
                 Source(options_.source_lines, key.idea * 10 + key.branch) + "```\n";
    reply.usage = {Tokens(2400), Tokens(1000), Tokens(1100), Tokens(300), false};
    reply.model = request.model;
    reply.latency = Milliseconds(1800);
    auto answered = store_.AnswerCall(
        call->id, reply,
        std::vector<Amount>{{LedgerKind::kTokens, 3500}, {LedgerKind::kDollars, 0.004}});
    if (!answered) return Fail(answered.error());
    return call->id;
  }

  Status Round(int r, int rounds, std::vector<FrontierEntry>& frontier) {
    auto round = store_.BeginRound(r);
    if (!round) return Fail(round.error());
    std::vector<std::pair<double, CandidateId>> passed;
    const int per_round = std::max(12, options_.candidates / rounds);
    const auto parents = static_cast<int>(frontier.size());
    const int branches = 3;
    const int ideas = std::max(1, per_round / (parents * branches));
    int number = 0;
    for (int p = 0; p < parents; ++p) {
      auto call = Ask({llm::Role::kIdea, r, p + 1, 0, 0, 0});
      if (!call) return Fail(call.error());
      std::vector<IdeaDraft> drafts;
      for (int i = 0; i < ideas; ++i) {
        const auto pick = static_cast<std::size_t>(r * 7 + p * 3 + i);
        drafts.push_back({Text(kTitles[pick % std::size(kTitles)]),
                          kCategories[pick % std::size(kCategories)],
                          Text("The loads are narrow, so the memory system moves more sectors than "
                               "bytes are needed. Wider ones use whole sectors."),
                          1.25});
      }
      auto ids = store_.RecordIdeas(*round, frontier[static_cast<std::size_t>(p)].candidate, *call,
                                    drafts);
      if (!ids) return Fail(ids.error());
      for (const IdeaId idea : *ids) {
        ++number;
        for (int b = 1; b <= branches; ++b) {
          if (Status s = Candidate(r, p + 1, idea, number, b, passed); !s) return s;
        }
      }
    }
    std::sort(passed.begin(), passed.end());
    std::vector<FrontierEntry> next;
    for (const auto& [score, candidate] : passed) {
      if (next.size() >= 3) break;
      next.push_back({candidate, next.size() < 2 ? FrontierKind::kFastest : FrontierKind::kReserve,
                      fmt::format("number {} by time", next.size() + 1)});
    }
    if (next.empty()) next = frontier;
    frontier = next;
    return store_.FinishRound(*round, next);
  }

  Status Candidate(int r, int place, IdeaId idea, int number, int b,
                   std::vector<std::pair<double, CandidateId>>& passed) {
    const int salt = r * 1000 + number * 10 + b;
    auto candidate = store_.RequestCandidate(idea, b);
    if (!candidate) return Fail(candidate.error());
    if (auto call = Ask({llm::Role::kCode, r, place, number, b, 0}); !call) {
      return Fail(call.error());
    }
    ProgramDraft program{0, Source(options_.source_lines, salt),
                         fmt::format(R"({{"version":1,"launches":[{{"grid":[{}]}}]}})", salt),
                         HashText(std::to_string(salt))};
    if (auto ok = store_.ReceiveProgram(*candidate, program); !ok) return Fail(ok.error());
    if (salt % 7 == 0) {
      eval::Verdict verdict;
      verdict.kind = eval::VerdictKind::kCompileError;
      verdict.stage = eval::Stage::kCompile;
      verdict.message = Text("line 3: expected a ';'");
      if (auto ok = store_.RecordAttempt(*candidate, program, verdict); !ok) {
        return Fail(ok.error());
      }
      if (auto call = Ask({llm::Role::kRepair, r, place, number, b, 1}); !call) {
        return Fail(call.error());
      }
      program.turn = 1;
      *program.source += "// repaired\n";
      if (auto ok = store_.ReceiveProgram(*candidate, program); !ok) return Fail(ok.error());
    }
    std::uniform_real_distribution<double> spread(0.75, 1.9);
    EvaluationRow evaluation;
    if (salt % 3 == 0) {
      evaluation = Failed(r + number + b);
    } else {
      const double score = std::max(90000.0, best_ * spread(random_));
      evaluation = Passed(score);
      passed.emplace_back(score, *candidate);
      best_ = std::min(best_, score);
    }
    auto ok = store_.RecordVerdict(*candidate, evaluation,
                                   std::vector<Amount>{{LedgerKind::kEvaluations, 1}});
    return ok ? Status() : Fail(ok.error());
  }

  Store& store_;
  const SyntheticRun& options_;
  std::mt19937_64 random_{7};
  double best_ = 0;
};

}  // namespace

Status MakeSyntheticRun(const std::filesystem::path& runs, const SyntheticRun& options) {
  RunStart start;
  start.name = options.name;
  start.config = R"({"task":"softmax","rounds":20,"seed":7})";
  start.program_version = "0.1.0";
  start.seed = 7;
  start.environment = {{"gpu", "NVIDIA H200"},
                       {"driver", "580.1"},
                       {"toolkit", "NVRTC 13.0"},
                       {"clocks", "1980 MHz"}};
  start.task_name = "softmax";
  start.task_title = options.hostile ? kHostileTitle : "Row softmax";
  start.task_demanded = "fp32";
  start.task_contract = "y = softmax(x) over the last dim";
  start.reference = {"// reference", "{}"};
  start.task_seed = {Source(30, 0), R"({"version":1,"launches":[]})"};
  start.cases = {{"n1024", "scored", {{"M", 4096}, {"N", 1024}}, 1e7, Bytes(33554432)},
                 {"n4096", "scored", {{"M", 4096}, {"N", 4096}}, 4e7, Bytes(134217728)},
                 {"edge", "edge", {{"M", 3}, {"N", 1}}, 12, Bytes(24)}};
  const SteppingClock clock;
  auto store = Store::Create(runs, start, clock, {.survive_power_loss = false});
  if (!store) return Fail(store.error());
  std::vector<BaselineRow> baselines(2);
  baselines[0].case_name = "n1024";
  baselines[0].time = Nanoseconds(180000);
  baselines[1].case_name = "n4096";
  baselines[1].time = Nanoseconds(700000);
  for (BaselineRow& row : baselines) {
    row.name = "cublas";
    row.gpu_uuid = "GPU-0";
    row.gpu = "NVIDIA H200";
  }
  if (Status s = (*store)->SetBaselines(baselines); !s) return s;
  return Maker(**store, options).Make();
}

}  // namespace grove::testing
