#include "results/schema.h"

#include <fstream>
#include <map>
#include <regex>
#include <set>

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>
#include <fmt/format.h>

#include "base/files.h"
#include "results/harvest/harvest.h"
#include "tests/results/sample_run.h"

namespace grove::results {
namespace {

class SchemaTest : public RunsFolder {
 protected:
  // A file with the steps up to `version` and nothing in it.
  std::filesystem::path MakeOld(const std::string& name, int version) {
    std::filesystem::create_directories(runs_ / name);
    const auto file = runs_ / name / "run.db";
    SQLite::Database database(file.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
    database.exec("PRAGMA journal_mode = WAL");
    const auto steps = Migrations().first(static_cast<std::size_t>(version));
    EXPECT_TRUE(Migrate(database, steps));
    return file;
  }
  static int Version(SQLite::Database& database) {
    return database.execAndGet("PRAGMA user_version").getInt();
  }
};

constexpr const char* kOldRun = R"sql(
PRAGMA foreign_keys = OFF;
INSERT INTO texts VALUES ('00000000000000000000000000000000', 0, x'');
INSERT INTO run VALUES (1, 'old', 1000000, '{}', '0.0.9', 'stopped', 'why', 1000000, 7);
INSERT INTO task VALUES (1, 'softmax', 't', 'fp32', '00000000000000000000000000000000',
  '00000000000000000000000000000000', '00000000000000000000000000000000',
  '00000000000000000000000000000000', '00000000000000000000000000000000');
INSERT INTO rounds VALUES (1, 0, 'running', 2000000, NULL);
INSERT INTO candidates (name, branch, turn, status) VALUES ('seed', 0, 0, 'received');
)sql";

TEST_F(SchemaTest, StepsAreInAscendingOrderFromOne) {
  int expected = 0;
  for (const Migration& step : Migrations()) EXPECT_EQ(step.version, ++expected);
  EXPECT_EQ(SchemaVersion(), expected);
}

TEST_F(SchemaTest, AnEmptyFileBecomesOneOfOursAtTheNewestVersion) {
  SQLite::Database database(":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
  ASSERT_TRUE(Migrate(database, Migrations()));
  EXPECT_EQ(Version(database), SchemaVersion());
  EXPECT_EQ(database.execAndGet("PRAGMA application_id").getInt(), kApplicationId);
  ASSERT_TRUE(Migrate(database, Migrations()));  // and stays there
}

TEST_F(SchemaTest, StepsKeepTheRowsOfAVersionZeroFile) {
  SQLite::Database database(":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
  database.exec(
      fmt::format("PRAGMA application_id = {}; CREATE TABLE kernels (name TEXT);"
                  "INSERT INTO kernels VALUES ('a'), ('b');",
                  kApplicationId));
  ASSERT_EQ(Version(database), 0);
  constexpr Migration kSteps[] = {
      {1, "ALTER TABLE kernels ADD COLUMN time_ns REAL NOT NULL DEFAULT 0;"},
      {2, "UPDATE kernels SET time_ns = 5 WHERE name = 'b'; CREATE TABLE more (x);"}};
  ASSERT_TRUE(Migrate(database, kSteps));
  EXPECT_EQ(Version(database), 2);
  EXPECT_EQ(database.execAndGet("SELECT sum(time_ns) FROM kernels").getInt(), 5);
}

TEST_F(SchemaTest, AStepThatFailsLeavesTheOldVersionWhole) {
  SQLite::Database database(":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
  constexpr Migration kGood[] = {{1, "CREATE TABLE a (x); INSERT INTO a VALUES (1);"}};
  ASSERT_TRUE(Migrate(database, kGood));
  constexpr Migration kBad[] = {
      {1, ""}, {2, "UPDATE a SET x = 2;"}, {3, "INSERT INTO missing VALUES (1);"}};
  EXPECT_THROW(static_cast<void>(Migrate(database, kBad)), SQLite::Exception);
  EXPECT_EQ(Version(database), 1);
  EXPECT_EQ(database.execAndGet("SELECT x FROM a").getInt(), 1);
}

TEST_F(SchemaTest, AnOldRunIsMigratedWhenItIsOpenedForWriting) {
  const auto file = MakeOld("old", 1);
  {
    SQLite::Database database(file.string(), SQLite::OPEN_READWRITE);
    database.exec(kOldRun);
    ASSERT_EQ(Version(database), 1);
  }
  auto store = Open("old");
  ASSERT_NE(store, nullptr);
  const RunData data = store->Load().value();
  EXPECT_EQ(data.run.seed, 7u);
  EXPECT_NE(data.Seed(), nullptr);
  EXPECT_TRUE(store->BeginRound(1));
  SQLite::Database database(file.string(), SQLite::OPEN_READONLY);
  EXPECT_EQ(Version(database), SchemaVersion());
  EXPECT_EQ(database.execAndGet("SELECT name FROM candidate_view").getString(), "seed");
}

// Of a candidate many rows are written, of some tables dozens: none may need a table for itself.
TEST_F(SchemaTest, NoRowThatASearchWritesMakesATemporaryTable) {
  SQLite::Database database(":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
  ASSERT_TRUE(Migrate(database, Migrations()));
  for (const std::string table : {"texts", "calls", "ideas", "candidates", "attempts", "stages",
                                  "case_times", "launches", "kernels", "samples", "ledger"}) {
    const int columns =
        database.execAndGet(fmt::format("SELECT count(*) FROM pragma_table_info('{}')", table))
            .getInt();
    std::string values = "?";
    for (int i = 1; i < columns; ++i) values += ", ?";
    SQLite::Statement steps(database,
                            fmt::format("EXPLAIN INSERT INTO {} VALUES ({})", table, values));
    int seen = 0;
    while (steps.executeStep()) {
      ++seen;
      EXPECT_NE(steps.getColumn(1).getString(), "OpenEphemeral") << table;
    }
    EXPECT_GT(seen, 5) << table;
  }
}

TEST_F(SchemaTest, ChecksOfWordsHoldAfterTheyAreRewritten) {
  const auto file = MakeOld("old", 7);
  {
    SQLite::Database database(file.string(), SQLite::OPEN_READWRITE);
    database.exec(kOldRun);
  }
  ASSERT_NE(Open("old"), nullptr);
  SQLite::Database database(file.string(), SQLite::OPEN_READWRITE);
  EXPECT_EQ(database.execAndGet("PRAGMA integrity_check").getString(), "ok");
  for (const char* good : {"INSERT INTO ledger (kind, key, reserved, time_us) VALUES "
                           "('gpu_seconds', 'a', 1, 1)",
                           "INSERT INTO samples VALUES (1, 'c', 'graph', 0, 1.0)",
                           "UPDATE candidates SET status = 'requested'"}) {
    EXPECT_NO_THROW(database.exec(good)) << good;
  }
  for (const char* bad : {"INSERT INTO ledger (kind, key, reserved, time_us) VALUES "
                          "('euros', 'b', 1, 1)",
                          "INSERT INTO samples VALUES (1, 'c', 'warm', 1, 1.0)",
                          "UPDATE candidates SET status = 'lost'"}) {
    EXPECT_THROW(database.exec(bad), SQLite::Exception) << bad;
  }
}

TEST_F(SchemaTest, AnOldRunIsReadWithoutBeingChanged) {
  const auto file = MakeOld("old", 1);
  {
    SQLite::Database database(file.string(), SQLite::OPEN_READWRITE);
    database.exec(kOldRun);
  }
  EXPECT_EQ(Load("old").run.reason, "why");
  SQLite::Database database(file.string(), SQLite::OPEN_READONLY);
  EXPECT_EQ(Version(database), 1);
}

TEST_F(SchemaTest, AnOldRunIsHarvestedWithoutBeingChanged) {
  const auto file = MakeOld("old", 1);
  {
    SQLite::Database database(file.string(), SQLite::OPEN_READWRITE);
    database.exec(kOldRun);
  }
  HarvestOptions options;
  options.output = runs_ / "data";
  const auto report = Harvest({runs_ / "old"}, options);
  ASSERT_TRUE(report) << report.error().message;
  std::ifstream nodes(options.output / "nodes.jsonl");
  std::string line;
  ASSERT_TRUE(std::getline(nodes, line));
  EXPECT_NE(line.find("\"seed\""), std::string::npos) << line;
  SQLite::Database database(file.string(), SQLite::OPEN_READONLY);
  EXPECT_EQ(Version(database), 1);
}

TEST_F(SchemaTest, ANewerRunIsRefusedWithBothVersions) {
  Create("a");
  const auto file = (runs_ / "a" / "run.db").string();
  SQLite::Database(file, SQLite::OPEN_READWRITE).exec("PRAGMA user_version = 99");
  const auto opened = Store::Open(runs_, "a", clock_);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, ErrorCode::kInvalidInput);
  EXPECT_NE(opened.error().message.find("newer grove"), std::string::npos);
  EXPECT_NE(opened.error().message.find("99"), std::string::npos);
  const auto read = Reader::Open(runs_ / "a");
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().message.find("newer grove"), std::string::npos);
}

TEST_F(SchemaTest, SomeoneElsesDatabaseIsRefusedAndLeftAlone) {
  std::filesystem::create_directories(runs_ / "a");
  const auto file = runs_ / "a" / "run.db";
  SQLite::Database(file.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE)
      .exec("CREATE TABLE recipes (x)");
  const std::string before = ReadFile(file).value();
  const auto opened = Store::Open(runs_, "a", clock_);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, ErrorCode::kInvalidInput);
  EXPECT_NE(opened.error().message.find("not written by grove"), std::string::npos);
  EXPECT_FALSE(Store::Create(runs_, SampleStart("a"), clock_));
  EXPECT_FALSE(Reader::Open(file));
  EXPECT_TRUE(ReadFile(file).value() == before);
}

// The columns of each table and view of a fresh store.
std::map<std::string, std::set<std::string>> Columns() {
  SQLite::Database database(":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
  EXPECT_TRUE(Migrate(database, Migrations()));
  std::map<std::string, std::set<std::string>> columns;
  SQLite::Statement rows(database,
                         "SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c "
                         "WHERE m.type IN ('table', 'view')");
  while (rows.executeStep()) {
    columns[rows.getColumn(0).getString()].insert(rows.getColumn(1).getString());
  }
  return columns;
}

// The columns that docs/store.md lists: rows "| `column` |" below headings "### `table`".
std::map<std::string, std::set<std::string>> DocumentedColumns() {
  std::ifstream file(std::filesystem::path(GROVE_SOURCE_DIR) / "docs" / "store.md");
  EXPECT_TRUE(file) << "docs/store.md is missing";
  std::map<std::string, std::set<std::string>> columns;
  std::string table;
  const std::regex heading("^### `([a-z_]+)`.*");
  const std::regex other("^#{1,3} .*");
  const std::regex row("^\\| `([a-z_]+)` \\| .+\\|$");
  for (std::string line; std::getline(file, line);) {
    std::smatch match;
    if (std::regex_match(line, match, heading)) {
      table = match[1];
      columns[table];
    } else if (std::regex_match(line, other)) {
      table.clear();
    } else if (!table.empty() && std::regex_match(line, match, row)) {
      columns[table].insert(match[1]);
    }
  }
  return columns;
}

TEST_F(SchemaTest, EveryColumnIsDocumentedAndNoneIsInvented) {
  const auto documented = DocumentedColumns();
  const auto real = Columns();
  ASSERT_GT(real.size(), 15u);
  for (const auto& [table, columns] : real) {
    ASSERT_TRUE(documented.contains(table)) << "docs/store.md has no section ### `" << table << "`";
    for (const std::string& column : columns) {
      EXPECT_TRUE(documented.at(table).contains(column))
          << "docs/store.md does not describe " << table << "." << column;
    }
    for (const std::string& column : documented.at(table)) {
      EXPECT_TRUE(columns.contains(column))
          << "docs/store.md describes " << table << "." << column << ", which does not exist";
    }
  }
  for (const auto& [table, columns] : documented) {
    EXPECT_TRUE(real.contains(table)) << "docs/store.md describes " << table;
  }
}

TEST_F(SchemaTest, TheQueriesOfTheDocumentationRun) {
  ASSERT_TRUE(RunSampleSearch(*Create("a"), {}));
  SQLite::Database database((runs_ / "a" / "run.db").string(), SQLite::OPEN_READONLY);
  const std::string text =
      ReadFile(std::filesystem::path(GROVE_SOURCE_DIR) / "docs" / "store.md").value();
  int queries = 0;
  for (std::size_t at = 0; (at = text.find("```sql\n", at)) != std::string::npos;) {
    const std::size_t start = at + 7;
    at = text.find("```", start);
    SCOPED_TRACE(text.substr(start, at - start));
    SQLite::Statement query(database, text.substr(start, at - start));
    EXPECT_TRUE(query.executeStep()) << "no row for a run that has everything";
    ++queries;
  }
  EXPECT_GE(queries, 4);
}

TEST_F(SchemaTest, TheViewsAgreeWithThePlainStructs) {
  ASSERT_TRUE(RunSampleSearch(*Create("a"), {}));
  const RunData data = Load("a");
  SQLite::Database database((runs_ / "a" / "run.db").string(), SQLite::OPEN_READONLY);
  SQLite::Statement rows(database,
                         "SELECT name, speed_up_over_parent, speed_up_over_seed FROM "
                         "candidate_view WHERE verdict = 'pass'");
  int seen = 0;
  for (; rows.executeStep(); ++seen) {
    const CandidateRow* c = data.FindCandidate(rows.getColumn(0).getString());
    ASSERT_NE(c, nullptr);
    EXPECT_DOUBLE_EQ(rows.getColumn(2).getDouble(), SpeedUp(*data.Seed(), *c).value());
    if (const CandidateRow* parent = data.Find(c->parent)) {
      EXPECT_DOUBLE_EQ(rows.getColumn(1).getDouble(), SpeedUp(*parent, *c).value());
    }
  }
  EXPECT_GT(seen, 10);
}

}  // namespace
}  // namespace grove::results
