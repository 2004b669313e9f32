#include "llm/playbook/prompt_view.h"

#include <gtest/gtest.h>

namespace grove::llm::playbook {
namespace {

TEST(Section, IsWhatStandsBetweenItsTagsOnLinesOfTheirOwn) {
  EXPECT_EQ(Section("a <x> b\n<x>\none\ntwo\n</x>\n<x>\nthree\n</x>\n", "x"), "one\ntwo\n");
  EXPECT_EQ(Section("<x>\nno end\n", "x"), "");
  EXPECT_EQ(Section("", "x"), "");
}

TEST(FencedBlock, IsFoundByLanguageAndEndsAtItsOwnFence) {
  const std::string text = "```json\n{}\n```\n````cuda\na\n```\nb\n````\n";
  EXPECT_EQ(FencedBlock(text, "cuda"), "a\n```\nb\n");
  EXPECT_EQ(FencedBlock(text, "json"), "{}\n");
  EXPECT_EQ(FencedBlock(text, "plan"), "");
  EXPECT_EQ(FencedBlock("```cuda\nno end", "cuda"), "");
}

TEST(PromptView, ReadsCasesTensorsAndTitles) {
  const PromptView view = PromptView::Read(
      "<task>\nname: softmax\nfamily: row_reduction\n"
      "case a (scored): M=2 N=3; x f32 [2,3] input; y f16 [2,3] output; drawn x constant(1, 0)\n"
      "case b (edge): M=9 N=x; \n</task>\n"
      "<tried_here>\n- One [c]: win, 2.0x\n</tried_here>\n"
      "<tried_elsewhere>\n- Two [c]: failed; why\n- Three [c]: win\n</tried_elsewhere>\n"
      "<request>\nideas wanted: 7\n</request>\n");
  EXPECT_EQ(view.task, "softmax");
  ASSERT_EQ(view.cases.size(), 2u);
  EXPECT_TRUE(view.cases[0].scored);
  EXPECT_FALSE(view.cases[1].scored);
  EXPECT_EQ(view.cases[0].dim("N"), 3);
  EXPECT_EQ(view.cases[1].dim("N"), std::nullopt);
  ASSERT_EQ(view.cases[0].tensors.size(), 2u);
  EXPECT_EQ(view.cases[0].tensors[1], (std::pair<std::string, std::string>("y", "f16")));
  EXPECT_EQ(view.tried_here, std::vector<std::string>{"One"});
  EXPECT_EQ(view.failed_titles, std::vector<std::string>{"Two"});
  EXPECT_EQ(view.wanted, 7u);
}

TEST(PromptView, OddTextIsNoError) {
  for (const char* text :
       {"", "<task>", "<task>\ncase \n</task>", "<task>\ncase a (scored): \n</task>",
        "<request>\nideas wanted: -3\n</request>", "<tried_here>\n- x\n</tried_here>"}) {
    const PromptView view = PromptView::Read(text);
    EXPECT_TRUE(view.tried_here.empty());
    EXPECT_EQ(view.wanted, 4u);
  }
}

}  // namespace
}  // namespace grove::llm::playbook
