#include "codegen/compile_farm.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/files.h"
#include "codegen/compile_cache.h"
#include "codegen/compile_log.h"
#include "codegen/compile_options.h"
#include "codegen/compile_worker.h"
#include "codegen/cubin.h"
#include "codegen/entry_points.h"
#include "codegen/headers.h"

namespace grove::codegen {
namespace {

namespace fs = std::filesystem;

using Outcome = std::shared_ptr<const CompileOutcome>;
using Kind = CompileOutcome::Status;

constexpr int kWallFactor = 10;         // of a deadline in processor time, for one that sleeps
constexpr int kNvrtcOutOfMemory = 1;    // NVRTC_ERROR_OUT_OF_MEMORY
constexpr int kNvrtcInvalidOption = 5;  // NVRTC_ERROR_INVALID_OPTION
constexpr int kNvrtcCompilation = 6;    // NVRTC_ERROR_COMPILATION

// The front end reports a failed allocation as a message at a place in the source.
bool FrontEndRanOut(const NvrtcOutput& output) {
  return output.result == kNvrtcOutOfMemory ||
         (output.result == kNvrtcCompilation &&
          output.log.find("): catastrophic error: out of memory") != std::string::npos);
}

// The cubin tells what a kernel takes; only spills are in no section of it.
void AddResources(const std::vector<CubinKernel>& kernels, const PtxasInfos& infos,
                  std::vector<EntryPoint>& entries) {
  for (EntryPoint& entry : entries) {
    const auto kernel = std::find_if(kernels.begin(), kernels.end(),
                                     [&](const CubinKernel& k) { return k.name == entry.name; });
    if (kernel != kernels.end()) {
      entry.registers = kernel->registers;
      entry.stack_bytes = kernel->stack_bytes;
      entry.static_shared = kernel->static_shared;
      if (kernel->max_threads > 0) entry.max_threads = kernel->max_threads;
    }
    if (const auto info = infos.find(entry.name); info != infos.end()) {
      entry.spill_stores = info->second.spill_stores;
      entry.spill_loads = info->second.spill_loads;
      entry.stack_bytes = std::max(entry.stack_bytes, info->second.stack);
    }
  }
}

class Farm final : public CompileFarm {
 public:
  Farm(const FarmOptions& options, WorkerSettings settings);

  Result<Outcome> Compile(const CompileRequest& request) override;
  Result<std::string> Version() override;
  FarmCounts counts() const override;
  std::vector<int> WorkerPids() const override;

 private:
  // A place for one worker process; empty until first needed, and after a worker was lost.
  struct Slot {
    std::optional<CompileWorker> worker;
    std::atomic<int> pid = 0;
  };

  // The right to use one slot; blocks until one is free.
  class Lease {
   public:
    explicit Lease(Farm& farm);
    ~Lease();
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    Slot& slot() { return *slot_; }

   private:
    Farm& farm_;
    Slot* slot_;
  };

  struct Identity {
    int nvrtc_major = 0;
    std::string version;   // "NVRTC 13.0"
    std::string compiler;  // part of the cache key
  };

  Result<Identity> GetIdentity();
  Status Fill(Slot& slot);
  void Empty(Slot& slot);
  Result<Outcome> CompileOnce(const CompileRequest& request, const Hash& key, int nvrtc_major);
  Result<CompileOutcome> CompileInWorker(const CompileRequest& request, int nvrtc_major);
  Result<CompileOutcome> Understand(const NvrtcOutput& output) const;
  std::string CompilerName(const CompileWorker& worker) const;

  const FarmOptions options_;
  const WorkerSettings settings_;
  const PathNames path_names_;
  const std::vector<std::string> root_folders_;
  std::optional<CompileCache> cache_;

  mutable std::mutex slots_mutex_;
  std::condition_variable slot_free_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::vector<Slot*> free_slots_;  // the last used on top, so few workers serve a light load

  std::mutex identity_mutex_;
  std::optional<Identity> identity_;

  std::mutex flights_mutex_;
  std::map<Hash, std::shared_future<Result<Outcome>>> flights_;

  std::atomic<std::int64_t> compiles_ = 0;
  std::atomic<std::int64_t> cache_hits_ = 0;
  std::atomic<std::int64_t> shared_ = 0;
  std::atomic<std::int64_t> workers_started_ = 0;
  std::atomic<std::int64_t> workers_lost_ = 0;
};

std::vector<std::string> Strings(const std::vector<fs::path>& paths) {
  std::vector<std::string> texts;
  for (const fs::path& path : paths) texts.push_back(path.string());
  return texts;
}

Farm::Farm(const FarmOptions& options, WorkerSettings settings)
    : options_(options),
      settings_(std::move(settings)),
      path_names_(NamePaths(Strings(settings_.toolkit.include_folders))),
      root_folders_(RootFolders()) {
  if (!options_.cache_folder.empty()) {
    cache_.emplace(options_.cache_folder, options_.cache_limit, options_.warning);
  }
  for (int i = 0; i < options_.workers; ++i) {
    slots_.push_back(std::make_unique<Slot>());
    free_slots_.push_back(slots_.back().get());
  }
}

Farm::Lease::Lease(Farm& farm) : farm_(farm) {
  std::unique_lock lock(farm_.slots_mutex_);
  farm_.slot_free_.wait(lock, [&] { return !farm_.free_slots_.empty(); });
  slot_ = farm_.free_slots_.back();
  farm_.free_slots_.pop_back();
}

Farm::Lease::~Lease() {
  {
    const std::lock_guard lock(farm_.slots_mutex_);
    farm_.free_slots_.push_back(slot_);
  }
  farm_.slot_free_.notify_one();
}

void Farm::Empty(Slot& slot) {
  slot.pid = 0;
  slot.worker.reset();
}

Status Farm::Fill(Slot& slot) {
  if (slot.worker && slot.worker->compiles() >= options_.compiles_per_worker) Empty(slot);
  if (slot.worker) return {};
  auto worker = CompileWorker::Start(settings_);
  // Once more: the machine may have been short of memory or processes for a moment.
  if (!worker) worker = CompileWorker::Start(settings_);
  if (!worker) return Fail(std::move(worker.error()));
  ++workers_started_;
  slot.worker = std::move(*worker);
  slot.pid = slot.worker->pid();
  return {};
}

std::string Farm::CompilerName(const CompileWorker& worker) const {
  // The library's size tells patch releases of one version apart.
  std::error_code error;
  const auto size = fs::file_size(settings_.toolkit.nvrtc_library, error);
  std::vector<std::string_view> headers;
  for (const auto& [name, text] : settings_.headers) {
    headers.push_back(name);
    headers.push_back(text);
  }
  return fmt::format("NVRTC {}.{} {} {}", worker.nvrtc_major(), worker.nvrtc_minor(),
                     error ? 0 : size, HashTexts(headers).Hex());
}

Result<Farm::Identity> Farm::GetIdentity() {
  const std::lock_guard lock(identity_mutex_);
  if (identity_) return *identity_;
  Lease lease(*this);
  if (auto filled = Fill(lease.slot()); !filled) return Fail(std::move(filled.error()));
  const CompileWorker& worker = *lease.slot().worker;
  identity_ = Identity{worker.nvrtc_major(),
                       fmt::format("NVRTC {}.{}", worker.nvrtc_major(), worker.nvrtc_minor()),
                       CompilerName(worker)};
  return *identity_;
}

Result<std::string> Farm::Version() {
  auto identity = GetIdentity();
  if (!identity) return Fail(std::move(identity.error()));
  return identity->version;
}

Result<Outcome> Farm::Compile(const CompileRequest& request) {
  if (auto checked = CheckRequest(request); !checked) return Fail(std::move(checked.error()));
  const auto identity = GetIdentity();
  if (!identity) return Fail(identity.error());
  const Hash key = CompileCache::Key(identity->compiler, request, BaseOptions());

  std::promise<Result<Outcome>> promise;
  std::shared_future<Result<Outcome>> flight;
  {
    const std::lock_guard lock(flights_mutex_);
    const auto [at, first] = flights_.try_emplace(key);
    if (first) at->second = promise.get_future().share();
    if (!first) flight = at->second;
  }
  if (flight.valid()) {
    ++shared_;
    return flight.get();
  }
  Result<Outcome> result;
  try {
    result = CompileOnce(request, key, identity->nvrtc_major);
  } catch (const std::exception& e) {
    result = Fail(ErrorCode::kResource, fmt::format("compiling: {}", e.what()));
  }
  {
    const std::lock_guard lock(flights_mutex_);
    flights_.erase(key);
  }
  promise.set_value(result);
  return result;
}

Result<Outcome> Farm::CompileOnce(const CompileRequest& request, const Hash& key, int nvrtc_major) {
  if (cache_) {
    if (auto found = cache_->Find(key)) {
      ++cache_hits_;
      return std::make_shared<const CompileOutcome>(std::move(*found));
    }
  }
  auto outcome = CompileInWorker(request, nvrtc_major);
  if (!outcome) return Fail(std::move(outcome.error()));
  if (cache_) cache_->Store(key, *outcome);
  return std::make_shared<const CompileOutcome>(std::move(*outcome));
}

Result<CompileOutcome> Farm::CompileInWorker(const CompileRequest& request, int nvrtc_major) {
  const CompileCall call{request.source,
                         AllOptions(request, nvrtc_major, settings_.toolkit.include_folders)};
  Lease lease(*this);
  Slot& slot = lease.slot();
  ++compiles_;
  // The deadline starts when there is a worker to be asked: a queue is not the program's fault. It
  // covers both attempts.
  std::optional<std::chrono::steady_clock::time_point> start;
  for (bool again = true;; again = false) {
    if (auto filled = Fill(slot); !filled) return Fail(std::move(filled.error()));
    if (!start) start = std::chrono::steady_clock::now();
    const bool fresh = slot.worker->compiles() == 0;
    auto answer =
        slot.worker->Compile(call, options_.deadline, *start + kWallFactor * options_.deadline);
    if (const auto* output = std::get_if<NvrtcOutput>(&answer)) {
      CompileOutcome outcome;
      if (FrontEndRanOut(*output)) {
        ++workers_lost_;
        Empty(slot);  // its heap is in pieces
        outcome.status = Kind::kMemory;
        outcome.log = fmt::format("the compiler ran out of its {} MiB of memory\n",
                                  options_.memory_limit.value >> 20);
        outcome.time = output->time;
        return outcome;
      }
      return Understand(*output);
    }
    const WorkerDeath death = std::get<WorkerDeath>(std::move(answer));
    ++workers_lost_;
    Empty(slot);
    // Killed from outside, or by what earlier programs left in a used worker: not this program's
    // fault until it happens in a fresh one.
    const bool excused = death.kind == WorkerDeath::Kind::kOutside ||
                         (death.kind == WorkerDeath::Kind::kCrashed && !fresh);
    if (again && excused) continue;
    CompileOutcome outcome;
    outcome.time = std::chrono::steady_clock::now() - *start;
    switch (death.kind) {
      case WorkerDeath::Kind::kTimeout:
        outcome.status = Kind::kTimeout;
        outcome.log =
            fmt::format("compilation was stopped after {} ms\n", options_.deadline.count());
        break;
      case WorkerDeath::Kind::kMemory:
        outcome.status = Kind::kMemory;
        outcome.log = fmt::format("the compiler ran out of its {} MiB of memory\n",
                                  options_.memory_limit.value >> 20);
        break;
      case WorkerDeath::Kind::kCrashed:
      case WorkerDeath::Kind::kOutside:
        outcome.status = Kind::kCrashed;
        outcome.log = SanitiseLog(fmt::format("the compiler died: {}", death.detail), path_names_,
                                  root_folders_);
        break;
    }
    return outcome;
  }
}

Result<CompileOutcome> Farm::Understand(const NvrtcOutput& output) const {
  CompileOutcome outcome;
  outcome.time = output.time;
  outcome.log = SanitiseLog(output.log, path_names_, root_folders_);
  if (output.result == kNvrtcInvalidOption) {
    return Fail(
        ErrorCode::kInvalidInput,
        fmt::format("NVRTC refuses an option: {}", outcome.log.substr(0, outcome.log.find('\n'))));
  }
  if (output.result != 0) {
    outcome.status = Kind::kError;
    if (outcome.log.empty()) outcome.log = output.result_name + "\n";
    return outcome;
  }
  auto entries = EntryPointsFromPtx(output.ptx);
  const auto kernels = ReadCubin(output.cubin);
  if (!entries || !kernels) {
    outcome.status = Kind::kCrashed;
    outcome.log = fmt::format("the compiler's output is damaged: {}\n",
                              !entries ? entries.error().message : kernels.error().message);
    return outcome;
  }
  outcome.status = Kind::kOk;
  outcome.ptx = output.ptx;
  outcome.cubin = output.cubin;
  outcome.entries = std::move(*entries);
  AddResources(*kernels, ReadPtxas(output.log), outcome.entries);
  return outcome;
}

FarmCounts Farm::counts() const {
  return {compiles_, cache_hits_, shared_, workers_started_, workers_lost_};
}

std::vector<int> Farm::WorkerPids() const {
  std::vector<int> pids;
  for (const auto& slot : slots_) {
    if (const int pid = slot->pid; pid != 0) pids.push_back(pid);
  }
  return pids;
}

}  // namespace

Result<std::unique_ptr<CompileFarm>> MakeCompileFarm(const FarmOptions& options) {
  auto toolkit = FindToolkit(options.cuda_home);
  if (!toolkit) return Fail(std::move(toolkit.error()));
  FarmOptions complete = options;
  if (complete.workers <= 0) {
    complete.workers = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  }
  if (complete.worker_binary.empty()) {
    complete.worker_binary = ExecutableFolder() / "grove-compile-worker";
  }
  std::error_code error;
  if (!fs::is_regular_file(complete.worker_binary, error)) {
    return Fail(ErrorCode::kNotFound, fmt::format("{} is missing: it belongs beside the program",
                                                  complete.worker_binary.string()));
  }
  WorkerSettings settings;
  settings.binary = complete.worker_binary;
  settings.toolkit = std::move(*toolkit);
  settings.memory_limit = complete.memory_limit;
  settings.headers = BuiltinHeaders();
  return std::make_unique<Farm>(complete, std::move(settings));
}

}  // namespace grove::codegen
