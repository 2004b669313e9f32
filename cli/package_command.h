// Evaluations on another machine: `grove run --until evaluate` packs, `grove eval-package`
// evaluates, `grove absorb` takes the result in.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/commands.h"
#include "results/store.h"
#include "search/config.h"
#include "search/elsewhere.h"
#include "seeds/task.h"

namespace CLI {
class App;
}

namespace grove::cli {

// kInvalidInput for a task whose reference is live: a package is a stranger's file, and the machine
// that evaluates it runs no Python of theirs.
Status CheckPackable(const seeds::Task& task);

// What came back so far for the run of `store`; the machine and the baselines that it names become
// the run's.
Result<std::unique_ptr<search::Elsewhere>> OpenElsewhere(results::Store& store);

// Packs what the run awaits and says what to do next, as lines for people.
Result<std::string> PackAwaited(search::Elsewhere& elsewhere, results::Store& store,
                                const search::SearchConfig& config, const Common& common);

struct EvalPackageOptions {
  std::vector<std::filesystem::path> packages;
  std::filesystem::path output;  // folder of the results; empty = beside each package
  std::string device;            // empty = auto
  int profile = 3;               // so many of the fastest kernels of a package are profiled
  bool no_profile = false;
};
int EvalPackageCommand(const EvalPackageOptions& options, const Common& common);

struct AbsorbOptions {
  std::vector<std::filesystem::path> results;
  std::string run;  // empty = the one that the result belongs to
};
int AbsorbCommand(const AbsorbOptions& options, const Common& common);

// The two subcommands.
class PackageApp {
 public:
  // Adds them to `app`, which must outlive this.
  explicit PackageApp(CLI::App& app);
  // The exit code when one of them was parsed.
  std::optional<int> Run(const Common& common) const;

 private:
  EvalPackageOptions eval_;
  AbsorbOptions absorb_;
  CLI::App* eval_app_;
  CLI::App* absorb_app_;
};

}  // namespace grove::cli
