#include "eval/cuda/worker.h"

#include <unistd.h>
#include <csignal>
#include <mutex>

#include <fmt/format.h>
#include <tbb/concurrent_queue.h>
#include <tbb/global_control.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>

#include "base/framing.h"
#include "eval/cuda/checker.h"
#include "eval/cuda/lane.h"
#include "eval/cuda/protocol.h"
#include "eval/cuda/timer.h"

namespace grove::cuda {
namespace {

class Worker {
 public:
  explicit Worker(int channel) : channel_(channel) {}

  int Run() {
    if (auto ok = Open(); !ok) {
      Send(MessageType::kFailed, ok.error().message);
      return 1;
    }
    Serve();
    return 0;
  }

 private:
  void Send(MessageType type, std::string_view payload) {
    const std::lock_guard lock(write_mutex_);
    (void)WriteFrame(channel_, static_cast<std::uint16_t>(type), payload,
                     After(std::chrono::seconds(20)));
  }

  Result<std::string> Expect(MessageType type) {
    auto frame = ReadFrame(channel_, kMaxMessage, After(std::chrono::seconds(60)));
    if (!frame) return Fail(ErrorCode::kUnavailable, "the head: " + frame.error().message);
    if (frame->type != static_cast<std::uint16_t>(type)) {
      return Fail(ErrorCode::kInternal, fmt::format("unexpected message {}", frame->type));
    }
    return std::move(frame->payload);
  }

  Status Open() {
    auto bytes = Expect(MessageType::kOpen);
    if (!bytes) return Fail(bytes.error());
    auto open = DecodeOpen(*bytes);
    if (!open) return Fail(open.error());
    if (open->version != kProtocolVersion) {
      return Fail(ErrorCode::kInternal, "the GPU worker belongs to another version of the program");
    }
    lanes_ = open->lanes;
    auto driver = Driver::Load();
    if (!driver) return Fail(driver.error());
    auto count = DeviceCount(**driver);
    if (!count) return Fail(ToError(count.error()));
    if (open->ordinal < 0 || open->ordinal >= *count) {
      return Fail(ErrorCode::kNotFound,
                  fmt::format("there is no GPU {}: the driver shows {}", open->ordinal, *count));
    }
    auto facts = ReadDeviceFacts(**driver, open->ordinal);
    if (!facts) return Fail(ToError(facts.error()));
    auto context = Context::Retain(*driver, open->ordinal);
    if (!context) return Fail(ToError(context.error()));
    Send(MessageType::kFacts, Encode(*facts));

    auto cubin = Expect(MessageType::kSupport);
    if (!cubin) return Fail(cubin.error());
    auto support = SupportCode::Load(*context, *cubin, *facts);
    if (!support) return Fail(ToError(support.error()));
    parts_ = std::make_unique<WorkerParts>(std::move(*context), std::move(*facts),
                                           std::move(*support), open->idle_memory);
    parts_->on_sticky = [this](const Fault& fault) { Die(fault); };
    // A flood of printf stays in a small buffer; the process's output goes nowhere anyway.
    (*driver)->CtxSetLimit(kLimitPrintfFifo, std::size_t{1} << 20);
    for (int i = 0; i < lanes_; ++i) {
      auto lane = Lane::Make(*parts_);
      if (!lane) return Fail(ToError(lane.error()));
      free_lanes_.push(lane->release());
    }
    Send(MessageType::kReady, {});
    return {};
  }

  void Serve() {
    const tbb::global_control threads(tbb::global_control::max_allowed_parallelism,
                                      static_cast<std::size_t>(lanes_) + 1);
    tbb::task_arena arena(lanes_ + 1, 1);
    tbb::task_group group;
    for (;;) {
      auto frame = ReadFrame(channel_, kMaxMessage, std::nullopt);
      if (!frame) break;
      const auto type = static_cast<MessageType>(frame->type);
      if (type == MessageType::kTrim) {
        parts_->pool.Trim();
        continue;
      }
      if (type != MessageType::kCheck && type != MessageType::kTime) break;
      auto payload = std::make_shared<std::string>(std::move(frame->payload));
      arena.enqueue(group.defer([this, type, payload] { Job(type, *payload); }));
    }
    // The head is gone: whatever still runs is of no use to anybody.
    kill(getpid(), SIGKILL);
  }

  void Job(MessageType type, std::string_view payload) {
    auto id = TakeId(payload);
    if (!id) return Die(Fault{eval::VerdictKind::kInfrastructure, id.error().message, true});
    if (auto ok = parts_->context.MakeCurrent(); !ok) return Die(FaultOf(ok.error()));
    Lane* lane = nullptr;
    free_lanes_.pop(lane);
    std::string reply;
    if (type == MessageType::kCheck) {
      auto job = DecodeCheckJob(payload);
      if (!job) return Die(Fault{eval::VerdictKind::kInfrastructure, job.error().message, true});
      auto done = RunCheck(*lane, *job);
      if (!done) return Die(done.error());
      reply = Encode(*done);
    } else {
      auto job = DecodeTimeJob(payload);
      if (!job) return Die(Fault{eval::VerdictKind::kInfrastructure, job.error().message, true});
      auto done = RunTime(*lane, *job);
      if (!done) return Die(done.error());
      reply = Encode(*done);
    }
    free_lanes_.push(lane);
    Send(MessageType::kDone, WithId(*id, reply));
  }

  // Says why and ends the process, once.
  void Die(const Fault& fault) {
    const std::lock_guard once(die_mutex_);
    Send(MessageType::kFatal, Encode(FatalMessage{fault.kind, fault.message}));
    kill(getpid(), SIGKILL);
    for (;;) pause();
  }

  const int channel_;
  int lanes_ = 1;
  std::mutex write_mutex_;
  std::mutex die_mutex_;
  std::unique_ptr<WorkerParts> parts_;
  // Lanes live as long as the process, which ends without taking anything down.
  tbb::concurrent_bounded_queue<Lane*> free_lanes_;
};

}  // namespace

int ServeWorker(int channel) { return Worker(channel).Run(); }

}  // namespace grove::cuda
