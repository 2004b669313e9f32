// Tasks that are named by their folder: `grove run path/to/NAME` is `grove run NAME --tasks
// path/to`.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"

namespace grove::cli {

// When `task` holds a '/', or is "." or "..": makes it the folder's name, and `tasks` the folder
// that it is in. kNotFound when no task.toml is there. Plain names are left alone.
Status SplitTaskPath(std::string& task, std::filesystem::path& tasks);

}  // namespace grove::cli
