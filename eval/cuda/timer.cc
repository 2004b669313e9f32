#include "eval/cuda/timer.h"

#include <algorithm>
#include <cmath>
#include <thread>

#include <fmt/format.h>

#include "eval/cuda/attempt.h"
#include "eval/cuda/cuda_device.h"
#include "eval/model/cost_model.h"

namespace grove::cuda {
namespace {

using eval::ExecutionFault;
using eval::ModeTime;
using eval::VerdictKind;
using SteadyClock = std::chrono::steady_clock;

constexpr std::size_t kBeforeSlot = 0;
constexpr std::size_t kAfterSlot = 1;
constexpr std::size_t kBlockSlot = 2;
constexpr std::size_t kHashSlots = 8;
constexpr std::uint64_t kBlockTimeoutNs = 10'000'000'000;
// More work than this behind the blocking kernel could fill the launch queue and deadlock.
constexpr std::size_t kMaxBlockedItems = 400;
constexpr Nanoseconds kLong{5e6};  // an execution from here on hides every launch latency by itself
constexpr double kLeastClockShare = 0.75;
constexpr int kMaxThrottled = 50;

std::uint64_t Mixed(std::uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// One measured execution.
struct Sample {
  Nanoseconds time{0};
  double clock_ghz = 0;  // 0 = not known
  bool throttled = false;
};

class Session {
 public:
  Session(Lane& lane, const TimeJob& job) : lane_(lane), job_(job) {}

  // Memory, programs and a first execution of each, outside any measurement.
  Executed<void> Prepare() {
    WorkerParts& parts = lane_.parts();
    const seeds::Case& c = job_.task_case;
    std::size_t free = 0;
    std::size_t total = 0;
    lane_.driver().MemGetInfo(&free, &total);
    std::int64_t bytes = 0;
    for (const seeds::Tensor& tensor : c.tensors) bytes += tensor.bytes().value;
    // The ring takes at most a third of what is free: the recheck needs as much again, and more.
    // Two sets are enough where one alone is many times the cache.
    const auto third = static_cast<std::int64_t>(free / 3);
    const std::int64_t most = bytes > 8 * static_cast<std::int64_t>(parts.facts.l2_bytes) ? 2 : 4;
    const std::int64_t sets = std::clamp<std::int64_t>(bytes > 0 ? third / bytes : most, 1, most);
    for (std::int64_t i = 0; i < sets; ++i) {
      auto set = MakeTensors(parts.pool, c, false);
      if (!set) return tl::unexpected(set.error());
      ring_.push_back(std::move(*set));
      GROVE_TRY(FillGuards(lane_, ring_.back().buffers));
    }
    flush_bytes_ = 2 * static_cast<std::int64_t>(parts.facts.l2_bytes);
    auto flush = parts.pool.Acquire(std::max<std::int64_t>(flush_bytes_, 1 << 20));
    if (!flush) return tl::unexpected(FaultOf(flush.error()));
    flush_ = std::move(*flush);
    if (auto ok = Add(job_.candidate); !ok) return ok;
    if (job_.base) {
      if (auto ok = Add(*job_.base); !ok) return ok;
    }
    for (Entry& entry : entries_) GROVE_TRY(FillGuards(lane_, entry.bound->workspaces()));
    for (Entry& entry : entries_) {
      // A library loads its kernels when they are first launched, which could wait for the blocking
      // kernel that waits for us: once without it.
      if (codegen::HasLibrarySteps(entry.program->plan())) {
        GROVE_WAIT(NextInputs());
        GROVE_WAIT(Rebind(entry));
        if (auto ok = entry.bound->Enqueue(lane_.stream()); !ok) {
          GROVE_WAIT(lane_.Wait(job_.deadline));
          return tl::unexpected(FaultOf(ok.error()));
        }
        GROVE_WAIT(lane_.Wait(job_.deadline));
      }
      for (int i = 0; i < 2; ++i) {
        Sample sample;
        auto done = Cold(entry, &sample);
        if (!done) return tl::unexpected(done.error());
        if (sample.time > kLong) break;  // warm enough
      }
    }
    return {};
  }

  struct Entry {
    std::unique_ptr<LoadedProgram> program;
    std::unique_ptr<BoundProgram> bound;
    std::size_t bound_set = 0;
  };
  Entry& candidate() { return entries_[0]; }
  Entry& base() { return entries_[1]; }
  std::size_t current_set() const { return set_; }
  std::uint64_t current_seed() const { return seed_; }
  TensorSet& tensors(std::size_t index) { return ring_[index]; }
  Lane& lane() { return lane_; }
  bool blocks(std::size_t items) const { return items <= kMaxBlockedItems; }

  // Fresh inputs in the next set of the ring, poisoned outputs.
  Executed<void> NextInputs() {
    set_ = (set_ + 1) % ring_.size();
    seed_ = Mixed(job_.seed ^ Mixed(++draws_));
    GROVE_TRY(DrawInputs(lane_, job_.task_case, seed_, ring_[set_]));
    return Poison();
  }
  Executed<void> Poison() {
    GROVE_TRY(PoisonOutputs(lane_, job_.task_case, ring_[set_], static_cast<int>(draws_ % 2)));
    return {};
  }

  // What timed executions wrote outside their buffers, in words; empty when nothing.
  Executed<std::string> GuardDamage() {
    for (const TensorSet& set : ring_) {
      auto damage = FindGuardDamage(lane_, set.buffers, TensorNames(job_.task_case));
      if (!damage || !damage->empty()) return damage;
    }
    std::vector<std::string> names;
    for (const auto& workspace : job_.candidate.plan.workspaces) names.push_back(workspace.name);
    return FindGuardDamage(lane_, candidate().bound->workspaces(), names);
  }

  Executed<void> Flush() {
    // Lines that a kernel has asked to persist would survive the flush.
    lane_.driver().CtxResetPersistingL2();
    GROVE_TRY(lane_.driver().Check(
        lane_.driver().MemsetD8Async(flush_.data(), static_cast<unsigned char>(draws_ & 0xff),
                                     static_cast<std::size_t>(flush_.bytes()), lane_.stream()),
        "cuMemsetD8Async"));
    return {};
  }

  Executed<void> Rebind(Entry& entry) {
    if (entry.bound_set == set_) return {};
    if (auto ok = entry.bound->Rebind(ring_[set_].addresses()); !ok) return ok;
    entry.bound_set = set_;
    return {};
  }

  // Times `enqueue` between two events behind the blocking kernel, with clock stamps around.
  template <typename Enqueue>
  Executed<Sample> Bracket(std::size_t items, Enqueue enqueue) {
    const Driver& driver = lane_.driver();
    const SupportCode& support = lane_.parts().support;
    const bool blocked = blocks(items);
    const std::uint32_t token = lane_.NextToken();
    GROVE_TRY(lane_.ClearResults());
    GROVE_TRY(support.TakeStamp(lane_.stream(), lane_.slot(kBeforeSlot)));
    if (blocked) {
      GROVE_TRY(support.Block(lane_.stream(), lane_.flag(), token, kBlockTimeoutNs,
                              lane_.slot(kBlockSlot)));
    }
    CuStatus enqueued =
        driver.Check(driver.EventRecord(lane_.start().get(), lane_.stream()), "cuEventRecord");
    if (enqueued) enqueued = enqueue();
    if (enqueued) {
      enqueued =
          driver.Check(driver.EventRecord(lane_.stop().get(), lane_.stream()), "cuEventRecord");
    }
    if (enqueued) enqueued = support.TakeStamp(lane_.stream(), lane_.slot(kAfterSlot));
    if (enqueued) enqueued = lane_.ReadResults();
    lane_.Open(token);
    if (!enqueued) {
      GROVE_WAIT(lane_.Wait(job_.deadline));
      return tl::unexpected(FaultOf(enqueued.error()));
    }
    GROVE_WAIT(lane_.Wait(job_.deadline));
    Sample sample;
    auto time = Elapsed(lane_.start(), lane_.stop());
    if (!time) return Ours(time.error());
    sample.time = *time;
    const auto before = lane_.result<Stamp>(kBeforeSlot);
    const auto after = lane_.result<Stamp>(kAfterSlot);
    if (lane_.result<Stamp>(kBlockSlot).timed_out != 0) {
      return tl::unexpected(Fault{VerdictKind::kInfrastructure,
                                  "the blocking kernel was not released in 10 s", false});
    }
    if (before.sm == after.sm && after.nanoseconds > before.nanoseconds + 2000) {
      sample.clock_ghz = static_cast<double>(after.cycles - before.cycles) /
                         static_cast<double>(after.nanoseconds - before.nanoseconds);
      sample.throttled = sample.clock_ghz < kLeastClockShare * default_ghz();
    }
    return sample;
  }

  Executed<void> Cold(Entry& entry, Sample* out, GraphExec* graph = nullptr,
                      bool fresh_inputs = true) {
    if (graph == nullptr) {
      if (fresh_inputs) GROVE_WAIT(NextInputs());
      GROVE_WAIT(Rebind(entry));
    } else {
      // A graph has its addresses baked in: fresh contents in the same set.
      set_ = entry.bound_set;
      seed_ = Mixed(job_.seed ^ Mixed(++draws_));
      GROVE_TRY(DrawInputs(lane_, job_.task_case, seed_, ring_[set_]));
      GROVE_WAIT(Poison());
    }
    GROVE_WAIT(Flush());
    const Driver& driver = lane_.driver();
    auto sample = Bracket(graph == nullptr ? entry.bound->items() : 1, [&]() -> CuStatus {
      if (graph == nullptr) return entry.bound->Enqueue(lane_.stream());
      return driver.Check(driver.GraphLaunch(graph->get(), lane_.stream()), "cuGraphLaunch");
    });
    if (!sample) return tl::unexpected(sample.error());
    *out = *sample;
    return {};
  }

  double default_ghz() const { return static_cast<double>(lane_.parts().facts.clock_khz) * 1e-6; }

 private:
  Executed<void> Add(const Program& text) {
    WorkerParts& parts = lane_.parts();
    auto program =
        LoadedProgram::Load(parts.context, text.cubin, text.plan, TensorNames(job_.task_case));
    if (!program) return tl::unexpected(program.error());
    Entry entry;
    entry.program = std::make_unique<LoadedProgram>(std::move(*program));
    auto blas = lane_.BlasFor(text.plan);
    if (!blas) return tl::unexpected(blas.error());
    auto bound = entry.program->Bind(ring_[0].addresses(), parts.pool, *blas);
    if (!bound) return tl::unexpected(bound.error());
    entry.bound = std::make_unique<BoundProgram>(std::move(*bound));
    entries_.push_back(std::move(entry));
    return {};
  }

  Lane& lane_;
  const TimeJob& job_;
  std::vector<TensorSet> ring_;
  GuardedBuffer flush_;
  std::int64_t flush_bytes_ = 0;
  std::vector<Entry> entries_;
  std::size_t set_ = 0;
  std::uint64_t draws_ = 0;
  std::uint64_t seed_ = 0;
};

ModeTime ModeOf(std::string name, std::vector<Nanoseconds> samples, std::string_view stopped) {
  ModeTime mode;
  mode.mode = std::move(name);
  const Summary summary = Summarise(samples);
  mode.samples = std::move(samples);
  mode.min = summary.min;
  mode.median = summary.median;
  mode.q3 = summary.q3;
  mode.relative_stderr = summary.relative_stderr;
  mode.stopped = stopped;
  return mode;
}

// The modes beside cold are for the report: as many samples as make 60 ms, between three and
// `most`; one of a long kernel, whose time does not depend on the mode.
int SamplesFor(Nanoseconds time, int most) {
  const int wanted = static_cast<int>(Nanoseconds(6e7) / std::max(time, Nanoseconds(1000)));
  return std::clamp(wanted, time > kLong ? 1 : 3, most);
}

// Runs `take` under a stopping rule; drops and counts throttled samples, resting after them.
template <typename Take>
Executed<ModeTime> Measure(std::string name, StoppingRule& rule, int* throttled, double* clock_sum,
                           int* clock_count, Take take) {
  const auto begin = SteadyClock::now();
  std::vector<Nanoseconds> samples;
  int in_a_row = 0;
  int dropped = 0;
  while (!rule.Done()) {
    auto sample = take();
    if (!sample) return tl::unexpected(sample.error());
    if (sample->throttled && dropped < kMaxThrottled) {
      ++dropped;
      ++*throttled;
      ++in_a_row;
      std::this_thread::sleep_for(std::chrono::milliseconds(std::min(50 * in_a_row, 500)));
      continue;
    }
    in_a_row = 0;
    if (sample->clock_ghz > 0) {
      *clock_sum += sample->clock_ghz;
      ++*clock_count;
    }
    samples.push_back(sample->time);
    rule.Add(sample->time, SteadyClock::now() - begin);
  }
  return ModeOf(std::move(name), std::move(samples), rule.Reason());
}

ModeTime Absent(std::string name, std::string note) {
  ModeTime mode;
  mode.mode = std::move(name);
  mode.note = std::move(note);
  return mode;
}

Executed<ModeTime> MeasureHot(Session& session, eval::TimeOutcome& outcome, double* clock_sum,
                              int* clock_count) {
  auto& entry = session.candidate();
  const std::size_t items = std::max<std::size_t>(1, entry.bound->items());
  const double cold = std::max(1000.0, outcome.time.count());
  const auto batch = static_cast<int>(std::clamp(
      4e6 / cold, 1.0, static_cast<double>(std::max<std::size_t>(1, kMaxBlockedItems / items))));
  auto rule = MakeCountRule(SamplesFor(outcome.time * batch, 10), Seconds(0.25));
  GROVE_WAIT(session.NextInputs());
  GROVE_WAIT(session.Rebind(entry));
  return Measure(
      "hot", *rule, &outcome.throttled, clock_sum, clock_count, [&]() -> Executed<Sample> {
        auto sample = session.Bracket(items * static_cast<std::size_t>(batch), [&]() -> CuStatus {
          for (int i = 0; i < batch; ++i) {
            if (auto ok = entry.bound->Enqueue(session.lane().stream()); !ok) return ok;
          }
          return {};
        });
        if (sample) sample->time /= batch;
        return sample;
      });
}

Executed<ModeTime> MeasureHost(Session& session, const TimeJob& job, eval::TimeOutcome& outcome) {
  auto& entry = session.candidate();
  auto rule = MakeCountRule(SamplesFor(outcome.time, 10), Seconds(0.25));
  double clock_sum = 0;
  int clock_count = 0;
  return Measure("host", *rule, &outcome.throttled, &clock_sum, &clock_count,
                 [&]() -> Executed<Sample> {
                   GROVE_WAIT(session.NextInputs());
                   GROVE_WAIT(session.Rebind(entry));
                   GROVE_WAIT(session.Flush());
                   GROVE_WAIT(session.lane().WaitSpinning(kOwnDeadline));
                   const auto begin = SteadyClock::now();
                   if (auto ok = entry.bound->Enqueue(session.lane().stream()); !ok) {
                     return tl::unexpected(FaultOf(ok.error()));
                   }
                   GROVE_WAIT(session.lane().WaitSpinning(job.deadline));
                   Sample sample;
                   sample.time = SteadyClock::now() - begin;
                   return sample;
                 });
}

// A hash over all outputs of the current set.
Executed<std::vector<std::uint64_t>> OutputHashes(Session& session, const TimeJob& job) {
  Lane& lane = session.lane();
  GROVE_TRY(lane.ClearResults());
  const seeds::Case& c = job.task_case;
  for (std::size_t i = 0; i < c.tensors.size(); ++i) {
    if (c.tensors[i].role != seeds::TensorRole::kOutput) continue;
    const GuardedBuffer& b = session.tensors(session.current_set()).buffers[i];
    GROVE_TRY(
        lane.parts().support.Hash(lane.stream(), b.data(), b.bytes(), lane.slot(kHashSlots + i)));
  }
  GROVE_TRY(lane.ReadResults());
  GROVE_WAIT(lane.Wait(kOwnDeadline));
  std::vector<std::uint64_t> hashes;
  for (std::size_t i = 0; i < c.tensors.size(); ++i) {
    const auto hash = lane.result<ScanResult>(kHashSlots + i);
    hashes.push_back(hash.hash_a);
    hashes.push_back(hash.hash_b);
  }
  return hashes;
}

// Captures one execution into a graph, proves on poisoned outputs that its replay writes what a
// direct execution writes, then times the replay.
Executed<ModeTime> MeasureGraph(Session& session, const TimeJob& job, eval::TimeOutcome& outcome,
                                double* clock_sum, int* clock_count) {
  Lane& lane = session.lane();
  const Driver& driver = lane.driver();
  auto& entry = session.candidate();
  GROVE_WAIT(session.NextInputs());
  GROVE_WAIT(session.Rebind(entry));
  if (auto ok = entry.bound->Enqueue(lane.stream()); !ok) {
    return tl::unexpected(FaultOf(ok.error()));
  }
  GROVE_WAIT(lane.Wait(job.deadline));
  auto direct = OutputHashes(session, job);
  if (!direct) return tl::unexpected(direct.error());

  CuGraph raw = nullptr;
  GROVE_TRY(driver.Check(driver.StreamBeginCapture(lane.stream(), kCaptureModeRelaxed),
                         "cuStreamBeginCapture"));
  const CuStatus captured = entry.bound->Enqueue(lane.stream());
  const CuStatus ended =
      driver.Check(driver.StreamEndCapture(lane.stream(), &raw), "cuStreamEndCapture");
  const Graph graph(&driver, raw);
  if (!captured) return Absent("graph", captured.error().Message());
  if (!ended) return Absent("graph", ended.error().Message());
  auto executable = Instantiate(driver, graph);
  if (!executable) return Absent("graph", executable.error().Message());

  GROVE_WAIT(session.Poison());
  GROVE_TRY(driver.Check(driver.GraphLaunch(executable->get(), lane.stream()), "cuGraphLaunch"));
  GROVE_WAIT(lane.Wait(job.deadline));
  auto replayed = OutputHashes(session, job);
  if (!replayed) return tl::unexpected(replayed.error());
  std::string note;
  if (*replayed != *direct) note = "the replay's outputs differ in bits from a direct execution's";

  auto rule = MakeCountRule(SamplesFor(outcome.time, 15), Seconds(0.25));
  auto mode = Measure("graph", *rule, &outcome.throttled, clock_sum, clock_count,
                      [&]() -> Executed<Sample> {
                        Sample sample;
                        auto ok = session.Cold(entry, &sample, &*executable);
                        if (!ok) return tl::unexpected(ok.error());
                        return sample;
                      });
  if (mode) mode->note = std::move(note);
  return mode;
}

Executed<Nanoseconds> MeasureEmpty(Session& session) {
  std::vector<Nanoseconds> samples;
  for (int i = 0; i < 11; ++i) {
    GROVE_WAIT(session.Flush());
    auto sample = session.Bracket(
        1, [&] { return session.lane().parts().support.Empty(session.lane().stream()); });
    if (!sample) return tl::unexpected(sample.error());
    samples.push_back(sample->time);
  }
  return Summarise(samples).median;
}

// The driver says how many blocks fit, not why: the model's reason, where it counts as many.
std::string LimiterOf(const LaunchResources& resources, const eval::DeviceSpec& spec) {
  codegen::EntryPoint entry;
  entry.registers = resources.registers;
  entry.static_shared = resources.static_shared;
  eval::Occupancy modelled =
      eval::ComputeOccupancy(spec, entry, resources.threads, resources.dynamic_shared);
  if (resources.blocks_per_sm <= 0 || modelled.blocks_per_sm != resources.blocks_per_sm) return "";
  return std::move(modelled.limiter);
}

// Time of every launch apart, best of three; for the report, not for the score.
Executed<void> MeasureLaunches(Session& session, eval::TimeOutcome& outcome) {
  // Events between more launches than this would fill the queue behind the blocking kernel.
  constexpr std::size_t kMostLaunches = 64;
  auto& entry = session.candidate();
  const auto& resources = entry.program->resources();
  const DeviceFacts& facts = session.lane().parts().facts;
  const eval::DeviceSpec spec = SpecOf(facts);
  const std::size_t count = std::min(resources.size(), kMostLaunches);
  std::vector<Event> events;
  const Driver& driver = session.lane().driver();
  for (std::size_t i = 0; i <= count; ++i) {
    auto event = MakeEvent(driver);
    if (!event) return Ours(event.error());
    events.push_back(std::move(*event));
  }
  for (std::size_t i = 0; i < count; ++i) {
    eval::LaunchReport report;
    report.kernel = resources[i].kernel;
    report.occupancy.blocks_per_sm = resources[i].blocks_per_sm;
    const int warps = (resources[i].threads + 31) / 32;
    if (facts.threads_per_sm > 0) {
      report.occupancy.warps_share =
          32.0 * warps * resources[i].blocks_per_sm / facts.threads_per_sm;
    }
    report.occupancy.limiter = LimiterOf(resources[i], spec);
    outcome.launches.push_back(std::move(report));
  }
  if (count == 1) {
    outcome.launches[0].time = outcome.time;
    return {};
  }
  for (int round = 0; round < 3 && resources.size() == count; ++round) {
    GROVE_WAIT(session.NextInputs());
    GROVE_WAIT(session.Rebind(entry));
    GROVE_WAIT(session.Flush());
    auto sample = session.Bracket(2 * count + 2, [&]() -> CuStatus {
      return entry.bound->EnqueueWithEvents(session.lane().stream(), events);
    });
    if (!sample) return tl::unexpected(sample.error());
    for (std::size_t i = 0; i < count; ++i) {
      auto time = Elapsed(events[i], events[i + 1]);
      if (!time) return Ours(time.error());
      Nanoseconds& best = outcome.launches[i].time;
      if (round == 0 || *time < best) best = *time;
    }
  }
  return {};
}

// Compares what the execution before wrote; keeps the larger errors of those compared so far.
Executed<void> Recheck(Session& session, const TimeJob& job, eval::TimeOutcome& outcome) {
  auto compared = CompareWithReference(session.lane(), job, session.current_seed(),
                                       session.tensors(session.current_set()));
  if (!compared) return tl::unexpected(compared.error());
  if (compared->fault && !outcome.fault) outcome.fault = std::move(compared->fault);
  // Of a checker's gates, the first that fail stay.
  const auto failed = [](const std::vector<eval::Gate>& gates) {
    return std::any_of(gates.begin(), gates.end(), [](const auto& gate) { return !gate.passed(); });
  };
  if (!failed(outcome.gates)) outcome.gates = std::move(compared->gates);
  if (outcome.errors.empty()) outcome.errors = compared->errors;
  for (std::size_t i = 0; i < compared->errors.size() && i < outcome.errors.size(); ++i) {
    // Not `>`: a NaN must win.
    if (!(compared->errors[i].worst_row_l2 <= outcome.errors[i].worst_row_l2)) {
      outcome.errors[i] = compared->errors[i];
    }
  }
  return {};
}

// A kernel that counts its calls could be cheap in most and right in some: beside the last
// execution, some that it cannot foresee are rechecked.
constexpr int kSurpriseRechecks = 4;
constexpr std::uint64_t kSurpriseOneIn = 3;
constexpr std::chrono::milliseconds kSurpriseTime{150};

Executed<void> TimeOne(Session& session, const TimeJob& job, eval::TimeOutcome& outcome) {
  double clock_sum = 0;
  int clock_count = 0;
  auto rule = MakeNoiseRule(job.limits);
  int rechecks = 0;
  SteadyClock::duration recheck_time{};
  auto cold = Measure("cold", *rule, &outcome.throttled, &clock_sum, &clock_count,
                      [&]() -> Executed<Sample> {
                        Sample sample;
                        auto ok = session.Cold(session.candidate(), &sample);
                        if (!ok) return tl::unexpected(ok.error());
                        const std::uint64_t dice = Mixed(~session.current_seed());
                        if (rechecks < kSurpriseRechecks && recheck_time < kSurpriseTime &&
                            dice % kSurpriseOneIn == 0) {
                          const auto begin = SteadyClock::now();
                          if (auto done = Recheck(session, job, outcome); !done) {
                            return tl::unexpected(done.error());
                          }
                          recheck_time += SteadyClock::now() - begin;
                          ++rechecks;
                        }
                        return sample;
                      });
  if (!cold) return tl::unexpected(cold.error());
  if (!session.blocks(session.candidate().bound->items())) {
    cold->note = "too many launches to hide their latency behind a blocking kernel";
  }
  outcome.time = cold->median;
  outcome.min = cold->min;
  outcome.q3 = cold->q3;
  outcome.samples = cold->samples;
  outcome.modes.push_back(std::move(*cold));

  if (auto done = Recheck(session, job, outcome); !done) return done;
  if (!outcome.fault) {
    auto damage = session.GuardDamage();
    if (!damage) return tl::unexpected(damage.error());
    if (!damage->empty()) {
      outcome.fault = ExecutionFault{VerdictKind::kOutOfBounds, std::move(*damage)};
    }
  }
  if (outcome.fault) return {};
  outcome.checked_share = 1;
  outcome.note = fmt::format("all elements of the last timed execution and of {} others", rechecks);
  if (clock_count > 0) outcome.mean_clock_ghz = clock_sum / clock_count;

  auto empty = MeasureEmpty(session);
  if (!empty) return tl::unexpected(empty.error());
  outcome.empty_kernel = *empty;
  if (auto ok = MeasureLaunches(session, outcome); !ok) return ok;
  if (!job.all_modes) return {};
  auto hot = MeasureHot(session, outcome, &clock_sum, &clock_count);
  if (!hot) return tl::unexpected(hot.error());
  outcome.modes.push_back(std::move(*hot));
  auto graph = MeasureGraph(session, job, outcome, &clock_sum, &clock_count);
  if (!graph) return tl::unexpected(graph.error());
  outcome.modes.push_back(std::move(*graph));
  auto host = MeasureHost(session, job, outcome);
  if (!host) return tl::unexpected(host.error());
  outcome.modes.push_back(std::move(*host));
  return {};
}

// Both of a pair see the same inputs; which goes first alternates, and each starts from a cold
// cache.
Executed<void> TimePair(Session& session, const TimeJob& job, eval::PairOutcome& pair) {
  auto rule = MakeNoiseRule(job.limits);
  const auto begin = SteadyClock::now();
  int dropped = 0;
  for (int round = 0; !rule->Done(); ++round) {
    Sample samples[2];
    GROVE_WAIT(session.NextInputs());
    for (int k = 0; k < 2; ++k) {
      const bool challenger = (round + k) % 2 == 0;
      Session::Entry& entry = challenger ? session.candidate() : session.base();
      if (auto ok = session.Cold(entry, &samples[challenger ? 1 : 0], nullptr, false); !ok) {
        return ok;
      }
    }
    if ((samples[0].throttled || samples[1].throttled) && dropped < kMaxThrottled) {
      ++dropped;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      continue;
    }
    pair.base.push_back(samples[0].time);
    pair.challenger.push_back(samples[1].time);
    rule->Add(samples[1].time, SteadyClock::now() - begin);
  }
  const PairResult result = ComparePairs(pair.base, pair.challenger);
  pair.ratio = result.ratio;
  pair.median_delta = result.median_delta;
  pair.delta_stderr = result.delta_stderr;
  switch (result.comparison) {
    case Comparison::kFaster:
      pair.result = eval::PairOutcome::Result::kFaster;
      break;
    case Comparison::kSlower:
      pair.result = eval::PairOutcome::Result::kSlower;
      break;
    case Comparison::kTie:
      pair.result = eval::PairOutcome::Result::kTie;
      break;
  }
  return {};
}

}  // namespace

Executed<TimeDone> RunTime(Lane& lane, const TimeJob& job) {
  TimeDone done;
  if (job.base) done.pair.emplace();
  // A candidate may have set lines of the L2 aside for itself.
  lane.driver().CtxResetPersistingL2();
  Executed<void> ok;
  {
    Session session(lane, job);
    ok = session.Prepare();
    if (ok && job.base) {
      ok = TimePair(session, job, *done.pair);
    } else if (ok) {
      ok = TimeOne(session, job, done.outcome);
    }
    // Buffers may go back only when nothing uses them.
    if (ok || !ok.error().sticky) {
      if (auto waited = lane.Wait(job.deadline); !waited) ok = tl::unexpected(waited.error());
    }
  }
  if (ok) return done;
  if (ok.error().sticky) return tl::unexpected(ok.error());
  const ExecutionFault fault{ok.error().kind, ok.error().message};
  if (done.pair) {
    done.pair->fault = fault;
  } else {
    done.outcome.fault = fault;
  }
  return done;
}

}  // namespace grove::cuda
