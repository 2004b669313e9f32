#include "results/harvest/harvest.h"

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <zstd.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "tests/results/sample_run.h"
#include "tests/support/synthetic_run.h"

namespace grove::results {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class HarvestTest : public RunsFolder {
 protected:
  void SetUp() override {
    RunsFolder::SetUp();
    ASSERT_TRUE(testing::MakeSyntheticRun(runs_, {.name = "a", .candidates = 36}));
    options_.output = runs_ / "out";
  }
  HarvestReport Run(const std::vector<std::string>& names = {"a"}) {
    std::vector<std::filesystem::path> folders;
    for (const std::string& name : names) folders.push_back(runs_ / name);
    auto report = Harvest(folders, options_);
    EXPECT_TRUE(report) << report.error().message;
    return report ? *report : HarvestReport{};
  }
  std::vector<json> Records(const std::string& kind) {
    std::ifstream file(options_.output / (kind + ".jsonl"));
    EXPECT_TRUE(file.is_open()) << kind;
    std::vector<json> records;
    for (std::string line; std::getline(file, line);) records.push_back(json::parse(line));
    return records;
  }
  HarvestOptions options_;
};

TEST_F(HarvestTest, EveryCandidateIsANodeWithAllOfItsParts) {
  options_.duplicate_threshold = 2;
  Run();
  const RunData data = Load("a");
  const auto nodes = Records("nodes");
  ASSERT_EQ(nodes.size(), data.candidates.size());
  auto reader = Reader::Open(runs_ / "a");
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const CandidateRow& c = data.candidates[i];
    EXPECT_EQ(nodes[i]["name"], c.name);
    EXPECT_EQ(nodes[i]["code"], (*reader)->Text(*c.source).value());
    EXPECT_EQ(nodes[i]["correct"], ScoreOf(c).has_value());
    if (const auto score = ScoreOf(c)) {
      EXPECT_EQ(nodes[i]["score_ns"], score->count());
      EXPECT_EQ(nodes[i]["cases"][0]["samples_ns"].size(), 20U);
      EXPECT_EQ(nodes[i]["device"], "NVIDIA H200");
    }
    if (c.idea) {
      EXPECT_EQ(nodes[i]["prompt_tokens"], 2400 * (c.turn + 1));
      EXPECT_NEAR(nodes[i]["dollars"].get<double>(), 0.004 * (c.turn + 1), 1e-12);
    }
  }
}

TEST_F(HarvestTest, AllRecordsOfAKindHaveTheSameFields) {
  Run();
  for (const std::string& kind : RecordKinds()) {
    const auto records = Records(kind);
    ASSERT_FALSE(records.empty()) << kind;
    std::set<std::string> ids;
    for (const json& record : records) {
      EXPECT_EQ(record.size(), records[0].size()) << kind;
      for (const auto& [key, value] : records[0].items()) EXPECT_TRUE(record.contains(key)) << key;
      EXPECT_TRUE(ids.insert(record["id"]).second) << record["id"];
      EXPECT_EQ(record["kind"], kind);
    }
  }
}

TEST_F(HarvestTest, EdgesHoldTheGainAndHowSureItIs) {
  Run();
  const RunData data = Load("a");
  for (const json& edge : Records("edges")) {
    const CandidateRow* parent = data.FindCandidate(edge["parent"].get<std::string>());
    const CandidateRow* child = data.FindCandidate(edge["child"].get<std::string>());
    ASSERT_TRUE(parent && child);
    EXPECT_EQ(child->parent, parent->id);
    const double gain = edge["gain"];
    EXPECT_DOUBLE_EQ(gain, *SpeedUp(*parent, *child));
    EXPECT_LE(edge["gain_low"].get<double>(), gain);
    EXPECT_GE(edge["gain_high"].get<double>(), gain);
    const double confidence = edge["confidence"];
    if (gain > 1.2) {
      EXPECT_GT(confidence, 0.99);
    }
    if (gain < 0.8) {
      EXPECT_LT(confidence, 0.01);
    }
  }
}

// Two that were measured side by side: that says more than samples of different minutes.
TEST_F(HarvestTest, AContestDecidesHowSureAnEdgeIs) {
  Run();
  const RunData before = Load("a");
  const json edge = Records("edges").at(0);
  EXPECT_EQ(edge["confidence_from"], "samples");
  EXPECT_TRUE(edge["contest_gain"].is_null());
  const CandidateRow* parent = before.FindCandidate(edge["parent"].get<std::string>());
  const CandidateRow* child = before.FindCandidate(edge["child"].get<std::string>());
  PromotionRow contest;
  contest.challenger = child->id;
  contest.incumbent = parent->id;
  contest.outcome = eval::Contest::kTie;
  contest.ratio = 0.99;  // the child 1% faster, one standard error from a tie
  contest.low = 0.99 * std::exp(-2 * std::log(1 / 0.99));
  contest.high = 0.99 * std::exp(2 * std::log(1 / 0.99));
  contest.gpu_uuid = "GPU-1";
  contest.cases.push_back({"n1024",
                           Nanoseconds(100),
                           Nanoseconds(99),
                           0.99,
                           contest.low,
                           contest.high,
                           {Nanoseconds(100)},
                           {Nanoseconds(99)}});
  ASSERT_TRUE(Open("a")->RecordPromotion(contest).value());

  options_.output = runs_ / "again";
  Run();
  const json again = Records("edges").at(0);
  ASSERT_EQ(again["id"], edge["id"]);
  EXPECT_EQ(again["confidence_from"], "contest");
  EXPECT_NEAR(again["confidence"].get<double>(), 0.841345, 1e-5);  // the normal distribution at 1
  EXPECT_NEAR(again["contest_gain"].get<double>(), 1 / 0.99, 1e-12);
  EXPECT_NEAR(again["contest_low"].get<double>(), 1 / contest.high, 1e-12);
  EXPECT_NEAR(again["contest_high"].get<double>(), 1 / contest.low, 1e-12);
}

TEST_F(HarvestTest, PreferencesSetTheBestSiblingOverTheOthers) {
  Run();
  const RunData data = Load("a");
  for (const json& row : Records("preferences")) {
    const CandidateRow* chosen = data.FindCandidate(row["chosen_name"].get<std::string>());
    const CandidateRow* rejected = data.FindCandidate(row["rejected_name"].get<std::string>());
    ASSERT_TRUE(chosen && rejected);
    EXPECT_EQ(chosen->idea, rejected->idea);
    ASSERT_TRUE(ScoreOf(*chosen));
    if (const auto other = ScoreOf(*rejected)) {
      EXPECT_LE(*ScoreOf(*chosen), *other);
      EXPECT_EQ(row["reason"], "faster");
    } else {
      EXPECT_EQ(row["reason"], "correct over wrong");
    }
    EXPECT_EQ(row["prompt"][0]["role"], "system");
    EXPECT_EQ(row["ranking"][0], row["chosen_name"]);
  }
}

TEST_F(HarvestTest, RepairsLeadFromTheDiagnosticsToTheNextProgram) {
  Run();
  for (const json& row : Records("repairs")) {
    EXPECT_EQ(row["verdict"], "compile_error");
    EXPECT_THAT(row["diagnostics"].get<std::string>(), HasSubstr("expected a ';'"));
    EXPECT_EQ(row["fixed_code"].get<std::string>(),
              row["failed_code"].get<std::string>() + "// repaired\n");
    EXPECT_EQ(row["fixed"], row["fixed_verdict"] == "pass");
  }
}

TEST_F(HarvestTest, NegativesAreLabelledAndHoldNoDuplicatesOfTheSearch) {
  Run();
  std::set<std::string> labels;
  for (const json& row : Records("negatives")) {
    labels.insert(row["label"]);
    EXPECT_EQ(row["label"], row["category"] == "impossible" ? "hack" : "failure");
    EXPECT_NE(row["category"], "duplicate");
  }
  EXPECT_EQ(labels, (std::set<std::string>{"failure", "hack"}));
}

TEST_F(HarvestTest, ConversationsEndWithTheReplyAndKnowTheirOutcome) {
  Run();
  std::set<std::string> roles;
  for (const json& row : Records("conversations")) {
    roles.insert(row["role"]);
    const json& last = row["messages"].back();
    EXPECT_EQ(last["role"], "assistant");
    EXPECT_THAT(last["content"].get<std::string>(), HasSubstr("Here is the kernel."));
    EXPECT_EQ(row["correct"].is_null(), row["role"] == "idea");
  }
  EXPECT_EQ(roles, (std::set<std::string>{"code", "idea", "repair"}));
}

TEST_F(HarvestTest, TheFirstProgramOfAFailedTurnIsNotCalledCorrect) {
  options_.duplicate_threshold = 2;
  Run();
  const RunData data = Load("a");
  int seen = 0;
  for (const json& row : Records("conversations")) {
    if (row["role"] != "code" || row["name"].is_null()) continue;
    const CandidateRow* c = data.FindCandidate(row["name"].get<std::string>());
    if (c->turn == 0) continue;
    EXPECT_EQ(row["correct"], false);
    ++seen;
  }
  EXPECT_GT(seen, 0);
}

TEST_F(HarvestTest, FiltersLeaveOutAndAreCounted) {
  options_.correct_only = true;
  options_.minimal_gain = 1.0;
  const HarvestReport report = Run();
  for (const json& node : Records("nodes")) {
    EXPECT_EQ(node["correct"], true);
    if (!node["speed_up_over_parent"].is_null()) {
      EXPECT_GE(node["speed_up_over_parent"].get<double>(), 1.0);
    }
  }
  EXPECT_TRUE(Records("negatives").empty());
  EXPECT_GT(report.filtered, 0);
}

TEST_F(HarvestTest, ADeviceThatNoRunHadIsNotFound) {
  options_.device = "A100";
  const auto report = Harvest({runs_ / "a"}, options_);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(std::filesystem::exists(options_.output));
}

TEST_F(HarvestTest, NearDuplicatesOverRunsOfATaskCountOnce) {
  ASSERT_TRUE(testing::MakeSyntheticRun(runs_, {.name = "b", .candidates = 36}));
  const HarvestReport both = Run({"a", "b"});
  options_.output = runs_ / "one";
  const HarvestReport one = Run({"a"});
  // The second run holds the same programs.
  EXPECT_EQ(both.files[0].records, one.files[0].records);
  EXPECT_EQ(both.near_duplicates, 2 * one.near_duplicates + one.files[0].records);
}

TEST_F(HarvestTest, WhatABenchmarkHasIsFlaggedAndNotHidden) {
  const RunData data = Load("a");
  auto reader = Reader::Open(runs_ / "a");
  const CandidateRow& known = data.candidates[1];
  const auto benchmarks = runs_ / "benchmarks";
  std::filesystem::create_directories(benchmarks);
  std::ofstream(benchmarks / "problem.cu") << (*reader)->Text(*known.source).value();
  options_.benchmarks = benchmarks;
  options_.benchmark_share = 0.9;
  options_.duplicate_threshold = 2;
  const HarvestReport report = Run();
  EXPECT_GT(report.flagged, 0);
  bool found = false;
  const auto nodes = Records("nodes");
  EXPECT_EQ(nodes.size(), data.candidates.size());
  for (const json& node : nodes) {
    if (node["name"] != known.name) continue;
    found = true;
    EXPECT_EQ(node["contaminated"], true);
    EXPECT_EQ(node["benchmark_file"], "problem.cu");
    EXPECT_EQ(node["benchmark_overlap"], 1.0);
  }
  EXPECT_TRUE(found);
}

TEST_F(HarvestTest, TheSameStoresGiveTheSameBytesInWhateverOrder) {
  ASSERT_TRUE(testing::MakeSyntheticRun(runs_, {.name = "b", .candidates = 12, .hostile = true}));
  for (const HarvestFormat format : {HarvestFormat::kJsonl, HarvestFormat::kJsonlZstd}) {
    options_.format = format;
    options_.output = runs_ / "first";
    Run({"a", "b"});
    options_.output = runs_ / "second";
    Run({"b", "a"});
    for (const auto& entry : std::filesystem::directory_iterator(runs_ / "first")) {
      EXPECT_EQ(ReadFile(entry.path()).value(),
                ReadFile(runs_ / "second" / entry.path().filename()).value())
          << entry.path();
    }
    std::filesystem::remove_all(runs_ / "first");
    std::filesystem::remove_all(runs_ / "second");
  }
}

TEST_F(HarvestTest, TheManifestHasTheHashOfEveryFile) {
  const HarvestReport report = Run();
  const json manifest = json::parse(ReadFile(options_.output / "manifest.json").value());
  ASSERT_EQ(manifest["files"].size(), report.files.size() + 1);
  for (const json& file : manifest["files"]) {
    const std::string bytes = ReadFile(options_.output / file["name"].get<std::string>()).value();
    EXPECT_EQ(HashText(bytes).Hex(), file["xxh128"]);
    EXPECT_EQ(bytes.size(), file["bytes"]);
  }
}

TEST_F(HarvestTest, ZstdFilesHoldTheSameLines) {
  Run();
  const std::string plain = ReadFile(options_.output / "edges.jsonl").value();
  options_.output = runs_ / "packed";
  options_.format = HarvestFormat::kJsonlZstd;
  Run();
  const std::string packed = ReadFile(options_.output / "edges.jsonl.zst").value();
  std::string unpacked(plain.size() + 1, '\0');
  const std::size_t size =
      ZSTD_decompress(unpacked.data(), unpacked.size(), packed.data(), packed.size());
  ASSERT_EQ(ZSTD_isError(size), 0U);
  EXPECT_EQ(unpacked.substr(0, size), plain);
}

TEST_F(HarvestTest, TheCardCountsWhatIsThere) {
  options_.licence = "Apache-2.0";
  options_.model_terms = {{"small-model", "output may be used for training"}};
  const HarvestReport report = Run();
  const std::string card = ReadFile(options_.output / "README.md").value();
  for (const HarvestedFile& file : report.files) {
    EXPECT_THAT(card, HasSubstr("| " + file.name + " | " + std::to_string(file.records) + " |"));
  }
  EXPECT_THAT(card, HasSubstr("output may be used for training"));
  EXPECT_THAT(card, HasSubstr("Apache-2.0"));
}

TEST_F(HarvestTest, SiblingsNeverStandOnBothSidesOfTheSplit) {
  options_.duplicate_threshold = 2;
  Run();
  std::map<std::string, std::set<std::string>> splits;
  for (const json& node : Records("nodes")) {
    if (!node["idea"].is_null()) splits[node["idea"]].insert(node["split"]);
  }
  for (const auto& [idea, sides] : splits) EXPECT_EQ(sides.size(), 1U) << idea;
}

// Python that fails at once: as one without pyarrow.
TEST_F(HarvestTest, ParquetThatCannotBeWrittenLeavesAWholeHarvestOfJsonLines) {
  Run();
  const std::filesystem::path plain = options_.output;
  options_.output = runs_ / "parquet";
  options_.format = HarvestFormat::kParquet;
  const char* old = std::getenv("GROVE_PYTHON");
  const std::string kept = old == nullptr ? "" : old;
  ::setenv("GROVE_PYTHON", "/bin/false", 1);
  const auto report = Harvest({runs_ / "a"}, options_);
  ::setenv("GROVE_PYTHON", kept.c_str(), 1);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(report.error().message,
              HasSubstr("scripts/to_parquet.py " + options_.output.string()));
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(plain)) {
    const auto name = entry.path().filename();
    EXPECT_EQ(ReadFile(options_.output / name).value_or("not there"),
              ReadFile(entry.path()).value())
        << name;
    ++files;
  }
  EXPECT_EQ(files, 9);
}

TEST_F(HarvestTest, AFolderThatIsNotEmptyIsLeftAlone) {
  std::filesystem::create_directories(options_.output);
  std::ofstream(options_.output / "mine.txt") << "precious";
  const auto report = Harvest({runs_ / "a"}, options_);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ErrorCode::kInvalidInput);
  EXPECT_FALSE(std::filesystem::exists(options_.output / "nodes.jsonl"));
}

TEST_F(HarvestTest, AnUnknownKindOrClassIsRefusedWithTheKnownOnes) {
  options_.kinds = {"leaves"};
  EXPECT_THAT(Harvest({runs_ / "a"}, options_).error().message, HasSubstr("conversations"));
  options_.kinds = {};
  options_.precision = "fp31";
  EXPECT_THAT(Harvest({runs_ / "a"}, options_).error().message, HasSubstr("fp32"));
}

TEST_F(HarvestTest, AHalfDeletedRunIsNamedAndNothingIsWritten) {
  // The folder without its store.
  std::filesystem::create_directories(runs_ / "gone" / "control");
  auto report = Harvest({runs_ / "a", runs_ / "gone"}, options_);
  ASSERT_FALSE(report);
  EXPECT_THAT(report.error().message, HasSubstr("gone"));
  EXPECT_FALSE(std::filesystem::exists(options_.output / "nodes.jsonl"));
  // The store cut in the middle.
  std::filesystem::create_directories(runs_ / "cut");
  std::filesystem::copy_file(runs_ / "a" / "run.db", runs_ / "cut" / "run.db");
  std::filesystem::resize_file(runs_ / "cut" / "run.db", 5000);
  report = Harvest({runs_ / "a", runs_ / "cut"}, options_);
  ASSERT_FALSE(report);
  EXPECT_THAT(report.error().message, HasSubstr("cut"));
  EXPECT_FALSE(std::filesystem::exists(options_.output / "nodes.jsonl"));
}

TEST_F(HarvestTest, ARunThatIsBeingWrittenIsHarvestedAsFarAsItIs) {
  auto store = Create("open");
  auto seed = store->RecordSeed({0, "// seed", "{}", HashText("seed")});
  ASSERT_TRUE(seed);
  Run({"open"});
  const auto nodes = Records("nodes");
  ASSERT_EQ(nodes.size(), 1U);
  EXPECT_EQ(nodes[0]["label"], "none");
}

}  // namespace
}  // namespace grove::results
