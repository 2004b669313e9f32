// Which kernels' changes stand in the prompts of a search on a device that measures.
#include "search/changes.h"

#include <map>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "llm/playbook/prompt_view.h"
#include "results/store.h"
#include "search/search.h"
#include "tests/search/run_builder.h"
#include "tests/support/fakes.h"
#include "tests/support/program.h"

namespace grove::search {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::TinyPlan;
using testing::TinySource;

constexpr std::string_view kBoth = "r2.i1.b1 and r2.i2.b1, but not r9.i1.b1 or xr1.i2.b1";

class ChangesTest : public ::testing::Test {
 protected:
  // Three rounds: alpha beats beta, gamma and delta tie with alpha, and the third round's idea
  // names them. What each of its programs is called is in its source.
  void SetUp() override {
    config_.task = "tiny";
    config_.rounds = 3;
    config_.ideas = 4;
    config_.branches = 1;
    config_.frontier = 1;
    config_.reserve = 0;
    config_.repairs = 1;
    device_.measures = true;
    auto evaluator = eval::Evaluator::Create(task_, compiler_, device_, {});
    ASSERT_TRUE(evaluator) << evaluator.error().message;
    evaluator_ = std::move(*evaluator);
    const std::map<std::string, int> times = {{"alpha", 800}, {"beta", 900},  {"gamma", 800},
                                              {"delta", 800}, {"close", 810}, {"far", 1600}};
    int round = 0;
    testing::ScriptedClient client([&](const llm::Request& request) -> Result<std::string> {
      const std::string& prompt = request.messages[0].text;
      if (request.role == llm::Role::kIdea) {
        ++round;
        const auto idea = [&](const char* title, const char* category, std::string_view why) {
          return fmt::format(R"({{"title": "{}", "category": "{}", "rationale": "{}"}})", title,
                             category, why);
        };
        return fmt::format(R"({{"ideas": [{}, {}, {}, {}]}})",
                           idea(round == 1   ? "alpha"
                                : round == 2 ? "gamma"
                                             : "combined",
                                "memory access", round == 3 ? kBoth : "because"),
                           idea(round == 1   ? "beta"
                                : round == 2 ? "delta"
                                             : "alone",
                                "data type and precision", "because"),
                           idea(round == 1   ? "epsilon"
                                : round == 2 ? "close"
                                             : "eta",
                                "parallelism and occupancy", "because"),
                           idea(round == 1   ? "zeta"
                                : round == 2 ? "far"
                                             : "theta",
                                "instructions and arithmetic", "because"));
      }
      const auto view = llm::playbook::PromptView::Read(prompt);
      const auto time = times.find(view.idea_title);
      return "```cuda\n" +
             TinySource(
                 fmt::format("// @time {}\n// program of {}{}\n",
                             time == times.end() ? 950 : time->second, view.idea_title,
                             view.idea_title == "combined" && request.role == llm::Role::kCode
                                 ? "\n// @fail smoke wrong_result"
                                 : "")) +
             "```\n```json\n" + TinyPlan() + "\n```\n";
    });
    auto store =
        results::Store::Create(folder_.path(), MakeRunStart("run", task_, config_, "test"), clock_);
    ASSERT_TRUE(store) << store.error().message;
    const SearchParts parts{task_, *evaluator_, device_, client, **store, observer_};
    auto summary = RunSearch(parts, config_, {});
    ASSERT_TRUE(summary) << summary.error().message;
    ASSERT_EQ(summary->rounds, 3);
    requests_ = client.requests();
  }

  // Of the n-th idea request, or of the request of this role for an idea.
  std::string IdeaPrompt(int n) const {
    for (const llm::Request& request : requests_) {
      if (request.role == llm::Role::kIdea && --n == 0) return request.messages[0].text;
    }
    return "";
  }
  std::string ProgramPrompt(llm::Role role, std::string_view title) const {
    for (const llm::Request& request : requests_) {
      if (request.role != role) continue;
      if (llm::playbook::PromptView::Read(request.messages[0].text).idea_title == title) {
        return request.messages[0].text;
      }
    }
    return "";
  }
  static std::string Section(const std::string& prompt, std::string_view name) {
    return std::string(llm::playbook::Section(prompt, name));
  }

  seeds::Task task_ = testing::TinyTask();
  testing::FakeCompiler compiler_;
  testing::FakeDevice device_;
  testing::FakeClock clock_;
  testing::RecordingObserver observer_;
  testing::ScratchFolder folder_;
  std::unique_ptr<eval::Evaluator> evaluator_;
  SearchConfig config_;
  std::vector<llm::Request> requests_;
};

TEST_F(ChangesTest, KernelsThatTieWithTheParentStandInIdeaPromptsWithTheirDiffs) {
  EXPECT_EQ(Section(IdeaPrompt(1), "ties"), "");
  EXPECT_EQ(Section(IdeaPrompt(2), "ties"), "") << "beta is slower";
  const std::string ties = Section(IdeaPrompt(3), "ties");
  EXPECT_THAT(ties, HasSubstr("r2.i1.b1, 0.8 us, gamma [memory access]: 1.000x from r1.i1.b1\n"));
  EXPECT_THAT(ties, HasSubstr("-// program of alpha\n+// program of gamma\n"));
  EXPECT_THAT(ties, HasSubstr("+// program of delta\n"));
  EXPECT_THAT(ties, Not(HasSubstr("program of beta")));
}

TEST_F(ChangesTest, WhatOtherImplementationsChangedStandsBesideTheTriedIdeas) {
  EXPECT_EQ(Section(IdeaPrompt(1), "changes"), "");
  const std::string changes = Section(IdeaPrompt(3), "changes");
  EXPECT_THAT(changes, HasSubstr("r1.i2.b1, 0.9 us, beta [data type and precision]: 1.11x from "
                                 "seed, 1.0 us; now 1.13x slower than the parent\n"));
  EXPECT_THAT(changes, HasSubstr("+// program of beta\n"));
  EXPECT_THAT(changes, Not(HasSubstr("program of gamma"))) << "once is enough";
  EXPECT_THAT(changes, Not(HasSubstr("+// program of alpha"))) << "the parent itself";
}

TEST_F(ChangesTest, ALossFarFromItsParentComesBeforeNearTies) {
  const std::string changes = Section(IdeaPrompt(3), "changes");
  const std::size_t far = changes.find("+// program of far\n");
  const std::size_t close = changes.find("+// program of close\n");
  ASSERT_NE(far, changes.npos) << changes;
  ASSERT_NE(close, changes.npos) << changes;
  EXPECT_LT(far, close);
  EXPECT_LT(changes.find("+// program of beta\n"), close);
}

TEST_F(ChangesTest, TriedIdeasListEachImplementationAndCompareItWithTheParent) {
  const std::string tried = Section(IdeaPrompt(3), "tried_elsewhere");
  EXPECT_THAT(tried, HasSubstr("- beta [data type and precision]: win, 1.11x; from seed, 1.0 us; "
                               "now 1.13x slower than the parent\n"
                               "  - r1.i2.b1: 0.9 us, 1.11x its parent"));
  EXPECT_THAT(Section(IdeaPrompt(3), "tried_here"), HasSubstr("\n  - r2.i1.b1: 0.8 us, 1.000x its "
                                                              "parent"));
}

TEST_F(ChangesTest, PromptsSayHowManyIdeasOfOneCategoryAreTaken) {
  EXPECT_THAT(Section(IdeaPrompt(1), "rules"), HasSubstr("At most 2 ideas of one category"));
}

TEST_F(ChangesTest, WhoeverImplementsAnIdeaSeesTheKernelsThatItNames) {
  for (const llm::Role role : {llm::Role::kCode, llm::Role::kRepair}) {
    const std::string named = Section(ProgramPrompt(role, "combined"), "named");
    EXPECT_THAT(named, HasSubstr("+// program of gamma\n"));
    EXPECT_THAT(named, HasSubstr("+// program of delta\n"));
    EXPECT_THAT(named, Not(HasSubstr("beta")));
  }
  EXPECT_EQ(Section(ProgramPrompt(llm::Role::kCode, "alone"), "named"), "");
}

TEST_F(ChangesTest, ProgramPromptsHaveTheLineage) {
  EXPECT_EQ(Section(ProgramPrompt(llm::Role::kCode, "alpha"), "lineage"), "");
  EXPECT_THAT(Section(ProgramPrompt(llm::Role::kCode, "gamma"), "lineage"),
              HasSubstr("- alpha [memory access]: win, 1.25x; r1.i1.b1, 0.8 us"));
}

TEST_F(ChangesTest, PromptsSayWhichDifferenceCounts) {
  EXPECT_THAT(Section(IdeaPrompt(1), "parent"),
              HasSubstr("what counts: what is tried is called a win or a loss from 2% on; for the "
                        "first place a kernel is measured again, in turns with the best one, and "
                        "must be faster by more than 0.5% and by two standard errors\n"));
  EXPECT_THAT(Section(ProgramPrompt(llm::Role::kCode, "alpha"), "parent"),
              Not(HasSubstr("what counts: ")));
}

TEST(WhatCountsTest, SaysTheSpreadOfTheKernelAndTheTieThatFollows) {
  testing::RunBuilder run(1000);
  results::CandidateRow& kernel = run.data().candidates[0];
  kernel.evaluation->case_times[0].low = Nanoseconds(985);
  kernel.evaluation->case_times[0].high = Nanoseconds(1015);
  EXPECT_THAT(WhatCounts(kernel), HasSubstr("(by 1.5% of the time) must differ by more than 2.1%"));
  kernel.evaluation->score_kind = results::TimeKind::kModelled;
  EXPECT_THAT(WhatCounts(kernel), HasSubstr("modelled times have no noise"));
  kernel.evaluation->score.reset();
  EXPECT_EQ(WhatCounts(kernel), "");
}

}  // namespace
}  // namespace grove::search
