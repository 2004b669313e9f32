// A search that is killed with SIGKILL at random instants and resumed ends with the same tree as
// one that was left alone. The children fork from a process that has no threads: this is a program
// of its own. GROVE_KILLS says how many kills (default 12; docs/search.md has the figure for 200).
#include <cstdio>
#include <cstdlib>
#include <random>
#include <set>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "results/store.h"
#include "search/search.h"
#include "tests/support/fakes.h"
#include "tests/support/program.h"

namespace grove::search {
namespace {

// A model whose words follow from the request alone. Some programs fail, some are equal, and every
// reply takes a while that has nothing to do with the request.
Result<std::string> Answer(const llm::Request& request) {
  thread_local std::mt19937 noise{std::random_device()()};
  std::this_thread::sleep_for(std::chrono::milliseconds(noise() % 6));
  const std::uint64_t hash =
      HashText(fmt::format("{} {}", results::RequestJson(request), request.seed)).low;
  if (request.role == llm::Role::kIdea || request.role == llm::Role::kAdviser) {
    std::string reply = "{\"ideas\": [";
    for (int i = 0; i < 4; ++i) {
      static constexpr const char* kKinds[] = {"memory access", "data type and precision",
                                               "parallelism and occupancy"};
      reply +=
          fmt::format(R"({}{{"title": "plan{}", "category": "{}", "rationale": "because"}})",
                      i == 0 ? "" : ", ", (hash >> (8 * i)) % 251, kKinds[(hash >> (4 * i)) % 3]);
    }
    reply += "]}";
    if (request.on_text) {
      for (std::size_t n = 1; n < reply.size(); n += 40) request.on_text(reply.substr(0, n));
    }
    return reply;
  }
  std::string directives = fmt::format("// @time {}\n", 300 + hash % 40);
  if (hash % 5 == 0) directives = "// @compile error\n";
  if (hash % 5 == 1) directives += "// @error sweep 1e-1\n";
  return "```cuda\n" + testing::TinySource(directives) + "```\n```json\n" + testing::TinyPlan() +
         "\n```\n";
}

class QuietObserver final : public Observer {
 public:
  void Line(std::string_view) override {}
  void Update(const LiveState&) override {}
};

// The child's whole life: begins or resumes the run and ends it.
[[noreturn]] void Live(const std::filesystem::path& runs, const std::string& name) {
  testing::FakeClock clock;
  SearchConfig config;
  config.task = "tiny";
  config.rounds = 4;
  config.ideas = 3;
  config.branches = 3;
  config.frontier = 2;
  const seeds::Task task = testing::TinyTask();
  testing::FakeCompiler compiler;
  testing::FakeDevice device;
  QuietObserver observer;
  testing::ScriptedClient client(Answer);
  const results::StoreOptions options{.survive_power_loss = false, .linger = kLinger};
  auto evaluator = eval::Evaluator::Create(task, compiler, device, {});
  auto store = results::Store::Open(runs, name, clock, options);
  if (!store && store.error().code == ErrorCode::kNotFound) {
    store = results::Store::Create(runs, MakeRunStart(name, task, config, "test"), clock, options);
  }
  if (!evaluator || !store) {
    std::fprintf(stderr, "child: %s\n",
                 (evaluator ? store.error() : evaluator.error()).message.c_str());
    ::_exit(2);
  }
  const SearchParts parts{task, **evaluator, device, client, **store, observer};
  const auto summary = RunSearch(parts, config, {});
  if (!summary) std::fprintf(stderr, "child: %s\n", summary.error().message.c_str());
  store->reset();
  ::_exit(summary ? 0 : 3);
}

// Everything of a run that does not say when it happened.
std::string TreeOf(const std::filesystem::path& run) {
  auto reader = results::Reader::Open(run);
  if (!reader) return reader.error().message;
  auto data = (*reader)->Load();
  if (!data) return data.error().message;
  std::string tree;
  for (const auto& idea : data->ideas) {
    tree += fmt::format("{} {} from {} [{}] {}\n", idea.id.value, idea.name,
                        data->Find(idea.parent)->name, idea.category, idea.title);
  }
  for (const auto& row : data->candidates) {
    tree += fmt::format("{} {} turn {} {} {}", row.id.value, row.name, row.turn,
                        row.source ? row.source->Hex() : "none",
                        row.identity ? row.identity->Hex() : "none");
    if (row.evaluation) {
      tree += fmt::format(" {} {} {}", eval::Name(row.evaluation->verdict.kind),
                          row.evaluation->score ? row.evaluation->score->count() : 0.0,
                          row.evaluation->verdict.message);
    }
    tree += "\n";
  }
  std::set<std::string> rest;
  for (const auto& row : data->attempts) {
    rest.insert(fmt::format("attempt {} {} {}", data->Find(row.candidate)->name, row.turn,
                            eval::Name(row.verdict.kind)));
  }
  for (const auto& row : data->frontier) {
    rest.insert(fmt::format("frontier {} {} {} {}", data->Find(row.round)->index, row.place,
                            data->Find(row.candidate)->name, row.why));
  }
  for (const auto& call : data->calls) {
    rest.insert(fmt::format("call {} {} {}", results::ToString(call.key), call.request.Hex(),
                            call.reply ? call.reply->Hex() : "none"));
  }
  for (const std::string& line : rest) tree += line + "\n";
  return tree + std::string(results::Name(data->run.status)) + " " + data->run.reason;
}

TEST(CrashSearchTest, KilledAtRandomInstantsTheTreeIsTheSame) {
  const char* wanted = std::getenv("GROVE_KILLS");
  const int kills_wanted = wanted != nullptr ? std::atoi(wanted) : 12;
  ASSERT_GT(kills_wanted, 0);
  testing::ScratchFolder folder;
  const auto live = [&](const std::string& name, std::optional<long> kill_after_us) {
    const pid_t child = ::fork();
    if (child == 0) Live(folder.path(), name);
    if (kill_after_us) {
      ::usleep(static_cast<useconds_t>(*kill_after_us));
      ::kill(child, SIGKILL);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return status;
  };
  const auto began = std::chrono::steady_clock::now();
  ASSERT_EQ(live("reference", std::nullopt), 0);
  const long whole = std::chrono::duration_cast<std::chrono::microseconds>(
                         std::chrono::steady_clock::now() - began)
                         .count();
  const std::string reference = TreeOf(folder.path() / "reference");
  ASSERT_NE(reference.find("finished"), std::string::npos) << reference;
  ASSERT_NE(reference.find("duplicate"), std::string::npos) << "no equal programs: a weak proof";
  ASSERT_NE(reference.find("attempt"), std::string::npos);

  const unsigned seed = std::random_device()();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 random(seed);
  int kills = 0;
  int inside = 0;  // that left a run begun and not finished
  int finished = 0;
  for (int lives = 0; kills < kills_wanted; ++lives) {
    ASSERT_LT(lives, 20 * kills_wanted + 100);
    const std::string name = fmt::format("run{}", finished);
    const int status =
        live(name, std::uniform_int_distribution<long>(0, std::max(whole, 1000L))(random));
    const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    ASSERT_TRUE(killed || status == 0) << status;
    if (killed) ++kills;
    if (!std::filesystem::exists(folder.path() / name / "run.db")) continue;
    const auto checked = results::CheckStore(folder.path() / name);
    ASSERT_TRUE(checked) << checked.error().message;
    if (!killed) {
      EXPECT_EQ(TreeOf(folder.path() / name), reference);
      ++finished;
    } else {
      ++inside;
    }
  }
  const std::string last = fmt::format("run{}", finished);
  ASSERT_EQ(live(last, std::nullopt), 0);
  EXPECT_EQ(TreeOf(folder.path() / last), reference);
  EXPECT_GT(inside, 0);
  std::printf("%d kills, %d of them inside a run, %d runs ended; the trees are equal\n", kills,
              inside, finished + 1);
}

}  // namespace
}  // namespace grove::search
