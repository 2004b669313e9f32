// Models over a whole search: a mailbox that is answered through a kill, replays that choose
// otherwise, a key that nothing shows, a configuration file for every flag.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <fstream>
#include <set>
#include <thread>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "llm/mailbox_client.h"
#include "tests/cli/models_fixture.h"

namespace grove {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::ProgramOptions;
using testing::ProgramResult;
using testing::ScriptedAnswer;
using testing::SeenRequest;

// Small, with two rounds.
std::vector<std::string> TwoRounds(std::vector<std::string> arguments) {
  *std::next(std::find(arguments.begin(), arguments.end(), "--rounds")) = "2";
  return arguments;
}

// A person at a mailbox: reads what waits, thinks with the playbook, writes the answer in two
// pieces, the end mark last.
class Correspondent {
 public:
  // Stops by itself after `most` answers.
  Correspondent(std::filesystem::path folder, int most)
      : folder_(std::move(folder)),
        playbook_(*llm::MakePlaybookClient()),
        thread_([this, most](const std::stop_token& over) {
          while (!over.stop_requested() && written_ < most) {
            if (const auto waiting = llm::ListWaiting(folder_)) {
              for (const auto& entry : *waiting) {
                if (written_ < most) Answer(entry);
              }
            }
            std::this_thread::sleep_for(20ms);
          }
        }) {}
  int written() const { return written_; }

 private:
  void Answer(const llm::MailboxEntry& entry) {
    const auto text = ReadFile(entry.prompt);
    const auto role = llm::RoleFrom(entry.role);
    if (!text || !role) return;
    // All that a person has is the file.
    const std::string_view mark = "---- user ----\n\n";
    const std::size_t at = text->find(mark);
    if (at == std::string::npos) return;
    llm::Request request;
    request.role = *role;
    request.messages = {{llm::Message::Author::kUser, text->substr(at + mark.size())}};
    const std::size_t seed = text->find("\nseed: ");
    request.seed = std::stoull(text->substr(seed + 7));
    const auto reply = playbook_->Complete(request, {});
    const std::string answer = reply ? reply->text : "I have no idea.";
    std::ofstream(entry.reply) << answer.substr(0, answer.size() / 2);
    std::this_thread::sleep_for(5ms);
    std::ofstream(entry.reply) << answer << "\n" << entry.end << "\n";
    ++written_;
  }

  const std::filesystem::path folder_;
  const std::unique_ptr<llm::Client> playbook_;
  std::atomic<int> written_{0};
  std::jthread thread_;
};

TEST_F(ModelsTest, AMailboxIsAnsweredOverTwoRoundsThroughAKillAndNothingIsAskedTwice) {
  const auto folder = folder_.path() / "runs" / "letters" / "mailbox";
  ProgramOptions killed;
  std::string all;
  {
    // Two answers, then silence; interrupted after the second.
    Correspondent writer(folder, 2);
    killed.interrupt_on = "mailbox: took 0002.reply.md";
    const ProgramResult first = Grove(TwoRounds(Small("letters", {"--model", "mailbox"})), killed);
    EXPECT_EQ(first.exit_code, 130) << first.err;
    EXPECT_EQ(writer.written(), 2);
    all = first.err;
  }
  // What a user is told: where, which file, and how to look.
  EXPECT_THAT(all, HasSubstr("the mailbox is runs/letters/mailbox"));
  EXPECT_THAT(all, HasSubstr("grove mailbox letters"));
  EXPECT_THAT(all, HasSubstr("waits for runs/letters/mailbox/0001.reply.md"));
  EXPECT_THAT(all, HasSubstr("an answer to 0001.prompt.md, idea"));
  {
    // Nobody answers: a kill in the middle of the wait.
    ProgramOptions silent;
    silent.kill_after = 3s;
    EXPECT_EQ(Grove({"resume", "letters"}, silent).signal, SIGKILL);
  }
  Correspondent writer(folder, 1000);
  const ProgramResult rest = Grove({"resume", "letters"});
  ASSERT_EQ(rest.exit_code, 0) << rest.err;
  const auto data = Load("letters");
  EXPECT_EQ(data.run.status, results::RunStatus::kFinished);
  EXPECT_EQ(data.rounds.size(), 2U);
  std::size_t prompts = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    prompts += entry.path().string().ends_with(".prompt.md") ? 1 : 0;
  }
  EXPECT_EQ(prompts, data.calls.size()) << "one file for each question";
  for (const auto& call : data.calls) {
    EXPECT_EQ(call.status, results::CallStatus::kAnswered);
    EXPECT_TRUE(call.usage.estimated);
  }
  const auto verdicts = Verdicts(data);
  EXPECT_GT(std::count_if(verdicts.begin(), verdicts.end(),
                          [](const auto& entry) { return entry.second == "pass"; }),
            2);
}

// What a replay must have in common: ideas, programs, parents, verdicts, frontiers.
std::vector<std::string> ShapeOf(const results::RunData& data) {
  std::vector<std::string> shape;
  for (const auto& idea : data.ideas) shape.push_back(idea.name + " " + idea.title);
  for (const auto& row : data.candidates) {
    const auto* parent = data.Find(row.parent);
    shape.push_back(
        fmt::format("{} from {}: {} {}", row.name, parent == nullptr ? "-" : parent->name,
                    row.identity ? row.identity->Hex() : "-",
                    row.evaluation ? std::string(eval::Name(row.evaluation->verdict.kind)) : "-"));
  }
  for (const auto& row : data.frontier) {
    shape.push_back(fmt::format("round {} place {} is {}", data.Find(row.round)->index, row.place,
                                data.Find(row.candidate)->name));
  }
  return shape;
}

TEST_F(ModelsTest, AReplayGivesTheSameTreeAndAnotherPolicyEndsWhereNothingWasRecorded) {
  std::vector<std::string> arguments =
      TwoRounds(Small("first", {"--policy", "greedy", "--frontier", "2", "--reserve", "0"}));
  ASSERT_EQ(Grove(arguments).exit_code, 0);
  const auto first = Load("first");

  const ProgramResult same = Grove({"run", "--replay", "first", "--name", "same"});
  ASSERT_EQ(same.exit_code, 0) << same.err;
  EXPECT_EQ(ShapeOf(Load("same")), ShapeOf(first));
  EXPECT_EQ(Load("same").calls.size(), first.calls.size());
  double dollars = 0;
  for (const auto& row : Load("same").ledger) {
    if (row.kind == results::LedgerKind::kDollars) dollars += row.settled.value_or(row.reserved);
  }
  EXPECT_EQ(dollars, 0) << "a replay costs nothing";

  // Beam goes on with two kernels where greedy went on with one: what was never asked of the other
  // ends its branch, and the user is told; the search itself goes on to its end.
  const ProgramResult other =
      Grove({"run", "--replay", "first", "--policy", "beam", "--name", "other"});
  ASSERT_EQ(other.exit_code, 0) << other.err;
  EXPECT_THAT(other.err, HasSubstr("not recorded"));
  const auto data = Load("other");
  EXPECT_EQ(data.run.status, results::RunStatus::kFinished);
  EXPECT_EQ(data.rounds.size(), 2U);
  EXPECT_GT(
      std::count_if(data.events.begin(), data.events.end(),
                    [](const auto& e) { return e.text.find("not recorded") != std::string::npos; }),
      0);
  // Round 1 is the recorded one in both.
  for (const auto& row : data.candidates) {
    if (!row.round || data.Find(row.round)->index != 1) continue;
    const auto* recorded = first.FindCandidate(row.name);
    ASSERT_NE(recorded, nullptr) << row.name;
    EXPECT_EQ(recorded->identity, row.identity) << row.name;
  }
}

// Every text of a folder's files and of its run's store.
std::string AllOf(const std::filesystem::path& folder, const std::filesystem::path& run) {
  std::string all;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) all += ReadFile(entry.path(), 1 << 30).value_or("");
  }
  auto reader = results::Reader::Open(run);
  if (!reader) return all;
  const auto data = (*reader)->Load();
  if (!data) return all;
  all += data->run.config;
  for (const auto& call : data->calls) {
    all += (*reader)->Request(call.request).value_or("") + call.error + call.reply_model;
    if (call.reply) all += (*reader)->Text(*call.reply).value_or("");
  }
  for (const auto& idea : data->ideas) all += idea.title + idea.rationale;
  for (const auto& candidate : data->candidates) {
    if (candidate.source) all += (*reader)->Text(*candidate.source).value_or("");
    if (candidate.evaluation) all += candidate.evaluation->verdict.message;
  }
  for (const auto& event : data->events) all += event.text;
  for (const auto& row : data->environment) all += row.key + row.value;
  return all;
}

TEST_F(ModelsTest, AKeyThatAServerEchoesEverywhereIsNowhereToBeFound) {
  // Sends the key back in every place that it has.
  std::atomic<int> count{0};
  testing::ScriptedServer server([&](const SeenRequest& seen) {
    const std::string key = kKey;
    ScriptedAnswer answer;
    switch (++count % 6) {
      case 0:
        answer = ScriptedAnswer::Json("<html>" + key + "</html>", 502);
        break;
      case 1:
        answer = ScriptedAnswer::Json(
            json{{"error", {{"message", key}, {"type", key}, {"code", key}}}}.dump(), 500);
        break;
      case 2:
        answer = ScriptedAnswer::Json(json{{"error", key}}.dump(), 429);
        answer.headers = {{"Retry-After", "0"}};
        break;
      case 3:  // cut off
        answer = testing::ChatStream({key, key});
        answer.pieces.resize(1);
        answer.cut = true;
        break;
      default: {
        const bool idea = seen.body.find("\\\"ideas\\\"") != std::string::npos;
        const json thought = {{"title", "use " + key}, {"category", key}, {"rationale", key}};
        const std::string ideas = json{{"ideas", json::array({thought})}}.dump();
        const std::string program =
            "```cuda\n// " + key + "\n#error " + key + "\n```\n```json\n{}\n```";
        const json message = {{"content", idea ? ideas : program}};
        const json choice = {{"message", message}, {"finish_reason", "stop"}};
        answer =
            ScriptedAnswer::Json(json{{"model", key},
                                      {"choices", json::array({choice})},
                                      {"usage", {{"prompt_tokens", 10}, {"completion_tokens", 10}}}}
                                     .dump());
      }
    }
    answer.headers.emplace_back("X-Request-Id", key);
    answer.headers.emplace_back("Set-Cookie", "key=" + key);
    return answer;
  });
  ProgramOptions options;
  options.environment = {std::string("MY_KEY=") + kKey};
  std::ofstream(folder_.path() / "grove.toml")
      << "[[model]]\nname = \"openai:echo\"\nendpoint = \"" << server.url()
      << "/v1\"\nkey_variable = \"MY_KEY\"\n";
  std::string all;
  const auto keep = [&](const ProgramResult& result) { all += result.out + result.err; };
  keep(Grove(Small("echo", {}), options));
  keep(Grove({"resume", "echo"}, options));
  keep(Grove({"models"}, options));
  keep(Grove({"models", "--json"}, options));
  for (const char* command : {"tree", "log", "ledger", "show best"}) {
    std::vector<std::string> words = {command};
    if (words[0] == "show best") words = {"show", "best"};
    keep(Grove(words, options));
  }
  keep(Grove({"report", "echo", "-o", "echo.html"}, options));
  keep(Grove({"harvest", "echo", "--output", "taken"}, options));
  keep(Grove({"run", "softmax_small", "--tasks", kTasks, "--dry-run"}, options));
  // Errors of every sort, and a key at the wrong place.
  keep(Grove(Small("bad", {"--base-url", std::string("http://u:") + kKey + "@127.0.0.1:1/v1",
                           "--model", "openai:echo"}),
             options));
  keep(Grove(Small("bad", {"--base-url", std::string("http://127.0.0.1:1/v1?key=") + kKey,
                           "--model", "openai:echo"}),
             options));
  all += AllOf(folder_.path(), folder_.path() / "runs" / "echo");
  EXPECT_GT(count, 6) << "every kind was sent";
  EXPECT_EQ(all.find(kKey), std::string::npos)
      << all.substr(std::max<std::size_t>(all.find(kKey), 200) - 200, 300);
  EXPECT_NE(all.find("***"), std::string::npos) << "masked, not left out";
}

TEST_F(ModelsTest, ACrashSaysNoKey) {
  // Nobody answers; then the program is made to crash, with the request in flight.
  testing::ScriptedServer server([](const SeenRequest&) {
    ScriptedAnswer answer = ScriptedAnswer::Json("late");
    answer.before = 1h;
    return answer;
  });
  const std::string program = std::string(GROVE_BINARY_DIR) + "/grove";
  for (const int signal : {SIGSEGV, SIGABRT}) {
    const std::string name = fmt::format("crash{}", signal);
    const std::string output = (folder_.path() / (name + ".txt")).string();
    std::vector<std::string> words =
        Small(name, {"--model", "openai:m", "--base-url", server.url() + "/v1"});
    words.insert(words.begin(), program);
    const std::size_t before = server.seen().size();
    const pid_t child = ::fork();
    if (child == 0) {
      ::setenv("OPENAI_API_KEY", kKey, 1);
      // A core is the program's memory, not what it says.
      const rlimit no_core{0, 0};
      ::setrlimit(RLIMIT_CORE, &no_core);
      if (::chdir(folder_.path().c_str()) != 0) ::_exit(126);
      const int out = ::open(output.c_str(), O_WRONLY | O_CREAT, 0600);
      ::dup2(out, 1);
      ::dup2(out, 2);
      std::vector<char*> arguments;
      for (std::string& word : words) arguments.push_back(word.data());
      arguments.push_back(nullptr);
      ::execv(program.c_str(), arguments.data());
      ::_exit(127);
    }
    while (server.seen().size() == before && ::waitpid(child, nullptr, WNOHANG) == 0) {
      std::this_thread::sleep_for(5ms);
    }
    ASSERT_GT(server.seen().size(), before) << ReadFile(output).value_or("");
    ::kill(child, signal);
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status));
    const std::string all = AllOf(folder_.path(), folder_.path() / "runs" / name);
    EXPECT_THAT(all, HasSubstr("softmax")) << "something was written";
    EXPECT_EQ(all.find(kKey), std::string::npos);
  }
}

TEST_F(ModelsTest, ModelsAreListedAndPingedForOneToken) {
  testing::ScriptedServer server([](const SeenRequest& seen) {
    if (seen.header("authorization") == "Bearer wrong") {
      return ScriptedAnswer::Json(R"({"error": {"message": "who are you?"}})", 401);
    }
    return testing::ChatStream({"yes"});
  });
  const std::vector<std::string> words = {"models", "--model", "openai:m", "--base-url",
                                          server.url() + "/v1"};
  const ProgramResult pinged = Grove(words);
  EXPECT_EQ(pinged.exit_code, 0) << pinged.err;
  EXPECT_THAT(pinged.out, HasSubstr("answers as scripted-1"));
  ASSERT_EQ(server.seen().size(), 1U);
  EXPECT_EQ(json::parse(server.seen()[0].body)["max_tokens"], 1);

  std::vector<std::string> quiet = words;
  quiet.emplace_back("--no-ping");
  EXPECT_EQ(Grove(quiet).exit_code, 0);
  EXPECT_EQ(server.seen().size(), 1U) << "nothing was asked";

  ProgramOptions options;
  options.environment = {"OPENAI_API_KEY=wrong"};
  const ProgramResult refused = Grove(words, options);
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.out, HasSubstr("check the key in OPENAI_API_KEY"));
}

TEST_F(ModelsTest, WhatTheProgramIsToldCanStandInTheFileToo) {
  std::filesystem::create_directories(folder_.path() / "elsewhere");
  std::ofstream(folder_.path() / "grove.toml")
      << "runs = \"elsewhere\"\njobs = 1\nquiet = true\ntasks = \"" << kTasks
      << "\"\ndevice = \"emulator\"\ngoals = [\"1.01x over seed\"]\nrounds = 1\nideas = 1\n"
      << "branches = 1\nrepairs = 0\n";
  const ProgramResult run = Grove({"run", "softmax_small", "--name", "told"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.err, "") << "quiet";
  EXPECT_TRUE(std::filesystem::exists(folder_.path() / "elsewhere" / "told" / "run.db"));
  auto reader = results::Reader::Open(folder_.path() / "elsewhere" / "told");
  ASSERT_TRUE(reader);
  const auto data = *(*reader)->Load();
  EXPECT_THAT(data.run.config, HasSubstr("1.01x over seed"));
  // Commands that read runs and tasks find them; flags and the environment come first.
  EXPECT_THAT(Grove({"runs"}).out, HasSubstr("told"));
  EXPECT_THAT(Grove({"tasks"}).out, HasSubstr("softmax_small"));
  EXPECT_THAT(Grove({"--runs", "nowhere", "runs"}).out, Not(HasSubstr("told")));
  ProgramOptions options;
  options.environment = {"GROVE_RUNS=nowhere"};
  EXPECT_THAT(Grove({"runs"}, options).out, Not(HasSubstr("told")));
  // What is wrong is said with its place, by every command.
  std::ofstream(folder_.path() / "bad.toml") << "rounds = 2\njobs = 1000\n";
  const ProgramResult bad = Grove({"runs", "--config", "bad.toml"});
  EXPECT_EQ(bad.exit_code, 2);
  EXPECT_THAT(bad.err, HasSubstr("bad.toml:2: jobs must be a whole number from 0 to 256"));
  EXPECT_EQ(Grove({"runs", "--config", "absent.toml"}).exit_code, 2);
}

}  // namespace
}  // namespace grove
