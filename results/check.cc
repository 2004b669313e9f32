// CheckStore: is a run whole?
#include <SQLiteCpp/Transaction.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "results/request_text.h"
#include "results/sql.h"
#include "results/store.h"

namespace grove::results {
namespace {

constexpr std::size_t kMostProblems = 5;

// Each statement selects the names of the rows that break its rule.
struct Rule {
  const char* broken;
  const char* sql;
};
constexpr Rule kRules[] = {
    {"evaluated without any stage",
     "SELECT name FROM candidates c WHERE status = 'evaluated' "
     "AND NOT EXISTS (SELECT 1 FROM stages s WHERE s.candidate = c.id)"},
    {"has stages without a verdict",
     "SELECT name FROM candidates c WHERE status <> 'evaluated' "
     "AND EXISTS (SELECT 1 FROM stages s WHERE s.candidate = c.id)"},
    {"has times, launches, kernels or samples without a verdict",
     "SELECT name FROM candidates c WHERE status <> 'evaluated' "
     "AND (EXISTS (SELECT 1 FROM case_times t WHERE t.candidate = c.id) "
     "OR EXISTS (SELECT 1 FROM launches l WHERE l.candidate = c.id) "
     "OR EXISTS (SELECT 1 FROM kernels k WHERE k.candidate = c.id) "
     "OR EXISTS (SELECT 1 FROM samples p WHERE p.candidate = c.id))"},
    {"has a verdict without its stage",
     "SELECT name FROM candidates WHERE status = 'evaluated' "
     "AND (stage IS NULL OR case_name IS NULL OR message IS NULL OR element IS NULL)"},
    {"passed at another stage than its last row says",
     "SELECT name FROM candidates c WHERE verdict = 'pass' AND 'pass' <> "
     "(SELECT s.verdict FROM stages s WHERE s.candidate = c.id ORDER BY s.ordinal DESC LIMIT 1)"},
    {"requested and has a program already",
     "SELECT name FROM candidates WHERE status = 'requested' AND source IS NOT NULL"},
    {"has a name that is not its place in the tree",
     "SELECT c.name FROM candidates c JOIN ideas i ON i.id = c.idea "
     "WHERE c.name <> i.name || '.b' || c.branch OR c.round <> i.round OR c.parent <> i.parent"},
    {"has a name that is not its place in the tree",
     "SELECT i.name FROM ideas i JOIN rounds r ON r.id = i.round "
     "WHERE i.name <> 'r' || r.number || '.i' || i.number"},
    {"is an answered call without a reply or its end",
     "SELECT 'call ' || id FROM calls WHERE status = 'answered' "
     "AND (reply IS NULL OR finish IS NULL OR prompt_tokens IS NULL OR ended_us IS NULL)"},
    {"is a call that ended with a reservation left open",
     "SELECT 'call ' || c.id FROM calls c JOIN ledger l ON l.key = c.role || ' r' || "
     "c.round_number "
     "|| '.p' || c.parent_place || '.i' || c.idea_number || '.b' || c.branch || '.t' || c.turn "
     "|| ' #' || c.attempts WHERE c.status <> 'pending' AND l.settled IS NULL"},
    {"is on the frontier of a round that is not finished",
     "SELECT c.name FROM frontier f JOIN rounds r ON r.id = f.round "
     "JOIN candidates c ON c.id = f.candidate WHERE r.status <> 'finished'"},
    {"has gaps in its samples",
     "SELECT c.name FROM samples s JOIN candidates c ON c.id = s.candidate "
     "GROUP BY s.candidate, s.case_name, s.mode HAVING count(*) <> max(s.ordinal) + 1"},
    {"met another without both having passed",
     "SELECT c.name FROM promotions p JOIN candidates c ON c.id IN (p.challenger, p.incumbent) "
     "WHERE c.verdict IS NULL OR c.verdict <> 'pass'"},
    {"is missing", "SELECT 'the run row' WHERE NOT EXISTS (SELECT 1 FROM run)"},
    {"is missing", "SELECT 'the task row' WHERE NOT EXISTS (SELECT 1 FROM task)"},
};

void CheckTexts(Connection& c, std::vector<std::string>& problems) {
  Query rows(c, "SELECT hash, size_bytes, content FROM texts");
  SQLite::Statement& statement = rows.statement();
  while (rows.Step() && problems.size() < kMostProblems) {
    const SQLite::Column content = statement.getColumn(2);
    try {
      Unpack(content.getBlob(), static_cast<std::size_t>(content.getBytes()), rows.Int(1),
             rows.Hash(0));
    } catch (const StoreException& e) {
      problems.push_back(e.error.message);
    }
  }
}

// Requests refer to texts in their own, where no foreign key looks.
void CheckRequests(Connection& c, std::vector<std::string>& problems) {
  Query rows(c, "SELECT DISTINCT request FROM calls");
  while (rows.Step() && problems.size() < kMostProblems) {
    try {
      WholeRequest(c, rows.Hash(0));
    } catch (const StoreException& e) {
      problems.push_back(fmt::format("the request {}: {}", rows.Hash(0).Hex(), e.error.message));
    }
  }
}

std::vector<std::string> FindProblems(Connection& c) {
  std::vector<std::string> problems;
  SQLite::Transaction snapshot(c.database());
  {
    Query rows(c, "PRAGMA integrity_check(5)");
    while (rows.Step()) {
      if (rows.Text(0) != "ok") problems.push_back("SQLite: " + rows.Text(0));
    }
  }
  // What follows would only repeat it.
  if (!problems.empty()) return problems;
  {
    Query rows(c, "PRAGMA foreign_key_check");
    while (rows.Step() && problems.size() < kMostProblems) {
      problems.push_back(
          fmt::format("a row of {} refers to nothing in {}", rows.Text(0), rows.Text(2)));
    }
  }
  for (const Rule& rule : kRules) {
    Query rows(c, rule.sql);
    while (rows.Step() && problems.size() < kMostProblems) {
      problems.push_back(fmt::format("{} {}", rows.Text(0), rule.broken));
    }
  }
  CheckTexts(c, problems);
  CheckRequests(c, problems);
  return problems;
}

}  // namespace

Status CheckStore(const std::filesystem::path& run) {
  std::error_code error;
  auto connection =
      OpenForReading(std::filesystem::is_directory(run, error) ? run / "run.db" : run);
  if (!connection) return Fail(connection.error());
  Connection& c = **connection;
  const auto problems = c.Guard([&] { return FindProblems(c); });
  if (!problems) return Fail(problems.error());
  if (!problems->empty()) {
    return Fail(ErrorCode::kInternal,
                fmt::format("{}: {}", c.file().string(), fmt::join(*problems, "; ")));
  }
  // Words and hashes that no rule above reads.
  const Status readable = c.Guard([&] { LoadAll(c); });
  if (!readable) return Fail(readable.error(), c.file().string());
  return {};
}

}  // namespace grove::results
