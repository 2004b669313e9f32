// The search's pipeline with devices and models of known durations: how busy it keeps the
// evaluator, and what a candidate costs in bookkeeping as the run grows (docs/search.md has the
// figures).
//
//   search_bench busy [SCALE]  share of the time in which the (one) timing stage is at work; SCALE
//                              makes all durations longer, for a machine that others use as well
//   search_bench bookkeeping   10,000 candidates that cost next to nothing to write or to evaluate:
//                              time of the processor (all threads) and time on the clock, and what
//                              of it an evaluator alone takes, which is no bookkeeping
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <mutex>
#include <thread>

#include <fmt/format.h>

#include "results/store.h"
#include "search/search.h"
#include "tests/support/fakes.h"
#include "tests/support/program.h"

namespace grove::search {
namespace {

using Moment = std::chrono::steady_clock::time_point;
using std::chrono::milliseconds;

Moment Now() { return std::chrono::steady_clock::now(); }
double Seconds(Moment from, Moment to) { return std::chrono::duration<double>(to - from).count(); }

// Takes its time, and knows when it was at work.
class SlowDevice final : public eval::Device {
 public:
  std::string name() const override { return "slow"; }
  std::vector<eval::GpuIdentity> gpus() const override { return {{}}; }  // one timing at once
  const eval::DeviceSpec& spec() const override { return fake_.spec(); }
  codegen::DeviceLimits limits() const override { return {}; }
  Result<eval::CheckOutcome> Check(const eval::CheckRequest& request) override {
    std::this_thread::sleep_for(check);
    return fake_.Check(request);
  }
  Result<eval::TimeOutcome> Time(const eval::TimeRequest& request) override {
    const Moment from = Now();
    std::this_thread::sleep_for(time);
    const Moment to = Now();
    const std::scoped_lock lock(mutex_);
    if (timings == 1) first = from;  // the seed's, which nothing could overlap, does not count
    if (timings > 0) busy += Seconds(from, to);
    last = to;
    ++timings;
    return fake_.Time(request);
  }

  milliseconds check{2}, time{60};
  Moment first, last;
  double busy = 0;
  int timings = 0;

 private:
  testing::FakeDevice fake_;
  std::mutex mutex_;
};

class SlowCompiler final : public codegen::Compiler {
 public:
  Result<std::shared_ptr<const codegen::CompileOutcome>> Compile(
      const codegen::CompileRequest& request) override {
    std::this_thread::sleep_for(delay);
    return fake_.Compile(request);
  }
  Result<std::string> Version() override { return std::string("slow"); }
  milliseconds delay{10};

 private:
  testing::FakeCompiler fake_;
};

std::string Answer(const llm::Request& request, std::atomic<int>& counter) {
  const int n = ++counter;
  if (request.role == llm::Role::kIdea || request.role == llm::Role::kAdviser) {
    static constexpr const char* kKinds[] = {"memory access", "data type and precision",
                                             "parallelism and occupancy",
                                             "asynchrony and latency hiding"};
    std::string reply = "{\"ideas\": [";
    for (int i = 0; i < 8; ++i) {
      reply +=
          fmt::format(R"({}{{"title": "plan{}x{}", "category": "{}", "rationale": "because"}})",
                      i == 0 ? "" : ", ", n, i, kKinds[i % 4]);
    }
    return reply + "]}";
  }
  return "```cuda\n" + testing::TinySource(fmt::format("// @time {}\n", 1e6 - n)) +
         "```\n```json\n" + testing::TinyPlan() + "\n```\n";
}

// A provider counts tokens itself, and keeps nothing here.
class QuickClient final : public llm::Client {
 public:
  Result<llm::Reply> Complete(const llm::Request& request, std::stop_token) override {
    llm::Reply reply;
    reply.text = Answer(request, answers_);
    reply.usage.prompt = Tokens(2000);
    reply.usage.completion = Tokens(200);
    reply.model = "quick";
    return reply;
  }
  std::string_view name() const override { return "quick"; }

 private:
  std::atomic<int> answers_{0};
};

// Says when each round ended.
class RoundObserver final : public Observer {
 public:
  void Line(std::string_view text) override {
    if (!text.starts_with("round ") || text.find(" done: ") == text.npos) return;
    ends.push_back(Now());
    processor.push_back(static_cast<double>(std::clock()) / CLOCKS_PER_SEC);
  }
  void Update(const LiveState&) override {}
  std::vector<Moment> ends;
  std::vector<double> processor;  // s
};

template <typename T>
T Must(Result<T> result) {
  if (!result) {
    fmt::print(stderr, "{}\n", result.error().message);
    std::exit(1);
  }
  return *std::move(result);
}

int Busy(int scale) {
  SearchConfig config;
  config.task = "tiny";
  config.rounds = 4;
  config.ideas = 8;
  config.branches = 4;
  config.frontier = 3;
  const seeds::Task task = testing::TinyTask();
  SlowCompiler compiler;
  SlowDevice device;
  compiler.delay *= scale;
  device.check *= scale;
  device.time *= scale;
  const milliseconds reply = scale * milliseconds(200);
  std::atomic<int> counter{0};
  testing::ScriptedClient client([&](const llm::Request& request) -> Result<std::string> {
    std::this_thread::sleep_for(reply);
    return Answer(request, counter);
  });
  testing::ScratchFolder folder;
  const SystemClock clock;
  RoundObserver observer;
  auto evaluator = Must(eval::Evaluator::Create(task, compiler, device, {}));
  auto store = Must(
      results::Store::Create(folder.path(), MakeRunStart("busy", task, config, "bench"), clock));
  const SearchParts parts{task, *evaluator, device, client, *store, observer};
  Must(RunSearch(parts, config, {}));
  const double wall = Seconds(device.first, device.last);
  fmt::print(
      "{} timings of {} ms in {:.2f} s: the timing stage is busy {:.1f}% of the time\n"
      "(replies after {} ms, compiling {} ms a case, checks {} ms a case; {} rounds, so {} times "
      "the pipeline ran empty for want of a frontier)\n",
      device.timings - 1, device.time.count(), wall, 100 * device.busy / wall, reply.count(),
      compiler.delay.count(), device.check.count(), config.rounds, config.rounds - 1);
  return device.busy / wall >= 0.9 ? 0 : 1;
}

int Bookkeeping(int candidates, bool survive_power_loss) {
  SearchConfig config;
  config.task = "tiny";
  config.ideas = 8;
  config.branches = 4;
  config.frontier = 4;
  const int per_round = config.frontier * config.ideas * config.branches;
  // As most runs have; every reservation is held against it.
  config.limits.push_back({results::LedgerKind::kTokens, results::LedgerSpan::kRun, 1e12});
  config.rounds = 1 + (candidates + per_round - 1) / per_round;
  const seeds::Task task = testing::TinyTask();
  testing::FakeCompiler compiler;
  testing::FakeDevice device;
  QuickClient client;
  testing::ScratchFolder folder;
  const SystemClock clock;
  RoundObserver observer;
  auto evaluator = Must(eval::Evaluator::Create(task, compiler, device, {}));
  results::StoreOptions options;
  options.survive_power_loss = survive_power_loss;
  options.linger = kLinger;
  auto store = Must(results::Store::Create(
      folder.path(), MakeRunStart("book", task, config, "bench"), clock, options));
  const SearchParts parts{task, *evaluator, device, client, *store, observer};
  config.patience = 1000;
  Must(RunSearch(parts, config, {}));
  // The same evaluations one after the other, beside no search.
  constexpr int kAlone = 3000;
  const std::clock_t began = std::clock();
  for (int n = 0; n < kAlone; ++n) {
    auto program = Must(codegen::MakeProgram(
        testing::TinySource(fmt::format("// @time {}\n", 2e6 - n)), testing::TinyPlan()));
    if (!Must(evaluator->Evaluate(program)).verdict.passed()) std::abort();
  }
  const double alone = 1e3 * static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC / kAlone;
  const std::size_t rounds = observer.ends.size() - 1;
  const auto thousand = static_cast<std::size_t>((1000 + per_round - 1) / per_round);
  // ms a candidate, of the rounds from..to
  const auto cost = [&](std::size_t from, std::size_t to, bool processor) {
    const double seconds = processor ? observer.processor[to] - observer.processor[from]
                                     : Seconds(observer.ends[from], observer.ends[to]);
    return 1e3 * seconds / static_cast<double>((to - from) * static_cast<std::size_t>(per_round));
  };
  fmt::print("{} candidates, {}\n", rounds * static_cast<std::size_t>(per_round),
             survive_power_loss ? "synced to disk" : "written without a sync");
  for (const bool processor : {true, false}) {
    fmt::print(
        "{}: {:.3f} ms each in the first thousand, {:.3f} ms in the last, {:.3f} ms over all\n",
        processor ? "processor" : "clock    ", cost(0, thousand, processor),
        cost(rounds - thousand, rounds, processor), cost(0, rounds, processor));
  }
  fmt::print(
      "evaluating alone: {:.3f} ms of the processor each, so bookkeeping is {:.3f} ms in the first "
      "thousand, {:.3f} ms in the last, {:.3f} ms over all\n",
      alone, cost(0, thousand, true) - alone, cost(rounds - thousand, rounds, true) - alone,
      cost(0, rounds, true) - alone);
  return 0;
}

}  // namespace
}  // namespace grove::search

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "busy") return grove::search::Busy(argc > 2 ? std::max(1, std::atoi(argv[2])) : 1);
  if (what == "bookkeeping") {
    const int candidates = argc > 2 ? std::atoi(argv[2]) : 10000;
    return grove::search::Bookkeeping(candidates, argc > 3 && std::strcmp(argv[3], "sync") == 0);
  }
  std::fprintf(stderr, "usage: search_bench busy [SCALE] | bookkeeping [CANDIDATES] [sync]\n");
  return 2;
}
