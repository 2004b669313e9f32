#include "results/schema.h"

#include <iterator>

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>
#include <SQLiteCpp/Transaction.h>
#include <fmt/format.h>

namespace grove::results {
namespace {

constexpr const char* kTables = R"sql(
CREATE TABLE texts (
  hash TEXT PRIMARY KEY NOT NULL,
  size_bytes INTEGER NOT NULL,
  content BLOB NOT NULL
) STRICT;

CREATE TABLE run (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  name TEXT NOT NULL,
  created_us INTEGER NOT NULL,
  config TEXT NOT NULL,
  program_version TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('running', 'stopped', 'finished', 'interrupted')),
  reason TEXT NOT NULL,
  status_us INTEGER NOT NULL,
  seed INTEGER NOT NULL
) STRICT;

CREATE TABLE environment (
  key TEXT PRIMARY KEY NOT NULL,
  value TEXT NOT NULL
) STRICT;

CREATE TABLE task (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  name TEXT NOT NULL,
  title TEXT NOT NULL,
  demanded TEXT NOT NULL,
  contract TEXT NOT NULL REFERENCES texts (hash),
  reference_source TEXT NOT NULL REFERENCES texts (hash),
  reference_plan TEXT NOT NULL REFERENCES texts (hash),
  seed_source TEXT NOT NULL REFERENCES texts (hash),
  seed_plan TEXT NOT NULL REFERENCES texts (hash)
) STRICT;

CREATE TABLE cases (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  role TEXT NOT NULL,
  dims TEXT NOT NULL,
  flops REAL,
  min_bytes INTEGER NOT NULL
) STRICT;

CREATE TABLE rounds (
  id INTEGER PRIMARY KEY,
  number INTEGER NOT NULL UNIQUE CHECK (number >= 0),
  status TEXT NOT NULL CHECK (status IN ('running', 'finished')),
  started_us INTEGER NOT NULL,
  finished_us INTEGER,
  CHECK ((status = 'finished') = (finished_us IS NOT NULL))
) STRICT;

CREATE TABLE calls (
  id INTEGER PRIMARY KEY,
  role TEXT NOT NULL,
  round_number INTEGER NOT NULL,
  parent_place INTEGER NOT NULL,
  idea_number INTEGER NOT NULL,
  branch INTEGER NOT NULL,
  turn INTEGER NOT NULL,
  model TEXT NOT NULL,
  request TEXT NOT NULL REFERENCES texts (hash),
  status TEXT NOT NULL CHECK (status IN ('pending', 'answered', 'failed')),
  reply TEXT REFERENCES texts (hash),
  prompt_tokens INTEGER,
  cached_tokens INTEGER,
  completion_tokens INTEGER,
  reasoning_tokens INTEGER,
  usage_estimated INTEGER,
  finish TEXT,
  reply_model TEXT,
  latency_ms REAL,
  error TEXT NOT NULL,
  attempts INTEGER NOT NULL,
  asked_us INTEGER NOT NULL,
  ended_us INTEGER,
  UNIQUE (role, round_number, parent_place, idea_number, branch, turn),
  CHECK ((status = 'answered') = (reply IS NOT NULL)),
  CHECK ((status = 'pending') = (ended_us IS NULL))
) STRICT;

CREATE TABLE ideas (
  id INTEGER PRIMARY KEY,
  round INTEGER NOT NULL REFERENCES rounds (id),
  parent INTEGER NOT NULL REFERENCES candidates (id),
  ordinal INTEGER NOT NULL CHECK (ordinal > 0),
  number INTEGER NOT NULL CHECK (number > 0),
  name TEXT NOT NULL UNIQUE,
  title TEXT NOT NULL,
  category TEXT NOT NULL,
  rationale TEXT NOT NULL,
  expected_gain REAL,
  call INTEGER REFERENCES calls (id),
  UNIQUE (round, parent, ordinal),
  UNIQUE (round, number)
) STRICT;

CREATE TABLE candidates (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  round INTEGER REFERENCES rounds (id),
  idea INTEGER REFERENCES ideas (id),
  parent INTEGER REFERENCES candidates (id),
  branch INTEGER NOT NULL,
  turn INTEGER NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('requested', 'received', 'evaluated')),
  source TEXT REFERENCES texts (hash),
  plan TEXT REFERENCES texts (hash),
  identity TEXT,
  verdict TEXT,
  stage TEXT,
  case_name TEXT,
  message TEXT,
  input_seed INTEGER,
  tensor TEXT,
  element INTEGER,
  expected REAL,
  got REAL,
  error REAL,
  tolerance REAL,
  precision TEXT,
  score_ns REAL,
  score_kind TEXT CHECK (score_kind IN ('modelled', 'measured')),
  UNIQUE (idea, branch),
  CHECK ((status = 'evaluated') = (verdict IS NOT NULL)),
  CHECK ((idea IS NULL) = (round IS NULL) AND (idea IS NULL) = (parent IS NULL)),
  CHECK ((score_ns IS NULL) = (score_kind IS NULL))
) STRICT;

CREATE TABLE attempts (
  candidate INTEGER NOT NULL REFERENCES candidates (id),
  turn INTEGER NOT NULL CHECK (turn >= 0),
  source TEXT REFERENCES texts (hash),
  plan TEXT REFERENCES texts (hash),
  verdict TEXT NOT NULL,
  stage TEXT NOT NULL,
  case_name TEXT NOT NULL,
  message TEXT NOT NULL,
  input_seed INTEGER NOT NULL,
  tensor TEXT NOT NULL,
  element INTEGER NOT NULL,
  expected REAL,
  got REAL,
  error REAL,
  tolerance REAL,
  PRIMARY KEY (candidate, turn)
) STRICT, WITHOUT ROWID;

CREATE TABLE stages (
  candidate INTEGER NOT NULL REFERENCES candidates (id),
  ordinal INTEGER NOT NULL,
  stage TEXT NOT NULL,
  case_name TEXT NOT NULL,
  verdict TEXT NOT NULL,
  duration_ms REAL NOT NULL,
  PRIMARY KEY (candidate, ordinal)
) STRICT, WITHOUT ROWID;

CREATE TABLE case_times (
  candidate INTEGER NOT NULL REFERENCES candidates (id),
  case_name TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('modelled', 'measured')),
  mode TEXT NOT NULL CHECK (mode IN ('cold', 'hot', 'graph', 'host')),
  time_ns REAL NOT NULL,
  low_ns REAL,
  high_ns REAL,
  floor_ns REAL NOT NULL,
  class_floor_ns REAL NOT NULL,
  bound TEXT NOT NULL,
  dram_bytes REAL NOT NULL,
  occupancy REAL NOT NULL,
  limiter TEXT NOT NULL,
  launches INTEGER NOT NULL,
  dropped INTEGER NOT NULL,
  checked_share REAL NOT NULL,
  note TEXT NOT NULL,
  PRIMARY KEY (candidate, case_name, kind, mode)
) STRICT, WITHOUT ROWID;

CREATE TABLE kernels (
  candidate INTEGER NOT NULL REFERENCES candidates (id),
  case_name TEXT NOT NULL,
  entry TEXT NOT NULL,
  registers INTEGER NOT NULL,
  spill_store_bytes INTEGER NOT NULL,
  spill_load_bytes INTEGER NOT NULL,
  static_shared_bytes INTEGER NOT NULL,
  dynamic_shared_bytes INTEGER NOT NULL,
  stack_bytes INTEGER NOT NULL,
  PRIMARY KEY (candidate, case_name, entry)
) STRICT, WITHOUT ROWID;

CREATE TABLE samples (
  candidate INTEGER NOT NULL REFERENCES candidates (id),
  case_name TEXT NOT NULL,
  mode TEXT NOT NULL CHECK (mode IN ('cold', 'hot', 'graph', 'host')),
  ordinal INTEGER NOT NULL,
  time_ns REAL NOT NULL,
  PRIMARY KEY (candidate, case_name, mode, ordinal)
) STRICT, WITHOUT ROWID;

CREATE TABLE frontier (
  round INTEGER NOT NULL REFERENCES rounds (id),
  candidate INTEGER NOT NULL REFERENCES candidates (id),
  place INTEGER NOT NULL CHECK (place > 0),
  kind TEXT NOT NULL CHECK (kind IN ('fastest', 'reserve')),
  why TEXT NOT NULL,
  PRIMARY KEY (round, place),
  UNIQUE (round, candidate)
) STRICT, WITHOUT ROWID;

CREATE TABLE ledger (
  id INTEGER PRIMARY KEY,
  kind TEXT NOT NULL CHECK (kind IN ('tokens', 'dollars', 'gpu_seconds', 'evaluations')),
  key TEXT NOT NULL,
  reserved REAL NOT NULL,
  settled REAL,
  time_us INTEGER NOT NULL,
  UNIQUE (kind, key)
) STRICT;

CREATE TABLE events (
  id INTEGER PRIMARY KEY,
  time_us INTEGER NOT NULL,
  kind TEXT NOT NULL,
  text TEXT NOT NULL
) STRICT;

CREATE TABLE hints (
  id INTEGER PRIMARY KEY,
  time_us INTEGER NOT NULL,
  key TEXT NOT NULL UNIQUE,
  kind TEXT NOT NULL CHECK (kind IN ('hint', 'question', 'goal')),
  text TEXT NOT NULL,
  round INTEGER REFERENCES rounds (id),
  answer TEXT NOT NULL
) STRICT;
)sql";

// What people type into sqlite3 again and again.
constexpr const char* kViews = R"sql(
CREATE INDEX candidates_by_identity ON candidates (identity) WHERE identity IS NOT NULL;
CREATE INDEX calls_by_request ON calls (request);

CREATE VIEW candidate_view AS
SELECT c.name AS name, r.number AS round_number, i.name AS idea_name, i.title AS idea_title,
       p.name AS parent_name, c.status AS status, c.verdict AS verdict, c.stage AS stage,
       c.case_name AS case_name, c.message AS message, c.precision AS precision,
       c.score_ns AS score_ns, c.score_kind AS score_kind,
       CASE WHEN p.score_kind = c.score_kind THEN p.score_ns / c.score_ns END AS speed_up_over_parent,
       CASE WHEN s.score_kind = c.score_kind THEN s.score_ns / c.score_ns END AS speed_up_over_seed,
       (SELECT f.kind FROM frontier f JOIN rounds fr ON fr.id = f.round
        WHERE f.candidate = c.id ORDER BY fr.number DESC LIMIT 1) AS frontier_kind
FROM candidates c
LEFT JOIN rounds r ON r.id = c.round
LEFT JOIN ideas i ON i.id = c.idea
LEFT JOIN candidates p ON p.id = c.parent
LEFT JOIN candidates s ON s.name = 'seed';

CREATE VIEW idea_view AS
SELECT i.name AS name, r.number AS round_number, p.name AS parent_name, i.title AS title,
       i.category AS category, i.expected_gain AS expected_gain, count(c.id) AS candidates,
       count(CASE WHEN c.status = 'evaluated' THEN 1 END) AS evaluated,
       count(CASE WHEN c.verdict = 'pass' THEN 1 END) AS correct,
       min(CASE WHEN c.score_kind = 'modelled' THEN c.score_ns END) AS best_modelled_ns,
       min(CASE WHEN c.score_kind = 'measured' THEN c.score_ns END) AS best_measured_ns
FROM ideas i
JOIN rounds r ON r.id = i.round
JOIN candidates p ON p.id = i.parent
LEFT JOIN candidates c ON c.idea = i.id
GROUP BY i.id;
)sql";

// The ledger knows what it belongs to, so that limits can be kept per round and per idea.
constexpr const char* kLedgerScopes = R"sql(
ALTER TABLE calls ADD COLUMN retries INTEGER NOT NULL DEFAULT 0;
ALTER TABLE calls ADD COLUMN cost_dollars REAL;

ALTER TABLE ledger RENAME TO ledger_before;
CREATE TABLE ledger (
  id INTEGER PRIMARY KEY,
  kind TEXT NOT NULL CHECK (kind IN ('tokens', 'tokens_in', 'tokens_out', 'dollars', 'seconds',
                                     'gpu_seconds', 'evaluations')),
  key TEXT NOT NULL,
  reserved REAL NOT NULL,
  settled REAL,
  time_us INTEGER NOT NULL,
  round_number INTEGER NOT NULL DEFAULT 0,
  idea_number INTEGER NOT NULL DEFAULT 0,
  call INTEGER REFERENCES calls (id),
  UNIQUE (kind, key)
) STRICT;
INSERT INTO ledger (id, kind, key, reserved, settled, time_us)
  SELECT id, kind, key, reserved, settled, time_us FROM ledger_before;
DROP TABLE ledger_before;
CREATE INDEX ledger_by_key ON ledger (key);
CREATE INDEX ledger_by_call ON ledger (call) WHERE call IS NOT NULL;
CREATE INDEX ledger_by_scope ON ledger (kind, round_number, idea_number, settled, reserved);
)sql";

// What only a measuring device has: contests for the first place, baselines, profiles, and which
// physical GPU a time is from.
constexpr const char* kMeasured = R"sql(
ALTER TABLE case_times ADD COLUMN gpu_uuid TEXT NOT NULL DEFAULT '';

CREATE TABLE promotions (
  id INTEGER PRIMARY KEY,
  challenger INTEGER NOT NULL REFERENCES candidates (id),
  incumbent INTEGER NOT NULL REFERENCES candidates (id),
  outcome TEXT NOT NULL CHECK (outcome IN ('faster', 'slower', 'tie', 'fault')),
  promoted INTEGER NOT NULL CHECK (promoted IN (0, 1)),
  kind TEXT NOT NULL CHECK (kind IN ('modelled', 'measured')),
  ratio REAL NOT NULL,
  low REAL NOT NULL,
  high REAL NOT NULL,
  gpu_uuid TEXT NOT NULL,
  why TEXT NOT NULL,
  time_us INTEGER NOT NULL,
  UNIQUE (challenger, incumbent),
  CHECK (challenger <> incumbent)
) STRICT;

CREATE TABLE promotion_cases (
  promotion INTEGER NOT NULL REFERENCES promotions (id),
  case_name TEXT NOT NULL,
  incumbent_ns REAL NOT NULL,
  challenger_ns REAL NOT NULL,
  ratio REAL NOT NULL,
  low REAL NOT NULL,
  high REAL NOT NULL,
  PRIMARY KEY (promotion, case_name)
) STRICT, WITHOUT ROWID;

CREATE TABLE promotion_samples (
  promotion INTEGER NOT NULL REFERENCES promotions (id),
  case_name TEXT NOT NULL,
  ordinal INTEGER NOT NULL,
  incumbent_ns REAL NOT NULL,
  challenger_ns REAL NOT NULL,
  PRIMARY KEY (promotion, case_name, ordinal)
) STRICT, WITHOUT ROWID;

CREATE TABLE baselines (
  case_name TEXT NOT NULL,
  name TEXT NOT NULL,
  gpu_uuid TEXT NOT NULL,
  gpu TEXT NOT NULL,
  driver TEXT NOT NULL,
  version TEXT NOT NULL,
  time_ns REAL NOT NULL,
  low_ns REAL,
  high_ns REAL,
  measured_us INTEGER NOT NULL,
  PRIMARY KEY (case_name, name, gpu_uuid)
) STRICT, WITHOUT ROWID;

CREATE TABLE profiles (
  candidate INTEGER PRIMARY KEY REFERENCES candidates (id),
  summary TEXT NOT NULL,
  report TEXT NOT NULL REFERENCES texts (hash),
  time_us INTEGER NOT NULL
) STRICT;
)sql";

// Siblings share the text of their request; what tells them apart is their call's. The ledger is
// looked up by key, and what is settled moves in no index.
constexpr const char* kSeeds = R"sql(
ALTER TABLE calls ADD COLUMN seed INTEGER;

ALTER TABLE ledger RENAME TO ledger_before;
DROP INDEX ledger_by_key;
DROP INDEX ledger_by_call;
DROP INDEX ledger_by_scope;
CREATE TABLE ledger (
  id INTEGER PRIMARY KEY,
  kind TEXT NOT NULL CHECK (kind IN ('tokens', 'tokens_in', 'tokens_out', 'dollars', 'seconds',
                                     'gpu_seconds', 'evaluations')),
  key TEXT NOT NULL,
  reserved REAL NOT NULL,
  settled REAL,
  time_us INTEGER NOT NULL,
  round_number INTEGER NOT NULL DEFAULT 0,
  idea_number INTEGER NOT NULL DEFAULT 0,
  call INTEGER REFERENCES calls (id),
  UNIQUE (key, kind)
) STRICT;
INSERT INTO ledger SELECT id, kind, key, reserved, settled, time_us, round_number, idea_number,
  call FROM ledger_before;
DROP TABLE ledger_before;
CREATE INDEX ledger_by_call ON ledger (call) WHERE call IS NOT NULL;
CREATE INDEX ledger_by_scope ON ledger (kind, round_number, idea_number);
)sql";

// What a prompt tells the model beyond one time for the whole.
constexpr const char* kLaunches = R"sql(
ALTER TABLE stages ADD COLUMN error REAL NOT NULL DEFAULT 0;
ALTER TABLE stages ADD COLUMN tolerance REAL NOT NULL DEFAULT 0;
ALTER TABLE attempts ADD COLUMN report TEXT NOT NULL DEFAULT '';
ALTER TABLE case_times ADD COLUMN empty_ns REAL NOT NULL DEFAULT 0;

CREATE TABLE launches (
  candidate INTEGER NOT NULL REFERENCES candidates (id),
  case_name TEXT NOT NULL,
  ordinal INTEGER NOT NULL,
  entry TEXT NOT NULL,
  launches INTEGER NOT NULL,
  time_ns REAL NOT NULL,
  dram_bytes REAL NOT NULL,
  bound TEXT NOT NULL,
  occupancy REAL NOT NULL,
  limiter TEXT NOT NULL,
  PRIMARY KEY (candidate, case_name, ordinal)
) STRICT, WITHOUT ROWID;
)sql";

// The writer keeps the sums of the ledger itself; what is left to look up is wall time by its
// scope. Candidates of one program are those of one round.
constexpr const char* kFewerIndexes = R"sql(
DROP INDEX ledger_by_call;
DROP INDEX ledger_by_scope;
CREATE INDEX ledger_by_time ON ledger (round_number, idea_number) WHERE kind = 'seconds';
DROP INDEX candidates_by_identity;
)sql";

// SQLite makes a table of a list of more than two words in a CHECK, for each row that is written; a
// chain of comparisons says the same. Rewriting the text is how a CHECK changes without copying its
// table (sqlite.org/lang_altertable.html).
constexpr const char* kCheaperChecks = R"sql(
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(sql,
  'status IN (''requested'', ''received'', ''evaluated'')',
  'status = ''requested'' OR status = ''received'' OR status = ''evaluated''')
  WHERE name = 'candidates';
UPDATE sqlite_schema SET sql = replace(sql,
  'status IN (''pending'', ''answered'', ''failed'')',
  'status = ''pending'' OR status = ''answered'' OR status = ''failed''')
  WHERE name = 'calls';
UPDATE sqlite_schema SET sql = replace(sql,
  'mode IN (''cold'', ''hot'', ''graph'', ''host'')',
  'mode = ''cold'' OR mode = ''hot'' OR mode = ''graph'' OR mode = ''host''')
  WHERE name = 'case_times';
UPDATE sqlite_schema SET sql = replace(sql,
  'mode IN (''cold'', ''hot'', ''graph'', ''host'')',
  'mode = ''cold'' OR mode = ''hot'' OR mode = ''graph'' OR mode = ''host''')
  WHERE name = 'samples';
UPDATE sqlite_schema SET sql = replace(sql,
  'kind IN (''tokens'', ''tokens_in'', ''tokens_out'', ''dollars'', ''seconds'',
                                     ''gpu_seconds'', ''evaluations'')',
  'kind = ''tokens'' OR kind = ''tokens_in'' OR kind = ''tokens_out'' OR kind = ''dollars''
    OR kind = ''seconds'' OR kind = ''gpu_seconds'' OR kind = ''evaluations''')
  WHERE name = 'ledger';
PRAGMA writable_schema = RESET;
)sql";

// A round that the end of the budget has cut short is taken up again when there is more.
constexpr const char* kCutRounds = R"sql(
ALTER TABLE rounds ADD COLUMN cut INTEGER NOT NULL DEFAULT 0;
)sql";

// Requests may refer to texts that they share, which earlier programs would not put in their
// places. And an index that nothing reads.
constexpr const char* kSharedTexts = R"sql(
DROP INDEX IF EXISTS calls_by_request;
)sql";

constexpr Migration kMigrations[] = {
    {1, kTables}, {2, kViews},        {3, kMeasured},      {4, kLedgerScopes}, {5, kLaunches},
    {6, kSeeds},  {7, kFewerIndexes}, {8, kCheaperChecks}, {9, kCutRounds},    {10, kSharedTexts}};

}  // namespace

std::span<const Migration> Migrations() { return kMigrations; }

int SchemaVersion() { return std::rbegin(kMigrations)->version; }

Result<int> CheckVersion(SQLite::Database& database, std::span<const Migration> steps) {
  const int id = database.execAndGet("PRAGMA application_id").getInt();
  const int version = database.execAndGet("PRAGMA user_version").getInt();
  const bool empty = database.execAndGet("SELECT count(*) FROM sqlite_master").getInt() == 0;
  if (id != kApplicationId && !(empty && id == 0 && version == 0)) {
    return Fail(ErrorCode::kInvalidInput, "this SQLite file was not written by grove");
  }
  const int newest = steps.empty() ? 0 : steps.back().version;
  if (version > newest) {
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("the run was written by a newer grove (store version {}, this program "
                            "knows up to {}); use that one",
                            version, newest));
  }
  return version;
}

Status Migrate(SQLite::Database& database, std::span<const Migration> steps) {
  const Result<int> version = CheckVersion(database, steps);
  if (!version) return Fail(version.error());
  if (!steps.empty() && *version == steps.back().version) return {};
  SQLite::Transaction transaction(database, SQLite::TransactionBehavior::IMMEDIATE);
  database.exec(fmt::format("PRAGMA application_id = {}", kApplicationId));
  for (const Migration& step : steps) {
    if (step.version <= *version) continue;
    database.exec(step.statement);
    database.exec(fmt::format("PRAGMA user_version = {}", step.version));
  }
  transaction.commit();
  return {};
}

}  // namespace grove::results
