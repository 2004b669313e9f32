// SIGINT and SIGTERM as a stop request. The first asks the search to stop cleanly; the second ends
// the program at once (the run stays resumable either way).
#pragma once

#include <stop_token>
#include <thread>

namespace grove::cli {

// Blocks both signals in every thread started afterwards and waits for them in its own. Make one,
// early in main, before any other thread.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  std::stop_token token() const { return source_.get_token(); }

 private:
  std::stop_source source_;
  std::jthread watcher_;
};

}  // namespace grove::cli
