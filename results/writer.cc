#include "results/writer.h"

#include <algorithm>

namespace grove::results {
namespace {

// Little beside a model's reply or an evaluation, and enough for those that are in flight to come.
constexpr std::chrono::milliseconds kGather{2};

}  // namespace

Writer::Writer(SQLite::Database database, const std::filesystem::path& file,
               std::chrono::milliseconds linger)
    : linger_(linger), gather_(std::min(linger, kGather)), connection_(std::move(database), file) {
  if (groups()) {
    lingerer_ = std::jthread([this](const std::stop_token& stop) { Linger(stop); });
  }
}

Writer::~Writer() {
  if (!groups()) return;
  lingerer_ = {};
  const std::scoped_lock lock(mutex_);
  // A failure here is the next process's to see: the run is as it was a moment before.
  static_cast<void>(Commit());
}

Status Writer::Commit() {
  if (lost_) return Fail(*lost_);
  if (!connection_.open()) return {};
  if (Status done = connection_.CommitOpen(); !done) {
    lost_ = done.error();
    return done;
  }
  committed_ = written_;
  return {};
}

// The first that comes waits for others and commits for all of them; they wait for that.
Status Writer::CommitThrough(std::uint64_t transition) {
  {
    std::unique_lock lock(ending_);
    ended_.wait(lock, [&] { return !gathering_ || durable_ >= transition; });
    if (durable_ >= transition) return {};
    gathering_ = true;
  }
  std::this_thread::sleep_for(gather_);
  Status done;
  std::uint64_t through = 0;
  {
    const std::scoped_lock lock(mutex_);
    done = Commit();
    through = committed_;
  }
  {
    const std::scoped_lock lock(ending_);
    gathering_ = false;
    durable_ = through;
  }
  ended_.notify_all();
  return done;
}

void Writer::Linger(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    std::uint64_t seen = 0;
    {
      std::unique_lock lock(mutex_);
      idle_ = true;
      wake_.wait(lock, stop, [this] { return written_ > committed_ && !lost_; });
      idle_ = false;
      seen = written_;
      if (wake_.wait_for(lock, stop, linger_ - gather_, [&] { return committed_ >= seen; }))
        continue;
    }
    static_cast<void>(CommitThrough(seen));  // what fails, the next transition says
  }
}

}  // namespace grove::results
