#include "base/temporary_folder.h"

#include <stdlib.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include <fmt/format.h>

namespace grove {

Result<TemporaryFolder> TemporaryFolder::Make(std::string_view prefix) {
  std::error_code error;
  const std::filesystem::path above = std::filesystem::temp_directory_path(error);
  if (error) {
    return Fail(ErrorCode::kResource,
                fmt::format("there is no temporary folder ({}); set TMPDIR", error.message()));
  }
  std::string name = (above / fmt::format("{}-XXXXXX", prefix)).string();
  if (mkdtemp(name.data()) == nullptr) {
    return Fail(ErrorCode::kResource, fmt::format("cannot make a folder in {}: {}", above.string(),
                                                  std::generic_category().message(errno)));
  }
  return TemporaryFolder(name);
}

TemporaryFolder::TemporaryFolder(std::filesystem::path path) : path_(std::move(path)) {}
TemporaryFolder::TemporaryFolder(TemporaryFolder&& other) noexcept
    : path_(std::exchange(other.path_, {})) {}
TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

}  // namespace grove
