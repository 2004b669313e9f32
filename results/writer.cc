#include "results/writer.h"

namespace grove::results {

Writer::Writer(SQLite::Database database, const std::filesystem::path& file,
               std::chrono::milliseconds linger)
    : linger_(linger), connection_(std::move(database), file) {
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

// Who waits here for another's commit finds his own transition in it.
Status Writer::CommitThrough(std::uint64_t transition) {
  const std::scoped_lock turn(committing_);
  const std::scoped_lock lock(mutex_);
  if (committed_ >= transition) return {};
  return Commit();
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
      if (wake_.wait_for(lock, stop, linger_, [&] { return committed_ >= seen; })) continue;
    }
    static_cast<void>(CommitThrough(seen));  // what fails, the next transition says
  }
}

}  // namespace grove::results
