#include "results/live/server.h"

#include <atomic>
#include <fstream>
#include <mutex>
#include <thread>

#include <gmock/gmock.h>
#include <httplib.h>
#include <nlohmann/json.hpp>

#include "tests/results/sample_run.h"

namespace grove::results {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class LiveTest : public RunsFolder {
 protected:
  void SetUp() override {
    RunsFolder::SetUp();
    ASSERT_TRUE(RunSampleSearch(*Create("a"), {.rounds = 1}));
  }
  void Start(std::vector<std::string> names = {}) {
    LiveOptions options;
    options.runs = runs_;
    options.names = std::move(names);
    options.token = "secret";
    options.poll = std::chrono::milliseconds(20);
    options.control = [this](const std::filesystem::path& run, const LiveRequest& request) {
      const std::scoped_lock lock(mutex_);
      asked_.push_back(run.filename().string() + " " + request.kind + " " + request.text);
      return request.kind == "pause" ? Status(Fail(ErrorCode::kUnavailable, "nobody is there"))
                                     : Status();
    };
    auto server = LiveServer::Start(std::move(options));
    ASSERT_TRUE(server) << server.error().message;
    server_ = *std::move(server);
    client_ = std::make_unique<httplib::Client>("127.0.0.1", server_->port());
  }
  httplib::Result Post(const std::string& body, const std::string& token) {
    return client_->Post("/api/runs/a/control", {{"X-Grove-Token", token}}, body,
                         "application/json");
  }

  std::mutex mutex_;
  std::vector<std::string> asked_;
  std::unique_ptr<LiveServer> server_;
  std::unique_ptr<httplib::Client> client_;
};

TEST_F(LiveTest, TheSummaryIsTheRunsAndFollowsIt) {
  auto store = Create("growing");
  Start();
  const auto count = [&] {
    const auto reply = client_->Get("/api/runs/growing/summary");
    EXPECT_EQ(reply->status, 200);
    return nlohmann::json::parse(reply->body)["candidates"].size();
  };
  EXPECT_EQ(count(), 0U);
  ASSERT_TRUE(store->RecordSeed({0, "// seed", "{}", HashText("seed")}));
  EXPECT_EQ(count(), 1U);
}

TEST_F(LiveTest, KernelsAndCallsAreServedByName) {
  Start();
  const auto kernel = client_->Get("/api/runs/a/kernel/seed");
  EXPECT_EQ(nlohmann::json::parse(kernel->body)["source"], "// seed");
  const auto call = client_->Get("/api/runs/a/call/1");
  EXPECT_THAT(nlohmann::json::parse(call->body)["reply"].get<std::string>(),
              HasSubstr("Answer to"));
  EXPECT_EQ(client_->Get("/api/runs/a/kernel/r9.i9.b9")->status, 404);
  EXPECT_EQ(client_->Get("/api/runs/a/call/999")->status, 404);
}

TEST_F(LiveTest, AChangeOfTheRunIsAnEvent) {
  auto store = Create("growing");
  Start();
  std::string seen;
  std::atomic<bool> began = false;
  std::thread watcher([&] {
    httplib::Client client("127.0.0.1", server_->port());
    client.Get("/api/runs/growing/events", [&](const char* data, std::size_t size) {
      seen.append(data, size);
      began = true;
      return seen.find("event: changed") == std::string::npos;
    });
  });
  while (!began) std::this_thread::yield();
  ASSERT_TRUE(store->RecordSeed({0, "// seed", "{}", HashText("seed")}));
  watcher.join();  // ends when the event has come
  EXPECT_THAT(seen, HasSubstr("event: changed"));
}

TEST_F(LiveTest, AnotherHostNameIsRefused) {
  Start();
  for (const char* host : {"evil.example", "evil.example:80", "127.0.0.1", "127.0.0.1:1", ""}) {
    EXPECT_EQ(client_->Get("/", {{"Host", host}})->status, 403) << host;
  }
  const std::string port = std::to_string(server_->port());
  EXPECT_EQ(client_->Get("/", {{"Host", "localhost:" + port}})->status, 200);
}

TEST_F(LiveTest, ChangesNeedTheToken) {
  Start();
  const std::string body = R"({"kind":"hint","text":"use cp.async"})";
  EXPECT_EQ(Post(body, "")->status, 403);
  EXPECT_EQ(Post(body, "secre")->status, 403);
  EXPECT_EQ(Post(body, "secretsecret")->status, 403);
  EXPECT_TRUE(asked_.empty());
  EXPECT_EQ(Post(body, "secret")->status, 200);
  EXPECT_THAT(asked_, ElementsAre("a hint use cp.async"));
}

TEST_F(LiveTest, WhatTheRunCannotTakeIsSaid) {
  Start();
  EXPECT_EQ(Post(R"({"kind":"explode"})", "secret")->status, 400);
  EXPECT_EQ(Post("no json", "secret")->status, 400);
  EXPECT_EQ(Post(std::string(1 << 20, 'x'), "secret")->status, 413);
  const auto reply = Post(R"({"kind":"pause"})", "secret");
  EXPECT_EQ(reply->status, 503);
  EXPECT_THAT(reply->body, HasSubstr("nobody is there"));
}

TEST_F(LiveTest, OnlyTheNamedRunsAreShownAndNoPathLeadsOut) {
  ASSERT_TRUE(RunSampleSearch(*Create("b"), {.rounds = 1}));
  Start({"a"});
  EXPECT_EQ(client_->Get("/api/runs/a/summary")->status, 200);
  EXPECT_EQ(client_->Get("/api/runs/b/summary")->status, 404);
  EXPECT_NE(client_->Get("/api/runs/..%2Fa/summary")->status, 200);
  EXPECT_NE(client_->Get("/api/runs/%2e%2e/summary")->status, 200);
  EXPECT_EQ(client_->Get("/")->body.find(">b<"), std::string::npos);
}

TEST_F(LiveTest, ABrokenRunIsAnErrorToItsReaderOnly) {
  std::filesystem::create_directories(runs_ / "broken");
  std::ofstream(runs_ / "broken" / "run.db") << "this is no database";
  Start();
  EXPECT_NE(client_->Get("/api/runs/broken/summary")->status, 200);
  EXPECT_EQ(client_->Get("/api/runs/a/summary")->status, 200);
  EXPECT_THAT(client_->Get("/")->body, HasSubstr("broken"));
}

TEST_F(LiveTest, ReadersDoNotHoldUpTheWriter) {
  auto store = Create("busy");
  Start();
  std::atomic<bool> done = false;
  std::thread reader([&] {
    httplib::Client client("127.0.0.1", server_->port());
    while (!done) client.Get("/api/runs/busy/summary");
  });
  EXPECT_TRUE(RunSampleSearch(*store, {.rounds = 2}));
  done = true;
  reader.join();
  EXPECT_TRUE(CheckStore(runs_ / "busy"));
}

TEST_F(LiveTest, ATakenPortIsSaidSo) {
  Start();
  LiveOptions options;
  options.runs = runs_;
  options.port = server_->port();
  const auto second = LiveServer::Start(options);
  ASSERT_FALSE(second) << "two servers share port " << options.port;
  EXPECT_EQ(second.error().code, ErrorCode::kUnavailable);
}

TEST_F(LiveTest, TokensAreLongAndDiffer) {
  EXPECT_EQ(NewToken().size(), 32U);
  EXPECT_NE(NewToken(), NewToken());
}

}  // namespace
}  // namespace grove::results
