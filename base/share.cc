#include "base/share.h"

#include <array>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "base/files.h"

namespace grove {
namespace {

// Where each kind lies in the source tree.
constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kSourceFolders = {{
    {"tasks", "seeds/tasks"},
    {"prompts/ideas", "ideas/prompts"},
    {"prompts/codegen", "codegen/prompts"},
    {"playbook", "llm/playbook"},
    {"prices", "llm/prices"},
    {"new_task", "seeds/new_task"},
    {"gauntlet", "tests/gauntlet"},
    {"gallery", "results/gallery"},
}};

bool IsFolder(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error);
}

}  // namespace

std::filesystem::path ShareFolder(std::string_view kind) {
  if (const char* share = std::getenv("GROVE_SHARE"); share != nullptr && *share != '\0') {
    if (auto path = std::filesystem::path(share) / kind; IsFolder(path)) return path;
  }
  const std::filesystem::path binaries = ExecutableFolder();
  const std::filesystem::path installed = binaries.parent_path() / "share" / "grove" / kind;
  if (IsFolder(installed)) return installed;
  if (auto path = binaries / "share" / "grove" / kind; IsFolder(path)) return path;
#ifdef GROVE_SOURCE_FOLDER
  for (const auto& [name, folder] : kSourceFolders) {
    if (name != kind) continue;
    if (auto path = std::filesystem::path(GROVE_SOURCE_FOLDER) / folder; IsFolder(path))
      return path;
  }
#endif
  return installed;
}

}  // namespace grove
