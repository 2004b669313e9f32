// Which run the user means.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"

namespace grove::cli {

// `name` when there is such a run, the run written last when it is empty. kNotFound with the
// nearest valid name.
Result<std::string> FindRun(const std::filesystem::path& runs, const std::string& name);

}  // namespace grove::cli
