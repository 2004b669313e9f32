// The gallery's files: kernels that searches have found, each a folder NAME/ with program.cu,
// plan.json and result.json. What is in them is foreign. Thread-safety: free functions.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace grove::cli {

struct GalleryEntry {
  std::string name;
  std::string source, plan;
  std::string task, suite;
  std::vector<std::string> cases;
  std::string demanded;  // class of accuracy that the user demanded; empty = the task's own
  std::string gpu;       // "H200"
  std::string title;
  std::string idea;      // that led to it; empty when it is not told
  std::string compiler;  // "NVRTC 13.0"; empty when it is not told
  Nanoseconds score{0};
};

// `given`, or the program's own.
std::filesystem::path GalleryFolder(const std::filesystem::path& given);

// Those of `names`, or all, by name. kNotFound with the nearest valid name, kInvalidInput for a
// file that is not what grove writes.
Result<std::vector<GalleryEntry>> ReadGallery(const std::filesystem::path& given,
                                              const std::vector<std::string>& names);

}  // namespace grove::cli
