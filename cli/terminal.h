// The search's progress for people: one live line on a terminal, plain lines in a pipe.
#pragma once

#include <cstdio>
#include <mutex>
#include <string>

#include "search/observer.h"

namespace grove::cli {

// Columns of the terminal behind `stream`; 0 when it is none.
int TerminalWidth(std::FILE* stream);

class TerminalObserver final : public search::Observer {
 public:
  // `quiet` drops the plain lines and the live line (for --json).
  TerminalObserver(std::FILE* stream, bool quiet);
  ~TerminalObserver() override;
  void Line(std::string_view text) override;
  void Update(const search::LiveState& state) override;

 private:
  void Erase();
  void Draw();

  std::FILE* const stream_;
  const bool quiet_;
  const bool live_;
  std::mutex mutex_;
  std::string line_;  // the live line as last drawn; empty when none stands
};

// "round 2/3  6 ideas  9/12 candidates, 7 pass  best 612.3 us (modelled), 9.1x the seed  41 k
// tokens"
std::string LiveLine(const search::LiveState& state);

}  // namespace grove::cli
