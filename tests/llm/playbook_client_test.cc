#include "llm/playbook_client.h"

#include <set>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "llm/playbook/prompt_view.h"

namespace grove::llm {
namespace {

std::string Prompt(const std::string& source, const std::string& rest,
                   const std::string& name = "softmax", const std::string& dtype = "f32") {
  return "<task>\nname: " + name +
         "\nfamily: row_reduction\ncase crfm (scored): M=4096 N=65536; x " + dtype +
         " [4096,65536] input; y f32 [4096,65536] output\n</task>\n<parent>\n```cuda\n" + source +
         "\n```\n</parent>\n" + rest;
}

constexpr const char* kNaive = "__global__ void softmax() {}";

class PlaybookClientTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto made = MakePlaybookClient();
    ASSERT_TRUE(made) << made.error().message;
    client_ = std::move(*made);
  }
  Result<Reply> Ask(Role role, const std::string& prompt, std::uint64_t seed = 0) {
    Request request;
    request.role = role;
    request.messages.push_back({Message::Author::kUser, prompt});
    request.seed = seed;
    return client_->Complete(request, {});
  }
  std::vector<nlohmann::json> Ideas(const std::string& prompt, std::uint64_t seed = 0) {
    const auto reply = Ask(Role::kIdea, prompt, seed);
    EXPECT_TRUE(reply) << reply.error().message;
    return nlohmann::json::parse(reply->text).at("ideas");
  }
  static std::string Idea(const std::string& title) {
    return "<idea>\ntitle: " + title + "\ncategory: memory access\n</idea>\n";
  }
  std::unique_ptr<Client> client_;
};

TEST_F(PlaybookClientTest, GivesAsManyIdeasAsWantedInSeveralCategories) {
  const auto ideas = Ideas(Prompt(kNaive, "<request>\nideas wanted: 5\n</request>\n"));
  ASSERT_EQ(ideas.size(), 5u);
  std::set<std::string> titles, categories;
  for (const auto& idea : ideas) {
    titles.insert(idea.at("title").get<std::string>());
    categories.insert(idea.at("category").get<std::string>());
    EXPECT_GT(idea.at("expected_gain").get<double>(), 1.0);
    EXPECT_GT(idea.at("rationale").get<std::string>().size(), 100u);
  }
  EXPECT_EQ(titles.size(), 5u);
  EXPECT_GE(categories.size(), 3u);
}

TEST_F(PlaybookClientTest, DoesNotRepeatWhatWasTriedFromThisParent) {
  const std::string wanted = "<request>\nideas wanted: 3\n</request>\n";
  const auto first = Ideas(Prompt(kNaive, wanted));
  std::string tried = "<tried_here>\n";
  std::set<std::string> titles;
  for (const auto& idea : first) {
    titles.insert(idea["title"].get<std::string>());
    tried += "- " + idea["title"].get<std::string>() + " [memory access]: tie, 1.00x\n";
  }
  tried += "</tried_here>\n";
  const auto second = Ideas(Prompt(kNaive, tried + wanted));
  EXPECT_FALSE(second.empty());
  for (const auto& idea : second) EXPECT_FALSE(titles.contains(idea["title"].get<std::string>()));
}

TEST_F(PlaybookClientTest, AnIdeaThatFailedElsewhereComesLater) {
  const std::string wanted = "<request>\nideas wanted: 1\n</request>\n";
  const std::string best = Ideas(Prompt(kNaive, wanted)).at(0)["title"];
  const auto next = Ideas(
      Prompt(kNaive, "<tried_elsewhere>\n- " + best +
                         " [memory access]: failed; wrong_result\n</tried_elsewhere>\n" + wanted));
  EXPECT_NE(next.at(0)["title"], best);
}

TEST_F(PlaybookClientTest, TheSamePromptAndSeedGiveTheSameReply) {
  const std::string ideas = Prompt(kNaive, "<request>\nideas wanted: 4\n</request>\n");
  const std::string code = Prompt(kNaive, Idea("Vectorised 16-byte loads and stores"));
  auto other = MakePlaybookClient();
  ASSERT_TRUE(other);
  for (const auto& [role, prompt] : {std::pair(Role::kIdea, ideas), std::pair(Role::kCode, code)}) {
    for (std::uint64_t seed : {0, 1, 7}) {
      Request request;
      request.role = role;
      request.messages.push_back({Message::Author::kUser, prompt});
      request.seed = seed;
      EXPECT_EQ(client_->Complete(request, {})->text, (*other)->Complete(request, {})->text);
    }
  }
}

TEST_F(PlaybookClientTest, SiblingsMakeDifferentChoicesForOneIdea) {
  const std::string prompt = Prompt(kNaive, Idea("Keep the row on chip between read and write"));
  std::set<std::string> sources;
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    const auto reply = Ask(Role::kCode, prompt, seed);
    ASSERT_TRUE(reply);
    const std::string source(playbook::FencedBlock(reply->text, "cuda"));
    EXPECT_NE(source.find("strategy=resident"), std::string::npos);
    EXPECT_TRUE(nlohmann::json::accept(playbook::FencedBlock(reply->text, "json")));
    sources.insert(source);
  }
  EXPECT_EQ(sources.size(), 4u);
}

TEST_F(PlaybookClientTest, BuildsOnTheTraitsOfItsParent) {
  const auto first = Ask(Role::kCode, Prompt(kNaive, Idea("Vectorised 16-byte loads and stores")));
  const std::string parent(playbook::FencedBlock(first->text, "cuda"));
  const auto second = Ask(Role::kCode, Prompt(parent, Idea("Online maximum and sum in one pass")));
  const std::string child(playbook::FencedBlock(second->text, "cuda"));
  EXPECT_NE(child.find("vec=4"), std::string::npos);
  EXPECT_NE(child.find("passes=2"), std::string::npos);
  EXPECT_NE(second->text.find("passes from 3 to 2"), std::string::npos);
}

TEST_F(PlaybookClientTest, AForeignIdeaIsTakenAsTheNearestOfTheCatalogue) {
  const auto reply =
      Ask(Role::kCode, Prompt(kNaive, Idea("Use float4 vectorised loads for coalescing")));
  ASSERT_TRUE(reply);
  EXPECT_NE(reply->text.find("vec=4"), std::string::npos);
}

TEST_F(PlaybookClientTest, ARepairIsTheNextChoiceNotTheSameProgram) {
  const std::string idea = Idea("Vectorised 16-byte loads and stores");
  const auto failed = Ask(Role::kCode, Prompt(kNaive, idea), 1);
  const std::string source(playbook::FencedBlock(failed->text, "cuda"));
  const auto repaired =
      Ask(Role::kRepair,
          Prompt(kNaive, idea + "<failed>\n```cuda\n" + source +
                             "\n```\n</failed>\n<failure>\nverdict: compile_error\n</failure>\n"),
          1);
  ASSERT_TRUE(repaired);
  const std::string next(playbook::FencedBlock(repaired->text, "cuda"));
  EXPECT_FALSE(next.empty());
  EXPECT_NE(next, source);
  EXPECT_NE(repaired->text.find("compile_error"), std::string::npos);
}

std::string ProductOn(const std::string& architecture, const std::string& times,
                      const std::string& rest) {
  return "<task>\nname: matmul\nfamily: gemm\ncase half (scored): M=4096 N=4096 K=4096; a f16 "
         "[4096,4096] input; b f16 [4096,4096] input; c f16 [4096,4096] output\n</task>\n"
         "<device>\nname: H200\narchitecture: " +
         architecture + "\ntimes: " + times + "\n</device>\n<parent>\n```cuda\n" + kNaive +
         "\n```\n</parent>\n" + rest;
}

TEST_F(PlaybookClientTest, HopperInstructionsAreForMeasuredTimesOnHopper) {
  const std::string wanted = "<request>\nideas wanted: 20\n</request>\n";
  const auto hopper = [&](const char* architecture, const char* times) {
    bool found = false;
    for (const auto& idea : Ideas(ProductOn(architecture, times, wanted))) {
      found |= idea["title"].get<std::string>().find("wgmma") != std::string::npos;
    }
    return found;
  };
  const char* measured = "measured on the device, with a cold L2";
  EXPECT_TRUE(hopper("sm_90a", measured));
  EXPECT_FALSE(hopper("sm_90a", "modelled from an emulation of the compiled kernel"));
  EXPECT_FALSE(hopper("sm_100a", measured));
  EXPECT_FALSE(hopper("sm_80", measured));
}

TEST_F(PlaybookClientTest, AnIdeaOfWgmmaIsAnotherOneInTheEmulator) {
  const std::string idea =
      Idea("Hopper product: TMA into a ring of stages, wgmma by two warpgroups");
  const auto on_gpu = Ask(Role::kCode, ProductOn("sm_90a", "measured on the device", idea));
  ASSERT_TRUE(on_gpu);
  EXPECT_NE(on_gpu->text.find("wgmma.mma_async"), std::string::npos);
  const auto emulated = Ask(Role::kCode, ProductOn("sm_90a", "modelled", idea));
  ASSERT_TRUE(emulated);
  EXPECT_EQ(emulated->text.find("wgmma.mma_async"), std::string::npos);
}

TEST_F(PlaybookClientTest, SplitOperandsAreForClassesThatTheyReach) {
  const auto prompt = [](const std::string& demanded) {
    std::string text =
        ProductOn("sm_90a", "measured on the device", "<request>\nideas wanted: 20\n</request>\n");
    for (std::size_t at = 0; (at = text.find(" f16 ", at)) != text.npos;)
      text.replace(at, 5, " f32 ");
    const std::string family = "family: gemm\n";
    return text.replace(text.find(family), family.size(),
                        family + "precision demanded: " + demanded + "\n");
  };
  const auto offers = [&](const std::string& demanded) {
    bool found = false;
    for (const auto& idea : Ideas(prompt(demanded))) {
      found |= idea["title"].get<std::string>().find("scaled fp16 parts") != std::string::npos;
    }
    return found;
  };
  EXPECT_TRUE(offers("fp32"));
  EXPECT_TRUE(offers("tf32"));
  EXPECT_FALSE(offers("fp64"));
}

TEST_F(PlaybookClientTest, ATaskItDoesNotKnowIsRefusedAndNamed) {
  for (const auto& prompt : {Prompt(kNaive, "", "sorting"), Prompt(kNaive, "", "softmax", "f16")}) {
    const auto reply = Ask(Role::kIdea, prompt);
    ASSERT_FALSE(reply);
    EXPECT_EQ(reply.error().code, ErrorCode::kInvalidInput);
    EXPECT_NE(reply.error().message.find("softmax"), std::string::npos);
  }
  EXPECT_FALSE(Ask(Role::kCode, ""));
}

TEST_F(PlaybookClientTest, UsageIsEstimatedAndSaysSo) {
  const std::string prompt = Prompt(kNaive, "");
  const auto reply = Ask(Role::kIdea, prompt);
  EXPECT_TRUE(reply->usage.estimated);
  EXPECT_EQ(reply->usage.prompt, EstimateTokens(prompt + "\n"));
  EXPECT_EQ(reply->usage.completion, EstimateTokens(reply->text));
  EXPECT_EQ(reply->finish, FinishReason::kStop);
}

TEST_F(PlaybookClientTest, AReplyNeverExceedsItsTokens) {
  Request request;
  request.role = Role::kIdea;
  request.messages.push_back({Message::Author::kUser, Prompt(kNaive, "")});
  request.max_tokens = Tokens(50);
  const auto reply = client_->Complete(request, {});
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->finish, FinishReason::kLength);
  EXPECT_LE(reply->usage.completion, Tokens(50));
  EXPECT_LE(reply->text.size(), 150u);
}

TEST_F(PlaybookClientTest, AStoppedRequestIsCancelled) {
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(client_->Complete({}, stop.get_token()).error().code, ErrorCode::kCancelled);
}

TEST(PlaybookTips, EveryEntryIsATipOfAFamily) {
  const auto tips = LoadPlaybookTips();
  ASSERT_TRUE(tips) << tips.error().message;
  std::set<std::string> families;
  for (const PlaybookTip& tip : *tips) families.insert(tip.family);
  EXPECT_EQ(families, (std::set<std::string>{"attention", "conv", "elementwise", "gemm", "qr",
                                             "row_reduction"}));
}

}  // namespace
}  // namespace grove::llm
