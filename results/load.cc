// Reading: rows to plain structs, the Reader, and the list of runs.
#include <algorithm>
#include <map>
#include <mutex>

#include <SQLiteCpp/Transaction.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "results/lock.h"
#include "results/request_text.h"
#include "results/sql.h"
#include "results/store.h"

namespace grove::results {
namespace {

constexpr const char* kCallColumns =
    "id, role, round_number, parent_place, idea_number, branch, turn, model, request, status, "
    "reply, prompt_tokens, cached_tokens, completion_tokens, reasoning_tokens, usage_estimated, "
    "finish, reply_model, latency_ms, error, attempts, asked_us, ended_us, retries, cost_dollars";

std::optional<WallTime> OptionalTime(const Query& row, int column) {
  return row.IsNull(column) ? std::nullopt : std::optional(row.Time(column));
}

CallRow LoadCall(const Query& row) {
  CallRow call;
  call.id = row.Id<CallId>(0);
  call.key = {row.Enum<llm::Role>(1), row.Small(2), row.Small(3),
              row.Small(4),           row.Small(5), row.Small(6)};
  call.model = row.Text(7);
  call.request = row.Hash(8);
  call.status = row.Enum<CallStatus>(9);
  call.reply = row.OptionalHash(10);
  if (call.reply) {
    call.usage.prompt = Tokens(row.Int(11));
    call.usage.cached = Tokens(row.Int(12));
    call.usage.completion = Tokens(row.Int(13));
    call.usage.reasoning = Tokens(row.Int(14));
    call.usage.estimated = row.Int(15) != 0;
    call.finish = row.Enum<llm::FinishReason>(16);
    call.reply_model = row.Text(17);
    call.latency = Milliseconds(row.Real(18));
  }
  call.error = row.Text(19);
  call.attempts = row.Small(20);
  call.asked = row.Time(21);
  call.ended = OptionalTime(row, 22);
  call.retries = row.Small(23);
  call.dollars = row.OptionalReal(24);
  return call;
}

llm::Reply ReplyOf(Connection& c, const CallRow& row) {
  llm::Reply reply;
  reply.text = GetText(c, *row.reply);
  reply.usage = row.usage;
  reply.finish = row.finish;
  reply.model = row.reply_model;
  reply.retries = row.retries;
  reply.latency = row.latency;
  return reply;
}

std::vector<seeds::Dim> ParseDims(const std::string& text) {
  const auto json = nlohmann::ordered_json::parse(text, nullptr, false);
  if (!json.is_object()) Throw(ErrorCode::kInternal, "the store holds broken dims: " + text);
  std::vector<seeds::Dim> dims;
  for (const auto& [name, value] : json.items()) {
    if (!value.is_number_integer()) {
      Throw(ErrorCode::kInternal, "the store holds broken dims: " + text);
    }
    dims.push_back({name, value.get<std::int64_t>()});
  }
  return dims;
}

// Thirteen columns from `first`: kind, stage, case, message, seed, tensor, element and four reals.
eval::Verdict LoadVerdict(const Query& row, int first) {
  eval::Verdict v;
  v.kind = row.Enum<eval::VerdictKind>(first);
  v.stage = row.Enum<eval::Stage>(first + 1);
  v.case_name = row.Text(first + 2);
  v.message = row.Text(first + 3);
  v.seed = static_cast<std::uint64_t>(row.Int(first + 4));
  v.tensor = row.Text(first + 5);
  v.element = row.Int(first + 6);
  v.expected = row.Real(first + 7);
  v.got = row.Real(first + 8);
  v.error = row.Real(first + 9);
  v.tolerance = row.Real(first + 10);
  return v;
}

RunInfo LoadRunInfo(Connection& c) {
  Query row(c,
            "SELECT name, created_us, config, program_version, status, reason, status_us, seed "
            "FROM run");
  if (!row.Step()) Throw(ErrorCode::kNotFound, "the run was killed before it began");
  RunInfo run;
  run.name = row.Text(0);
  run.created = row.Time(1);
  run.config = row.Text(2);
  run.program_version = row.Text(3);
  run.status = row.Enum<RunStatus>(4);
  run.reason = row.Text(5);
  run.status_since = row.Time(6);
  run.seed = static_cast<std::uint64_t>(row.Int(7));
  return run;
}

void LoadTask(Connection& c, RunData& data) {
  Query task(c,
             "SELECT name, title, demanded, contract, reference_source, reference_plan, "
             "seed_source, seed_plan FROM task");
  if (task.Step()) {
    data.task = {task.Text(0), task.Text(1), task.Text(2), task.Hash(3),
                 task.Hash(4), task.Hash(5), task.Hash(6), task.Hash(7)};
  }
  Query cases(c, "SELECT name, role, dims, flops, min_bytes FROM cases ORDER BY id");
  while (cases.Step()) {
    data.cases.push_back({cases.Text(0), cases.Text(1), ParseDims(cases.Text(2)), cases.Real(3),
                          Bytes(cases.Int(4))});
  }
}

void LoadTree(Connection& c, RunData& data) {
  Query rounds(c,
               "SELECT id, number, status, started_us, finished_us, cut FROM rounds ORDER BY id");
  while (rounds.Step()) {
    data.rounds.push_back({rounds.Id<RoundId>(0), rounds.Small(1), rounds.Enum<RoundStatus>(2),
                           rounds.Time(3), OptionalTime(rounds, 4), rounds.Int(5) != 0});
  }
  Query ideas(c,
              "SELECT id, round, parent, ordinal, number, name, title, category, rationale, "
              "expected_gain, call FROM ideas ORDER BY id");
  while (ideas.Step()) {
    data.ideas.push_back({ideas.Id<IdeaId>(0), ideas.Id<RoundId>(1), ideas.Id<CandidateId>(2),
                          ideas.Small(3), ideas.Small(4), ideas.Text(5), ideas.Text(6),
                          ideas.Text(7), ideas.Text(8), ideas.OptionalReal(9),
                          ideas.Id<CallId>(10)});
  }
  Query rows(c,
             "SELECT id, name, round, idea, parent, branch, turn, status, source, plan, "
             "identity, precision, score_ns, score_kind, verdict, stage, case_name, message, "
             "input_seed, tensor, element, expected, got, error, tolerance "
             "FROM candidates ORDER BY id");
  while (rows.Step()) {
    CandidateRow& row = data.candidates.emplace_back();
    row.id = rows.Id<CandidateId>(0);
    row.name = rows.Text(1);
    row.round = rows.Id<RoundId>(2);
    row.idea = rows.Id<IdeaId>(3);
    row.parent = rows.Id<CandidateId>(4);
    row.branch = rows.Small(5);
    row.turn = rows.Small(6);
    row.status = rows.Enum<CandidateStatus>(7);
    row.source = rows.OptionalHash(8);
    row.plan = rows.OptionalHash(9);
    row.identity = rows.OptionalHash(10);
    if (row.status != CandidateStatus::kEvaluated) continue;
    EvaluationRow& e = row.evaluation.emplace();
    e.precision = rows.Text(11);
    if (!rows.IsNull(12)) {
      e.score = Nanoseconds(rows.Real(12));
      e.score_kind = rows.Enum<TimeKind>(13);
    }
    e.verdict = LoadVerdict(rows, 14);
  }
  Query attempts(
      c,
      "SELECT candidate, turn, source, plan, verdict, stage, case_name, message, "
      "input_seed, tensor, element, expected, got, error, tolerance, report FROM attempts "
      "ORDER BY candidate, turn");
  while (attempts.Step()) {
    data.attempts.push_back({attempts.Id<CandidateId>(0), attempts.Small(1),
                             attempts.OptionalHash(2), attempts.OptionalHash(3),
                             LoadVerdict(attempts, 4), attempts.Text(15)});
  }
  Query frontier(c,
                 "SELECT f.round, f.candidate, f.place, f.kind, f.why FROM frontier f "
                 "ORDER BY f.round, f.place");
  while (frontier.Step()) {
    data.frontier.push_back({frontier.Id<RoundId>(0), frontier.Id<CandidateId>(1),
                             frontier.Small(2), frontier.Enum<FrontierKind>(3), frontier.Text(4)});
  }
}

// The evaluation of the candidate that the row's first column names; rows come in candidate order,
// so each search is short. Throws for rows of a candidate without a verdict.
EvaluationRow& EvaluationOf(RunData& data, const Query& row) {
  const auto id = row.Id<CandidateId>(0);
  const auto it = std::lower_bound(
      data.candidates.begin(), data.candidates.end(), id,
      [](const CandidateRow& candidate, CandidateId wanted) { return candidate.id < wanted; });
  if (it == data.candidates.end() || it->id != id || !it->evaluation) {
    Throw(ErrorCode::kInternal,
          fmt::format("the store holds an evaluation without a verdict (candidate {})", id.value));
  }
  return *it->evaluation;
}

void LoadEvaluations(Connection& c, RunData& data) {
  Query stages(
      c,
      "SELECT candidate, stage, case_name, verdict, duration_ms, error, tolerance FROM stages "
      "ORDER BY candidate, ordinal");
  while (stages.Step()) {
    EvaluationOf(data, stages)
        .stages.push_back({stages.Enum<eval::Stage>(1), stages.Text(2),
                           stages.Enum<eval::VerdictKind>(3), Milliseconds(stages.Real(4)),
                           stages.Real(5), stages.Real(6)});
  }
  const auto optional_ns = [](const std::optional<double>& value) {
    return value ? std::optional(Nanoseconds(*value)) : std::nullopt;
  };
  Query times(c,
              "SELECT candidate, case_name, kind, mode, time_ns, low_ns, high_ns, floor_ns, "
              "class_floor_ns, bound, dram_bytes, occupancy, limiter, launches, dropped, "
              "checked_share, note, gpu_uuid, empty_ns "
              "FROM case_times ORDER BY candidate, case_name, kind, mode");
  while (times.Step()) {
    CaseTimeRow row;
    row.case_name = times.Text(1);
    row.kind = times.Enum<TimeKind>(2);
    row.mode = times.Enum<TimingMode>(3);
    row.time = Nanoseconds(times.Real(4));
    row.low = optional_ns(times.OptionalReal(5));
    row.high = optional_ns(times.OptionalReal(6));
    row.floor = Nanoseconds(times.Real(7));
    row.class_floor = Nanoseconds(times.Real(8));
    row.bound = times.Text(9);
    row.dram_bytes = times.Real(10);
    row.occupancy = times.Real(11);
    row.limiter = times.Text(12);
    row.launches = times.Int(13);
    row.dropped = times.Int(14);
    row.checked_share = times.Real(15);
    row.note = times.Text(16);
    row.gpu_uuid = times.Text(17);
    row.empty = Nanoseconds(times.Real(18));
    EvaluationOf(data, times).case_times.push_back(std::move(row));
  }
  Query launches(c,
                 "SELECT candidate, case_name, entry, launches, time_ns, dram_bytes, bound, "
                 "occupancy, limiter FROM launches ORDER BY candidate, ordinal");
  while (launches.Step()) {
    EvaluationOf(data, launches)
        .launches.push_back({launches.Text(1), launches.Text(2), launches.Int(3),
                             Nanoseconds(launches.Real(4)), launches.Real(5), launches.Text(6),
                             launches.Real(7), launches.Text(8)});
  }
  Query kernels(c,
                "SELECT candidate, case_name, entry, registers, spill_store_bytes, "
                "spill_load_bytes, static_shared_bytes, dynamic_shared_bytes, stack_bytes "
                "FROM kernels ORDER BY candidate, case_name, entry");
  while (kernels.Step()) {
    EvaluationOf(data, kernels)
        .kernels.push_back({kernels.Text(1), kernels.Text(2), kernels.Int(3), Bytes(kernels.Int(4)),
                            Bytes(kernels.Int(5)), Bytes(kernels.Int(6)), Bytes(kernels.Int(7)),
                            Bytes(kernels.Int(8))});
  }
}

void LoadAccounts(Connection& c, RunData& data) {
  Query calls(c, std::string("SELECT ") + kCallColumns + " FROM calls ORDER BY id");
  while (calls.Step()) data.calls.push_back(LoadCall(calls));
  Query ledger(c,
               "SELECT kind, key, reserved, settled, time_us, round_number, idea_number, call "
               "FROM ledger ORDER BY id");
  while (ledger.Step()) {
    data.ledger.push_back({ledger.Enum<LedgerKind>(0), ledger.Text(1), ledger.Real(2),
                           ledger.OptionalReal(3), ledger.Time(4), ledger.Small(5), ledger.Small(6),
                           ledger.Id<CallId>(7)});
  }
  Query events(c, "SELECT id, time_us, kind, text FROM events ORDER BY id");
  while (events.Step()) {
    data.events.push_back({events.Int(0), events.Time(1), events.Text(2), events.Text(3)});
  }
  Query hints(c, "SELECT id, time_us, key, kind, text, round, answer FROM hints ORDER BY id");
  while (hints.Step()) {
    data.hints.push_back({hints.Int(0), hints.Time(1), hints.Text(2), hints.Text(3), hints.Text(4),
                          hints.Id<RoundId>(5), hints.Text(6)});
  }
}

RunSummary Summarise(const std::filesystem::path& folder) {
  RunSummary summary;
  summary.name = folder.filename().string();
  summary.folder = folder;
  auto connection = OpenForReading(folder / "run.db");
  if (!connection) {
    summary.problem = connection.error().message;
    return summary;
  }
  const Status read = (*connection)->Guard([&] {
    Connection& c = **connection;
    SQLite::Transaction snapshot(c.database());
    summary.run = LoadRunInfo(c);
    summary.run.live = IsLocked(folder / "lock");
    Query counts(c,
                 "SELECT (SELECT name FROM task), (SELECT count(*) FROM rounds), "
                 "(SELECT count(*) FROM candidates WHERE idea IS NOT NULL), "
                 "(SELECT count(*) FROM candidates WHERE idea IS NOT NULL AND verdict = 'pass')");
    counts.Step();
    summary.task = counts.Text(0);
    summary.rounds = counts.Small(1);
    summary.candidates = counts.Small(2);
    summary.correct = counts.Small(3);
    Query seed(c,
               "SELECT score_ns, score_kind FROM candidates WHERE name = 'seed' "
               "AND verdict = 'pass' AND score_ns IS NOT NULL");
    if (seed.Step()) {
      summary.seed_score = Nanoseconds(seed.Real(0));
      summary.score_kind = seed.Enum<TimeKind>(1);
    } else if (Query(c,
                     "SELECT 1 FROM candidates WHERE score_kind = 'measured' "
                     "AND verdict = 'pass'")
                   .Step()) {
      summary.score_kind = TimeKind::kMeasured;
    }
    // As RunData::Best: who lost a contest is best only where all have.
    Query best(c,
               "SELECT score_ns FROM candidates "
               "WHERE verdict = 'pass' AND score_ns IS NOT NULL AND score_kind = ? "
               "ORDER BY id IN (SELECT CASE WHEN promoted THEN incumbent ELSE challenger END "
               "FROM promotions), score_ns LIMIT 1",
               summary.score_kind);
    if (best.Step()) summary.best_score = Nanoseconds(best.Real(0));
  });
  if (!read) summary.problem = read.error().message;
  return summary;
}

}  // namespace

std::optional<CallRow> FindCallRow(Connection& c, const CallKey& key) {
  static const std::string sql =
      std::string("SELECT ") + kCallColumns +
      " FROM calls WHERE role = ? AND round_number = ? AND parent_place = ? "
      "AND idea_number = ? AND branch = ? AND turn = ?";
  Query row(c, sql, key.role, key.round, key.parent, key.idea, key.branch, key.turn);
  if (!row.Step()) return std::nullopt;
  return LoadCall(row);
}

std::optional<CallRow> FindCallRow(Connection& c, CallId id) {
  static const std::string sql = std::string("SELECT ") + kCallColumns + " FROM calls WHERE id = ?";
  Query row(c, sql, id);
  if (!row.Step()) return std::nullopt;
  return LoadCall(row);
}

// By the index of the keys, which begins with the role.
std::vector<CallRow> CallRowsOf(Connection& c, int round) {
  static const std::string sql = std::string("SELECT ") + kCallColumns +
                                 " FROM calls WHERE role = ? AND round_number = ? "
                                 "ORDER BY parent_place, idea_number, branch, turn";
  std::vector<CallRow> calls;
  for (const llm::Role role :
       {llm::Role::kIdea, llm::Role::kCode, llm::Role::kRepair, llm::Role::kAdviser}) {
    Query rows(c, sql, role, round);
    while (rows.Step()) calls.push_back(LoadCall(rows));
  }
  return calls;
}

std::optional<llm::Reply> ReplyByKey(Connection& c, const CallKey& key) {
  const auto row = FindCallRow(c, key);
  if (!row || row->status != CallStatus::kAnswered) return std::nullopt;
  return ReplyOf(c, *row);
}

RunData LoadAll(Connection& c) {
  SQLite::Transaction snapshot(c.database());
  RunData data;
  data.run = LoadRunInfo(c);
  Query environment(c, "SELECT key, value FROM environment ORDER BY key");
  while (environment.Step()) data.environment.push_back({environment.Text(0), environment.Text(1)});
  LoadTask(c, data);
  LoadTree(c, data);
  LoadEvaluations(c, data);
  LoadMeasured(c, data);
  LoadAccounts(c, data);
  return data;
}

struct Reader::Impl {
  std::mutex mutex;
  std::unique_ptr<Connection> connection;  // GUARDED_BY(mutex)

  template <typename F>
  auto Read(F&& body) {
    const std::lock_guard guard(mutex);
    return connection->Guard([&] { return body(*connection); });
  }
};

Reader::Reader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Reader::~Reader() = default;

Result<std::unique_ptr<Reader>> Reader::Open(const std::filesystem::path& run) {
  std::error_code error;
  auto connection =
      OpenForReading(std::filesystem::is_directory(run, error) ? run / "run.db" : run);
  if (!connection) return Fail(connection.error());
  auto impl = std::make_unique<Impl>();
  impl->connection = *std::move(connection);
  return std::unique_ptr<Reader>(new Reader(std::move(impl)));
}

Result<RunData> Reader::Load() {
  return impl_->Read([](Connection& c) {
    RunData data = LoadAll(c);
    data.run.live = IsLocked(c.file().parent_path() / "lock");
    return data;
  });
}

Result<std::string> Reader::Text(const Hash& hash) {
  return impl_->Read([&](Connection& c) { return GetText(c, hash); });
}

Result<std::string> Reader::Request(const Hash& hash) {
  return impl_->Read([&](Connection& c) { return WholeRequest(c, hash); });
}

Result<std::vector<SampleRow>> Reader::Samples(CandidateId candidate) {
  return impl_->Read([&](Connection& c) {
    std::vector<SampleRow> samples;
    Query rows(c,
               "SELECT case_name, mode, ordinal, time_ns FROM samples WHERE candidate = ? "
               "ORDER BY case_name, mode, ordinal",
               candidate);
    while (rows.Step()) {
      samples.push_back(
          {rows.Text(0), rows.Enum<TimingMode>(1), rows.Int(2), Nanoseconds(rows.Real(3))});
    }
    return samples;
  });
}

Result<std::optional<llm::Reply>> Reader::FindReply(const CallKey& key) {
  return impl_->Read([&](Connection& c) { return ReplyByKey(c, key); });
}

Result<std::vector<RunSummary>> ListRuns(const std::filesystem::path& runs) {
  std::vector<RunSummary> list;
  std::error_code error;
  if (!std::filesystem::exists(runs, error)) return list;
  std::filesystem::directory_iterator it(runs, error);
  if (error) {
    return Fail(ErrorCode::kResource,
                fmt::format("cannot list the runs in {}: {}", runs.string(), error.message()));
  }
  for (; it != std::filesystem::directory_iterator(); it.increment(error)) {
    std::error_code ignored;
    // A name with a dot in front is a run in the making.
    if (!it->path().filename().string().starts_with('.') &&
        std::filesystem::is_regular_file(it->path() / "run.db", ignored)) {
      list.push_back(Summarise(it->path()));
    }
    if (error) break;
  }
  std::sort(list.begin(), list.end(), [](const RunSummary& a, const RunSummary& b) {
    return a.run.created != b.run.created ? a.run.created > b.run.created : a.name < b.name;
  });
  return list;
}

}  // namespace grove::results
