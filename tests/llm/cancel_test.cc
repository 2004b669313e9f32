// A stop ends a request in whichever phase it is. How soon is measured by bench/transport_bench.cc
// (docs/models.md has the figure); here a stop that were missed would end as another error, after
// the phase's own time-out.
#include <optional>
#include <thread>

#include "tests/llm/transport_fixture.h"
#include "tests/support/deaf_server.h"

namespace grove::llm {
namespace {

using namespace std::chrono_literals;
using testing::DeafServer;
using testing::ScriptedAnswer;
using testing::SeenRequest;

class CancelTest : public TransportTest {
 protected:
  // Sends `request`, stops it once `reached` says that it is in the phase, and expects the end.
  void StopOnce(HttpRequest request, const std::function<bool()>& reached) {
    BodyReader reader;
    std::stop_source stop;
    std::jthread stopper([&] {
      while (!reached()) std::this_thread::sleep_for(1ms);
      stop.request_stop();
    });
    const auto outcome = transport_->Post(std::move(request), reader, stop.get_token());
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().code, ErrorCode::kCancelled) << outcome.error().message;
  }
  HttpRequest To(const DeafServer& server, const char* scheme = "http") const {
    HttpRequest request = Http();
    request.url = server.url(scheme);
    return request;
  }
};

TEST_F(CancelTest, WhileItConnects) {
  const DeafServer server(DeafServer::Kind::kUnreachable);
  Connect();
  StopOnce(To(server), [&] { return server.connecting() > 0; });
}

TEST_F(CancelTest, InTheHandshakeOfTls) {
  const DeafServer server(DeafServer::Kind::kSilent);
  Connect();
  StopOnce(To(server, "https"), [&] { return server.connected() > 0; });
}

TEST_F(CancelTest, WhileTheRequestIsSent) {
  const DeafServer server(DeafServer::Kind::kSilent);
  Connect();
  HttpRequest request = To(server);
  request.body.assign(std::size_t{32} << 20, 'x');  // more than the sockets' buffers hold
  StopOnce(std::move(request), [&] { return server.connected() > 0; });
}

TEST_F(CancelTest, WhileItWaitsForTheFirstByte) {
  Serve([](const SeenRequest&) {
    ScriptedAnswer answer = ScriptedAnswer::Json("late");
    answer.before = 1h;
    return answer;
  });
  StopOnce(Http(), [&] { return !server_->seen().empty(); });
}

TEST_F(CancelTest, WhileTheReplyStreams) {
  Serve([](const SeenRequest&) {
    ScriptedAnswer answer = ScriptedAnswer::Json("piece ");
    answer.endless = true;
    answer.between = 5ms;
    return answer;
  });
  BodyReader reader;
  std::stop_source stop;
  std::jthread stopper([&] {
    while (reader.begun == 0) std::this_thread::sleep_for(1ms);
    stop.request_stop();
  });
  const auto outcome = transport_->Post(Http(), reader, stop.get_token());
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, ErrorCode::kCancelled);
}

TEST_F(CancelTest, WhileTheReplyHangs) {
  Serve([](const SeenRequest&) {
    ScriptedAnswer answer = ScriptedAnswer::Json("begin");
    answer.hang = true;
    return answer;
  });
  StopOnce(Http(), [&] { return !server_->seen().empty(); });
}

TEST_F(CancelTest, InTheWaitBetweenAttempts) {
  Serve([](const SeenRequest&) {
    ScriptedAnswer answer = ScriptedAnswer::Json("slow down", 429);
    answer.headers = {{"Retry-After", "100"}};
    return answer;
  });
  StopOnce(Http(), [&] { return !LogOf(1).empty(); });
  EXPECT_EQ(server_->seen().size(), 1U);
}

TEST_F(CancelTest, InTheQueueBehindOthers) {
  TransportOptions options = Fast();
  options.concurrency = {.initial = 1, .most = 1};
  Serve(
      [](const SeenRequest&) {
        ScriptedAnswer answer = ScriptedAnswer::Json("begin");
        answer.hang = true;
        return answer;
      },
      options);
  BodyReader first;
  std::stop_source stop_first;
  std::jthread holder([&] { (void)transport_->Post(Http(), first, stop_first.get_token()); });
  while (server_->seen().empty()) std::this_thread::sleep_for(1ms);
  StopOnce(Http(), [] { return true; });
  EXPECT_EQ(server_->seen().size(), 1U) << "it was never sent";
  stop_first.request_stop();
}

TEST_F(CancelTest, BeforeItIsSentAtAll) {
  Serve([](const SeenRequest&) { return ScriptedAnswer::Json("x"); });
  std::stop_source stop;
  stop.request_stop();
  BodyReader reader;
  const auto outcome = transport_->Post(Http(), reader, stop.get_token());
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, ErrorCode::kCancelled);
  EXPECT_TRUE(server_->seen().empty());
}

TEST_F(CancelTest, OneStopLeavesTheOthersAlone) {
  Serve([](const SeenRequest& seen) {
    ScriptedAnswer answer = ScriptedAnswer::Json("fine");
    if (seen.body == "hang") answer.before = 1h;
    return answer;
  });
  HttpRequest hanging = Http();
  hanging.body = "hang";
  BodyReader other;
  std::optional<Result<HttpOutcome>> outcome;
  std::jthread beside([&] { outcome = transport_->Post(Http(), other, {}); });
  StopOnce(std::move(hanging), [&] { return server_->seen().size() == 2; });
  beside.join();
  ASSERT_TRUE(*outcome) << outcome->error().message;
  EXPECT_EQ(other.body, "fine");
}

TEST_F(CancelTest, TheEndOfTheTransportEndsWhatIsInFlight) {
  Serve([](const SeenRequest&) {
    ScriptedAnswer answer = ScriptedAnswer::Json("begin");
    answer.hang = true;
    return answer;
  });
  BodyReader reader;
  std::optional<Result<HttpOutcome>> outcome;
  transport_->Start(Http(), reader, {}, [&](auto result) { outcome = std::move(result); });
  while (server_->seen().empty()) std::this_thread::sleep_for(1ms);
  transport_.reset();
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->error().code, ErrorCode::kCancelled);
}

}  // namespace
}  // namespace grove::llm
