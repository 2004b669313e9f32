// The commands that look after a live run: status, hint, goal, stop, pause, continue. Their
// options, and which of them was asked for.
#pragma once

#include <memory>
#include <optional>

#include "cli/commands.h"

namespace CLI {
class App;
}

namespace grove::cli {

class SteerApp {
 public:
  // Adds the subcommands to `app`, which must outlive this.
  explicit SteerApp(CLI::App& app);
  ~SteerApp();
  // The exit code when one of them was parsed.
  std::optional<int> Run(const Common& common) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace grove::cli
