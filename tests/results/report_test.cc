#include "results/report/report.h"

#include <algorithm>
#include <fstream>

#include <SQLiteCpp/Database.h>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "results/schema.h"
#include "tests/results/sample_run.h"
#include "tests/support/synthetic_run.h"

namespace grove::results {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

class ReportTest : public RunsFolder {
 protected:
  std::unique_ptr<Reader> MakeSample(const std::string& name) {
    auto store = Create(name);
    EXPECT_TRUE(RunSampleSearch(*store, {}));
    store.reset();
    auto reader = Reader::Open(runs_ / name);
    EXPECT_TRUE(reader) << reader.error().message;
    return *std::move(reader);
  }
  static std::string Render(Reader& reader, const ReportOptions& options = {}) {
    auto data = reader.Load();
    EXPECT_TRUE(data);
    auto html = RenderReport(reader, *data, options);
    EXPECT_TRUE(html);
    return html ? *html : std::string();
  }
  static json Embedded(const std::string& html, const std::string& id) {
    const std::string head = "id=\"" + id + "\">";
    const auto start = html.find(head) + head.size();
    return json::parse(html.substr(start, html.find("</script>", start) - start));
  }
};

TEST_F(ReportTest, SummaryNamesEveryKernelWithVerdictTimeAndLinks) {
  auto reader = MakeSample("a");
  const auto data = reader->Load();
  const json summary = json::parse(SummaryJson(*data, RunIndex(*data), {}));
  ASSERT_EQ(summary["candidates"].size(), data->candidates.size());
  for (std::size_t i = 0; i < data->candidates.size(); ++i) {
    const json& row = summary["candidates"][i];
    const CandidateRow& c = data->candidates[i];
    EXPECT_EQ(row["name"], c.name);
    const int parent = row["parent"];
    EXPECT_EQ(parent < 0, !c.parent);
    if (parent >= 0) {
      EXPECT_EQ(summary["candidates"][static_cast<std::size_t>(parent)]["name"],
                data->Find(c.parent)->name);
    }
    EXPECT_EQ(row.contains("score"), ScoreOf(c).has_value());
  }
  EXPECT_EQ(summary["candidates"][summary["best"].get<std::size_t>()]["name"], data->Best()->name);
}

TEST_F(ReportTest, SpendIsByRoleAndModelAndSumsToTheCalls) {
  auto reader = MakeSample("a");
  const auto data = reader->Load();
  std::int64_t calls = 0, tokens = 0;
  for (const SpendRow& row : SpendOf(*data)) {
    calls += row.calls;
    tokens += (row.prompt + row.completion).value;
    EXPECT_EQ(row.model, "model-a");
  }
  EXPECT_EQ(calls, static_cast<std::int64_t>(data->calls.size()));
  EXPECT_EQ(tokens, 150 * calls);
}

TEST_F(ReportTest, TokensSpentGrowAlongALineage) {
  auto reader = MakeSample("a");
  const auto data = reader->Load();
  const RunIndex index(*data);
  const auto path = index.Lineage(*data->Best());
  ASSERT_GT(path.size(), 2U);
  for (std::size_t i = 0; i + 1 < path.size(); ++i) {
    EXPECT_GT(index.TokensUntil(*path[i]), index.TokensUntil(*path[i + 1]));
  }
  EXPECT_EQ(path.back()->name, "seed");
}

TEST_F(ReportTest, FloorsAreTheGeometricMeanOverTheScoredCases) {
  ASSERT_TRUE(testing::MakeSyntheticRun(runs_, {.candidates = 12}));
  const RunData data = Load("synthetic");
  const Floors floors = FloorsOf(data, TimeKind::kMeasured);
  ASSERT_TRUE(floors.impossible && floors.honest_class);
  EXPECT_NEAR(floors.impossible->count(), 60000, 1e-6);  // of 30 and 120 us
  EXPECT_NEAR(floors.honest_class->count(), 72000, 1e-6);
  EXPECT_FALSE(FloorsOf(data, TimeKind::kModelled).impossible);
}

TEST_F(ReportTest, BaselinesOfTheRunAreThoseThatItKeeps) {
  ASSERT_TRUE(testing::MakeSyntheticRun(runs_, {.candidates = 12}));
  const auto baselines = BaselinesOf(Load("synthetic"));
  ASSERT_EQ(baselines.size(), 2U);
  EXPECT_EQ(baselines[0].name, "cublas");
  EXPECT_EQ(baselines[0].case_name, "n1024");
  EXPECT_EQ(baselines[0].time.count(), 180000);
}

TEST_F(ReportTest, BaselinesAreReadFromWhatBaselinePrints) {
  const auto rows = ParseBaselines(
      R"([{"case":"a","baseline":"seed","time_ns":9},
          {"case":"a","baseline":"cublas","time_ns":5.5,"kind":"measured","version":12}])");
  ASSERT_TRUE(rows) << rows.error().message;
  ASSERT_EQ(rows->size(), 1U);
  EXPECT_EQ((*rows)[0].name, "cublas");
  EXPECT_EQ((*rows)[0].time.count(), 5.5);
}

TEST_F(ReportTest, BadBaselinesSayWhatIsWrong) {
  for (const char* text : {"", "{", "3", "{}", "[1]", R"([{"case":"a"}])",
                           R"([{"case":"a","baseline":"b","time_ns":"5"}])",
                           R"([{"case":"a","baseline":"b","time_ns":-1}])",
                           R"([{"case":"a","baseline":"b","time_ns":1,"kind":"guessed"}])"}) {
    const auto rows = ParseBaselines(text);
    ASSERT_FALSE(rows) << text;
    EXPECT_EQ(rows.error().code, ErrorCode::kInvalidInput);
    EXPECT_THAT(rows.error().message, HasSubstr("grove baseline"));
  }
}

TEST_F(ReportTest, TheSameStoreGivesTheSameFile) {
  auto reader = MakeSample("a");
  EXPECT_EQ(Render(*reader), Render(*reader));
}

TEST_F(ReportTest, TheFileNeedsNothingElse) {
  auto reader = MakeSample("a");
  const std::string html = Render(*reader);
  for (const char* outside :
       {"src=\"http", "href=\"http", "@import", "url(http", "<link rel=\"s"}) {
    EXPECT_THAT(html, Not(HasSubstr(outside)));
  }
  EXPECT_THAT(html, HasSubstr("default-src 'none'"));
  EXPECT_THAT(html, HasSubstr("connect-src 'none'"));
}

TEST_F(ReportTest, ConversationsCanBeLeftOut) {
  auto reader = MakeSample("a");
  const std::string all = Render(*reader), few = Render(*reader, {.conversations = false});
  EXPECT_TRUE(Embedded(all, "where").contains("c1"));
  EXPECT_FALSE(Embedded(few, "where").contains("c1"));
  EXPECT_TRUE(Embedded(few, "where").contains("k0"));
}

TEST_F(ReportTest, HostileTextsStayTexts) {
  ASSERT_TRUE(testing::MakeSyntheticRun(runs_, {.name = "h", .candidates = 12, .hostile = true}));
  auto reader = Reader::Open(runs_ / "h");
  ASSERT_TRUE(reader);
  const std::string html = Render(**reader);
  // The page's own script elements and no more: each has a nonce, an id or a type.
  for (std::size_t at = html.find("<script"); at != std::string::npos;
       at = html.find("<script", at + 1)) {
    const std::string tag = html.substr(at, html.find('>', at) - at);
    EXPECT_TRUE(tag.find("nonce=") != std::string::npos || tag.find("id=") != std::string::npos)
        << tag;
  }
  EXPECT_THAT(html, Not(HasSubstr("window.owned=1</script>")));
  EXPECT_THAT(html, Not(HasSubstr("\xe2\x80\xae")));
  EXPECT_THAT(html, Not(HasSubstr("\x1b")));
  const json summary = Embedded(html, "summary");
  EXPECT_THAT(summary["ideas"][0]["title"].get<std::string>(), HasSubstr("\\u202e"));
  EXPECT_THAT(summary["ideas"][0]["title"].get<std::string>(),
              HasSubstr("</script><script>window.owned=1</script>"));
}

TEST_F(ReportTest, TheNonceHangsOnTheData) {
  ASSERT_TRUE(testing::MakeSyntheticRun(runs_, {.name = "h", .candidates = 12}));
  auto a = MakeSample("a");
  auto b = Reader::Open(runs_ / "h");
  const auto nonce = [](const std::string& html) {
    const auto at = html.find("'nonce-") + 7;
    return html.substr(at, html.find('\'', at) - at);
  };
  EXPECT_NE(nonce(Render(*a)), nonce(Render(**b)));
  EXPECT_EQ(nonce(Render(*a)).size(), 32U);
}

TEST_F(ReportTest, EscapedJsonMeansTheSameAndEndsNoElement) {
  const json value = {{"a", "</script><!-- & \xe2\x80\xa8"}};
  const std::string escaped = EscapeForScript(value.dump(-1, ' ', true));
  EXPECT_EQ(json::parse(escaped), value);
  EXPECT_EQ(escaped.find_first_of("<>&"), std::string::npos);
}

TEST_F(ReportTest, ARunThatIsBeingWrittenIsReportedAsFarAsItIs) {
  auto store = Create("open");
  auto seed = store->RecordSeed({0, "// seed", "{}", HashText("seed")});
  ASSERT_TRUE(seed);
  auto reader = Reader::Open(runs_ / "open");
  ASSERT_TRUE(reader);
  const json early = Embedded(Render(**reader), "summary");
  EXPECT_EQ(early["candidates"].size(), 1U);
  EXPECT_EQ(early["best"], -1);
  EXPECT_EQ(early["run"]["status"], "running");
  ASSERT_TRUE(store->RecordVerdict(*seed, SampleEvaluation(20000)));
  EXPECT_EQ(Embedded(Render(**reader), "summary")["best"], 0);
}

TEST_F(ReportTest, AnOlderSchemaIsReadThroughACopyAndLeftAsItIs) {
  std::filesystem::create_directories(runs_ / "old");
  const auto file = runs_ / "old" / "run.db";
  {
    SQLite::Database database(file.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
    ASSERT_TRUE(Migrate(database, Migrations().first(1)));
    database.exec(R"sql(
      PRAGMA foreign_keys = OFF;
      INSERT INTO texts VALUES ('00000000000000000000000000000000', 0, x'');
      INSERT INTO run VALUES (1, 'old', 1000000, '{}', '0.0.9', 'stopped', 'why', 1000000, 7);
      INSERT INTO task VALUES (1, 'softmax', 't', 'fp32', '00000000000000000000000000000000',
        '00000000000000000000000000000000', '00000000000000000000000000000000',
        '00000000000000000000000000000000', '00000000000000000000000000000000');
      INSERT INTO candidates (name, branch, turn, status) VALUES ('seed', 0, 0, 'received');
    )sql");
  }
  auto reader = Reader::Open(runs_ / "old");
  ASSERT_TRUE(reader) << reader.error().message;
  const json summary = Embedded(Render(**reader), "summary");
  EXPECT_EQ(summary["candidates"][0]["name"], "seed");
  EXPECT_EQ(summary["run"]["status"], "stopped");
  reader->reset();
  SQLite::Database database(file.string(), SQLite::OPEN_READONLY);
  EXPECT_EQ(database.execAndGet("PRAGMA user_version").getInt(), 1);
}

TEST_F(ReportTest, AHalfDeletedFolderIsOneErrorThatNamesIt) {
  MakeSample("half").reset();
  std::filesystem::remove(runs_ / "half" / "run.db");
  const auto reader = Reader::Open(runs_ / "half");
  ASSERT_FALSE(reader);
  EXPECT_THAT(reader.error().message, HasSubstr("half"));
}

TEST_F(ReportTest, AFileCutInHalfIsAnErrorAndNoCrash) {
  MakeSample("cut").reset();
  const auto file = runs_ / "cut" / "run.db";
  std::filesystem::resize_file(file, std::filesystem::file_size(file) / 2);
  auto reader = Reader::Open(runs_ / "cut");
  if (!reader) return;  // refused at once: as good
  const auto data = (*reader)->Load();
  EXPECT_FALSE(data);
}

TEST_F(ReportTest, ALostTextIsShownAsLost) {
  MakeSample("lost").reset();
  {
    SQLite::Database database((runs_ / "lost" / "run.db").string(), SQLite::OPEN_READWRITE);
    database.exec(
        "PRAGMA foreign_keys = OFF; DELETE FROM texts WHERE hash IN (SELECT source FROM "
        "candidates WHERE name = 'r0.i1.b1')");
  }
  auto reader = Reader::Open(runs_ / "lost");
  ASSERT_TRUE(reader);
  const auto data = (*reader)->Load();
  ASSERT_TRUE(data);
  const CandidateRow* c = data->FindCandidate("r0.i1.b1");
  ASSERT_NE(c, nullptr);
  const json page = json::parse(KernelJson(**reader, *data, RunIndex(*data), *c));
  EXPECT_THAT(page["source"].get<std::string>(), HasSubstr("(lost:"));
}

}  // namespace
}  // namespace grove::results
