// The commands that look at runs that exist: their options, and which of them was asked for. Apart
// from app.cc, which has those that search and evaluate.
#pragma once

#include <memory>
#include <optional>

#include "cli/commands.h"

namespace CLI {
class App;
}

namespace grove::cli {

class InspectApp {
 public:
  // Adds the subcommands to `app`, which must outlive this.
  explicit InspectApp(CLI::App& app);
  ~InspectApp();
  // The exit code when one of them was parsed.
  std::optional<int> Run(const Common& common) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace grove::cli
