// `grove import`: tasks from other people's formats. Used by app.cc alone.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands.h"

namespace CLI {
class App;
}

namespace grove::cli {

struct ImportCommandOptions {
  std::filesystem::path problem;    // file or folder
  std::filesystem::path workloads;  // flashinfer
  std::string name, python;
  int scale = 1;
  int deadline = 300;     // seconds for each problem
  double memory_gib = 0;  // 0 = by the machine
  bool replace = false, report = false;
  std::string reference = "kernels";
};

// The command and its subcommands; Run says whether one was given.
class ImportApp {
 public:
  explicit ImportApp(CLI::App& app);
  std::optional<int> Run(const Common& common) const;

 private:
  std::shared_ptr<ImportCommandOptions> options_;
  CLI::App* kernelbench_ = nullptr;
  CLI::App* gpumode_ = nullptr;
  CLI::App* flashinfer_ = nullptr;
};

}  // namespace grove::cli
