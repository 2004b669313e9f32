// Whole-file reads and writes that report what failed. Writes are atomic: a reader, or a run
// resumed after a kill at any instant, sees the old content or the new, never a part.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"

namespace grove {

// The file's bytes. kNotFound when it does not exist, kInvalidInput when larger than `limit` bytes.
Result<std::string> ReadFile(const std::filesystem::path& path,
                             std::uintmax_t limit = std::uintmax_t{1} << 30);

// Writes to a temporary file beside `path` and renames it. kResource when the disk is full or the
// folder read-only. Safe with concurrent writers of the same path (the last rename wins).
Status WriteFileAtomic(const std::filesystem::path& path, std::string_view content);

// The folder of the running program's binary.
std::filesystem::path ExecutableFolder();

}  // namespace grove
