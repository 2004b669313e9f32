// The gallery: kernels that searches have found, each a folder NAME/ with program.cu, plan.json and
// result.json (what it is of, its numbers with intervals, the machine, its lineage in words and the
// baselines beside it). `grove gallery add` writes one from a run, `grove gallery verify` evaluates
// them again and compares.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands.h"

namespace CLI {
class App;
}

namespace grove::cli {

struct GalleryOptions {
  std::filesystem::path folder;    // empty = ShareFolder("gallery")
  std::vector<std::string> names;  // to list or verify; empty = all
  std::string kernel;              // to add: "r2.i3.b1", "best", with "RUN/" in front if need be
  std::string device;              // to verify on; empty = auto
  double tolerance = 0.05;         // of a time, when it was measured on a GPU of this model
};
int GalleryListCommand(const GalleryOptions& options, const Common& common);
// Exit code 1 when a kernel does not pass or is slower than it was by more than the tolerance. On
// another device than the one that measured, times are shown and not compared.
int GalleryVerifyCommand(const GalleryOptions& options, const Common& common);
int GalleryAddCommand(const GalleryOptions& options, const Common& common);

class GalleryApp {
 public:
  // Adds the subcommands to `app`, which must outlive this.
  explicit GalleryApp(CLI::App& app);
  // The exit code when one of them was parsed.
  std::optional<int> Run(const Common& common) const;

 private:
  GalleryOptions options_;
  CLI::App* gallery_;
  CLI::App* verify_;
  CLI::App* add_;
};

}  // namespace grove::cli
