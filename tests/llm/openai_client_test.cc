// The chat completions client against a server that misbehaves on command: each case ends in the
// right reply or error.
#include "llm/openai_client.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tests/llm/client_fixture.h"

namespace grove::llm {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using testing::ChatStream;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::ScriptedAnswer;
using testing::SeenRequest;

const std::string kKey = "sk-secret-0123456789";

class OpenAiTest : public ClientTest {
 protected:
  OpenAiOptions Options() {
    OpenAiOptions options;
    options.base_url = server_->url() + "/v1/";
    options.key = Secret(kKey);
    options.key_name = "TEST_KEY";
    return options;
  }
  Result<Reply> Complete(const Request& request, const OpenAiOptions& options,
                         std::stop_token stop = {}) {
    auto client = MakeOpenAiClient(transport_, options);
    if (!client) return Fail(client.error());
    return (*client)->Complete(request, stop);
  }
  Result<Reply> Complete() { return Complete(Ask(), Options()); }
  json Sent(std::size_t index = 0) { return json::parse(server_->seen().at(index).body); }
};

TEST_F(OpenAiTest, AStreamedReplyIsPutTogetherWithItsUsage) {
  Serve([](const SeenRequest&) { return ChatStream({"Hel", "lo ", "w\xC3\xB6rld"}); });
  const auto reply = Complete();
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->text, "Hello w\xC3\xB6rld");
  EXPECT_EQ(reply->finish, FinishReason::kStop);
  EXPECT_EQ(reply->model, "scripted-1");
  EXPECT_EQ(reply->usage.prompt, Tokens(40));
  EXPECT_EQ(reply->usage.cached, Tokens(32));
  EXPECT_EQ(reply->usage.completion, Tokens(7));
  EXPECT_EQ(reply->usage.reasoning, Tokens(3));
  EXPECT_FALSE(reply->usage.estimated);
  EXPECT_EQ(reply->retries, 0);
}

TEST_F(OpenAiTest, TheRequestCarriesWhatWasAsked) {
  Serve([](const SeenRequest&) { return ChatStream({"x"}); });
  Request request = Ask("question");
  request.messages.insert(request.messages.begin(), {Message::Author::kSystem, "be brief"});
  request.temperature = 0.5;
  request.seed = 7;
  request.stop = {"END"};
  OpenAiOptions options = Options();
  options.reasoning_effort = "low";
  ASSERT_TRUE(Complete(request, options));
  const json sent = Sent();
  EXPECT_EQ(server_->seen()[0].path, "/v1/chat/completions");
  EXPECT_EQ(server_->seen()[0].header("authorization"), "Bearer " + kKey);
  EXPECT_EQ(sent["model"], "some-model");
  EXPECT_EQ(sent["messages"][0]["role"], "system");
  EXPECT_EQ(sent["messages"][1]["content"], "question");
  EXPECT_EQ(sent["max_tokens"], 100);
  EXPECT_EQ(sent["temperature"], 0.5);
  EXPECT_EQ(sent["seed"], 7);
  EXPECT_EQ(sent["stop"], json::array({"END"}));
  EXPECT_EQ(sent["reasoning_effort"], "low");
  EXPECT_EQ(sent["stream"], true);
  EXPECT_EQ(sent["stream_options"]["include_usage"], true);
  EXPECT_EQ(json::parse(server_->seen()[0].body).contains("max_completion_tokens"), false);
}

TEST_F(OpenAiTest, TheReplysLimitIsNamedAsTheHostWantsIt) {
  Serve([](const SeenRequest&) { return ChatStream({"x"}); });
  // Everybody's host is played by our server, as their proxy.
  ::setenv("http_proxy", server_->url().c_str(), 1);
  const std::pair<const char*, bool> hosts[] = {{"http://api.openai.com/v1", true},
                                                {"http://us.openai.azure.com/openai/v1", true},
                                                {"http://openrouter.invalid/api/v1", false}};
  for (std::size_t i = 0; i < std::size(hosts); ++i) {
    OpenAiOptions options = Options();
    options.base_url = hosts[i].first;
    const auto reply = Complete(Ask(), options);
    EXPECT_TRUE(reply) << reply.error().message;
    EXPECT_EQ(Sent(i).contains("max_completion_tokens"), hosts[i].second) << hosts[i].first;
    EXPECT_EQ(Sent(i).contains("max_tokens"), !hosts[i].second) << hosts[i].first;
  }
  OpenAiOptions told = Options();
  told.base_url = "http://openrouter.invalid/api/v1";
  told.limit_field = OpenAiOptions::LimitField::kMaxCompletionTokens;
  EXPECT_TRUE(Complete(Ask(), told));
  ::unsetenv("http_proxy");
  EXPECT_TRUE(Sent(3).contains("max_completion_tokens"));
}

TEST_F(OpenAiTest, WithoutAKeyNoHeaderIsSent) {
  Serve([](const SeenRequest&) { return ChatStream({"x"}); });
  OpenAiOptions options = Options();
  options.key = Secret();
  ASSERT_TRUE(Complete(Ask(), options));
  EXPECT_EQ(server_->seen()[0].headers.count("authorization"), 0U);
}

TEST_F(OpenAiTest, AParameterThatTheServerDoesNotKnowIsLeftOut) {
  Serve([](const SeenRequest& seen) {
    const json sent = json::parse(seen.body);
    if (sent.contains("max_tokens")) {
      return ScriptedAnswer::Json(
          R"({"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.","param":"max_tokens","code":"unsupported_parameter"}})",
          400);
    }
    if (sent.contains("seed")) {
      return ScriptedAnswer::Json(R"({"error":{"message":"unknown field seed"}})", 422);
    }
    return ChatStream({"fine"});
  });
  auto client = MakeOpenAiClient(transport_, Options());
  ASSERT_TRUE(client);
  const auto reply = (*client)->Complete(Ask(), {});
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->text, "fine");
  EXPECT_EQ(Sent(2)["max_completion_tokens"], 100);
  // What was learnt is kept: the next request is right at once.
  ASSERT_TRUE((*client)->Complete(Ask(), {}));
  EXPECT_EQ(server_->seen().size(), 4U);
}

TEST_F(OpenAiTest, ARefusalOfAllParametersEnds) {
  Serve([](const SeenRequest&) {
    return ScriptedAnswer::Json(
        R"({"error":{"message":"unknown 'seed' 'stop' 'max_tokens' 'max_completion_tokens' 'stream_options'"}})",
        400);
  });
  const auto reply = Complete();
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, ErrorCode::kInvalidInput);
  EXPECT_LE(server_->seen().size(), 8U);
}

TEST_F(OpenAiTest, AServerThatDoesNotStreamIsReadToo) {
  Serve([](const SeenRequest&) {
    return ScriptedAnswer::Json(
        R"({"model":"m","choices":[{"message":{"role":"assistant","content":"whole"},"finish_reason":"length"}],"usage":{"prompt_tokens":5,"completion_tokens":2}})");
  });
  const auto reply = Complete();
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->text, "whole");
  EXPECT_EQ(reply->finish, FinishReason::kLength);
  EXPECT_EQ(reply->usage.prompt, Tokens(5));
}

TEST_F(OpenAiTest, AGzippedReplyIsUnpacked) {
  const std::string hex =
      "1f8b080000000000020315c9b10d80300c04c05dbe6682ac82108ac2435c60076c1aa2ec8eb8"
      "f63a4a352974a4b9e3a47b3e88d4514c831a48f0eb215f6e18137651f1badecc6efa5f58c358"
      "c60788ae599c47000000";
  std::string body;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    body += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  Serve([&](const SeenRequest&) {
    ScriptedAnswer answer = ScriptedAnswer::Json(body);
    answer.headers = {{"Content-Encoding", "gzip"}};
    return answer;
  });
  const auto reply = Complete();
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->text, "squeezed");
  EXPECT_THAT(server_->seen()[0].header("accept-encoding"), HasSubstr("gzip"));
}

TEST_F(OpenAiTest, WithoutUsageItIsEstimatedAndSaysSo) {
  Serve([](const SeenRequest&) {
    return ScriptedAnswer::Events(
        {R"({"choices":[{"delta":{"content":"twelve bytes"},"finish_reason":"stop"}]})", "[DONE]"});
  });
  const auto reply = Complete();
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_TRUE(reply->usage.estimated);
  EXPECT_EQ(reply->usage.completion, Tokens(4));
  EXPECT_EQ(reply->usage.prompt, EstimateTokens("Say something."));
}

TEST_F(OpenAiTest, UsageThatCannotBeIsReplacedByTheEstimate) {
  for (const char* usage :
       {R"({"prompt_tokens":-1,"completion_tokens":2})", R"({"prompt_tokens":"many"})",
        R"({"prompt_tokens":5,"completion_tokens":0})",
        R"({"prompt_tokens":5,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":9}})",
        R"({"prompt_tokens":1e30,"completion_tokens":2})", R"([1,2])"}) {
    Serve([&](const SeenRequest&) {
      return ScriptedAnswer::Json(
          std::string(
              R"({"choices":[{"message":{"content":"text"},"finish_reason":"stop"}],"usage":)") +
          usage + "}");
    });
    const auto reply = Complete();
    ASSERT_TRUE(reply) << reply.error().message;
    EXPECT_TRUE(reply->usage.estimated) << usage;
    EXPECT_GT(reply->usage.completion.value, 0) << usage;
    transport_.reset();
  }
}

TEST_F(OpenAiTest, DrippedBytesMakeTheSameReply) {
  Serve([](const SeenRequest&) { return ChatStream({"drip", " by ", "drip"}).Dripped(); });
  const auto reply = Complete();
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->text, "drip by drip");
  EXPECT_EQ(reply->usage.total(), Tokens(47));
}

TEST_F(OpenAiTest, ACutStreamIsAskedAgainAndItsPartForgotten) {
  Serve([](const SeenRequest& seen) {
    ScriptedAnswer answer = ChatStream({"one ", "two"});
    if (seen.number == 1) {
      answer.pieces.resize(1);
      answer.cut = true;
    }
    return answer;
  });
  const auto reply = Complete();
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->text, "one two");
  EXPECT_EQ(reply->retries, 1);
}

TEST_F(OpenAiTest, AStreamThatEndsTooSoonIsUnavailable) {
  Serve([](const SeenRequest&) {
    return ScriptedAnswer::Events({R"({"choices":[{"delta":{"content":"half"}}]})"});
  });
  const auto reply = Complete();
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(reply.error().message, HasSubstr("cut off after 4 bytes"));
}

TEST_F(OpenAiTest, OverloadAndRateLimitsAreTriedAgain) {
  Serve([](const SeenRequest& seen) {
    if (seen.number == 1) return ScriptedAnswer::Json(R"({"error":{"message":"busy"}})", 529);
    if (seen.number == 2) {
      ScriptedAnswer answer = ScriptedAnswer::Json(R"({"error":{"message":"slow"}})", 429);
      answer.headers = {{"Retry-After", "0"}};
      return answer;
    }
    return ChatStream({"at last"});
  });
  const auto reply = Complete();
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->retries, 2);
}

TEST_F(OpenAiTest, AServerErrorThatStaysIsUnavailable) {
  Serve([](const SeenRequest&) { return ScriptedAnswer::Json(R"({"error":"boom"})", 500); });
  const auto reply = Complete();
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(reply.error().message, HasSubstr("500: boom"));
}

TEST_F(OpenAiTest, AWebPageIsNotTheProtocol) {
  Serve([](const SeenRequest&) {
    ScriptedAnswer answer = ScriptedAnswer::Json("<!DOCTYPE html><html>Sign in</html>");
    answer.content_type = "text/html";
    return answer;
  });
  const auto reply = Complete();
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, ErrorCode::kInvalidInput);
  EXPECT_THAT(reply.error().message, HasSubstr("web page"));
  EXPECT_EQ(server_->seen().size(), 1U);
}

TEST_F(OpenAiTest, NoiseIsNotTheProtocol) {
  for (const char* noise : {"data: nonsense\n\n", "{\"cut\":", "[1,2]", "data: 5\n\n"}) {
    Serve([&](const SeenRequest&) { return ScriptedAnswer::Json(noise); });
    const auto reply = Complete();
    ASSERT_FALSE(reply) << noise;
    EXPECT_EQ(reply.error().code, ErrorCode::kInvalidInput) << noise;
    transport_.reset();
  }
}

TEST_F(OpenAiTest, EmptyChoicesAreTriedAgainThenUnavailable) {
  Serve([](const SeenRequest&) { return ScriptedAnswer::Json(R"({"choices":[]})"); });
  const auto reply = Complete();
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(reply.error().message, HasSubstr("no choice in it"));
  EXPECT_EQ(server_->seen().size(), 3U);
}

TEST_F(OpenAiTest, OddTypesEverywhereAreNoCrash) {
  for (const char* body :
       {R"({"choices":{}})", R"({"choices":[1]})", R"({"choices":[{"message":3}]})",
        R"({"choices":[{"message":{"content":{"a":1}},"finish_reason":5}],"model":[]})",
        R"({"choices":null,"usage":{"prompt_tokens_details":4}})", R"({"error":7})",
        R"({"error":{"code":{},"message":[],"type":1}})"}) {
    Serve([&](const SeenRequest&) { return ScriptedAnswer::Json(body); });
    EXPECT_FALSE(Complete()) << body;
    transport_.reset();
  }
}

TEST_F(OpenAiTest, AnErrorInsideAGoodStatusIsAnError) {
  Serve([](const SeenRequest&) {
    return ScriptedAnswer::Json(
        R"({"error":{"message":"context too long","type":"invalid_request_error"}})");
  });
  const auto reply = Complete();
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, ErrorCode::kInvalidInput);
  EXPECT_THAT(reply.error().message, HasSubstr("context too long"));
}

TEST_F(OpenAiTest, AnErrorInsideTheStreamIsClassifiedByItsCode) {
  Serve([](const SeenRequest& seen) {
    if (seen.number > 1) return ChatStream({"second"});
    return ScriptedAnswer::Events({R"({"choices":[{"delta":{"content":"first"}}]})",
                                   R"({"error":{"code":502,"message":"provider gone"}})"});
  });
  const auto reply = Complete();
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->text, "second");
}

TEST_F(OpenAiTest, InvalidUtf8IsReplacedNotRefused) {
  Serve([](const SeenRequest&) {
    return ScriptedAnswer::Events(
        {"{\"choices\":[{\"delta\":{\"content\":\"a\xFF\xC3\"},\"finish_reason\":\"stop\"}]}",
         "[DONE]"});
  });
  const auto reply = Complete();
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->text, "a\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST_F(OpenAiTest, AnEndlessStreamMeetsItsLimit) {
  TransportOptions transport = Fast();
  transport.body_limit = 1 << 20;
  Serve(
      [](const SeenRequest&) {
        ScriptedAnswer answer = ChatStream({std::string(1000, 'x')});
        answer.pieces.resize(1);
        answer.endless = true;
        return answer;
      },
      transport);
  const auto reply = Complete();
  ASSERT_FALSE(reply);
  EXPECT_THAT(reply.error().message, HasSubstr("exceeds 1 MiB"));
}

TEST_F(OpenAiTest, FinishReasonsAreMapped) {
  const std::pair<const char*, FinishReason> cases[] = {{"stop", FinishReason::kStop},
                                                        {"length", FinishReason::kLength},
                                                        {"content_filter", FinishReason::kFiltered},
                                                        {"tool_calls", FinishReason::kOther}};
  for (const auto& [name, finish] : cases) {
    Serve([name = name](const SeenRequest&) {
      return ScriptedAnswer::Json(
          std::string(R"({"choices":[{"message":{"content":"x"},"finish_reason":")") + name +
          R"("}]})");
    });
    const auto reply = Complete();
    ASSERT_TRUE(reply) << reply.error().message;
    EXPECT_EQ(reply->finish, finish) << name;
    transport_.reset();
  }
}

TEST_F(OpenAiTest, AKeyThatTheServerEchoesIsNowhereToBeSeen) {
  int call = 0;
  Serve([&](const SeenRequest& seen) {
    const std::string echo = seen.header("authorization");
    switch (++call) {
      case 1:
        return ScriptedAnswer::Json(json{{"error", {{"message", echo}}}}.dump(), 500);
      case 2:
        return ScriptedAnswer::Json("<p>" + echo + "</p>", 503);
      case 3:
        return ScriptedAnswer::Json(
            json{{"error", {{"message", echo}, {"type", echo}, {"param", echo}}}}.dump(), 401);
      default:
        return ChatStream({"your key is " + kKey.substr(0, 9), kKey.substr(9) + ", keep it"});
    }
  });
  const auto refused = Complete();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidInput);
  EXPECT_THAT(refused.error().message, HasSubstr("check the key in TEST_KEY"));
  const auto reply = Complete();
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->text, "your key is ***, keep it");
  std::string all = refused.error().message + reply->text + reply->model;
  for (const std::string& line : LogOf(2)) all += line;
  EXPECT_THAT(all, HasSubstr("***"));
  EXPECT_THAT(all, Not(HasSubstr("0123456789")));
}

TEST_F(OpenAiTest, AStopEndsTheStream) {
  Serve([](const SeenRequest&) {
    ScriptedAnswer answer = ChatStream({"begin"});
    answer.pieces.resize(1);
    answer.hang = true;
    return answer;
  });
  std::stop_source stop;
  std::jthread stopper([&] {
    while (server_->seen().empty()) std::this_thread::sleep_for(1ms);
    stop.request_stop();
  });
  const auto reply = Complete(Ask(), Options(), stop.get_token());
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, ErrorCode::kCancelled);
}

TEST_F(OpenAiTest, WhatCannotBeAskedIsNotSent) {
  Serve([](const SeenRequest&) { return ChatStream({"x"}); });
  Request nothing = Ask("");
  Request no_room = Ask();
  no_room.max_tokens = Tokens(0);
  Request no_model = Ask();
  no_model.model.clear();
  for (const Request& request : {nothing, no_room, no_model}) {
    EXPECT_EQ(Complete(request, Options()).error().code, ErrorCode::kInvalidInput);
  }
  OpenAiOptions options = Options();
  options.key = Secret("two\r\nlines");
  EXPECT_EQ(Complete(Ask(), options).error().code, ErrorCode::kInvalidInput);
  EXPECT_TRUE(server_->seen().empty());
}

}  // namespace
}  // namespace grove::llm
