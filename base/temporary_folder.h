// A folder of one's own in the system's temporary folder, gone with everything in it at the end of
// the object's life. Not thread-safe; files in it are the caller's business.
#pragma once

#include <filesystem>
#include <string_view>

#include "base/result.h"

namespace grove {

class TemporaryFolder {
 public:
  // "PREFIX-" and random letters, readable by this user alone. kResource when it cannot be made.
  static Result<TemporaryFolder> Make(std::string_view prefix);
  TemporaryFolder(TemporaryFolder&& other) noexcept;
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  ~TemporaryFolder();

  const std::filesystem::path& path() const { return path_; }

 private:
  explicit TemporaryFolder(std::filesystem::path path);

  std::filesystem::path path_;
};

}  // namespace grove
