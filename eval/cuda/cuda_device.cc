#include "eval/cuda/cuda_device.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <mutex>
#include <unordered_map>

#include <fmt/format.h>

#include "base/files.h"
#include "base/framing.h"
#include "eval/cuda/phase_gate.h"
#include "eval/cuda/protocol.h"
#include "eval/cuda/support.h"
#include "eval/cuda/tool.h"
#include "eval/live_reference.h"
#include "seeds/live.h"

namespace grove::cuda {
namespace {

using eval::CheckOutcome;
using eval::ExecutionFault;
using eval::TimeOutcome;
using eval::VerdictKind;
using std::chrono::milliseconds;

constexpr int kChecks = 0;  // phases of the lease
constexpr int kTimings = 1;
constexpr milliseconds kStartTimeout{60000};
// What our own work around the candidate's (drawing, reference, comparison) may take.
constexpr milliseconds kOwnWork{60000};
constexpr milliseconds kTimingAllowance{60000};
constexpr milliseconds kProfileAllowance{120000};

std::uint16_t Number(MessageType type) { return static_cast<std::uint16_t>(type); }

// Reads one message of the handshake.
Result<Frame> ReadAnswer(int channel) {
  auto frame = ReadFrame(channel, kMaxMessage, After(kStartTimeout));
  if (!frame) {
    return Fail(ErrorCode::kUnavailable, "the GPU worker did not start: " + frame.error().message);
  }
  if (frame->type == Number(MessageType::kFailed)) {
    return Fail(ErrorCode::kUnavailable, frame->payload.substr(0, 1000));
  }
  return std::move(*frame);
}

class Gpu final : public CudaDevice {
 public:
  explicit Gpu(const CudaOptions& options)
      : options_(options), lease_(options.workers * options.in_flight * 4, 1) {}

  Status Start() {
    PoolOptions pool;
    pool.process.program = WorkerBinary();
    pool.process.environment = SelectEnvironment(
        {"PATH", "HOME", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "TMPDIR"});
    pool.workers = options_.workers;
    pool.in_flight = options_.in_flight;
    pool.handshake = [this](int channel) { return Handshake(channel); };
    auto started = WorkerPool::Start(std::move(pool));
    if (!started) return Fail(started.error(), fmt::format("GPU {}", options_.ordinal));
    pool_ = std::move(*started);
    eval::LiveOptions live;
    live.gpu = facts_.uuid;
    live_ = std::make_unique<eval::LiveReference>(std::move(live));
    return {};
  }

  std::string name() const override { return fmt::format("cuda:{}", options_.ordinal); }
  const eval::DeviceSpec& spec() const override { return spec_; }
  const DeviceFacts& facts() const override { return facts_; }
  PoolCounters counters() const override { return pool_->counters(); }
  std::vector<eval::GpuIdentity> gpus() const override {
    return {{facts_.uuid, facts_.name, DriverText(facts_), facts_.ordinal}};
  }

  codegen::DeviceLimits limits() const override {
    codegen::DeviceLimits limits;
    limits.sm_count = facts_.sm_count;
    limits.max_shared = facts_.shared_per_block;
    limits.l2_bytes = facts_.l2_bytes;
    limits.max_threads_per_block = facts_.max_threads_per_block;
    limits.memory_bytes = facts_.memory_bytes;
    return limits;
  }

  Result<CheckOutcome> Check(const eval::CheckRequest& request) override {
    CheckJob job;
    Fill(job, *request.context, *request.candidate, request.seed);
    job.runs = request.runs;
    const std::string key = KeyOf(*request.context);
    job.deadline = DeadlineOf(key);
    // A request has its executions one after the other (rehearsal, runs, reference), each with a
    // deadline of its own.
    const milliseconds whole = job.deadline * (std::max(2, job.runs) + 2) + kOwnWork;
    Result<CheckDone> done = Fail(ErrorCode::kInternal, "not run");
    {
      // The module of a live reference runs on this GPU too, so not beside what is timed.
      const auto lease = lease_.Enter(kChecks);
      const seeds::Case& task_case = request.context->task_case();
      if (seeds::IsLive(task_case)) {
        auto answer = live_->Outputs(task_case, request.seed);
        if (!answer) return Fail(answer.error());
        job.task_case.golden = std::move(*answer);
      }
      done = RunCheck(job, whole, WorkerPool::Where::kShared);
    }
    // Memory may have been short only because of neighbours: decide with the device to itself.
    if (done && done->outcome.fault && done->outcome.fault->kind == VerdictKind::kOutOfMemory) {
      const auto lease = lease_.Enter(kTimings);
      pool_->Broadcast(Number(MessageType::kTrim), {});
      done = RunCheck(job, whole, WorkerPool::Where::kSolo);
    }
    if (!done) return Fail(done.error());
    if (done->reference_time > Nanoseconds(0)) Learn(key, done->reference_time);
    if (done->outcome.fault && done->outcome.fault->kind == VerdictKind::kInfrastructure) {
      return Fail(ErrorCode::kUnavailable, name() + ": " + done->outcome.fault->message);
    }
    return std::move(done->outcome);
  }

  Result<TimeOutcome> Time(const eval::TimeRequest& request) override {
    TimeJob job = TimingJob(*request.context, *request.candidate, request.seed);
    auto done = RunTiming(job);
    if (!done) return Fail(done.error());
    if (auto& fault = done->outcome.fault; fault && fault->kind == VerdictKind::kInfrastructure) {
      return Fail(ErrorCode::kUnavailable, name() + ": " + fault->message);
    }
    done->outcome.gpu_uuid = facts_.uuid;
    return std::move(done->outcome);
  }

  Result<eval::PairOutcome> TimePair(const eval::PairRequest& request) override {
    TimeJob job = TimingJob(*request.context, *request.challenger, request.seed);
    job.base = Program{request.base->compiled->cubin, request.base->plan};
    auto done = RunTiming(job);
    if (!done) return Fail(done.error());
    eval::PairOutcome pair = done->pair.value_or(eval::PairOutcome{});
    if (!done->pair) pair.fault = done->outcome.fault;
    if (pair.fault && pair.fault->kind == VerdictKind::kInfrastructure) {
      return Fail(ErrorCode::kUnavailable, name() + ": " + pair.fault->message);
    }
    pair.gpu_uuid = facts_.uuid;
    return pair;
  }

  Result<std::vector<CounterRow>> Profile(const eval::TimeRequest& request) override {
    const TimeJob job = TimingJob(*request.context, *request.candidate, request.seed);
    const auto lease = lease_.Enter(kTimings);
    pool_->Broadcast(Number(MessageType::kTrim), {});  // what workers keep for reuse
    return RunCounters(WorkerBinary(), options_.ordinal, support_cubin_, job, kProfileAllowance);
  }

  Result<SanitizerReport> Sanitize(SanitizerTool tool,
                                   const std::vector<eval::CheckRequest>& requests,
                                   milliseconds deadline) override {
    const auto sanitizer = FindTool("compute-sanitizer");
    if (!sanitizer) {
      return Fail(ErrorCode::kUnavailable,
                  "no compute-sanitizer here (CUDA_HOME, PATH, /usr/local/cuda): it comes with the "
                  "CUDA toolkit");
    }
    std::vector<Job> jobs;
    for (const eval::CheckRequest& request : requests) {
      Job& job = jobs.emplace_back();
      Fill(job, *request.context, *request.candidate, request.seed);
      job.deadline = deadline;
    }
    return RunSanitizer(*sanitizer, tool, WorkerBinary(), options_.ordinal, support_cubin_, jobs,
                        deadline);
  }

 private:
  std::filesystem::path WorkerBinary() const {
    return options_.worker_binary.empty() ? ExecutableFolder() / "grove-gpu-worker"
                                          : options_.worker_binary;
  }

  Status Handshake(int channel) {
    OpenMessage open;
    open.ordinal = options_.ordinal;
    open.lanes = options_.in_flight;
    open.idle_memory = options_.idle_memory;
    if (auto ok =
            WriteFrame(channel, Number(MessageType::kOpen), Encode(open), After(kStartTimeout));
        !ok) {
      return Fail(ErrorCode::kUnavailable, "the GPU worker: " + ok.error().message);
    }
    auto answer = ReadAnswer(channel);
    if (!answer) return Fail(answer.error());
    auto facts = DecodeFacts(answer->payload);
    if (!facts) return Fail(facts.error());
    auto cubin = SupportCubin(*facts);
    if (!cubin) return Fail(cubin.error());
    if (auto ok = WriteFrame(channel, Number(MessageType::kSupport), *cubin, After(kStartTimeout));
        !ok) {
      return Fail(ErrorCode::kUnavailable, "the GPU worker: " + ok.error().message);
    }
    auto ready = ReadAnswer(channel);
    if (!ready) return Fail(ready.error());
    return {};
  }

  // Our own device code for this GPU, compiled once; the first worker's facts are the device's.
  Result<std::string> SupportCubin(const DeviceFacts& facts) {
    const std::lock_guard lock(start_mutex_);
    if (!support_cubin_.empty()) return support_cubin_;
    auto compiled = options_.compiler->Compile(SupportRequest(facts));
    if (!compiled) return Fail(compiled.error(), "compiling the evaluator's own device code");
    if (!(*compiled)->ok()) {
      return Fail(ErrorCode::kInternal, "the evaluator's own device code does not compile: " +
                                            (*compiled)->log.substr(0, 500));
    }
    facts_ = facts;
    spec_ = SpecOf(facts);
    support_cubin_ = (*compiled)->cubin;
    return support_cubin_;
  }

  static void Fill(Job& job, const eval::CaseContext& context, const eval::Prepared& candidate,
                   std::uint64_t seed) {
    job.task_case = context.task_case();
    // Timed outputs, of draws that nobody foresees, are judged by the kernels; Check asks the
    // module.
    if (seeds::IsLive(job.task_case)) job.task_case.golden.clear();
    if (context.reference.compiled) {
      job.reference = Program{context.reference.compiled->cubin, context.reference.plan};
    }
    job.candidate = Program{candidate.compiled->cubin, candidate.plan};
    job.seed = seed;
  }

  TimeJob TimingJob(const eval::CaseContext& context, const eval::Prepared& candidate,
                    std::uint64_t seed) {
    TimeJob job;
    Fill(job, context, candidate, seed);
    job.limits = options_.timing;
    job.all_modes = options_.all_modes;
    job.deadline = DeadlineOf(KeyOf(context));
    return job;
  }

  static std::string KeyOf(const eval::CaseContext& context) {
    return fmt::format("{}/{}", context.task->name, context.task_case().name);
  }

  milliseconds DeadlineOf(const std::string& key) {
    const std::lock_guard lock(times_mutex_);
    const auto found = reference_times_.find(key);
    if (found == reference_times_.end()) return options_.first_deadline;
    const auto scaled = std::chrono::ceil<milliseconds>(found->second * options_.deadline_factor);
    return std::clamp(scaled, options_.least_deadline,
                      std::max(options_.least_deadline, milliseconds(120000)));
  }

  void Learn(const std::string& key, Nanoseconds time) {
    const std::lock_guard lock(times_mutex_);
    auto [entry, added] = reference_times_.emplace(key, time);
    // Concurrent lanes stretch the time; the largest seen is the safe one.
    if (!added) entry->second = std::max(entry->second, time);
  }

  // The verdict on a candidate whose worker died although it ran alone.
  static ExecutionFault Blame(const Answer& answer) {
    if (answer.reported) {
      if (auto fatal = DecodeFatal(answer.payload)) return {fatal->kind, fatal->message};
    }
    if (answer.hung) return {VerdictKind::kTimeout, answer.death};
    return {VerdictKind::kTrap, "ran alone and took its process down: " + answer.death};
  }

  Result<CheckDone> RunCheck(const CheckJob& job, milliseconds whole, WorkerPool::Where where) {
    auto answer = pool_->Execute(Number(MessageType::kCheck), Encode(job), whole, where);
    if (!answer) return Fail(answer.error());
    if (!answer->died) return DecodeCheckDone(answer->payload);
    CheckDone done;
    done.outcome.fault = Blame(*answer);
    return done;
  }

  Result<TimeDone> RunTiming(const TimeJob& job) {
    const auto wall = std::chrono::ceil<milliseconds>(job.limits.wall_limit);
    const milliseconds whole = job.deadline * 4 + wall * 4 + kTimingAllowance;
    const auto lease = lease_.Enter(kTimings);
    for (int attempt = 0;; ++attempt) {
      auto answer =
          pool_->Execute(Number(MessageType::kTime), Encode(job), whole, WorkerPool::Where::kSolo);
      if (!answer) return Fail(answer.error());
      TimeDone done;
      if (!answer->died) {
        auto decoded = DecodeTimeDone(answer->payload);
        if (!decoded) return Fail(decoded.error());
        done = std::move(*decoded);
      } else {
        done.outcome.fault = Blame(*answer);
      }
      const auto& fault = done.pair ? done.pair->fault : done.outcome.fault;
      if (attempt == 0 && fault && fault->kind == VerdictKind::kOutOfMemory) {
        pool_->Broadcast(Number(MessageType::kTrim), {});  // what other workers keep for reuse
        continue;
      }
      return done;
    }
  }

  const CudaOptions options_;
  PhaseGate lease_;
  std::mutex start_mutex_;
  std::string support_cubin_;
  DeviceFacts facts_;
  eval::DeviceSpec spec_;
  std::unique_ptr<WorkerPool> pool_;
  std::unique_ptr<eval::LiveReference> live_;
  std::mutex times_mutex_;
  std::unordered_map<std::string, Nanoseconds> reference_times_;
};

}  // namespace

Result<std::unique_ptr<CudaDevice>> MakeCudaDevice(const CudaOptions& options) {
  if (options.compiler == nullptr) {
    return Fail(ErrorCode::kInvalidInput, "a GPU device needs a compiler for its own device code");
  }
  auto gpu = std::make_unique<Gpu>(options);
  if (auto ok = gpu->Start(); !ok) return Fail(ok.error());
  return gpu;
}

Result<std::vector<DeviceFacts>> ListGpus() {
  auto driver = Driver::Load();
  if (!driver) return Fail(driver.error());
  auto count = DeviceCount(**driver);
  if (!count) return Fail(ToError(count.error()));
  std::vector<DeviceFacts> list;
  for (int i = 0; i < *count; ++i) {
    auto facts = ReadDeviceFacts(**driver, i);
    if (!facts) return Fail(ToError(facts.error()));
    list.push_back(std::move(*facts));
  }
  return list;
}

std::string ParseDriverVersion(std::string_view text) {
  // "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Tue ...": the first word made of
  // digits and dots alone, with two numbers or more.
  constexpr std::string_view kMark = "NVRM version:";
  const std::size_t mark = text.find(kMark);
  if (mark == std::string_view::npos) return {};
  text.remove_prefix(mark + kMark.size());
  text = text.substr(0, text.find('\n'));
  while (!text.empty()) {
    const std::size_t begin = text.find_first_not_of(" \t");
    if (begin == std::string_view::npos) break;
    text.remove_prefix(begin);
    const std::string_view word = text.substr(0, text.find_first_of(" \t"));
    text.remove_prefix(word.size());
    if (word.find_first_not_of("0123456789.") == std::string_view::npos &&
        word.find('.') != std::string_view::npos && word.front() != '.' && word.back() != '.') {
      return std::string(word);
    }
  }
  return {};
}

std::string DriverText(const DeviceFacts& facts) {
  std::ifstream file("/proc/driver/nvidia/version");
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::string version = ParseDriverVersion(text);
  if (!version.empty()) return version;
  return fmt::format("CUDA {}.{}", facts.driver_version / 1000, facts.driver_version % 1000 / 10);
}

eval::DeviceSpec SpecOf(const DeviceFacts& facts) {
  if (const eval::DeviceSpec* known = eval::FindDevice(facts.name)) return *known;
  eval::DriverFacts driver;
  driver.name = facts.name;
  driver.compute_major = facts.compute_major;
  driver.compute_minor = facts.compute_minor;
  driver.sm_count = facts.sm_count;
  driver.clock_ghz = facts.clock_khz * 1e-6;
  driver.memory_clock_ghz = facts.memory_clock_khz * 1e-6;
  driver.bus_bits = facts.memory_bus_bits;
  driver.l2_bytes = facts.l2_bytes;
  driver.shared_per_sm = facts.shared_per_sm;
  driver.shared_per_block = facts.shared_per_block;
  driver.threads_per_sm = facts.threads_per_sm;
  driver.blocks_per_sm = facts.blocks_per_sm;
  driver.registers_per_sm = facts.registers_per_sm;
  driver.memory_gb = static_cast<double>(facts.memory_bytes) * 1e-9;
  return eval::DeriveDevice(driver);
}

}  // namespace grove::cuda
