#include "cli/interrupt.h"

#include <csignal>

#include <unistd.h>

namespace grove::cli {
namespace {

constexpr int kExitInterrupted = 130;

sigset_t StopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  return signals;
}

}  // namespace

Interrupt::Interrupt() {
  const sigset_t signals = StopSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  watcher_ = std::jthread([this](const std::stop_token& done) {
    const sigset_t waited = StopSignals();
    const timespec poll{0, 50'000'000};
    int seen = 0;
    while (!done.stop_requested()) {
      if (sigtimedwait(&waited, nullptr, &poll) < 0) continue;
      if (++seen == 1) {
        source_.request_stop();
      } else {
        ::_exit(kExitInterrupted);
      }
    }
  });
}

Interrupt::~Interrupt() {
  watcher_.request_stop();
  watcher_.join();
  const sigset_t signals = StopSignals();
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

}  // namespace grove::cli
