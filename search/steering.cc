#include "search/steering.h"

#include <fmt/format.h>

namespace grove::search {

using results::ControlKind;

Steering::Steering(results::Store& store, Observer& observer, std::stop_token outer,
                   std::chrono::milliseconds poll)
    : store_(store), observer_(observer), outer_(std::move(outer), [this] {
        now_.request_stop();
        // Taken and given back, so that no waiter is between its look and its sleep.
        { const std::scoped_lock lock(mutex_); }
        changed_.notify_all();
      }) {
  if (auto data = store_.Load()) since_ = data->run.status_since;
  Poll();
  if (poll.count() == 0) return;
  listener_ = std::jthread([this, poll](const std::stop_token& done) {
    std::mutex mutex;
    std::condition_variable_any wake;
    std::unique_lock lock(mutex);
    while (!wake.wait_for(lock, done, poll, [&] { return done.stop_requested(); })) Poll();
  });
}

Steering::~Steering() = default;

bool Steering::stopping() const {
  const std::scoped_lock lock(mutex_);
  return stopping_;
}

bool Steering::paused() const {
  const std::scoped_lock lock(mutex_);
  return paused_;
}

Status Steering::MayBegin() const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !paused_ || stopping_ || now_.stop_requested(); });
  if (stopping_) return Fail(ErrorCode::kCancelled, "stopped by the user");
  if (now_.stop_requested()) return Fail(ErrorCode::kCancelled, "interrupted");
  return {};
}

void Steering::Note(std::string_view text) {
  observer_.Line(text);
  // What cannot be noted is said on the screen all the same.
  (void)store_.AddEvent("control", text);
}

void Steering::Poll() {
  const std::scoped_lock once(poll_mutex_);
  auto inbox = results::ReadControl(store_.folder());
  if (!inbox) {
    if (!complained_) observer_.Line("the run cannot be steered: " + inbox.error().message);
    complained_ = true;
    return;
  }
  for (const std::string& problem : inbox->problems) Note(problem);
  if (!inbox->problems.empty()) results::SetAsideBadControl(store_.folder());
  for (const results::ControlMessage& message : inbox->messages) Apply(message);
}

void Steering::Apply(const results::ControlMessage& message) {
  const bool text = message.kind == ControlKind::kHint || message.kind == ControlKind::kGoal;
  if (text) {
    const auto added =
        store_.AddHint(results::HintKey(message), results::Name(message.kind), message.text);
    if (!added) return;  // a full disk; it waits in the folder
    if (*added) Note(fmt::format("{} from the user: {}", Name(message.kind), message.text));
  }
  if (applied_.contains(message.key)) return;
  if (!text) Obey(message);
  // Last, so that a message whose file is gone has taken effect.
  if (!results::RemoveControl(store_.folder(), message.key)) applied_.insert(message.key);
}

void Steering::Obey(const results::ControlMessage& message) {
  if (message.time < since_) {
    Note(fmt::format("{} from before the run was resumed: passed over", Name(message.kind)));
    return;
  }
  bool again = false;
  {
    const std::scoped_lock lock(mutex_);
    if (message.kind == ControlKind::kStop) {
      again = stopping_;
      stopping_ = true;
    } else {
      paused_ = message.kind == ControlKind::kPause;
    }
  }
  if (again) now_.request_stop();
  changed_.notify_all();
  Note(message.kind == ControlKind::kPause      ? "paused: no new question to a model"
       : message.kind == ControlKind::kContinue ? "continued"
       : again                                  ? "stopping at once"
                                                : "stopping: what is in flight is finished first");
}

Result<SearchSummary> RunSteered(const SearchParts& parts, const SearchConfig& config,
                                 std::stop_token stop) {
  Steering steering(parts.store, parts.observer, std::move(stop));
  SearchParts steered{parts.task,     parts.evaluator, parts.device,   parts.client,   parts.store,
                      parts.observer, &steering,       parts.profiler, parts.elsewhere};
  auto summary = RunSearch(steered, config, steering.stop_now());
  if (!summary || summary->status != results::RunStatus::kInterrupted || !steering.stopping()) {
    return summary;
  }
  summary->status = results::RunStatus::kStopped;
  summary->reason = "stopped by the user";
  if (auto noted = parts.store.SetStatus(summary->status, summary->reason); !noted) {
    return Failure(std::move(noted.error()));
  }
  return summary;
}

}  // namespace grove::search
