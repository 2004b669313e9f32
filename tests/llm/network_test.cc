// Proxies of the environment, time before a connection, rate-limit headers and how many requests an
// endpoint gets at a time.
#include <optional>
#include <set>
#include <thread>

#include <gmock/gmock.h>

#include "tests/llm/transport_fixture.h"
#include "tests/support/deaf_server.h"

namespace grove::llm {
namespace {

using namespace std::chrono_literals;
using testing::DeafServer;
using ::testing::HasSubstr;
using testing::ScriptedAnswer;
using testing::SeenRequest;

class NetworkTest : public TransportTest {
 protected:
  HttpRequest To(const std::string& url) const {
    HttpRequest request = Http();
    request.url = url;
    return request;
  }
  // The first line that a proxy at `server` is sent for a request to `url`.
  std::string LineFor(const DeafServer& server, const std::string& url) {
    TransportOptions options = Fast();
    options.retry.attempts = 1;
    Connect(options);
    std::string line;
    std::jthread proxy([&] { line = server.TakeLine(); });
    BodyReader reader;
    EXPECT_FALSE(transport_->Post(To(url), reader, {})) << "the proxy hung up";
    proxy.join();
    return line;
  }
};

TEST_F(NetworkTest, AProxyOfTheEnvironmentIsUsed) {
  Serve([](const SeenRequest&) { return ScriptedAnswer::Json("by the proxy"); });
  const Variable proxy("http_proxy", server_->url());
  BodyReader reader;
  // A name that no resolver knows.
  const auto outcome = transport_->Post(To("http://nowhere.invalid/path"), reader, {});
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_EQ(reader.body, "by the proxy");
  EXPECT_EQ(server_->seen().at(0).header("host"), "nowhere.invalid");
}

TEST_F(NetworkTest, AProxyForHttpsIsAskedForATunnel) {
  const DeafServer server(DeafServer::Kind::kSilent);
  const Variable proxy("https_proxy", server.url());
  EXPECT_EQ(LineFor(server, "https://nowhere.invalid/v1"), "CONNECT nowhere.invalid:443 HTTP/1.1");
}

TEST_F(NetworkTest, AProxyForAllIsUsedWhereNoneIsNamed) {
  const DeafServer server(DeafServer::Kind::kSilent);
  const Variable proxy("all_proxy", server.url());
  EXPECT_EQ(LineFor(server, "http://nowhere.invalid/v1"),
            "POST http://nowhere.invalid/v1 HTTP/1.1");
}

TEST_F(NetworkTest, NoProxyNamesWhomToAskDirectly) {
  Serve([](const SeenRequest&) { return ScriptedAnswer::Json("directly"); });
  const DeafServer nobody(DeafServer::Kind::kSilent);
  const Variable proxy("http_proxy", nobody.url());
  const Variable except("no_proxy", "127.0.0.1");
  BodyReader reader;
  const auto outcome = transport_->Post(Http(), reader, {});
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_EQ(reader.body, "directly");
  EXPECT_EQ(nobody.connected(), 0);
}

TEST_F(NetworkTest, AConnectionThatIsNotMadeIsATimeOutOfItsOwn) {
  const DeafServer server(DeafServer::Kind::kUnreachable);
  TransportOptions options = Fast();
  options.retry.attempts = 1;
  Connect(options);
  HttpRequest request = To(server.url());
  request.limits.connect = 50ms;
  BodyReader reader;
  const auto outcome = transport_->Post(std::move(request), reader, {});
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(outcome.error().message, HasSubstr("no connection within 0.05 s"));
}

TEST_F(NetworkTest, AWaitThatWouldPassTheTotalTimeIsNotBegun) {
  Serve([](const SeenRequest&) {
    ScriptedAnswer answer = ScriptedAnswer::Json("slow down", 429);
    answer.headers = {{"Retry-After", "60"}};
    return answer;
  });
  HttpRequest request = Http();
  request.limits.total = 30s;
  BodyReader reader;
  const auto outcome = transport_->Post(std::move(request), reader, {});
  ASSERT_FALSE(outcome);
  EXPECT_THAT(outcome.error().message, HasSubstr("no time is left for another attempt"));
  EXPECT_EQ(server_->seen().size(), 1U);
}

TEST_F(NetworkTest, ALimitThatAReplyUsedUpHoldsTheNextRequestBack) {
  Serve([](const SeenRequest&) {
    ScriptedAnswer answer = ScriptedAnswer::Json("fine");
    answer.headers = {{"x-ratelimit-remaining-requests", "0"},
                      {"x-ratelimit-reset-requests", "1m0s"}};
    return answer;
  });
  BodyReader first;
  ASSERT_TRUE(transport_->Post(Http(), first, {}));
  BodyReader second;
  std::optional<Result<HttpOutcome>> outcome;
  std::jthread caller([&] { outcome = transport_->Post(Http(), second, {}); });
  std::this_thread::sleep_for(150ms);
  EXPECT_EQ(server_->seen().size(), 1U) << "it went out before the limit's reset";
  clock_.Jump(61s);
  caller.join();
  ASSERT_TRUE(*outcome) << outcome->error().message;
  EXPECT_EQ(server_->seen().size(), 2U);
}

TEST_F(NetworkTest, RefusalsHalveWhatIsInFlight) {
  constexpr int kFirst = 8;
  TransportOptions options = Fast();
  options.concurrency = {.initial = kFirst, .most = 64, .settle = 60'000ms};
  std::mutex mutex;
  std::condition_variable all_here;
  int arrived = 0;
  int open = 0;
  int most = 0;
  Serve(
      [&](const SeenRequest& seen) {
        if (seen.number <= kFirst) {
          // All of the first ones are refused together.
          std::unique_lock lock(mutex);
          if (++arrived == kFirst) all_here.notify_all();
          all_here.wait_for(lock, 20s, [&] { return arrived == kFirst; });
          return ScriptedAnswer::Json("slow down", 429);
        }
        {
          const std::lock_guard lock(mutex);
          most = std::max(most, ++open);
        }
        std::this_thread::sleep_for(10ms);
        const std::lock_guard lock(mutex);
        --open;
        return ScriptedAnswer::Json("fine");
      },
      options, 2 * kFirst);
  std::vector<BodyReader> readers(kFirst);
  {
    std::vector<std::jthread> callers;
    for (BodyReader& reader : readers) {
      callers.emplace_back([&] { EXPECT_TRUE(transport_->Post(Http(), reader, {})); });
    }
  }
  EXPECT_EQ(arrived, kFirst) << "the first ones went out at once";
  // Each success may add a part of one; none of them adds a whole one here.
  EXPECT_LE(most, kFirst / 2 + 1);
  EXPECT_GE(most, 1);
}

TEST_F(NetworkTest, EndpointsHaveLimitsOfTheirOwn) {
  TransportOptions options = Fast();
  options.concurrency = {.initial = 1, .most = 1};
  Serve(
      [](const SeenRequest& seen) {
        ScriptedAnswer answer = ScriptedAnswer::Json("fine");
        if (seen.body == "hang") answer.before = 1h;
        return answer;
      },
      options);
  testing::ScriptedServer other([](const SeenRequest&) { return ScriptedAnswer::Json("other"); });
  HttpRequest hanging = Http();
  hanging.body = "hang";
  BodyReader first;
  std::stop_source stop;
  std::jthread holder([&] { (void)transport_->Post(hanging, first, stop.get_token()); });
  while (server_->seen().empty()) std::this_thread::sleep_for(1ms);
  BodyReader second;
  ASSERT_TRUE(transport_->Post(To(other.url()), second, {}));
  EXPECT_EQ(second.body, "other");
  stop.request_stop();
}

}  // namespace
}  // namespace grove::llm
