// `grove rank`: which kernels of a profile are worth making fast.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

namespace CLI {
class App;
}

namespace grove::cli {

struct RankCommandOptions {
  std::vector<std::filesystem::path> profiles;
  double speedup = 2;
  bool kernels = false;  // group by kernel even where operations are known
  bool cpu = false;      // operations of a profile that was made without a GPU
  int limit = 30;
  std::filesystem::path batch;  // file for `grove run --batch`; empty = none
};

// Adds the subcommand; the options must outlive the parse.
CLI::App* AddRank(CLI::App& app, RankCommandOptions& options);
int RankCommand(const RankCommandOptions& options, bool json);

}  // namespace grove::cli
