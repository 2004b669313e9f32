#include "results/timeline.h"

#include <algorithm>

#include <gmock/gmock.h>

#include "tests/results/sample_run.h"

namespace grove::results {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class TimelineTest : public RunsFolder {
 protected:
  RunData Make(int rounds) {
    auto store = Create("a");
    EXPECT_TRUE(store->AddHint("one", "hint", "try a \x1b[31mwarp"));
    EXPECT_TRUE(RunSampleSearch(*store, {.rounds = rounds}));
    store.reset();
    return Load("a");
  }
  static std::vector<std::string> Texts(const std::vector<EventRow>& rows, std::string_view kind) {
    std::vector<std::string> texts;
    for (const EventRow& row : rows) {
      if (row.kind == kind) texts.push_back(row.text);
    }
    return texts;
  }
};

TEST_F(TimelineTest, ARunBeginsAndEndsAndItsRoundsStandBetween) {
  const RunData run = Make(2);
  const std::vector<EventRow> rows = Timeline(run);
  EXPECT_TRUE(std::is_sorted(rows.begin(), rows.end(),
                             [](const EventRow& a, const EventRow& b) { return a.time < b.time; }));
  ASSERT_GE(rows.size(), 6U);
  EXPECT_EQ(rows.front().kind, "run");
  EXPECT_THAT(rows.front().text, HasSubstr("began: " + run.task.name));
  const auto rounds = Texts(rows, "round");
  ASSERT_EQ(rounds.size(), 4U);
  EXPECT_EQ(rounds[0], "round 0 began");  // the sample counts from 0
  EXPECT_THAT(rounds[1], StartsWith("round 0 ended: 4 candidates, "));
  const FrontierRow& first = run.frontier.front();
  EXPECT_THAT(rounds[1], HasSubstr("; frontier " + run.Find(first.candidate)->name));
  EXPECT_EQ(rounds[2], "round 1 began");
  EXPECT_EQ(Texts(rows, "run").size(), 2U);
}

TEST_F(TimelineTest, EventsAndHintsKeepTheirWords) {
  const RunData run = Make(1);
  const std::vector<EventRow> rows = Timeline(run);
  for (const EventRow& event : run.events) {
    const auto same = [&](const EventRow& row) { return row.id == event.id; };
    ASSERT_EQ(std::count_if(rows.begin(), rows.end(), same), 1) << event.text;
    EXPECT_EQ(std::find_if(rows.begin(), rows.end(), same)->text, event.text);
  }
  const auto hints = Texts(rows, "hint");
  ASSERT_EQ(hints.size(), 1U);
  EXPECT_THAT(hints[0], StartsWith("try a \x1b[31mwarp (")) << "shown by Visible()";
}

TEST_F(TimelineTest, ARunThatIsOverSaysWhy) {
  RunData run = Make(1);
  run.run.status = RunStatus::kRunning;
  EXPECT_EQ(Texts(Timeline(run), "run").size(), 1U);
  run.run.status = RunStatus::kInterrupted;
  run.run.reason = "by hand";
  EXPECT_EQ(Texts(Timeline(run), "run").back(), "interrupted: by hand");
}

}  // namespace
}  // namespace grove::results
