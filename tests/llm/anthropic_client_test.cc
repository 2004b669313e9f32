// The messages client against a scripted server.
#include "llm/anthropic_client.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tests/llm/client_fixture.h"

namespace grove::llm {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using testing::MessagesStream;
using ::testing::Not;
using testing::ScriptedAnswer;
using testing::SeenRequest;

class AnthropicTest : public ClientTest {
 protected:
  AnthropicOptions Options() {
    AnthropicOptions options;
    options.base_url = server_->url();
    options.key = Secret("sk-ant-secret");
    return options;
  }
  Result<Reply> Complete(const Request& request, const AnthropicOptions& options) {
    auto client = MakeAnthropicClient(transport_, options);
    if (!client) return Fail(client.error());
    return (*client)->Complete(request, {});
  }
  Result<Reply> Complete() { return Complete(Ask(), Options()); }
  json Sent(std::size_t index = 0) { return json::parse(server_->seen().at(index).body); }
};

TEST_F(AnthropicTest, AStreamedReplyIsPutTogetherWithItsUsage) {
  Serve([](const SeenRequest&) { return MessagesStream({"Hel", "lo"}); });
  const auto reply = Complete();
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->text, "Hello");
  EXPECT_EQ(reply->finish, FinishReason::kStop);
  EXPECT_EQ(reply->model, "scripted-2");
  EXPECT_EQ(reply->usage.prompt, Tokens(40)) << "cache reads and writes are prompt tokens too";
  EXPECT_EQ(reply->usage.cached, Tokens(30));
  EXPECT_EQ(reply->usage.completion, Tokens(7)) << "the last report counts";
  EXPECT_FALSE(reply->usage.estimated);
}

TEST_F(AnthropicTest, TheRequestIsWrittenAsTheProtocolWants) {
  Serve([](const SeenRequest&) { return MessagesStream({"x"}); });
  Request request = Ask("first");
  request.messages.insert(request.messages.begin(), {Message::Author::kSystem, "be brief"});
  request.messages.push_back({Message::Author::kAssistant, "second"});
  request.messages.push_back({Message::Author::kUser, "third"});
  request.temperature = 1.7;
  request.stop = {"END", "\n"};
  ASSERT_TRUE(Complete(request, Options()));
  const SeenRequest seen = server_->seen()[0];
  EXPECT_EQ(seen.path, "/v1/messages");
  EXPECT_EQ(seen.header("x-api-key"), "sk-ant-secret");
  EXPECT_EQ(seen.header("anthropic-version"), "2023-06-01");
  const json sent = Sent();
  EXPECT_EQ(sent["system"][0]["text"], "be brief");
  EXPECT_EQ(sent["messages"].size(), 3U);
  EXPECT_EQ(sent["messages"][1]["role"], "assistant");
  EXPECT_EQ(sent["max_tokens"], 100);
  EXPECT_EQ(sent["temperature"], 1.0);
  EXPECT_EQ(sent["stop_sequences"], json::array({"END"}));
  EXPECT_FALSE(sent.contains("seed"));
}

TEST_F(AnthropicTest, WhatOtherRequestsShareIsABlockOfItsOwnWithAMark) {
  Serve([](const SeenRequest&) { return MessagesStream({"x"}); });
  Request request = Ask("the parent; the idea");
  request.messages.back().shared = 12;
  ASSERT_TRUE(Complete(request, Options()));
  const json content = Sent(0)["messages"][0]["content"];
  ASSERT_EQ(content.size(), 2U);
  EXPECT_EQ(content[0]["text"], "the parent; ");
  EXPECT_TRUE(content[0].contains("cache_control"));
  EXPECT_EQ(content[1]["text"], "the idea");
  EXPECT_FALSE(content[1].contains("cache_control"));

  AnthropicOptions options = Options();
  options.cache = AnthropicOptions::Cache::kOff;
  ASSERT_TRUE(Complete(request, options));
  EXPECT_EQ(Sent(1)["messages"][0]["content"],
            json::array({{{"type", "text"}, {"text", "the parent; the idea"}}}));
}

TEST_F(AnthropicTest, CacheMarksStandOnTheStablePrefix) {
  Serve([](const SeenRequest&) { return MessagesStream({"x"}); });
  Request request = Ask("first");
  request.messages.insert(request.messages.begin(), {Message::Author::kSystem, "be brief"});
  request.messages.push_back({Message::Author::kAssistant, "second"});
  request.messages.push_back({Message::Author::kUser, "third"});
  const auto marked = [](const json& block) { return block.contains("cache_control"); };
  ASSERT_TRUE(Complete(request, Options()));
  json sent = Sent(0);
  EXPECT_TRUE(marked(sent["system"][0]));
  EXPECT_FALSE(marked(sent["messages"][0]["content"][0]));
  EXPECT_TRUE(marked(sent["messages"][1]["content"][0]));
  EXPECT_FALSE(marked(sent["messages"][2]["content"][0]));

  AnthropicOptions options = Options();
  options.cache = AnthropicOptions::Cache::kWhole;
  ASSERT_TRUE(Complete(request, options));
  EXPECT_TRUE(marked(Sent(1)["messages"][2]["content"][0]));

  options.cache = AnthropicOptions::Cache::kOff;
  ASSERT_TRUE(Complete(request, options));
  EXPECT_THAT(server_->seen()[2].body, Not(HasSubstr("cache_control")));
}

TEST_F(AnthropicTest, DrippedBytesMakeTheSameReply) {
  Serve([](const SeenRequest&) { return MessagesStream({"drip ", "drop"}).Dripped(); });
  const auto reply = Complete();
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->text, "drip drop");
}

TEST_F(AnthropicTest, AnErrorEventInsideTheStreamIsTriedAgain) {
  Serve([](const SeenRequest& seen) {
    ScriptedAnswer answer = MessagesStream({"one ", "two"});
    if (seen.number == 1) {
      answer.pieces.resize(4);
      answer.pieces.push_back(
          "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\","
          "\"message\":\"Overloaded\"}}\n\n");
    }
    return answer;
  });
  const auto reply = Complete();
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->text, "one two");
  EXPECT_EQ(reply->retries, 1);
  EXPECT_THAT(LogOf(1)[0], HasSubstr("529 overloaded_error: Overloaded"));
}

TEST_F(AnthropicTest, AFailedAttemptsUsageIsNotMixedIntoTheNext) {
  Serve([](const SeenRequest& seen) {
    ScriptedAnswer answer = MessagesStream({"text"});
    if (seen.number == 1) {
      answer.pieces.resize(4);
      answer.cut = true;
      return answer;
    }
    return ScriptedAnswer::Events(
        {R"({"type":"message_start","message":{"usage":{"input_tokens":9}}})",
         R"({"type":"content_block_delta","delta":{"type":"text_delta","text":"text"}})",
         R"({"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}})",
         R"({"type":"message_stop"})"});
  });
  const auto reply = Complete();
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->usage.prompt, Tokens(9));
  EXPECT_EQ(reply->usage.cached, Tokens(0));
}

TEST_F(AnthropicTest, ThinkingIsCountedNotKept) {
  Serve([](const SeenRequest&) {
    return ScriptedAnswer::Events(
        {R"({"type":"content_block_delta","delta":{"type":"thinking_delta","thinking":"hmm hmm"}})",
         R"({"type":"content_block_delta","delta":{"type":"text_delta","text":"so"}})",
         R"({"type":"message_delta","delta":{"stop_reason":"max_tokens"}})",
         R"({"type":"message_stop"})"});
  });
  const auto reply = Complete();
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->text, "so");
  EXPECT_EQ(reply->finish, FinishReason::kLength);
  EXPECT_TRUE(reply->usage.estimated);
  EXPECT_EQ(reply->usage.reasoning, Tokens(3));
}

TEST_F(AnthropicTest, AWholeDocumentIsReadToo) {
  Serve([](const SeenRequest&) {
    return ScriptedAnswer::Json(
        R"({"type":"message","model":"m","content":[{"type":"text","text":"whole"}],"stop_reason":"refusal","usage":{"input_tokens":3,"output_tokens":1}})");
  });
  const auto reply = Complete();
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->text, "whole");
  EXPECT_EQ(reply->finish, FinishReason::kFiltered);
}

TEST_F(AnthropicTest, ErrorsNameTheCallersAction) {
  const std::pair<const char*, ErrorCode> cases[] = {
      {"authentication_error", ErrorCode::kInvalidInput},
      {"invalid_request_error", ErrorCode::kInvalidInput},
      {"not_found_error", ErrorCode::kNotFound},
      {"billing_error", ErrorCode::kResource},
      {"api_error", ErrorCode::kUnavailable}};
  for (const auto& [type, code] : cases) {
    Serve([type = type](const SeenRequest&) {
      return ScriptedAnswer::Json(
          json{{"type", "error"}, {"error", {{"type", type}, {"message", "m"}}}}.dump());
    });
    const auto reply = Complete();
    ASSERT_FALSE(reply);
    EXPECT_EQ(reply.error().code, code) << type;
    transport_.reset();
  }
}

TEST_F(AnthropicTest, TheBaseMayEndInItsVersion) {
  Serve([](const SeenRequest&) { return MessagesStream({"x"}); });
  AnthropicOptions options = Options();
  options.base_url += "/v1/";
  ASSERT_TRUE(Complete(Ask(), options));
  EXPECT_EQ(server_->seen()[0].path, "/v1/messages");
}

}  // namespace
}  // namespace grove::llm
