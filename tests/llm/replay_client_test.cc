// Answers from a record.
#include "llm/replay_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace grove::llm {
namespace {

TEST(Replay, ARecordedRequestGetsItsReplyAsItWas) {
  auto client = MakeReplayClient([](const Request& request) -> Result<std::optional<Reply>> {
    if (request.seed != 3) return std::optional<Reply>();
    Reply reply;
    reply.text = "recorded";
    reply.usage.prompt = Tokens(12);
    reply.finish = FinishReason::kLength;
    return reply;
  });
  Request request;
  request.seed = 3;
  const auto reply = client->Complete(request, {});
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->text, "recorded");
  EXPECT_EQ(reply->usage.prompt, Tokens(12));
  EXPECT_EQ(reply->finish, FinishReason::kLength);
}

TEST(Replay, AnythingElseIsNotRecorded) {
  auto client = MakeReplayClient(
      [](const Request&) -> Result<std::optional<Reply>> { return std::optional<Reply>(); });
  Request request;
  request.role = Role::kCode;
  request.seed = 5;
  const auto reply = client->Complete(request, {});
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(reply.error().message, ::testing::HasSubstr("not recorded: a code request"));
}

TEST(Replay, AStoreThatFailsIsNoMissingRecord) {
  auto client = MakeReplayClient([](const Request&) -> Result<std::optional<Reply>> {
    return Fail(ErrorCode::kResource, "disk gone");
  });
  const auto reply = client->Complete({}, {});
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, ErrorCode::kResource);
}

TEST(Replay, AStopIsObeyed) {
  auto client =
      MakeReplayClient([](const Request&) -> Result<std::optional<Reply>> { return Reply{}; });
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(client->Complete({}, stop.get_token()).error().code, ErrorCode::kCancelled);
}

}  // namespace
}  // namespace grove::llm
