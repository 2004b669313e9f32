#include "eval/cuda/worker_pool.h"

#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <sys/socket.h>

#include "base/framing.h"
#include "eval/cuda/protocol.h"

namespace grove::cuda {
namespace {

using Clock = std::chrono::steady_clock;

// A request between Submit and its answer; shared by the caller and the worker's reader thread.
struct Pending {
  std::mutex mutex;
  std::condition_variable done;
  bool finished = false;
  Answer answer;

  void Finish(Answer value) {
    {
      const std::lock_guard lock(mutex);
      if (finished) return;
      finished = true;
      answer = std::move(value);
    }
    done.notify_all();
  }
};

}  // namespace

// One process and the thread that reads from it. Life: started by Launch, in use until its reader
// sees the end of the stream, then reaped and launched again by the next request that needs it.
class WorkerPool::Worker {
 public:
  explicit Worker(const PoolOptions& options) : options_(options) {}
  ~Worker() { Shutdown(); }

  // Starts the process unless one is running.
  Status Launch(PoolCounters& counters, std::mutex& counters_mutex) {
    if (alive()) return {};
    const std::lock_guard one_start(launch_mutex_);
    if (alive()) return {};
    if (reader_.joinable()) reader_.join();
    auto process = Process::Start(options_.process);
    if (!process) return Fail(process.error(), "starting a GPU worker");
    {
      const std::lock_guard lock(counters_mutex);
      ++counters.started;
    }
    if (auto ready = options_.handshake(process->channel()); !ready) {
      std::string words = process->ErrorText();
      process->Kill();
      Error error = ready.error();
      if (!words.empty()) error.message += ": " + words.substr(0, 300);
      return Fail(std::move(error));
    }
    const std::lock_guard lock(mutex_);
    process_.emplace(std::move(*process));
    fatal_.reset();
    hung_.reset();
    alive_ = true;
    reader_ = std::thread([this, &counters, &counters_mutex] { Read(counters, counters_mutex); });
    return {};
  }

  // False when the worker is gone; the request was then not accepted.
  bool Submit(std::uint64_t id, std::uint16_t type, std::string_view payload,
              std::shared_ptr<Pending> pending) {
    {
      const std::lock_guard lock(mutex_);
      if (!alive_) return false;
      pending_[id] = std::move(pending);
    }
    if (!Send(type, WithId(id, payload))) {
      // The reader sees the closed stream and ends this request as died with its worker.
      KillProcess("the worker takes no more messages", false);
    }
    return true;
  }

  bool Send(std::uint16_t type, std::string_view payload) {
    const std::lock_guard write(write_mutex_);
    int channel = -1;
    {
      const std::lock_guard lock(mutex_);
      if (!alive_ || !process_) return false;
      channel = process_->channel();
    }
    return WriteFrame(channel, type, payload, After(std::chrono::seconds(20))).has_value();
  }

  // Ends the process; its reader then answers whatever is in flight.
  void KillProcess(const std::string& why, bool hung) {
    const std::lock_guard lock(mutex_);
    if (!alive_ || !process_) return;
    if (hung) hung_ = why;
    process_->Kill();
    shutdown(process_->channel(), SHUT_RDWR);
  }

  bool alive() const {
    const std::lock_guard lock(mutex_);
    return alive_;
  }

  int places_taken = 0;  // guarded by Impl::mutex

 private:
  void Read(PoolCounters& counters, std::mutex& counters_mutex) {
    int channel = -1;
    {
      const std::lock_guard lock(mutex_);
      channel = process_->channel();
    }
    for (;;) {
      auto frame = ReadFrame(channel, kMaxMessage, std::nullopt);
      if (!frame) break;
      const auto type = static_cast<MessageType>(frame->type);
      if (type == MessageType::kFatal) {
        const std::lock_guard lock(mutex_);
        fatal_ = std::move(frame->payload);
        continue;  // the end of the stream follows
      }
      std::string_view payload = frame->payload;
      auto id = TakeId(payload);
      std::shared_ptr<Pending> pending;
      if (type == MessageType::kDone && id) {
        const std::lock_guard lock(mutex_);
        if (auto found = pending_.find(*id); found != pending_.end()) {
          pending = std::move(found->second);
          pending_.erase(found);
        }
      }
      if (pending == nullptr)
        break;  // garbage, or an answer to nothing: not to be trusted any more
      pending->Finish(Answer{false, std::string(payload), false, false, {}});
    }
    Bury(counters, counters_mutex);
  }

  void Bury(PoolCounters& counters, std::mutex& counters_mutex) {
    std::map<std::uint64_t, std::shared_ptr<Pending>> orphans;
    Answer answer;
    answer.died = true;
    {
      // A writer may still be using the descriptor that goes away here.
      KillWriters();
      const std::lock_guard write(write_mutex_);
      const std::lock_guard lock(mutex_);
      alive_ = false;
      orphans.swap(pending_);
      // After a kFatal message the worker ends by itself; a moment for that keeps its exit status.
      std::optional<ExitStatus> status;
      if (fatal_) status = process_->WaitFor(std::chrono::milliseconds(200));
      if (!status) status = process_->Kill();
      answer.death = hung_ ? *hung_ : "GPU worker ended: " + status->Describe();
      answer.hung = hung_.has_value();
      if (fatal_) {
        answer.reported = true;
        answer.payload = *fatal_;
      }
      process_.reset();
    }
    if (!orphans.empty()) {
      const std::lock_guard lock(counters_mutex);
      ++counters.died;
    }
    for (auto& [id, pending] : orphans) pending->Finish(answer);
  }

  void KillWriters() {
    const std::lock_guard lock(mutex_);
    if (process_) shutdown(process_->channel(), SHUT_RDWR);
  }

  void Shutdown() {
    KillProcess("shut down", false);
    if (reader_.joinable()) reader_.join();
  }

  const PoolOptions& options_;
  std::mutex launch_mutex_;  // taken before the two below
  std::mutex write_mutex_;   // taken before mutex_; held while a message is written
  mutable std::mutex mutex_;
  std::optional<Process> process_;
  bool alive_ = false;
  std::map<std::uint64_t, std::shared_ptr<Pending>> pending_;
  std::optional<std::string> fatal_;
  std::optional<std::string> hung_;
  std::thread reader_;
};

struct WorkerPool::Impl {
  explicit Impl(PoolOptions o) : options(std::move(o)) {
    for (int i = 0; i < options.workers; ++i) {
      shared.push_back(std::make_unique<Worker>(options));
    }
    solo = std::make_unique<Worker>(options);
  }

  PoolOptions options;
  std::vector<std::unique_ptr<Worker>> shared;
  std::unique_ptr<Worker> solo;

  std::mutex mutex;  // places_taken, next_id
  std::condition_variable place_free;
  std::uint64_t next_id = 1;

  std::mutex broken_mutex;
  std::optional<Error> broken;  // why no worker can be had any more
  std::mutex solo_mutex;        // the one request in the solo worker

  mutable std::mutex counters_mutex;
  PoolCounters counters;

  Status EnsureRunning(Worker& worker) {
    if (worker.alive()) return {};
    for (int attempt = 0;; ++attempt) {
      {
        const std::lock_guard lock(broken_mutex);
        if (broken) return Fail(*broken);
      }
      auto started = worker.Launch(counters, counters_mutex);
      if (started) return {};
      if (attempt + 1 >= options.start_attempts) {
        const std::lock_guard lock(broken_mutex);
        if (!broken) broken = started.error();
        return Fail(*broken);
      }
    }
  }

  Worker& TakePlace() {
    std::unique_lock lock(mutex);
    for (;;) {
      Worker* best = nullptr;
      for (const auto& worker : shared) {
        if (worker->places_taken >= options.in_flight) continue;
        if (best == nullptr || worker->places_taken < best->places_taken) best = worker.get();
      }
      if (best != nullptr) {
        ++best->places_taken;
        return *best;
      }
      place_free.wait(lock);
    }
  }

  void GivePlace(Worker& worker) {
    {
      const std::lock_guard lock(mutex);
      --worker.places_taken;
    }
    place_free.notify_one();
  }

  // One try in one worker.
  Result<Answer> Try(Worker& worker, std::uint16_t type, std::string_view payload,
                     std::chrono::milliseconds deadline) {
    for (;;) {
      if (auto ok = EnsureRunning(worker); !ok) return Fail(ok.error());
      std::uint64_t id = 0;
      {
        const std::lock_guard lock(mutex);
        id = next_id++;
      }
      auto pending = std::make_shared<Pending>();
      if (!worker.Submit(id, type, payload, pending)) continue;  // it died before it was asked
      std::unique_lock lock(pending->mutex);
      const auto until = Clock::now() + deadline + options.grace;
      if (!pending->done.wait_until(lock, until, [&] { return pending->finished; })) {
        lock.unlock();
        worker.KillProcess(fmt::format("no answer within {} ms", deadline.count()), true);
        lock.lock();
        pending->done.wait(lock, [&] { return pending->finished; });
      }
      return std::move(pending->answer);
    }
  }
};

WorkerPool::WorkerPool(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
WorkerPool::~WorkerPool() = default;

Result<std::unique_ptr<WorkerPool>> WorkerPool::Start(PoolOptions options) {
  options.process.channel = true;
  std::unique_ptr<WorkerPool> pool(new WorkerPool(std::make_unique<Impl>(std::move(options))));
  if (pool->impl_->shared.empty()) {
    return Fail(ErrorCode::kInvalidInput, "a GPU needs at least one worker");
  }
  if (auto ok = pool->impl_->EnsureRunning(*pool->impl_->shared.front()); !ok) {
    return Fail(ok.error());
  }
  return pool;
}

Result<Answer> WorkerPool::Execute(std::uint16_t type, std::string_view payload,
                                   std::chrono::milliseconds deadline, Where where) {
  Impl& impl = *impl_;
  if (where == Where::kShared) {
    Worker& worker = impl.TakePlace();
    auto answer = impl.Try(worker, type, payload, deadline);
    impl.GivePlace(worker);
    if (!answer || !answer->died) return answer;
    const std::lock_guard lock(impl.counters_mutex);
    ++impl.counters.rerun;
  }
  const std::lock_guard alone(impl.solo_mutex);
  auto answer = impl.Try(*impl.solo, type, payload, deadline);
  if (answer && answer->died) {
    const std::lock_guard lock(impl.counters_mutex);
    ++impl.counters.blamed;
  }
  return answer;
}

void WorkerPool::Broadcast(std::uint16_t type, std::string_view payload) {
  for (const auto& worker : impl_->shared) worker->Send(type, payload);
  impl_->solo->Send(type, payload);
}

PoolCounters WorkerPool::counters() const {
  const std::lock_guard lock(impl_->counters_mutex);
  return impl_->counters;
}

}  // namespace grove::cuda
