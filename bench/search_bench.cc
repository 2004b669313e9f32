// The search's pipeline with devices and models of known durations: how busy it keeps the
// evaluator, and what a candidate costs in bookkeeping as the run grows (docs/search.md has the
// figures).
//
//   search_bench busy [SCALE]  share of the time in which the (one) timing stage is at work; SCALE
//                              makes all durations longer, for a machine that others use as well
//   search_bench bookkeeping [CANDIDATES] [sync] [stuck] [xRUNS]
//                              10,000 candidates that cost next to nothing to write or to evaluate:
//                              time of the processor (all threads) and time on the clock, and what
//                              of it an evaluator alone takes, which is no bookkeeping; then the
//                              first thousand of another run, since the machine's speed changes in
//                              seconds and only that tells it from growth. Rounds gain some
//                              percent, so lineages grow as long as the run. stuck: nothing ever
//                              beats the seed, from which all is tried; sync: synced to the disk;
//                              x6: the least of six runs for each thousand, beside what other
//                              users of the machine do to one of them
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <mutex>
#include <string_view>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>

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

// What the nth program of a run takes; the seed takes 1000 ns.
double GainingTime(int n) { return 999 * std::pow(0.9998, n); }
double StuckTime(int n) { return 1e6 - n; }

std::string Answer(const llm::Request& request, std::atomic<int>& counter,
                   double (*time)(int) = GainingTime) {
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
  return "```cuda\n" + testing::TinySource(fmt::format("// @time {}\n", time(n))) +
         "```\n```json\n" + testing::TinyPlan() + "\n```\n";
}

// A provider counts tokens itself, and keeps nothing here.
class QuickClient final : public llm::Client {
 public:
  explicit QuickClient(double (*time)(int)) : time_(time) {}
  Result<llm::Reply> Complete(const llm::Request& request, std::stop_token) override {
    llm::Reply reply;
    reply.text = Answer(request, answers_, time_);
    reply.usage.prompt = Tokens(2000);
    reply.usage.completion = Tokens(200);
    reply.model = "quick";
    return reply;
  }
  std::string_view name() const override { return "quick"; }

 private:
  double (*const time_)(int);
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

struct BookkeepingOptions {
  int candidates = 10000;
  bool sync = false;
  bool stuck = false;
  int runs = 1;
};

// A run whose candidates cost next to nothing, and what an evaluator alone takes beside it.
class Books {
 public:
  explicit Books(const BookkeepingOptions& options) {
    SearchConfig config;
    config.task = "tiny";
    config.ideas = 8;
    config.branches = 4;
    config.frontier = 4;
    const int parents = config.frontier + config.reserve;
    const int per_round = parents * config.ideas * config.branches;
    // As most runs have; every reservation is held against it.
    config.limits.push_back({results::LedgerKind::kTokens, results::LedgerSpan::kRun, 1e12});
    config.rounds = 1 + (options.candidates + per_round - 1) / per_round;
    config.patience = 1000;
    const seeds::Task task = testing::TinyTask();
    testing::FakeCompiler compiler;
    testing::FakeDevice device;
    QuickClient client(options.stuck ? StuckTime : GainingTime);
    testing::ScratchFolder folder;
    const SystemClock clock;
    auto evaluator = Must(eval::Evaluator::Create(task, compiler, device, {}));
    results::StoreOptions store_options;
    store_options.survive_power_loss = options.sync;
    store_options.linger = kLinger;
    auto store = Must(results::Store::Create(
        folder.path(), MakeRunStart("book", task, config, "bench"), clock, store_options));
    const SearchParts parts{task, *evaluator, device, client, *store, observer_};
    Must(RunSearch(parts, config, {}));
    const results::RunData data = Must(store->Load());
    made_.resize(data.rounds.size());
    for (const results::CandidateRow& row : data.candidates) {
      if (row.round) ++made_[static_cast<std::size_t>(data.Find(row.round)->index - 1)];
    }
    // The same evaluations one after the other, beside no search.
    constexpr int kAlone = 3000;
    const std::clock_t began = std::clock();
    for (int n = 0; n < kAlone; ++n) {
      auto program = Must(codegen::MakeProgram(
          testing::TinySource(fmt::format("// @time {}\n", 2e6 - n)), testing::TinyPlan()));
      if (!Must(evaluator->Evaluate(program)).verdict.passed()) std::abort();
    }
    alone_ = 1e3 * static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC / kAlone;
  }

  // Of the rounds after the first, before whose end nothing is said.
  int candidates() const { return Made(0, rounds()); }
  // Of the processor.
  double alone() const { return alone_; }  // ms each
  double first(bool processor) const { return Cost(0, Thousand(true), processor); }
  double last(bool processor) const {
    return Cost(rounds() - Thousand(false), rounds(), processor);
  }
  double all(bool processor) const { return Cost(0, rounds(), processor); }
  // One thousand after the other, of the processor, without what an evaluator alone takes.
  std::vector<double> Thousands() const {
    std::vector<double> costs;
    for (std::size_t from = 0, to = 1; to <= rounds(); ++to) {
      if (Made(from, to) < 1000) continue;
      costs.push_back(Cost(from, to, true) - alone_);
      from = to;
    }
    return costs;
  }

 private:
  std::size_t rounds() const { return observer_.ends.size() - 1; }
  int Made(std::size_t from, std::size_t to) const {
    int made = 0;
    for (std::size_t round = from + 1; round <= to; ++round) made += made_[round];
    return made;
  }
  // The rounds that make a thousand candidates, at the start or at the end.
  std::size_t Thousand(bool at_start) const {
    std::size_t n = 1;
    while (n < rounds() && (at_start ? Made(0, n) : Made(rounds() - n, rounds())) < 1000) ++n;
    return n;
  }
  // ms a candidate.
  double Cost(std::size_t from, std::size_t to, bool processor) const {
    const double seconds = processor ? observer_.processor[to] - observer_.processor[from]
                                     : Seconds(observer_.ends[from], observer_.ends[to]);
    return 1e3 * seconds / Made(from, to);
  }

  std::vector<int> made_;  // candidates by round
  double alone_ = 0;
  RoundObserver observer_;
};

// The least that each thousand took in several runs.
int LeastOfEach(const BookkeepingOptions& options) {
  std::vector<double> least;
  for (int run = 0; run < options.runs; ++run) {
    const std::vector<double> costs = Books(options).Thousands();
    if (least.empty()) least = costs;
    for (std::size_t i = 0; i < std::min(least.size(), costs.size()); ++i) {
      least[i] = std::min(least[i], costs[i]);
    }
  }
  fmt::print("bookkeeping of each thousand, ms, the least of {} runs: {:.3f}\n", options.runs,
             fmt::join(least, " "));
  return 0;
}

int Bookkeeping(const BookkeepingOptions& options) {
  if (options.runs > 1) return LeastOfEach(options);
  const Books books(options);
  fmt::print("{} candidates, {}{}\n", books.candidates(),
             options.sync ? "synced to disk" : "written without a sync",
             options.stuck ? ", none better than the seed" : "");
  for (const bool processor : {true, false}) {
    fmt::print(
        "{}: {:.3f} ms each in the first thousand, {:.3f} ms in the last, {:.3f} ms over all\n",
        processor ? "processor" : "clock    ", books.first(processor), books.last(processor),
        books.all(processor));
  }
  fmt::print(
      "evaluating alone: {:.3f} ms of the processor each, so bookkeeping is {:.3f} ms in the first "
      "thousand, {:.3f} ms in the last, {:.3f} ms over all\n",
      books.alone(), books.first(true) - books.alone(), books.last(true) - books.alone(),
      books.all(true) - books.alone());
  fmt::print("bookkeeping of each thousand, ms: {:.3f}\n", fmt::join(books.Thousands(), " "));
  BookkeepingOptions again = options;
  again.candidates = 1000;
  const Books after(again);
  fmt::print("a run that begins after it: {:.3f} ms in its first thousand\n",
             after.first(true) - after.alone());
  return 0;
}

}  // namespace
}  // namespace grove::search

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "busy") return grove::search::Busy(argc > 2 ? std::max(1, std::atoi(argv[2])) : 1);
  if (what == "bookkeeping") {
    grove::search::BookkeepingOptions options;
    for (int i = 2; i < argc; ++i) {
      const std::string_view word = argv[i];
      if (word == "sync") {
        options.sync = true;
      } else if (word == "stuck") {
        options.stuck = true;
      } else if (word.starts_with("x")) {
        options.runs = std::max(1, std::atoi(argv[i] + 1));
      } else {
        options.candidates = std::max(1000, std::atoi(argv[i]));
      }
    }
    return grove::search::Bookkeeping(options);
  }
  std::fprintf(
      stderr,
      "usage: search_bench busy [SCALE] | bookkeeping [CANDIDATES] [sync] [stuck] [xRUNS]\n");
  return 2;
}
