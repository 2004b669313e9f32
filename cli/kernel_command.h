// `grove emulate` and `grove compile`: one kernel of a task for one case, for programs that bring
// their own tensors (scripts/apply_model.py). Used by app.cc alone.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "cli/commands.h"

namespace CLI {
class App;
}

namespace grove::cli {

struct KernelCommandOptions {
  std::string task, case_name;
  std::filesystem::path source, plan;  // no plan: SOURCE with .json, or its grove: comments
  std::filesystem::path inputs;        // emulate: safetensors, one tensor per input, by name
  std::filesystem::path output;        // emulate: safetensors; compile: JSON, .cubin beside it
  std::string gpu = "H200";
};

class KernelApp {
 public:
  explicit KernelApp(CLI::App& app);
  std::optional<int> Run(const Common& common) const;

 private:
  std::shared_ptr<KernelCommandOptions> options_;
  CLI::App* emulate_ = nullptr;
  CLI::App* compile_ = nullptr;
};

}  // namespace grove::cli
