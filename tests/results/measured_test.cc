// What measuring devices add to a run: contests, baselines, profiles and the GPU of a time.
#include <sstream>
#include <vector>

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>

#include "results/schema.h"
#include "results/show.h"
#include "results/tree.h"
#include "tests/results/sample_run.h"

namespace grove::results {
namespace {

class MeasuredTest : public RunsFolder {
 protected:
  void SetUp() override {
    RunsFolder::SetUp();
    store_ = Create("a");
    ASSERT_TRUE(RunSampleSearch(*store_, {1, 2, 2}));
    const RunData data = Load("a");
    for (const CandidateRow& row : data.candidates) {
      if (row.name != "seed" && ScoreOf(row)) winner_ = row.id;
      if (row.name == "seed") seed_ = row.id;
    }
    ASSERT_TRUE(winner_);
  }

  PromotionRow Contest() const {
    PromotionRow row;
    row.challenger = winner_;
    row.incumbent = seed_;
    row.outcome = eval::Contest::kFaster;
    row.promoted = true;
    row.ratio = 0.9;
    row.low = 0.89;
    row.high = 0.91;
    row.gpu_uuid = "GPU-1";
    row.why = "10.00% faster";
    row.cases.push_back({"n512",
                         Nanoseconds(100),
                         Nanoseconds(90),
                         0.9,
                         0.89,
                         0.91,
                         {Nanoseconds(100), Nanoseconds(101)},
                         {Nanoseconds(90), Nanoseconds(91)}});
    return row;
  }
  static BaselineRow Baseline(const std::string& name, double ns, const std::string& uuid) {
    BaselineRow row;
    row.case_name = "n512";
    row.name = name;
    row.gpu_uuid = uuid;
    row.gpu = "H200";
    row.driver = "580.1";
    row.version = "cuBLAS 13.1.0";
    row.time = Nanoseconds(ns);
    row.low = Nanoseconds(ns - 1);
    row.high = Nanoseconds(ns + 1);
    row.measured = WallTime(std::chrono::seconds(1764439200));
    return row;
  }

  std::unique_ptr<Store> store_;
  CandidateId winner_, seed_;
};

TEST_F(MeasuredTest, AContestIsReadBackWithItsCases) {
  ASSERT_TRUE(store_->RecordPromotion(Contest()).value());
  const RunData data = Load("a");
  ASSERT_EQ(data.promotions.size(), 1U);
  const PromotionRow& row = data.promotions[0];
  EXPECT_EQ(row.challenger, winner_);
  EXPECT_EQ(row.incumbent, seed_);
  EXPECT_EQ(row.outcome, eval::Contest::kFaster);
  EXPECT_TRUE(row.promoted);
  EXPECT_EQ(row.kind, TimeKind::kMeasured);
  EXPECT_DOUBLE_EQ(row.low, 0.89);
  EXPECT_EQ(row.gpu_uuid, "GPU-1");
  EXPECT_EQ(row.why, "10.00% faster");
  ASSERT_EQ(row.cases.size(), 1U);
  EXPECT_EQ(row.cases[0].challenger, Nanoseconds(90));
  EXPECT_TRUE(CheckStore(runs_ / "a"));
}

TEST_F(MeasuredTest, EverySampleOfAContestIsARow) {
  ASSERT_TRUE(store_->RecordPromotion(Contest()).value());
  SQLite::Database database((runs_ / "a" / "run.db").string(), SQLite::OPEN_READONLY);
  EXPECT_EQ(database.execAndGet("SELECT sum(incumbent_ns) FROM promotion_samples").getInt(), 201);
  EXPECT_EQ(database.execAndGet("SELECT sum(challenger_ns) FROM promotion_samples").getInt(), 181);
}

TEST_F(MeasuredTest, TwoThatMetBeforeKeepTheirFirstOutcome) {
  ASSERT_TRUE(store_->RecordPromotion(Contest()).value());
  PromotionRow again = Contest();
  again.outcome = eval::Contest::kSlower;
  const auto stored = store_->RecordPromotion(again);
  ASSERT_TRUE(stored) << stored.error().message;
  EXPECT_FALSE(*stored);
  EXPECT_EQ(Load("a").promotions.at(0).outcome, eval::Contest::kFaster);
}

TEST_F(MeasuredTest, AContestWithItselfBreaksARule) {
  PromotionRow row = Contest();
  row.incumbent = row.challenger;
  EXPECT_EQ(store_->RecordPromotion(row).error().code, ErrorCode::kInternal);
  EXPECT_TRUE(Load("a").promotions.empty());
}

TEST_F(MeasuredTest, BaselinesComeBackFastestFirstAndAreReplacedByKey) {
  const BaselineRow rows[] = {Baseline("cublas_fp32", 300, "GPU-1"),
                              Baseline("torch_compile", 200, "GPU-1"),
                              Baseline("cublas_fp32", 400, "GPU-2")};
  ASSERT_TRUE(store_->SetBaselines(rows));
  const BaselineRow better[] = {Baseline("cublas_fp32", 100, "GPU-1")};
  ASSERT_TRUE(store_->SetBaselines(better));
  const RunData data = Load("a");
  ASSERT_EQ(data.baselines.size(), 3U);
  EXPECT_EQ(data.baselines[0].name, "cublas_fp32");
  EXPECT_EQ(data.baselines[0].time, Nanoseconds(100));
  EXPECT_EQ(data.baselines[1].name, "torch_compile");
  EXPECT_EQ(data.baselines[2].gpu_uuid, "GPU-2");
  EXPECT_EQ(data.baselines[2].high, Nanoseconds(401));
  EXPECT_EQ(data.baselines[0].measured, WallTime(std::chrono::seconds(1764439200)));
}

TEST_F(MeasuredTest, AProfileBelongsToItsCandidateAndIsReplaced) {
  ASSERT_TRUE(store_->RecordProfile(winner_, "old", "old report"));
  ASSERT_TRUE(store_->RecordProfile(winner_, "DRAM 84% of peak", "the whole table"));
  const RunData data = Load("a");
  const CandidateRow* row = data.Find(winner_);
  ASSERT_NE(row, nullptr);
  EXPECT_EQ(row->profile, "DRAM 84% of peak");
  EXPECT_EQ(store_->Text(row->profile_report.value()).value(), "the whole table");
  EXPECT_TRUE(data.Find(seed_)->profile.empty());
  EXPECT_TRUE(CheckStore(runs_ / "a"));
}

TEST_F(MeasuredTest, TheGpuThatTimedACandidateIsStored) {
  const IdeaId idea = Load("a").ideas.at(0).id;
  const CandidateId id = store_->RequestCandidate(idea, 9).value();
  EvaluationRow evaluation = SampleEvaluation(5000);
  evaluation.case_times[0].kind = TimeKind::kMeasured;
  evaluation.case_times[0].gpu_uuid = "GPU-7";
  ASSERT_TRUE(store_->RecordVerdict(id, evaluation).value());
  EXPECT_EQ(Load("a").Find(id)->evaluation->case_times.at(0).gpu_uuid, "GPU-7");
}

TEST_F(MeasuredTest, TheListOfRunsNamesTheBestThatTheRunNames) {
  const Nanoseconds fastest = *ScoreOf(*Load("a").Best());
  EXPECT_EQ(ListRuns(runs_).value().at(0).best_score, fastest);
  PromotionRow tie = Contest();  // the fastest by its own samples could not show it side by side
  tie.challenger = Load("a").Best()->id;
  tie.outcome = eval::Contest::kTie;
  tie.promoted = false;
  ASSERT_TRUE(store_->RecordPromotion(tie).value());
  const Nanoseconds best = *ScoreOf(*Load("a").Best());
  EXPECT_GT(best, fastest);
  EXPECT_EQ(ListRuns(runs_).value().at(0).best_score, best);
}

TEST_F(MeasuredTest, ShowHoldsOnlyBaselinesOfTheSameGpuAgainstATime) {
  const IdeaId idea = Load("a").ideas.at(0).id;
  const CandidateId id = store_->RequestCandidate(idea, 9).value();
  EvaluationRow evaluation = SampleEvaluation(100);
  evaluation.case_times[0].kind = TimeKind::kMeasured;
  evaluation.case_times[0].gpu_uuid = "GPU-1";
  evaluation.score_kind = TimeKind::kMeasured;
  ASSERT_TRUE(store_->RecordVerdict(id, evaluation).value());
  ASSERT_TRUE(store_->SetBaselines(
      std::vector<BaselineRow>{Baseline("here", 300, "GPU-1"), Baseline("there", 300, "GPU-2")}));
  PromotionRow contest = Contest();
  contest.challenger = id;
  ASSERT_TRUE(store_->RecordPromotion(contest).value());
  ASSERT_TRUE(store_->RecordProfile(id, "DRAM 84% of peak\n", "table"));
  const RunData data = Load("a");
  const std::string page = RenderCandidate(data, *data.Find(id), {}, {200, false});
  std::istringstream lines(page);
  std::string here, there;
  for (std::string line; std::getline(lines, line);) {
    if (line.find(" here ") != std::string::npos) here = line;
    if (line.find(" there ") != std::string::npos) there = line;
  }
  EXPECT_NE(here.find("3.00x"), std::string::npos) << page;
  EXPECT_NE(there.find(" - "), std::string::npos) << page;
  EXPECT_NE(page.find("against seed: faster; 10.00% faster"), std::string::npos) << page;
  EXPECT_NE(page.find("DRAM 84% of peak"), std::string::npos);
  EXPECT_NE(page.find("timed on GPU-1"), std::string::npos);
  const std::string json = CandidateJson(data, *data.Find(id), {});
  EXPECT_NE(json.find("\"outcome\": \"faster\""), std::string::npos);
  EXPECT_NE(json.find("\"baseline\": \"there\""), std::string::npos);
}

TEST_F(MeasuredTest, TheTreeNamesTheBaselinesTheFastestFirst) {
  ASSERT_TRUE(store_->SetBaselines(
      std::vector<BaselineRow>{Baseline("slow", 3000, "GPU-1"), Baseline("quick", 2000, "GPU-1")}));
  TreeOptions options;
  options.width = 200;
  const std::string tree = RenderTree(Load("a"), options);
  EXPECT_NE(tree.find("baselines n512 quick 2.000 us, slow 3.000 us"), std::string::npos) << tree;
}

TEST_F(MeasuredTest, ARunOfTheSchemaBeforeIsReadWithoutContests) {
  std::filesystem::create_directories(runs_ / "old");
  const auto file = (runs_ / "old" / "run.db").string();
  {
    SQLite::Database database(file, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
    database.exec("PRAGMA journal_mode = WAL");
    ASSERT_TRUE(Migrate(database, Migrations().first(2)));
    database.exec(
        "PRAGMA foreign_keys = OFF;"
        "INSERT INTO texts VALUES ('00000000000000000000000000000000', 0, x'');"
        "INSERT INTO run VALUES (1, 'old', 1000000, '{}', '0.0.9', 'stopped', 'why', 1000000, 7);"
        "INSERT INTO candidates (name, branch, turn, status, verdict, stage, case_name, message, "
        "input_seed, tensor, element, precision) VALUES ('seed', 0, 0, 'evaluated', 'pass', "
        "'recheck', '', '', 1, '', -1, 'fp32');"
        "INSERT INTO case_times VALUES (1, 'n512', 'measured', 'cold', 5, 4, 6, 1, 1, '', 0, 0, "
        "'', 1, 0, 1, '');");
  }
  const RunData data = Load("old");
  EXPECT_TRUE(data.promotions.empty());
  EXPECT_TRUE(data.baselines.empty());
  ASSERT_NE(data.Seed(), nullptr);
  EXPECT_EQ(data.Seed()->evaluation->case_times.at(0).gpu_uuid, "");
  auto store = Open("old");
  ASSERT_NE(store, nullptr);
  EXPECT_TRUE(store->SetBaselines(std::vector<BaselineRow>{Baseline("x", 1, "GPU-1")}));
}

}  // namespace
}  // namespace grove::results
