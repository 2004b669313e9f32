// A live run listens: to its control folder (results/control.h) and to the program's own stop
// request. Hints and goals go into the store, where the next round takes them; a pause holds back
// new questions to models, while what was asked is answered, compiled and evaluated; a stop does
// the same for good (drains), and a second stop gives up what is in flight as well.
//
// Messages that say stop, pause or continue and are older than the run's present life are dropped:
// they were meant for the process that died. Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>

#include "base/result.h"
#include "results/control.h"
#include "results/store.h"
#include "search/config.h"
#include "search/observer.h"
#include "search/search.h"

namespace grove::search {

class Steering {
 public:
  // Listens in a thread of its own until it is destroyed. Borrows store and observer. `outer` is
  // the program's stop request (a signal): everything in flight is given up.
  // `poll` is the time between two looks; 0 = only when Poll is called.
  Steering(results::Store& store, Observer& observer, std::stop_token outer,
           std::chrono::milliseconds poll = std::chrono::milliseconds(200));
  ~Steering();
  Steering(const Steering&) = delete;
  Steering& operator=(const Steering&) = delete;

  // Stop now: for whatever waits on the outside.
  std::stop_token stop_now() const { return now_.get_token(); }
  // Whether `grove stop` was heard.
  bool stopping() const;
  bool paused() const;
  // To be called before anything new is begun. Blocks while the run is paused; kCancelled when it
  // is to stop.
  Status MayBegin() const;
  // Applies what waits. An unreadable folder is said once and changes nothing.
  void Poll();

 private:
  void Apply(const results::ControlMessage& message);
  void Obey(const results::ControlMessage& message);  // a stop, pause or continue
  void Note(std::string_view text);

  results::Store& store_;
  Observer& observer_;
  results::WallTime since_;  // start of the run's present life
  std::stop_source now_;
  std::mutex poll_mutex_;          // one Poll at a time
  bool complained_ = false;        // GUARDED_BY(poll_mutex_)
  std::set<std::string> applied_;  // GUARDED_BY(poll_mutex_); keys that could not be removed
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool paused_ = false;    // GUARDED_BY(mutex_)
  bool stopping_ = false;  // GUARDED_BY(mutex_)
  std::stop_callback<std::function<void()>> outer_;
  std::jthread listener_;  // last: it uses all of the above
};

// RunSearch under a Steering of its own, which takes the place of parts.steering. A run that `grove
// stop` ended has the status kStopped.
Result<SearchSummary> RunSteered(const SearchParts& parts, const SearchConfig& config,
                                 std::stop_token stop);

}  // namespace grove::search
