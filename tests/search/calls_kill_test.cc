// A process killed with 50 requests in flight pays again for nothing that was answered and stored.
#include <chrono>
#include <csignal>
#include <set>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "llm/ensemble.h"
#include "llm/openai_client.h"
#include "llm/transport.h"
#include "search/model_calls.h"
#include "search/search.h"
#include "tests/support/fakes.h"
#include "tests/support/program.h"
#include "tests/support/scripted_server.h"

namespace grove::search {
namespace {

using namespace std::chrono_literals;

constexpr int kRequests = 50;

results::CallKey Key(int n) { return {llm::Role::kCode, 1, 1, 1, n, 0}; }

SearchConfig Config(const std::string& url) {
  SearchConfig config;
  config.task = "tiny";
  ModelSpec model;
  model.name = "openai:scripted";
  model.endpoint = url;
  config.models = {model};
  return config;
}

// Asks all of them at once; returns how many were answered.
int AskAll(results::Store& store, const std::string& url, const Clock& clock) {
  llm::TransportOptions options;
  options.concurrency = {.initial = kRequests, .most = kRequests};
  auto transport = llm::Transport::Create(options, clock);
  llm::OpenAiOptions endpoint;
  endpoint.base_url = url;
  endpoint.model = "scripted";
  std::vector<llm::LabelledClient> clients;
  clients.push_back({"openai:scripted", *llm::MakeOpenAiClient(*transport, endpoint)});
  const auto client = llm::MakeLabelledClients(std::move(clients));
  ModelCalls calls(store, *client, Config(url));
  std::atomic<int> answered{0};
  std::vector<std::jthread> askers;
  for (int n = 1; n <= kRequests; ++n) {
    askers.emplace_back([&, n] {
      llm::Request request;
      request.role = llm::Role::kCode;
      request.messages = {{llm::Message::Author::kUser, fmt::format("question {} ?", n)}};
      answered += calls.Ask(Key(n), request, {}) ? 1 : 0;
    });
  }
  askers.clear();
  return answered;
}

TEST(CallsKill, FiftyRequestsInFlightAndNothingAnsweredIsPaidTwice) {
  const testing::ScratchFolder folder;
  const SystemClock clock;
  int port_pipe[2];
  ASSERT_EQ(::pipe(port_pipe), 0);
  // Before any thread exists here.
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    char url[64] = {};
    if (::read(port_pipe[0], url, sizeof url - 1) <= 0) ::_exit(1);
    auto store = results::Store::Create(
        folder.path(), MakeRunStart("run", testing::TinyTask(), Config(url), "test"), clock);
    if (!store) ::_exit(2);
    AskAll(**store, url, clock);
    ::_exit(3);
  }
  std::atomic<bool> killed{false};
  // Half of them are answered at once, the others not before the kill.
  testing::ScriptedServer server(
      [&](const testing::SeenRequest& seen) {
        if (!killed && seen.number % 2 == 0) {
          while (!killed) std::this_thread::sleep_for(5ms);
        }
        return testing::ChatStream({"an ", "answer"});
      },
      kRequests + 8);
  const std::string url = server.url();
  ASSERT_EQ(::write(port_pipe[1], url.data(), url.size()), static_cast<ssize_t>(url.size()));
  const auto answered = [&] {
    std::set<int> numbers;
    auto reader = results::Reader::Open(folder.path() / "run");
    if (!reader) return numbers;
    const auto data = (*reader)->Load();
    if (!data) return numbers;
    for (const results::CallRow& call : data->calls) {
      if (call.status == results::CallStatus::kAnswered) numbers.insert(call.key.branch);
    }
    return numbers;
  };
  while (server.seen().size() < kRequests || answered().size() < 10) {
    ASSERT_EQ(::waitpid(child, nullptr, WNOHANG), 0) << "the child ended by itself";
    std::this_thread::sleep_for(20ms);
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  const std::set<int> before = answered();
  const std::size_t seen_before = server.seen().size();
  killed = true;
  ASSERT_GE(before.size(), 10U);
  ASSERT_LE(before.size(), static_cast<std::size_t>(kRequests) / 2);

  auto store = results::Store::Open(folder.path(), "run", clock);
  ASSERT_TRUE(store) << store.error().message;
  EXPECT_EQ(AskAll(**store, url, clock), kRequests);
  const auto seen = server.seen();
  EXPECT_EQ(seen.size() - seen_before, kRequests - before.size());
  for (std::size_t i = seen_before; i < seen.size(); ++i) {
    for (const int number : before) {
      EXPECT_EQ(seen[i].body.find(fmt::format("question {} ?", number)), std::string::npos)
          << "paid twice: " << number;
    }
  }
  // What was in flight counts: its reservation is spent, and its second attempt too.
  const auto data = (*store)->Load();
  ASSERT_TRUE(data);
  for (const results::CallRow& call : data->calls) {
    EXPECT_EQ(call.status, results::CallStatus::kAnswered);
    EXPECT_EQ(call.attempts, before.contains(call.key.branch) ? 1 : 2);
  }
}

}  // namespace
}  // namespace grove::search
