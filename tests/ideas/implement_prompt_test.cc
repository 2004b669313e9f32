#include "codegen/implement.h"

#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "llm/playbook/prompt_view.h"

namespace grove::codegen {
namespace {

ImplementContext Context() {
  ImplementContext context;
  context.task.name = "softmax";
  context.task.family = "row_reduction";
  context.task.cases = {
      {"crfm", "scored", "M=8 N=16", "x f32 [8,16] input; y f32 [8,16] output", ""}};
  context.device.name = "H200";
  context.parent.id = "seed";
  context.parent.source = "__global__ void parent_kernel();\n";
  context.parent.plan = "{\"version\": 1}";
  context.idea = {"Vectorised loads", ideas::Category::kMemoryAccess, "16 bytes <at> once", 1.8};
  context.seed = 3;
  return context;
}

TEST(ImplementPrompt, CarriesIdeaParentRulesAndReplyForm) {
  const auto request = BuildImplementRequest(Context());
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->role, llm::Role::kCode);
  EXPECT_EQ(request->seed, 3u);
  const std::string& prompt = request->messages.at(0).text;
  for (const char* part :
       {"title: Vectorised loads", "category: memory access", "expected gain: 1.80",
        "16 bytes <at> once", "parent_kernel", "extern \"C\" __global__", "namespace dim",
        "namespace scalar", "mma.h", "\"workspace\"", "\"args\": [\"x\", \"partial\"]", "```cuda",
        "```json", "name: H200"}) {
    EXPECT_NE(prompt.find(part), std::string::npos) << part;
  }
  for (const char* name : {"task", "device", "parent", "idea", "rules", "reply"}) {
    EXPECT_FALSE(llm::playbook::Section(prompt, name).empty()) << name;
  }
}

// All that does not depend on the idea stands in front, so that it is sent and kept once.
TEST(ImplementPrompt, IdeasOfOneParentShareTheBriefing) {
  ImplementContext other = Context();
  other.idea.title = "Another";
  other.hints = {"a hint"};
  const auto a = BuildImplementRequest(Context()), b = BuildImplementRequest(other);
  const llm::Message &first = a->messages[0], &second = b->messages[0];
  EXPECT_EQ(first.shared, second.shared);
  EXPECT_EQ(first.text.substr(0, first.shared), second.text.substr(0, second.shared));
  for (const char* name : {"task", "device", "parent", "rules"}) {
    EXPECT_LT(first.text.find(fmt::format("</{}>", name)), first.shared) << name;
  }
  EXPECT_GT(first.shared, first.text.size() * 3 / 4);
  EXPECT_GE(first.text.find("Vectorised loads"), first.shared);
}

TEST(ImplementPrompt, TheExpectedGainIsNotRoundedAway) {
  ImplementContext context = Context();
  context.idea.expected_gain = 1.025;
  EXPECT_NE(BuildImplementRequest(context)->messages[0].text.find("expected gain: 1.025\n"),
            std::string::npos);
}

// What difference counts is for who chooses ideas.
TEST(ImplementPrompt, SaysNothingOfWhatCounts) {
  RepairContext context;
  context.implement = Context();
  context.implement.parent.what_counts = "two per cent";
  for (const auto& request :
       {BuildImplementRequest(context.implement), BuildRepairRequest(context)}) {
    EXPECT_EQ(request->messages[0].text.find("two per cent"), std::string::npos);
  }
}

TEST(ImplementPrompt, WhereAReplyCannotHoldTheProgramEditsAreAskedFor) {
  RepairContext context;
  context.implement = Context();
  context.source = context.implement.parent.source;
  for (const std::int64_t longest : {16384, 600}) {
    context.implement.longest_reply = Tokens(longest);
    context.source = context.implement.parent.source = std::string(900, 'x');
    for (const auto& request :
         {BuildImplementRequest(context.implement), BuildRepairRequest(context)}) {
      const std::string reply(llm::playbook::Section(request->messages[0].text, "reply"));
      EXPECT_EQ(reply.find("Then give the whole program") == reply.npos, longest == 600) << reply;
      EXPECT_EQ(reply.find("not the whole source: a reply may have 600 tokens, and a program as "
                           "long as") != reply.npos,
                longest == 600)
          << reply;
      EXPECT_NE(reply.find("```edit\n<<<<<<< old"), reply.npos);
    }
  }
}

// A model that reads of steps it may not use writes them.
TEST(ImplementPrompt, LibraryStepsAreExplainedOnlyWhereTheTaskPermitsThem) {
  ImplementContext context = Context();
  EXPECT_EQ(BuildImplementRequest(context)->messages[0].text.find("\"library\""),
            std::string::npos);
  context.task.library = true;
  EXPECT_NE(BuildImplementRequest(context)->messages[0].text.find("{\"library\": \"gemm\""),
            std::string::npos);
}

// Siblings must be the same text, so that a provider's prompt cache serves all but the first.
TEST(ImplementPrompt, SiblingsDifferByTheSeedAlone) {
  ImplementContext other = Context();
  other.seed = 4;
  EXPECT_EQ(BuildImplementRequest(Context())->messages[0].text,
            BuildImplementRequest(other)->messages[0].text);
}

TEST(RepairPrompt, CarriesTheFailedProgramAndWhatWentWrong) {
  RepairContext context;
  context.implement = Context();
  context.source = "__global__ void broken();\n";
  context.plan = "{}";
  context.verdict = "compile_error";
  context.case_name = "crfm";
  context.message = "line 3: expected a ;";
  context.earlier = {"wrong_result"};
  const auto request = BuildRepairRequest(context);
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->role, llm::Role::kRepair);
  const auto view = llm::playbook::PromptView::Read(request->messages[0].text);
  EXPECT_EQ(view.failed_source, "__global__ void broken();\n");
  EXPECT_EQ(view.parent_source, "__global__ void parent_kernel();\n");
  EXPECT_EQ(view.verdict, "compile_error");
  EXPECT_EQ(view.idea_title, "Vectorised loads");
  const std::string_view failure = llm::playbook::Section(request->messages[0].text, "failure");
  EXPECT_NE(failure.find("case: crfm"), std::string_view::npos);
  EXPECT_NE(failure.find("line 3: expected a ;"), std::string_view::npos);
}

// Two programs of hundreds of lines that differ in a few hide what matters.
TEST(RepairPrompt, OfAProgramThatIsMostlyItsParentTheDifferenceIsShownInstead) {
  RepairContext context;
  context.implement = Context();
  std::string parent;
  for (int i = 0; i < 100; ++i) parent += "step " + std::to_string(i) + ";\n";
  context.implement.parent.source = parent;
  context.source = parent;
  context.source.replace(context.source.find("step 50;"), 8, "leap 50;");
  context.plan = "{}";
  context.verdict = "wrong_result";
  context.report = "passed before: smoke small";
  const auto request = BuildRepairRequest(context);
  ASSERT_TRUE(request) << request.error().message;
  const std::string& prompt = request->messages[0].text;
  const auto view = llm::playbook::PromptView::Read(prompt);
  EXPECT_EQ(view.failed_source, context.source);
  EXPECT_EQ(view.parent_source, parent) << "who reads it can undo the change";
  EXPECT_NE(prompt.find(" step 49;\n-step 50;\n+leap 50;\n step 51;"), std::string::npos);
  EXPECT_EQ(prompt.find("step 90;"), prompt.rfind("step 90;")) << "once, not twice";
  EXPECT_NE(prompt.find("passed before: smoke small"), std::string::npos);
}

TEST(RepairPrompt, SaysWhenNoProgramCouldBeRead) {
  RepairContext context;
  context.implement = Context();
  context.verdict = "parse_error";
  const auto request = BuildRepairRequest(context);
  ASSERT_TRUE(request);
  EXPECT_NE(request->messages[0].text.find("No program could be read"), std::string::npos);
}

TEST(RepairPrompt, AnEndlessCompilerLogIsCut) {
  RepairContext context;
  context.implement = Context();
  context.message = std::string(1 << 20, 'e');
  EXPECT_LT(BuildRepairRequest(context)->messages[0].text.size(), 20000u);
}

TEST(ImplementPrompt, AMissingTemplateSaysWhichFile) {
  const auto briefing = BuildBriefing(Context(), ProgramPages("/nonexistent"));
  ASSERT_FALSE(briefing);
  EXPECT_NE(briefing.error().message.find("briefing.mustache"), std::string::npos);
  const auto request = BuildImplementRequest(Context(), ProgramPages("/nonexistent"), "");
  ASSERT_FALSE(request);
  EXPECT_NE(request.error().message.find("implement.mustache"), std::string::npos);
}

}  // namespace
}  // namespace grove::codegen
