#include "results/store.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <sqlite3.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include "results/ledger.h"
#include "results/lock.h"
#include "results/request_text.h"
#include "results/schema.h"
#include "results/sql.h"
#include "results/writer.h"

namespace grove::results {
namespace {

constexpr std::size_t kNameLimit = 100;
// Pages of the WAL (4 KiB each) before they go into the file. Most of a run's pages are written
// again and again (the ends of its tables and indexes): the more wait, the fewer are copied.
constexpr int kCheckpointPages = 4000;

// Room for the numbers of a round and the branches of an idea in an id.
constexpr std::int64_t kNumbers = 1 << 16;
constexpr std::int64_t kBranches = 1 << 8;

std::int64_t IdOf(int round, int number) {
  if (number >= kNumbers) Throw(ErrorCode::kInternal, "a round has at most 65535 ideas");
  return (round * kNumbers + number) * kBranches;
}

std::string DimsJson(const std::vector<seeds::Dim>& dims) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const seeds::Dim& dim : dims) json[dim.name] = dim.value;
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::optional<Hash> PutOptional(Connection& c, const std::optional<std::string>& text) {
  return text ? std::optional(PutText(c, *text)) : std::nullopt;
}

void Configure(SQLite::Database& database, const StoreOptions& options) {
  database.setBusyTimeout(options.busy_timeout_ms);
  const std::string mode = database.execAndGet("PRAGMA journal_mode = WAL").getString();
  if (mode != "wal") {
    Throw(ErrorCode::kResource,
          "this file system cannot hold a run: SQLite's WAL needs shared "
          "memory; put the runs on a local disk");
  }
  database.exec(options.survive_power_loss ? "PRAGMA synchronous = FULL"
                                           : "PRAGMA synchronous = NORMAL");
  database.exec(fmt::format("PRAGMA wal_autocheckpoint = {}", kCheckpointPages));
  // Nothing in a run is secret from who reads the file; some systems' SQLite overwrites all that it
  // frees.
  database.exec("PRAGMA secure_delete = OFF");
  // What a transition inside of a gathered commit changes is kept for its rollback: not in a file.
  database.exec("PRAGMA temp_store = MEMORY");
  database.exec("PRAGMA foreign_keys = ON");
  database.exec("PRAGMA trusted_schema = OFF");
}

CallRow NeedCall(Connection& c, CallId id) {
  auto row = FindCallRow(c, id);
  if (!row) Throw(ErrorCode::kNotFound, fmt::format("the run has no model call {}", id.value));
  return *std::move(row);
}

std::string NameOf(Connection& c, CandidateId id) {
  Query row(c, "SELECT name FROM candidates WHERE id = ?", id);
  if (!row.Step()) {
    Throw(ErrorCode::kNotFound, fmt::format("the run has no candidate {}", id.value));
  }
  return row.Text(0);
}

Status MakeFolder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error || !std::filesystem::is_directory(folder)) {
    return Fail(ErrorCode::kResource,
                fmt::format("cannot make the run's folder {}: {}", folder.string(),
                            error ? error.message() : "something else has its name"));
  }
  return {};
}

// Folders in which runs of this name were being made when their process died.
void RemoveRemains(const std::filesystem::path& runs, const std::string& prefix) {
  std::error_code error;
  std::vector<std::filesystem::path> remains;
  for (std::filesystem::directory_iterator it(runs, error), end; !error && it != end;
       it.increment(error)) {
    if (it->path().filename().string().starts_with(prefix)) remains.push_back(it->path());
  }
  for (const std::filesystem::path& folder : remains) {
    if (!IsLocked(folder / "lock")) std::filesystem::remove_all(folder, error);
  }
}

}  // namespace

std::string DuplicateMessage(std::string_view of) {
  return fmt::format("the same program as {}", of);
}

Status CheckRunName(std::string_view name) {
  const bool good = !name.empty() && name.size() <= kNameLimit && name[0] != '.' &&
                    name[0] != '-' && std::all_of(name.begin(), name.end(), [](char c) {
                      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                             (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
                    });
  if (good) return {};
  return Fail(ErrorCode::kInvalidInput,
              fmt::format("a run's name is 1 to {} letters, digits, '.', '_' or '-', and does not "
                          "begin with '.' or '-'",
                          kNameLimit));
}

struct Store::Impl {
  Impl(std::filesystem::path where, RunLock run_lock, SQLite::Database database, const Clock& time,
       const StoreOptions& options)
      : folder(std::move(where)),
        lock(std::move(run_lock)),
        writer(std::move(database), folder / "run.db", options.linger),
        clock(time),
        meter(time) {}

  // A new run in `folder`, which is made when it is not there.
  static Result<std::unique_ptr<Impl>> Make(const std::filesystem::path& folder,
                                            const RunStart& start, const Clock& clock,
                                            const StoreOptions& options);

  template <typename F>
  auto Transact(F&& body) {
    return writer.Transact(std::forward<F>(body));
  }
  template <typename F>
  auto Join(F&& body) {
    return writer.Join(std::forward<F>(body));
  }

  const std::filesystem::path folder;
  RunLock lock;  // given up after the connection is closed
  Writer writer;
  const Clock& clock;
  // Used inside of the writer's transitions only.
  LedgerWriter meter;
  RequestTexts requests;
};

Store::Store(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Store::~Store() = default;
const std::filesystem::path& Store::folder() const { return impl_->folder; }

Result<std::unique_ptr<Store::Impl>> Store::Impl::Make(const std::filesystem::path& folder,
                                                       const RunStart& start, const Clock& clock,
                                                       const StoreOptions& options) {
  if (Status made = MakeFolder(folder); !made) return Fail(made.error());
  Result<RunLock> lock = RunLock::Take(folder / "lock");
  if (!lock) return Fail(lock.error());
  const std::filesystem::path file = folder / "run.db";
  try {
    SQLite::Database database(file.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
    // Before anything is written: the file may be there and someone else's.
    if (const auto version = CheckVersion(database, Migrations()); !version) {
      return Fail(version.error(), file.string());
    }
    Configure(database, options);
    if (Status migrated = Migrate(database, Migrations()); !migrated) {
      return Fail(migrated.error(), file.string());
    }
    auto impl =
        std::make_unique<Impl>(folder, *std::move(lock), std::move(database), clock, options);
    const Status stored = impl->Transact([&](Connection& c) {
      if (Query(c, "SELECT 1 FROM run").Step()) {
        Throw(ErrorCode::kInvalidInput,
              fmt::format("run '{}' exists; resume it or choose another name", start.name));
      }
      const WallTime now = clock.WallTime();
      Query(c, "INSERT INTO run VALUES (1, ?, ?, ?, ?, ?, '', ?, ?)", start.name, now, start.config,
            start.program_version, RunStatus::kRunning, now, static_cast<std::int64_t>(start.seed))
          .Run();
      for (const EnvironmentRow& row : start.environment) {
        Query(c, "INSERT OR REPLACE INTO environment VALUES (?, ?)", row.key, row.value).Run();
      }
      Query(c, "INSERT INTO task VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?)", start.task_name,
            start.task_title, start.task_demanded, PutText(c, start.task_contract),
            PutText(c, start.reference.source), PutText(c, start.reference.plan),
            PutText(c, start.task_seed.source), PutText(c, start.task_seed.plan))
          .Run();
      for (const CaseRow& row : start.cases) {
        Query(c, "INSERT INTO cases (name, role, dims, flops, min_bytes) VALUES (?, ?, ?, ?, ?)",
              row.name, row.role, DimsJson(row.dims), row.flops, row.min_bytes.value)
            .Run();
      }
    });
    if (!stored) return Fail(stored.error());
    return impl;
  } catch (const SQLite::Exception& e) {
    return Fail(ToError(e, file));
  } catch (const StoreException& e) {
    return Fail(e.error);
  }
}

Result<std::unique_ptr<Store>> Store::Create(const std::filesystem::path& runs,
                                             const RunStart& start, const Clock& clock,
                                             const StoreOptions& options) {
  if (Status name = CheckRunName(start.name); !name) return Fail(name.error());
  const std::filesystem::path folder = runs / start.name;
  std::error_code error;
  // A folder that is there is a run, or what an older program left of one.
  if (std::filesystem::exists(folder, error)) {
    auto there = Impl::Make(folder, start, clock, options);
    if (!there) return Fail(std::move(there.error()));
    return std::unique_ptr<Store>(new Store(std::move(*there)));
  }
  // Made aside and renamed: a run is there whole, or not at all.
  const std::string prefix = fmt::format(".{}.new-", start.name);
  RemoveRemains(runs, prefix);
  const std::filesystem::path aside = runs / fmt::format("{}{}", prefix, ::getpid());
  auto made = Impl::Make(aside, start, clock, options);
  if (!made) {
    std::filesystem::remove_all(aside, error);
    return Fail(std::move(made.error()), fmt::format("making run {}", folder.string()));
  }
  made->reset();  // SQLite finds its side files by name
  std::filesystem::rename(aside, folder, error);
  if (error) {
    const std::string why = error.message();
    std::filesystem::remove_all(aside, error);
    if (std::filesystem::exists(folder, error)) {
      return Fail(ErrorCode::kInvalidInput,
                  fmt::format("run '{}' exists; resume it or choose another name", start.name));
    }
    return Fail(ErrorCode::kResource,
                fmt::format("cannot make the run's folder {}: {}", folder.string(), why));
  }
  return Open(runs, start.name, clock, options);
}

Result<std::unique_ptr<Store>> Store::Open(const std::filesystem::path& runs, std::string_view name,
                                           const Clock& clock, const StoreOptions& options) {
  if (Status valid = CheckRunName(name); !valid) return Fail(valid.error());
  const std::filesystem::path folder = runs / name;
  const std::filesystem::path file = folder / "run.db";
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) {
    return Fail(ErrorCode::kNotFound, fmt::format("no run '{}' in {}", name, runs.string()));
  }
  Result<RunLock> lock = RunLock::Take(folder / "lock");
  if (!lock) return Fail(lock.error());
  try {
    SQLite::Database database(file.string(), SQLite::OPEN_READWRITE);
    if (const auto version = CheckVersion(database, Migrations()); !version) {
      return Fail(version.error(), file.string());
    }
    Configure(database, options);
    if (Status migrated = Migrate(database, Migrations()); !migrated) {
      return Fail(migrated.error(), file.string());
    }
    if (database.execAndGet("SELECT count(*) FROM run").getInt() == 0) {
      return Fail(ErrorCode::kNotFound,
                  fmt::format("run '{}' was killed before it began; start it again", name));
    }
    return std::unique_ptr<Store>(new Store(
        std::make_unique<Impl>(folder, *std::move(lock), std::move(database), clock, options)));
  } catch (const SQLite::Exception& e) {
    return Fail(ToError(e, file));
  } catch (const StoreException& e) {
    return Fail(e.error);
  }
}

Status Store::SetStatus(RunStatus status, std::string_view reason) {
  return impl_->Transact([&](Connection& c) {
    Query(c, "UPDATE run SET status = ?, reason = ?, status_us = ?", status, reason,
          impl_->clock.WallTime())
        .Run();
  });
}

Status Store::SetEnvironment(std::span<const EnvironmentRow> rows) {
  return impl_->Transact([&](Connection& c) {
    for (const EnvironmentRow& row : rows) {
      Query(c, "INSERT OR REPLACE INTO environment VALUES (?, ?)", row.key, row.value).Run();
    }
  });
}

Status Store::AddEvent(std::string_view kind, std::string_view text) {
  return impl_->Transact([&](Connection& c) {
    Query(c, "INSERT INTO events (time_us, kind, text) VALUES (?, ?, ?)", impl_->clock.WallTime(),
          kind, text)
        .Run();
  });
}

Result<bool> Store::AddHint(std::string_view key, std::string_view kind, std::string_view text) {
  return impl_->Transact([&](Connection& c) {
    return Query(c,
                 "INSERT INTO hints (time_us, key, kind, text, answer) VALUES (?, ?, ?, ?, '') "
                 "ON CONFLICT (key) DO NOTHING",
                 impl_->clock.WallTime(), key, kind, text)
               .Run() > 0;
  });
}

Result<std::vector<HintRow>> Store::TakeHints(RoundId round) {
  return impl_->Transact([&](Connection& c) {
    Query(c, "UPDATE hints SET round = ? WHERE round IS NULL", round).Run();
    std::vector<HintRow> hints;
    Query rows(c,
               "SELECT id, time_us, key, kind, text, answer FROM hints WHERE round = ? "
               "ORDER BY id",
               round);
    while (rows.Step()) {
      hints.push_back({rows.Int(0), rows.Time(1), rows.Text(2), rows.Text(3), rows.Text(4), round,
                       rows.Text(5)});
    }
    return hints;
  });
}

Status Store::AnswerHint(std::int64_t id, std::string_view answer) {
  return impl_->Transact([&](Connection& c) {
    if (Query(c, "UPDATE hints SET answer = ? WHERE id = ?", answer, id).Run() == 0) {
      Throw(ErrorCode::kNotFound, fmt::format("the run has no hint {}", id));
    }
  });
}

Result<RoundId> Store::BeginRound(int index) {
  return impl_->Transact([&](Connection& c) {
    Query(c,
          "INSERT INTO rounds (number, status, started_us) VALUES (?, ?, ?) "
          "ON CONFLICT (number) DO NOTHING",
          index, RoundStatus::kRunning, impl_->clock.WallTime())
        .Run();
    Query row(c, "SELECT id FROM rounds WHERE number = ?", index);
    row.Step();
    return row.Id<RoundId>(0);
  });
}

Status Store::FinishRound(RoundId round, std::span<const FrontierEntry> frontier, bool cut) {
  return impl_->Transact([&](Connection& c) {
    {
      Query row(c, "SELECT status FROM rounds WHERE id = ?", round);
      if (!row.Step()) {
        Throw(ErrorCode::kNotFound, fmt::format("the run has no round {}", round.value));
      }
      if (row.Enum<RoundStatus>(0) == RoundStatus::kFinished) return;
    }
    Query(c, "UPDATE rounds SET status = ?, finished_us = ?, cut = ? WHERE id = ?",
          RoundStatus::kFinished, impl_->clock.WallTime(), cut, round)
        .Run();
    int place = 0;
    for (const FrontierEntry& entry : frontier) {
      Query(c, "INSERT INTO frontier VALUES (?, ?, ?, ?, ?)", round, entry.candidate, ++place,
            entry.kind, entry.why)
          .Run();
    }
  });
}

Result<bool> Store::ReopenRound(RoundId round) {
  return impl_->Transact([&](Connection& c) {
    const int changed = Query(c,
                              "UPDATE rounds SET status = ?, finished_us = NULL, cut = 0 "
                              "WHERE id = ? AND cut = 1",
                              RoundStatus::kRunning, round)
                            .Run();
    if (changed > 0) Query(c, "DELETE FROM frontier WHERE round = ?", round).Run();
    return changed > 0;
  });
}

Result<CandidateId> Store::RecordSeed(const ProgramDraft& program) {
  return impl_->Transact([&](Connection& c) {
    {
      Query row(c, "SELECT id FROM candidates WHERE name = 'seed'");
      if (row.Step()) return row.Id<CandidateId>(0);
    }
    Query(c,
          "INSERT INTO candidates (name, branch, turn, status, source, plan, identity) "
          "VALUES ('seed', 0, 0, ?, ?, ?, ?)",
          CandidateStatus::kReceived, PutOptional(c, program.source), PutOptional(c, program.plan),
          program.identity)
        .Run();
    return CandidateId(c.database().getLastInsertRowid());
  });
}

Result<std::vector<IdeaId>> Store::RecordIdeas(RoundId round, CandidateId parent, CallId call,
                                               std::span<const IdeaDraft> ideas) {
  return impl_->Join([&](Connection& c) {
    int round_number = 0;
    int next = 1;
    {
      Query row(c,
                "SELECT number, (SELECT coalesce(max(number), 0) + 1 FROM ideas WHERE round = ?1) "
                "FROM rounds WHERE id = ?1",
                round);
      if (!row.Step()) {
        Throw(ErrorCode::kNotFound, fmt::format("the run has no round {}", round.value));
      }
      round_number = row.Small(0);
      next = row.Small(1);
    }
    // Before anything is written.
    for (const IdeaDraft& idea : ideas) static_cast<void>(IdOf(round_number, idea.number));
    static_cast<void>(IdOf(round_number, next + static_cast<int>(ideas.size()) - 1));
    std::vector<IdeaId> ids;
    int ordinal = 0;
    for (const IdeaDraft& idea : ideas) {
      const int number = idea.number > 0 ? idea.number : next;
      ordinal = idea.ordinal > 0 ? idea.ordinal : ordinal + 1;
      const int inserted =
          Query(c,
                "INSERT INTO ideas (id, round, parent, ordinal, number, name, title, category, "
                "rationale, expected_gain, call) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
                "ON CONFLICT (round, parent, ordinal) DO NOTHING",
                IdOf(round_number, number), round, parent, ordinal, number,
                fmt::format("r{}.i{}", round_number, number), idea.title, idea.category,
                idea.rationale, idea.expected_gain, call)
              .Run();
      if (inserted > 0) next = std::max(next, number + 1);
      Query row(c, "SELECT id FROM ideas WHERE round = ? AND parent = ? AND ordinal = ?", round,
                parent, ordinal);
      row.Step();
      ids.push_back(row.Id<IdeaId>(0));
    }
    return ids;
  });
}

Status Store::LinkIdeas(std::span<const IdeaId> ideas, CallId call) {
  return impl_->Join([&](Connection& c) {
    for (const IdeaId idea : ideas) {
      Query(c, "UPDATE ideas SET call = ? WHERE id = ? AND call IS NULL", call, idea).Run();
    }
  });
}

Result<std::vector<CandidateId>> Store::RequestCandidates(IdeaId idea, int first, int count) {
  return impl_->Join([&](Connection& c) {
    if (first < 1 || count < 1 || first + count > kBranches) {
      Throw(ErrorCode::kInternal, fmt::format("branches are counted from 1 to {}", kBranches - 1));
    }
    RoundId round;
    CandidateId parent;
    std::string name;
    std::int64_t before = 0;  // the id of branch 0, which there is none of
    {
      Query row(c,
                "SELECT i.round, i.parent, i.name, i.number, r.number FROM ideas i "
                "JOIN rounds r ON r.id = i.round WHERE i.id = ?",
                idea);
      if (!row.Step()) {
        Throw(ErrorCode::kNotFound, fmt::format("the run has no idea {}", idea.value));
      }
      round = row.Id<RoundId>(0);
      parent = row.Id<CandidateId>(1);
      name = row.Text(2);
      before = IdOf(row.Small(4), row.Small(3));
    }
    std::vector<CandidateId> ids;
    for (int branch = first; branch < first + count; ++branch) {
      // With its values spelled out: for rows that it selects, SQLite keeps what a statement
      // changes until it has ended.
      const int added =
          Query(c,
                "INSERT INTO candidates (id, name, round, idea, parent, branch, turn, status) "
                "VALUES (?, ?, ?, ?, ?, ?, 0, ?) ON CONFLICT (idea, branch) DO NOTHING",
                before + branch, fmt::format("{}.b{}", name, branch), round, idea, parent, branch,
                CandidateStatus::kRequested)
              .Run();
      if (added > 0) {
        ids.emplace_back(before + branch);
        continue;
      }
      Query row(c, "SELECT id FROM candidates WHERE idea = ? AND branch = ?", idea, branch);
      row.Step();
      ids.push_back(row.Id<CandidateId>(0));
    }
    return ids;
  });
}

Result<CandidateId> Store::RequestCandidate(IdeaId idea, int branch) {
  auto ids = RequestCandidates(idea, branch, 1);
  if (!ids) return Failure(std::move(ids.error()));
  return ids->front();
}

Result<bool> Store::ReceiveProgram(CandidateId candidate, const ProgramDraft& program) {
  return impl_->Join([&](Connection& c) {
    const int changed =
        Query(c,
              "UPDATE candidates SET status = ?1, turn = ?2, source = ?3, plan = ?4, identity = ?5 "
              "WHERE id = ?6 AND (status = ?7 OR (status = ?1 AND turn < ?2))",
              CandidateStatus::kReceived, program.turn, PutOptional(c, program.source),
              PutOptional(c, program.plan), program.identity, candidate,
              CandidateStatus::kRequested)
            .Run();
    if (changed == 0) NameOf(c, candidate);  // throws when there is none
    return changed > 0;
  });
}

Result<bool> Store::RecordAttempt(CandidateId candidate, const ProgramDraft& program,
                                  const eval::Verdict& v, const std::string& report) {
  return impl_->Join([&](Connection& c) {
    {
      Query row(c, "SELECT 1 FROM attempts WHERE candidate = ? AND turn = ?", candidate,
                program.turn);
      if (row.Step()) return false;
    }
    Query(c, "INSERT INTO attempts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
          candidate, program.turn, PutOptional(c, program.source), PutOptional(c, program.plan),
          v.kind, v.stage, v.case_name, v.message, static_cast<std::int64_t>(v.seed), v.tensor,
          v.element, v.expected, v.got, v.error, v.tolerance, report)
        .Run();
    return true;
  });
}

Result<bool> Store::RecordVerdict(CandidateId candidate, const EvaluationRow& evaluation,
                                  std::span<const Amount> cost, const LedgerScope& scope) {
  return impl_->Join([&](Connection& c) {
    const eval::Verdict& v = evaluation.verdict;
    const bool scored = evaluation.score && std::isfinite(evaluation.score->count());
    const int changed =
        Query(
            c,
            "UPDATE candidates SET status = ?, verdict = ?, stage = ?, case_name = ?, message = ?, "
            "input_seed = ?, tensor = ?, element = ?, expected = ?, got = ?, error = ?, "
            "tolerance = ?, precision = ?, score_ns = ?, score_kind = ? WHERE id = ? AND "
            "status <> 'evaluated'",
            CandidateStatus::kEvaluated, v.kind, v.stage, v.case_name, v.message,
            static_cast<std::int64_t>(v.seed), v.tensor, v.element, v.expected, v.got, v.error,
            v.tolerance, evaluation.precision,
            scored ? std::optional(evaluation.score->count()) : std::nullopt,
            scored ? std::optional(evaluation.score_kind) : std::nullopt, candidate)
            .Run();
    if (changed == 0) {
      NameOf(c, candidate);  // throws when there is none
      return false;
    }
    InsertEvaluation(c, candidate, evaluation);
    if (!cost.empty()) {
      impl_->meter.BookAgain(c, EvaluationKey(NameOf(c, candidate)), cost, scope);
    }
    return true;
  });
}

Result<bool> Store::MoveVerdict(CandidateId from, CandidateId to) {
  return impl_->Join([&](Connection& c) {
    std::string name;
    {
      Query row(c, "SELECT status, name FROM candidates WHERE id = ?", to);
      if (!row.Step()) {
        Throw(ErrorCode::kNotFound, fmt::format("the run has no candidate {}", to.value));
      }
      if (row.Enum<CandidateStatus>(0) == CandidateStatus::kEvaluated) return false;
      name = row.Text(1);
    }
    {
      Query row(c,
                "SELECT 1 FROM candidates a JOIN candidates b ON b.identity = a.identity "
                "WHERE a.id = ? AND b.id = ? AND a.verdict = 'pass'",
                from, to);
      if (!row.Step()) {
        Throw(ErrorCode::kInternal,
              fmt::format("candidate {} has no verdict that {} could take", from.value, name));
      }
    }
    Query(c,
          "UPDATE candidates SET (status, verdict, stage, case_name, message, input_seed, tensor, "
          "element, expected, got, error, tolerance, precision, score_ns, score_kind) = (SELECT "
          "status, verdict, stage, case_name, message, input_seed, tensor, element, expected, got, "
          "error, tolerance, precision, score_ns, score_kind FROM candidates WHERE id = ?1) "
          "WHERE id = ?2",
          from, to)
        .Run();
    for (const char* table : {"stages", "case_times", "launches", "kernels", "samples"}) {
      Query(c, fmt::format("UPDATE {} SET candidate = ? WHERE candidate = ?", table), to, from)
          .Run();
    }
    Query(c, "INSERT INTO stages VALUES (?, 0, 'parse', '', 'duplicate', 0, 0, 0)", from).Run();
    Query(c,
          "UPDATE candidates SET verdict = 'duplicate', stage = 'parse', case_name = '', "
          "input_seed = 0, tensor = '', element = -1, expected = 0, got = 0, error = 0, "
          "tolerance = 0, precision = '', score_ns = NULL, score_kind = NULL WHERE id = ?",
          from)
        .Run();
    // Of its round, which the ids tell (kNumbers, kBranches).
    Query(c,
          "UPDATE candidates SET message = ?1 WHERE verdict = 'duplicate' AND id <> ?2 AND "
          "identity = (SELECT identity FROM candidates WHERE id = ?3) AND id BETWEEN "
          "?2 / ?4 * ?4 AND ?2 / ?4 * ?4 + ?4 - 1",
          DuplicateMessage(name), to, from, kNumbers * kBranches)
        .Run();
    return true;
  });
}

Result<bool> Store::RecordPromotion(const PromotionRow& promotion) {
  return impl_->Transact(
      [&](Connection& c) { return InsertPromotion(c, promotion, impl_->clock.WallTime()); });
}

Status Store::RecordProfile(CandidateId candidate, std::string_view summary,
                            std::string_view report) {
  return impl_->Transact(
      [&](Connection& c) { PutProfile(c, candidate, summary, report, impl_->clock.WallTime()); });
}

Status Store::SetBaselines(std::span<const BaselineRow> rows) {
  return impl_->Transact([&](Connection& c) {
    for (const BaselineRow& row : rows) PutBaseline(c, row);
  });
}

Result<CallRow> Store::BeginCall(const CallKey& key, const llm::Request& request,
                                 std::span<const Amount> reserve,
                                 std::span<const LedgerLimit> limits) {
  return impl_->Transact([&](Connection& c) {
    const WallTime now = impl_->clock.WallTime();
    const std::optional<CallRow> old = FindCallRow(c, key);
    if (old && old->status == CallStatus::kAnswered) return *old;
    CallRow row;
    row.key = key;
    row.model = request.model;
    row.request = impl_->requests.Put(c, request);
    row.attempts = old ? old->attempts + 1 : 1;
    row.asked = now;
    const auto seed = static_cast<std::int64_t>(request.seed);
    if (old) {
      row.id = old->id;
      impl_->meter.SettleCall(c, *old, {});
      Query(c,
            "UPDATE calls SET model = ?, request = ?, seed = ?, status = ?, error = '', "
            "attempts = ?, asked_us = ?, ended_us = NULL WHERE id = ?",
            row.model, row.request, seed, row.status, row.attempts, now, row.id)
          .Run();
    } else {
      Query(c,
            "INSERT INTO calls (role, round_number, parent_place, idea_number, branch, turn, "
            "model, request, seed, status, error, attempts, asked_us) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, '', 1, ?)",
            key.role, key.round, key.parent, key.idea, key.branch, key.turn, row.model, row.request,
            seed, row.status, now)
          .Run();
      row.id = CallId(c.database().getLastInsertRowid());
    }
    impl_->meter.Reserve(c, LedgerKey(key, row.attempts), reserve, {key.round, key.idea, row.id},
                         limits);
    return row;
  });
}

Result<bool> Store::AnswerCall(CallId call, const llm::Reply& reply, std::span<const Amount> cost) {
  return impl_->Join([&](Connection& c) {
    const CallRow row = NeedCall(c, call);
    if (row.status == CallStatus::kAnswered) return false;
    const WallTime now = impl_->clock.WallTime();
    const llm::Usage& u = reply.usage;
    Query(c,
          "UPDATE calls SET status = ?, reply = ?, prompt_tokens = ?, cached_tokens = ?, "
          "completion_tokens = ?, reasoning_tokens = ?, usage_estimated = ?, finish = ?, "
          "reply_model = ?, latency_ms = ?, retries = ?, error = '', ended_us = ? WHERE id = ?",
          CallStatus::kAnswered, PutText(c, reply.text), u.prompt.value, u.cached.value,
          u.completion.value, u.reasoning.value, u.estimated, reply.finish, reply.model,
          Finite(reply.latency.count()), reply.retries, now, call)
        .Run();
    impl_->meter.SettleCall(c, row, cost);
    return true;
  });
}

Status Store::FailCall(CallId call, std::string_view error, std::span<const Amount> cost) {
  return impl_->Transact([&](Connection& c) {
    const CallRow row = NeedCall(c, call);
    if (row.status == CallStatus::kAnswered) return;
    const WallTime now = impl_->clock.WallTime();
    Query(c, "UPDATE calls SET status = ?, error = ?, ended_us = ? WHERE id = ?",
          CallStatus::kFailed, error, now, call)
        .Run();
    impl_->meter.SettleCall(c, row, cost);
  });
}

Result<std::optional<llm::Reply>> Store::FindReply(const CallKey& key) {
  return impl_->writer.Read([&](Connection& c) { return ReplyByKey(c, key); });
}

Result<std::vector<CallRow>> Store::CallsOf(int round) {
  return impl_->writer.Read([&](Connection& c) { return CallRowsOf(c, round); });
}

Result<bool> Store::HasReplies() {
  return impl_->writer.Read([&](Connection& c) {
    return Query(c, "SELECT 1 FROM calls WHERE status = ? LIMIT 1", CallStatus::kAnswered).Step();
  });
}

Result<CallRow> Store::RenewCall(CallId call, std::span<const Amount> reserve,
                                 std::span<const LedgerLimit> limits) {
  return impl_->Transact([&](Connection& c) {
    CallRow row = NeedCall(c, call);
    if (row.status != CallStatus::kPending) {
      Throw(ErrorCode::kInternal, fmt::format("model call {} is not under way", call.value));
    }
    impl_->meter.SettleCall(c, row, {});
    ++row.attempts;
    Query(c, "UPDATE calls SET attempts = ?, asked_us = ? WHERE id = ?", row.attempts,
          impl_->clock.WallTime(), call)
        .Run();
    impl_->meter.Reserve(c, LedgerKey(row.key, row.attempts), reserve,
                         {row.key.round, row.key.idea, call}, limits);
    return row;
  });
}

Result<bool> Store::Reserve(std::string_view key, const Amount& amount) {
  return Reserve(key, {&amount, 1}, {}, {});
}

Result<bool> Store::Reserve(std::string_view key, std::span<const Amount> amounts,
                            const LedgerScope& scope, std::span<const LedgerLimit> limits) {
  return impl_->Transact(
      [&](Connection& c) { return impl_->meter.Reserve(c, key, amounts, scope, limits); });
}

Result<bool> Store::Book(std::string_view key, std::span<const Amount> amounts,
                         const LedgerScope& scope) {
  return impl_->Join([&](Connection& c) { return impl_->meter.Book(c, key, amounts, scope); });
}

Status Store::BookAgain(std::string_view key, std::span<const Amount> amounts,
                        const LedgerScope& scope) {
  return impl_->Join([&](Connection& c) { impl_->meter.BookAgain(c, key, amounts, scope); });
}

Result<bool> Store::Settle(std::string_view key, const Amount& amount) {
  return impl_->Transact([&](Connection& c) { return impl_->meter.Settle(c, key, amount); });
}

Status Store::SettleAll(std::string_view key, std::span<const Amount> cost) {
  return impl_->Join([&](Connection& c) { impl_->meter.SettleAll(c, std::string(key), cost); });
}

Result<int> Store::SettleOpen() {
  return impl_->Transact([&](Connection& c) { return impl_->meter.SettleOpen(c); });
}

Result<std::vector<LimitState>> Store::LimitStates(const LedgerScope& scope,
                                                   std::span<const LedgerLimit> limits) {
  if (limits.empty()) return std::vector<LimitState>();
  const auto read = [&](Connection& c) {
    std::vector<LimitState> states;
    for (const LedgerLimit& limit : limits) states.push_back(impl_->meter.StateOf(c, limit, scope));
    return states;
  };
  const bool timed = std::any_of(limits.begin(), limits.end(), [](const LedgerLimit& limit) {
    return limit.kind == LedgerKind::kSeconds;
  });
  if (!timed) return impl_->writer.Read(read);
  return impl_->Join([&](Connection& c) {
    // Time passes without anybody writing it down; what is refused for it must be seen here too.
    impl_->meter.CountTime(c, scope);
    return read(c);
  });
}

Result<LedgerTotal> Store::Total(LedgerKind kind) {
  return impl_->writer.Read([&](Connection& c) {
    const LimitState state = impl_->meter.StateOf(c, {kind, LedgerSpan::kRun, 0}, {});
    return LedgerTotal{state.settled, state.reserved};
  });
}

Status Store::SetConfig(std::string_view config) {
  return impl_->Transact(
      [&](Connection& c) { Query(c, "UPDATE run SET config = ?", config).Run(); });
}

Result<RunData> Store::Load() {
  auto data = impl_->writer.ReadApart([](Connection& c) { return LoadAll(c); });
  if (data) data->run.live = true;
  return data;
}

Result<std::string> Store::Text(const Hash& hash) {
  return impl_->writer.Read([&](Connection& c) { return GetText(c, hash); });
}

Result<std::string> Store::Request(const Hash& hash) {
  return impl_->writer.Read([&](Connection& c) { return WholeRequest(c, hash); });
}

}  // namespace grove::results
