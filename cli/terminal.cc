#include "cli/terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "results/format.h"

namespace grove::cli {

int TerminalWidth(std::FILE* stream) {
  winsize size{};
  const int fd = ::fileno(stream);
  if (fd < 0 || ::isatty(fd) == 0) return 0;
  if (::ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

std::string LiveLine(const search::LiveState& state) {
  std::string line = fmt::format("round {}/{}", state.round, state.rounds);
  if (state.candidates > 0) {
    line += fmt::format("  {} ideas  {}/{} candidates, {} pass", state.ideas, state.evaluated,
                        state.candidates, state.passed);
  }
  if (state.best) {
    line += fmt::format("  best {}", results::FormatTime(*state.best, state.kind));
    if (state.seed && state.best->count() > 0) {
      line += fmt::format(", {} the seed", results::FormatRatio(*state.seed / *state.best));
    }
  }
  line += fmt::format("  {} tokens", results::FormatCount(state.tokens.value));
  return line;
}

TerminalObserver::TerminalObserver(std::FILE* stream, bool quiet)
    : stream_(stream), quiet_(quiet), live_(!quiet && TerminalWidth(stream) > 0) {}

TerminalObserver::~TerminalObserver() { Erase(); }

void TerminalObserver::Line(std::string_view text) {
  if (quiet_) return;
  const std::scoped_lock lock(mutex_);
  Erase();
  fmt::print(stream_, "{}\n", text);
  Draw();
  std::fflush(stream_);
}

void TerminalObserver::Update(const search::LiveState& state) {
  if (!live_) return;
  const std::scoped_lock lock(mutex_);
  Erase();
  line_ = LiveLine(state);
  const auto width = static_cast<std::size_t>(TerminalWidth(stream_));
  if (width > 0 && line_.size() >= width) line_.resize(width - 1);
  Draw();
  std::fflush(stream_);
}

// Both leave `line_` as it is: what stands on the screen between them is the caller's business.
void TerminalObserver::Erase() {
  if (live_ && !line_.empty()) fmt::print(stream_, "\r\x1b[K");
}

void TerminalObserver::Draw() {
  if (live_ && !line_.empty()) fmt::print(stream_, "{}", line_);
}

}  // namespace grove::cli
