// The transport against a server that misbehaves on command.
#include "llm/transport.h"

#include <fstream>
#include <set>

#include <unistd.h>

#include <gmock/gmock.h>

#include "tests/llm/transport_fixture.h"

namespace grove::llm {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using testing::ScriptedAnswer;
using testing::SeenRequest;

TEST_F(TransportTest, ABodyArrivesWholeAndTheRequestAsItWasWritten) {
  Serve([](const SeenRequest&) { return ScriptedAnswer::Json("hello"); });
  BodyReader reader;
  HttpRequest request = Http();
  request.headers = {"X-Test: 1"};
  request.key_header = "Authorization: Bearer ";
  request.key = Secret("sk-test");
  const auto outcome = transport_->Post(request, reader, {});
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_EQ(reader.body, "hello");
  EXPECT_EQ(outcome->attempts, 1);
  const SeenRequest seen = server_->seen().at(0);
  EXPECT_EQ(seen.path, "/path");
  EXPECT_EQ(seen.body, "{}");
  EXPECT_EQ(seen.header("x-test"), "1");
  EXPECT_EQ(seen.header("authorization"), "Bearer sk-test");
}

TEST_F(TransportTest, AServerErrorIsTriedAgain) {
  Serve([](const SeenRequest& seen) {
    return seen.number < 3 ? ScriptedAnswer::Json("oops", 500) : ScriptedAnswer::Json("fine");
  });
  BodyReader reader;
  const auto outcome = transport_->Post(Http(), reader, {});
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_EQ(outcome->attempts, 3);
  EXPECT_EQ(reader.body, "fine");
}

TEST_F(TransportTest, TheAttemptsAreCapped) {
  Serve([](const SeenRequest&) { return ScriptedAnswer::Json("oops", 500); });
  BodyReader reader;
  const auto outcome = transport_->Post(Http(), reader, {});
  ASSERT_FALSE(outcome);
  EXPECT_THAT(outcome.error().message, HasSubstr("500 oops (3 attempts)"));
  EXPECT_EQ(server_->seen().size(), 3U);
}

TEST_F(TransportTest, ARefusalThatStaysIsNotTriedAgain) {
  Serve([](const SeenRequest&) { return ScriptedAnswer::Json("no", 400); });
  BodyReader reader;
  EXPECT_FALSE(transport_->Post(Http(), reader, {}));
  EXPECT_EQ(server_->seen().size(), 1U);
}

TEST_F(TransportTest, ACutBodyIsTriedAgainFromItsStart) {
  Serve([](const SeenRequest& seen) {
    ScriptedAnswer answer = ScriptedAnswer::Json("part");
    answer.cut = seen.number == 1;
    return answer;
  });
  BodyReader reader;
  const auto outcome = transport_->Post(Http(), reader, {});
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_EQ(reader.begun, 2);
  EXPECT_EQ(reader.body, "part");
}

TEST_F(TransportTest, NobodyListeningIsUnavailable) {
  Connect();
  BodyReader reader;
  const auto outcome = transport_->Post(Http(), reader, {});
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(outcome.error().message, HasSubstr("http://127.0.0.1:1"));
}

TEST_F(TransportTest, RetryAfterIsWaitedFor) {
  Serve([](const SeenRequest& seen) {
    if (seen.number > 1) return ScriptedAnswer::Json("fine");
    ScriptedAnswer answer = ScriptedAnswer::Json("slow down", 429);
    answer.headers = {{"Retry-After", "60"}};
    return answer;
  });
  BodyReader reader;
  std::optional<Result<HttpOutcome>> outcome;
  std::jthread caller([&] { outcome = transport_->Post(Http(), reader, {}); });
  EXPECT_THAT(LogOf(1).at(0), HasSubstr("attempt 2 of 3 in 60 s"));
  std::this_thread::sleep_for(150ms);
  EXPECT_EQ(server_->seen().size(), 1U) << "it came back before its time";
  clock_.Jump(61s);
  caller.join();
  ASSERT_TRUE(*outcome) << outcome->error().message;
  EXPECT_EQ((*outcome)->attempts, 2);
}

TEST_F(TransportTest, AWaitBeyondTheLongestIsAnErrorThatNamesIt) {
  Serve([](const SeenRequest&) {
    ScriptedAnswer answer = ScriptedAnswer::Json("slow down", 429);
    answer.headers = {{"Retry-After", "3600"}};
    return answer;
  });
  BodyReader reader;
  const auto outcome = transport_->Post(Http(), reader, {});
  ASSERT_FALSE(outcome);
  EXPECT_THAT(outcome.error().message, HasSubstr("it asks to wait 3.6e+03 s"));
  EXPECT_EQ(server_->seen().size(), 1U);
}

TEST_F(TransportTest, AFirstByteThatDoesNotComeIsATimeOut) {
  Serve([](const SeenRequest&) {
    ScriptedAnswer answer = ScriptedAnswer::Json("late");
    answer.before = 1h;
    return answer;
  });
  BodyReader reader;
  HttpRequest request = Http();
  request.limits.first_byte = 50ms;
  const auto outcome = transport_->Post(request, reader, {});
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(outcome.error().message, HasSubstr("no reply began within 0.05 s"));
}

TEST_F(TransportTest, AStalledBodyIsATimeOut) {
  Serve([](const SeenRequest&) {
    ScriptedAnswer answer = ScriptedAnswer::Json("begin");
    answer.hang = true;
    return answer;
  });
  BodyReader reader;
  HttpRequest request = Http();
  request.limits.stall = 50ms;
  const auto outcome = transport_->Post(request, reader, {});
  ASSERT_FALSE(outcome);
  EXPECT_THAT(outcome.error().message, HasSubstr("stalled for 0.05 s"));
}

TEST_F(TransportTest, ABodyThatNeverEndsMeetsTheTotalTimeOut) {
  Serve([](const SeenRequest&) {
    ScriptedAnswer answer = ScriptedAnswer::Json("x");
    answer.endless = true;
    answer.between = 5ms;
    return answer;
  });
  BodyReader reader;
  HttpRequest request = Http();
  request.limits.total = 200ms;
  const auto outcome = transport_->Post(request, reader, {});
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(outcome.error().message, HasSubstr("no complete reply within 0.2 s"));
}

TEST_F(TransportTest, ALengthOf100MegabytesIsRefusedBeforeTheFirstByte) {
  Serve([](const SeenRequest&) {
    ScriptedAnswer answer = ScriptedAnswer::Json(std::string(1 << 16, 'x'));
    answer.length = std::size_t{100} << 20;
    return answer;
  });
  BodyReader reader;
  const auto outcome = transport_->Post(Http(), reader, {});
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, ErrorCode::kInvalidInput);
  EXPECT_THAT(outcome.error().message, HasSubstr("exceeds 64 MiB"));
  EXPECT_EQ(reader.body.size(), 0U);
  EXPECT_EQ(server_->seen().size(), 1U);
}

TEST_F(TransportTest, ABodyWithoutALengthIsRefusedAtTheLimit) {
  TransportOptions options = Fast();
  options.body_limit = 1 << 20;
  Serve(
      [](const SeenRequest&) {
        ScriptedAnswer answer = ScriptedAnswer::Json(std::string(1 << 16, 'x'));
        answer.endless = true;
        return answer;
      },
      options);
  BodyReader reader;
  const auto outcome = transport_->Post(Http(), reader, {});
  ASSERT_FALSE(outcome);
  EXPECT_THAT(outcome.error().message, HasSubstr("exceeds 1 MiB"));
  EXPECT_LE(reader.body.size(), std::size_t{1} << 20);
}

TEST_F(TransportTest, AnEndlessRefusalIsNotReadOn) {
  Serve([](const SeenRequest&) {
    ScriptedAnswer answer = ScriptedAnswer::Json(std::string(1 << 12, 'x'), 400);
    answer.endless = true;
    return answer;
  });
  BodyReader reader;
  const auto outcome = transport_->Post(Http(), reader, {});
  ASSERT_FALSE(outcome);
  EXPECT_THAT(outcome.error().message, HasSubstr("400 xxx"));
}

TEST_F(TransportTest, AReaderThatHasEnoughNeedNotWaitForTheEnd) {
  Serve([](const SeenRequest&) {
    ScriptedAnswer answer = ScriptedAnswer::Json("text ENOUGH");
    answer.hang = true;
    return answer;
  });
  BodyReader reader;
  const auto outcome = transport_->Post(Http(), reader, {});
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_EQ(reader.body, "text ENOUGH");
}

TEST_F(TransportTest, AnEndpointThatIsDownIsHeldForDown) {
  TransportOptions options = Fast();
  options.breaker.failures = 4;
  Serve([](const SeenRequest&) { return ScriptedAnswer::Json("oops", 500); }, options);
  BodyReader reader;
  EXPECT_FALSE(transport_->Post(Http(), reader, {}));  // failures 1 to 3
  const auto opening = transport_->Post(Http(), reader, {});
  ASSERT_FALSE(opening);
  EXPECT_EQ(opening.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(opening.error().message,
              HasSubstr("is down (4 failures in a row, the last: 500 oops)"));
  EXPECT_FALSE(transport_->Post(Http(), reader, {}));
  EXPECT_EQ(server_->seen().size(), 4U) << "nothing was sent to it any more";
}

TEST_F(TransportTest, AfterThePauseOneRequestProbes) {
  TransportOptions options = Fast();
  options.retry.attempts = 1;
  options.breaker.failures = 1;
  Serve(
      [](const SeenRequest& seen) {
        return seen.number == 1 ? ScriptedAnswer::Json("oops", 500) : ScriptedAnswer::Json("back");
      },
      options);
  BodyReader reader;
  EXPECT_FALSE(transport_->Post(Http(), reader, {}));
  EXPECT_FALSE(transport_->Post(Http(), reader, {}));
  clock_.Jump(31s);
  const auto outcome = transport_->Post(Http(), reader, {});
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_EQ(server_->seen().size(), 2U);
}

TEST_F(TransportTest, RequestsBeyondTheLimitWaitTheirTurn) {
  TransportOptions options = Fast();
  options.concurrency = {.initial = 2, .most = 2};
  std::atomic<int> open{0};
  std::atomic<int> most{0};
  Serve(
      [&](const SeenRequest&) {
        const int now = ++open;
        for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
        }
        std::this_thread::sleep_for(20ms);
        --open;
        return ScriptedAnswer::Json("fine");
      },
      options);
  std::vector<BodyReader> readers(8);
  {
    std::vector<std::jthread> callers;
    for (BodyReader& reader : readers) {
      callers.emplace_back([&] { EXPECT_TRUE(transport_->Post(Http(), reader, {})); });
    }
  }
  EXPECT_LE(most, 2);
  for (const BodyReader& reader : readers) EXPECT_EQ(reader.body, "fine");
}

TEST_F(TransportTest, TwoHundredStreamsShareTheThread) {
  constexpr int kStreams = 200;
  TransportOptions options = Fast();
  options.concurrency = {.initial = kStreams, .most = kStreams};
  // Nobody gets an end before all have begun: they are all open at once.
  std::atomic<int> begun{0};
  Serve(
      [&](const SeenRequest&) {
        ++begun;
        for (int i = 0; i < 20000 && begun < kStreams; ++i) std::this_thread::sleep_for(2ms);
        ScriptedAnswer answer = ScriptedAnswer::Json("");
        answer.pieces.assign(20, "piece ");
        answer.between = 2ms;
        return answer;
      },
      options, kStreams + 4);
  std::vector<BodyReader> readers(kStreams);
  std::mutex mutex;
  std::condition_variable ended;
  int good = 0;
  int over = 0;
  std::set<std::thread::id> threads;
  for (BodyReader& reader : readers) {
    transport_->Start(Http(), reader, {}, [&](Result<HttpOutcome> outcome) {
      const std::lock_guard lock(mutex);
      threads.insert(std::this_thread::get_id());
      good += outcome.has_value() ? 1 : 0;
      ++over;
      ended.notify_one();
    });
  }
  std::unique_lock lock(mutex);
  ended.wait(lock, [&] { return over == kStreams; });
  EXPECT_EQ(good, kStreams);
  EXPECT_EQ(begun, kStreams);
  EXPECT_EQ(threads.size(), 1U);
  for (const BodyReader& reader : readers) EXPECT_EQ(reader.body.size(), 120U);
}

// Bytes of memory that this process holds.
std::size_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t total = 0;
  std::size_t resident = 0;
  file >> total >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

// Counts and forgets.
class CountingReader final : public ResponseReader {
 public:
  explicit CountingReader(std::atomic<std::size_t>& total) : total_(total) {}
  void Begin(const ResponseHead&) override {}
  bool Read(std::string_view bytes) override {
    total_ += bytes.size();
    return true;
  }
  std::optional<AttemptFailure> End() override { return std::nullopt; }
  AttemptFailure Refused(const ResponseHead&, std::string_view) override { return {}; }

 private:
  std::atomic<std::size_t>& total_;
};

TEST_F(TransportTest, TwoHundredStreamsOf100MegabytesInAllLeaveTheMemoryAsItIs) {
  constexpr int kStreams = 200;
  constexpr std::size_t kEach = std::size_t{512} << 10;
  TransportOptions options = Fast();
  options.concurrency = {.initial = kStreams, .most = kStreams};
  std::atomic<int> begun{0};
  Serve(
      [&](const SeenRequest&) {
        ++begun;
        for (int i = 0; i < 20000 && begun < kStreams; ++i) std::this_thread::sleep_for(2ms);
        ScriptedAnswer answer = ScriptedAnswer::Json(std::string(1 << 14, 'x'));
        answer.length = kEach;
        return answer;
      },
      options, kStreams + 4);
  std::atomic<std::size_t> total{0};
  std::atomic<int> over{0};
  std::atomic<int> good{0};
  std::vector<CountingReader> readers(kStreams, CountingReader(total));
  for (CountingReader& reader : readers) {
    transport_->Start(Http(), reader, {}, [&](Result<HttpOutcome> outcome) {
      good += outcome.has_value() ? 1 : 0;
      ++over;
    });
  }
  // All of them are open once a fifth has come; from there on memory must not follow the bytes.
  while (total < kStreams * kEach / 5 && over < kStreams) std::this_thread::sleep_for(1ms);
  const std::size_t early = ResidentBytes();
  while (over < kStreams) std::this_thread::sleep_for(1ms);
  const std::size_t late = ResidentBytes();
  EXPECT_EQ(good, kStreams);
  EXPECT_EQ(total, kStreams * kEach);
  EXPECT_LT(late, early + (std::size_t{16} << 20));
}

// What the meter is told of a request.
class RecordingMeter final : public Meter {
 public:
  bool Again(bool billed) override {
    told += billed ? "again-billed " : "again ";
    return --allowed >= 0;
  }
  void Ended(bool billed) override { told += billed ? "ended-billed" : "ended"; }
  std::string told;
  int allowed = 100;
};

TEST_F(TransportTest, TheMeterHearsWhichAttemptsMayHaveBeenBilled) {
  const auto told = [&](std::function<ScriptedAnswer(const SeenRequest&)> script, int allowed) {
    TransportOptions options = Fast();
    options.retry.attempts = 2;
    Serve(std::move(script), options);
    BodyReader reader;
    RecordingMeter meter;
    meter.allowed = allowed;
    HttpRequest request = Http();
    request.meter = &meter;
    EXPECT_FALSE(transport_->Post(std::move(request), reader, {}));
    return meter.told;
  };
  const auto refused = [](const SeenRequest&) { return ScriptedAnswer::Json("slow down", 429); };
  EXPECT_EQ(told(refused, 100), "again ended");
  const auto broken = [](const SeenRequest&) { return ScriptedAnswer::Json("oops", 500); };
  EXPECT_EQ(told(broken, 100), "again-billed ended-billed");
  EXPECT_EQ(told(broken, 0), "again-billed ") << "without a budget no second attempt";
  const auto cut = [](const SeenRequest&) {
    ScriptedAnswer answer = ScriptedAnswer::Json("begin");
    answer.cut = true;
    return answer;
  };
  EXPECT_EQ(told(cut, 100), "again-billed ended-billed");
}

TEST_F(TransportTest, AnAttemptThatReachedNobodyIsNotBilled) {
  Serve([](const SeenRequest&) { return ScriptedAnswer::Json(""); });
  BodyReader reader;
  RecordingMeter meter;
  HttpRequest request = Http();
  request.url = "http://127.0.0.1:1/path";
  request.meter = &meter;
  EXPECT_FALSE(transport_->Post(std::move(request), reader, {}));
  EXPECT_THAT(meter.told, ::testing::Not(HasSubstr("billed")));
  EXPECT_THAT(meter.told, HasSubstr("ended"));
}

TEST_F(TransportTest, ARedirectIsNotFollowedWithTheKey) {
  Serve([](const SeenRequest&) {
    ScriptedAnswer answer = ScriptedAnswer::Json("", 302);
    answer.headers = {{"Location", "/elsewhere"}};
    return answer;
  });
  BodyReader reader;
  EXPECT_FALSE(transport_->Post(Http(), reader, {}));
  for (const SeenRequest& seen : server_->seen()) EXPECT_EQ(seen.path, "/path");
}

TEST(Endpoint, IsSchemeHostAndPort) {
  EXPECT_EQ(*EndpointOf("https://API.example.com/v1"), "https://api.example.com:443");
  EXPECT_EQ(*EndpointOf("http://127.0.0.1:8080/v1/"), "http://127.0.0.1:8080");
}

TEST(Endpoint, WhatCouldHideAKeyIsRefusedWithoutBeingQuoted) {
  for (const char* url : {"https://user:sk-1@host/v1", "https://host/v1?key=sk-1",
                          "ftp://host/sk-1", "https://host/#sk-1", "sk-1", ""}) {
    const auto endpoint = EndpointOf(url);
    ASSERT_FALSE(endpoint) << url;
    EXPECT_EQ(endpoint.error().code, ErrorCode::kInvalidInput);
    EXPECT_THAT(endpoint.error().message, ::testing::Not(HasSubstr("sk-1")));
  }
}

}  // namespace
}  // namespace grove::llm
