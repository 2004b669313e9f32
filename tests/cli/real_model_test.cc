// A search of two rounds against a language model for real: a llama.cpp server with SmolLM2-135M on
// this machine, both from Python wheels (scripts/setup-model). Its replies are nonsense; what they
// must give is verdicts, and a ledger that agrees to the token with what the server counted: a
// recorder of its own between the two (scripts/model_server.py) notes the usage of every reply.
//
// Where the wheels are not there the test is skipped with the reason; under CI (the variable CI is
// set) that is a failure unless GROVE_ALLOW_NO_MODEL=1.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "results/store.h"
#include "tests/support/program.h"

namespace grove {
namespace {

using nlohmann::json;
using testing::ProgramOptions;
using testing::ProgramResult;

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// scripts/setup-model puts it here.
std::filesystem::path ModelFolder() {
  if (const std::string named = Variable("GROVE_MODEL_FOLDER"); !named.empty()) return named;
  const std::string cache = Variable("XDG_CACHE_HOME");
  return (cache.empty() ? std::filesystem::path(Variable("HOME")) / ".cache"
                        : std::filesystem::path(cache)) /
         "grove" / "model";
}

constexpr std::string_view kReady = "recorder at ";

// The server's process; killed with the object.
class ModelServer {
 public:
  explicit ModelServer(const std::filesystem::path& log) : log_(log) {
    const std::string python = (ModelFolder() / "bin" / "python").string();
    const std::string script = std::string(GROVE_SOURCE_DIR) + "/scripts/model_server.py";
    const std::string file = log.string();
    child_ = ::fork();
    if (child_ == 0) {
      const int out = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      ::dup2(out, 1);
      ::dup2(out, 2);
      ::execl(python.c_str(), python.c_str(), script.c_str(), nullptr);
      ::_exit(127);
    }
  }
  ~ModelServer() {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }
  // Prompt and completion tokens of every reply that the recorder passed on, in order of arrival.
  std::vector<std::pair<std::int64_t, std::int64_t>> recorded() const {
    std::vector<std::pair<std::int64_t, std::int64_t>> usages;
    std::istringstream lines(ReadFile(log_, 64 << 20).value_or(""));
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with("usage ")) continue;
      const json usage = json::parse(line.substr(6));
      usages.emplace_back(usage["prompt_tokens"].get<std::int64_t>(),
                          usage["completion_tokens"].get<std::int64_t>());
    }
    return usages;
  }
  // "http://127.0.0.1:PORT/v1" of the recorder once it listens; empty when it does not. (llama.cpp
  // prints an address of its own.)
  std::string url() const {
    for (int i = 0; i < 1200; ++i) {
      const std::string text = ReadFile(log_).value_or("");
      if (const std::size_t at = text.find(kReady); at != std::string::npos) {
        if (const std::size_t end = text.find('\n', at); end != std::string::npos) {
          return text.substr(at + kReady.size(), end - at - kReady.size()) + "/v1";
        }
      }
      if (::waitpid(child_, nullptr, WNOHANG) != 0) return "";
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    return "";
  }

 private:
  const std::filesystem::path log_;
  pid_t child_ = -1;
};

TEST(RealModel, TwoRoundsGiveVerdictsAndAreBookedToTheToken) {
  if (!std::filesystem::exists(ModelFolder() / "bin" / "python")) {
    const std::string reason =
        fmt::format("no model server in {}: run scripts/setup-model", ModelFolder().string());
    if (!Variable("CI").empty() && Variable("GROVE_ALLOW_NO_MODEL") != "1") {
      GTEST_FAIL() << reason << ", or set GROVE_ALLOW_NO_MODEL=1";
    }
    GTEST_SKIP() << reason;
  }
  const testing::ScratchFolder folder;
  const ModelServer server(folder.path() / "server.log");
  const std::string url = server.url();
  ASSERT_NE(url, "") << ReadFile(folder.path() / "server.log").value_or("");
  std::ofstream(folder.path() / "grove.toml")
      << "[[model]]\nname = \"openai:smollm2\"\nendpoint = \"" << url << "\"\nmax_tokens = 16\n"
      << "price_in = 1\nprice_out = 2\n";
  ProgramOptions options;
  options.folder = folder.path();
  options.environment = {"GROVE_CACHE=" + ::testing::TempDir() + "grove-test-cache"};
  options.deadline = std::chrono::seconds(800);
  const ProgramResult run = testing::RunProgram(
      "grove", {"run",        "softmax_small",
                "--tasks",    std::string(GROVE_SOURCE_DIR) + "/tests/data/tasks",
                "--name",     "real",
                "--rounds",   "2",
                "--ideas",    "1",
                "--branches", "1",
                "--frontier", "1",
                "--repairs",  "0",
                "--device",   "emulator",
                "--budget",   "400k",
                "--quiet"},
      options);
  ASSERT_EQ(run.exit_code, 0) << run.err;
  auto reader = results::Reader::Open(folder.path() / "runs" / "real");
  ASSERT_TRUE(reader) << reader.error().message;
  const auto data = *(*reader)->Load();
  EXPECT_EQ(data.run.status, results::RunStatus::kFinished);
  ASSERT_GE(data.calls.size(), 2U);
  double prompt = 0;
  double completion = 0;
  double dollars = 0;
  std::vector<std::pair<std::int64_t, std::int64_t>> booked_usages;
  for (const results::CallRow& call : data.calls) {
    ASSERT_EQ(call.status, results::CallStatus::kAnswered) << call.error;
    EXPECT_FALSE(call.usage.estimated) << "the server reports its usage";
    EXPECT_GT(call.usage.prompt.value, 100);
    EXPECT_GT(call.usage.completion.value, 0);
    EXPECT_LE(call.usage.completion.value, 16);
    booked_usages.emplace_back(call.usage.prompt.value, call.usage.completion.value);
    EXPECT_FALSE(call.reply_model.empty());
    EXPECT_GT(call.latency.count(), 0);
    prompt += static_cast<double>(call.usage.prompt.value);
    completion += static_cast<double>(call.usage.completion.value);
    dollars += call.dollars.value_or(0);
  }
  // Call by call what the recorder saw, whatever the order.
  auto recorded = server.recorded();
  std::sort(recorded.begin(), recorded.end());
  std::sort(booked_usages.begin(), booked_usages.end());
  EXPECT_EQ(booked_usages, recorded);
  std::int64_t all_in = 0;
  std::int64_t all_out = 0;
  for (const auto& [in, out] : recorded) {
    all_in += in;
    all_out += out;
  }
  const ProgramResult ledger = testing::RunProgram("grove", {"ledger", "real", "--json"}, options);
  const json booked = json::parse(ledger.out);
  EXPECT_EQ(booked["spent"]["tokens_in"].get<std::int64_t>(), all_in);
  EXPECT_EQ(booked["spent"]["tokens_out"].get<std::int64_t>(), all_out);
  EXPECT_NEAR(booked["spent"]["dollars"].get<double>(), dollars, 1e-12);
  EXPECT_NEAR(dollars, (prompt * 1 + completion * 2) / 1e6, 1e-12);
  // Nonsense is data: a reply without ideas is an event, one without a program a verdict.
  int verdicts = 0;
  for (const results::CandidateRow& candidate : data.candidates) {
    if (!candidate.round) continue;
    ASSERT_TRUE(candidate.evaluation) << candidate.name;
    EXPECT_NE(candidate.evaluation->verdict.kind, eval::VerdictKind::kInfrastructure);
    ++verdicts;
  }
  int unread = 0;
  for (const results::EventRow& event : data.events) unread += event.kind == "ideas" ? 1 : 0;
  EXPECT_GT(verdicts + unread, 0);
}

}  // namespace
}  // namespace grove
