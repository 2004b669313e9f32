// Rounds of a search without its evaluation: real tasks, real prompts, the playbook client, the
// parsers of replies. What it proves: every program that the client writes for the shipped tasks
// can be read, and its plan holds for every case of the task.
#include <set>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/share.h"
#include "codegen/implement.h"
#include "codegen/program.h"
#include "ideas/idea_prompt.h"
#include "llm/playbook_client.h"
#include "seeds/task.h"

namespace grove {
namespace {

class PlaybookFlow : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const auto whole = seeds::LoadTask(ShareFolder("tasks"), GetParam());
    ASSERT_TRUE(whole) << whole.error().message;
    auto task = seeds::SelectCases(*whole, "crfm", {});
    ASSERT_TRUE(task) << task.error().message;
    task_ = std::move(*task);
    auto client = llm::MakePlaybookClient();
    ASSERT_TRUE(client) << client.error().message;
    client_ = std::move(*client);
  }

  std::vector<ideas::Idea> Ideas(const ideas::KernelFacts& parent, std::size_t wanted) {
    ideas::IdeaContext context;
    context.task = ideas::DescribeTask(task_);
    context.parent = parent;
    context.wanted = wanted;
    const auto request = ideas::BuildIdeaRequest(context);
    EXPECT_TRUE(request) << request.error().message;
    const auto reply = client_->Complete(*request, {});
    EXPECT_TRUE(reply) << reply.error().message;
    const auto parsed = ideas::ParseIdeas(reply->text, wanted);
    EXPECT_TRUE(parsed) << parsed.error().message;
    if (!parsed) return {};
    EXPECT_TRUE(parsed->notes.empty()) << parsed->notes.front();
    return parsed->ideas;
  }

  Result<codegen::KernelProgram> Implement(const ideas::KernelFacts& parent,
                                           const ideas::Idea& idea, std::uint64_t seed) {
    codegen::ImplementContext context;
    context.task = ideas::DescribeTask(task_);
    context.parent = parent;
    context.idea = idea;
    context.seed = seed;
    const auto request = codegen::BuildImplementRequest(context);
    EXPECT_TRUE(request) << request.error().message;
    const auto reply = client_->Complete(*request, {});
    EXPECT_TRUE(reply) << reply.error().message;
    return codegen::ParseReply(reply->text);
  }

  seeds::Task task_;
  std::unique_ptr<llm::Client> client_;
};

TEST_P(PlaybookFlow, FourRoundsGiveProgramsWhosePlansHoldForEveryCase) {
  ideas::KernelFacts parent;
  parent.source = task_.seed.source;
  parent.plan = task_.seed.plan;
  std::set<std::string> sources = {parent.source};
  for (int round = 0; round < 4; ++round) {
    const std::vector<ideas::Idea> ideas = Ideas(parent, 4);
    ASSERT_FALSE(ideas.empty()) << "round " << round;
    std::optional<codegen::KernelProgram> first;
    for (const ideas::Idea& idea : ideas) {
      for (std::uint64_t seed = 0; seed < 3; ++seed) {
        const auto program = Implement(parent, idea, seed);
        ASSERT_TRUE(program) << idea.title << ": " << program.error().message;
        for (const seeds::Case& c : task_.cases) {
          const auto plan = codegen::ResolvePlan(program->plan, c, {});
          ASSERT_TRUE(plan) << idea.title << ", case " << c.name << ": " << plan.error().message
                            << "\n"
                            << program->source.substr(0, 200);
        }
        if (!first) first = *program;
      }
    }
    parent.source = first->source;
    parent.plan = first->plan_json;
    EXPECT_TRUE(sources.insert(parent.source).second)
        << "round " << round << " brought nothing new";
  }
}

// The loop of patience: as long as ideas come, none of them repeats one that was tried.
TEST_P(PlaybookFlow, IdeasOfOneParentRunOutWithoutRepeating) {
  ideas::IdeaContext context;
  context.task = ideas::DescribeTask(task_);
  context.parent.source = task_.seed.source;
  context.wanted = 3;
  std::set<std::string> seen;
  for (int call = 0; call < 12; ++call) {
    const auto reply = client_->Complete(*ideas::BuildIdeaRequest(context), {});
    ASSERT_TRUE(reply);
    const auto parsed = ideas::ParseIdeas(reply->text, 3);
    if (!parsed) {
      EXPECT_GE(seen.size(), 3u);
      return;
    }
    for (const ideas::Idea& idea : parsed->ideas) {
      EXPECT_TRUE(seen.insert(idea.title).second) << idea.title;
      context.tried_here.push_back(ideas::DescribeTried(
          {idea.title, idea.category, ideas::TriedIdea::Outcome::kTie, 1.0, ""}));
    }
  }
  FAIL() << "ideas never ended";
}

// Ideas and programs for an fp16 product on an H200, and what an emulator is asked to execute of
// them: TMA and wgmma are for devices alone.
class PlaybookHopperFlow : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(PlaybookHopperFlow, OnlyADeviceIsGivenProgramsWithTensorMaps) {
  const auto whole = seeds::LoadTask(ShareFolder("tasks"), GetParam().first);
  ASSERT_TRUE(whole) << whole.error().message;
  const auto task = seeds::SelectCases(*whole, GetParam().second, {});
  ASSERT_TRUE(task) << task.error().message;
  auto client = llm::MakePlaybookClient();
  ASSERT_TRUE(client) << client.error().message;
  for (const bool modelled : {true, false}) {
    ideas::IdeaContext context;
    context.task = ideas::DescribeTask(*task);
    context.device.name = "H200";
    context.device.arch = "sm_90a";
    context.device.modelled = modelled;
    context.parent.source = task->seed.source;
    context.parent.plan = task->seed.plan;
    int with_maps = 0;
    for (int round = 0; round < 3; ++round) {
      context.wanted = 8;
      const auto reply = (*client)->Complete(*ideas::BuildIdeaRequest(context), {});
      ASSERT_TRUE(reply) << reply.error().message;
      const auto parsed = ideas::ParseIdeas(reply->text, 8);
      if (!parsed && round > 0) break;  // no further ideas
      ASSERT_TRUE(parsed) << parsed.error().message;
      std::optional<codegen::KernelProgram> first;
      for (const ideas::Idea& idea : parsed->ideas) {
        codegen::ImplementContext implement;
        implement.task = context.task;
        implement.device = context.device;
        implement.parent = context.parent;
        implement.idea = idea;
        for (implement.seed = 0; implement.seed < 4; ++implement.seed) {
          const auto request = codegen::BuildImplementRequest(implement);
          ASSERT_TRUE(request) << request.error().message;
          const auto code = (*client)->Complete(*request, {});
          ASSERT_TRUE(code) << code.error().message;
          const auto program = codegen::ParseReply(code->text);
          ASSERT_TRUE(program) << idea.title << ": " << program.error().message;
          for (const seeds::Case& c : task->cases) {
            const auto plan = codegen::ResolvePlan(program->plan, c, {});
            ASSERT_TRUE(plan) << idea.title << ", " << c.name << ": " << plan.error().message;
            with_maps += plan->tensor_maps.empty() ? 0 : 1;
          }
          if (!first) first = *program;
        }
      }
      ASSERT_TRUE(first);
      context.parent.source = first->source;
      context.parent.plan = first->plan_json;
    }
    if (modelled) {
      EXPECT_EQ(with_maps, 0);
    } else {
      EXPECT_GT(with_maps, 50);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Tasks, PlaybookHopperFlow,
    ::testing::Values(std::pair("matmul", "crfm_fp16"), std::pair("matmul", "autokernel"),
                      std::pair("fused_mlp", "autokernel"), std::pair("attention", "crfm"),
                      std::pair("flash_attention", "autokernel")),
    [](const auto& task) { return fmt::format("{}_{}", task.param.first, task.param.second); });

INSTANTIATE_TEST_SUITE_P(Tasks, PlaybookFlow, ::testing::Values("softmax", "layernorm", "matmul"),
                         [](const auto& task) { return std::string(task.param); });

}  // namespace
}  // namespace grove
