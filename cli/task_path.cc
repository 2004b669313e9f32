#include "cli/task_path.h"

#include <system_error>

#include <fmt/format.h>

namespace grove::cli {

Status SplitTaskPath(std::string& task, std::filesystem::path& tasks) {
  if (task.find('/') == std::string::npos && task != "." && task != "..") return {};
  std::error_code error;
  std::filesystem::path folder = std::filesystem::absolute(task, error).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();  // a slash at its end
  if (error || !std::filesystem::is_regular_file(folder / "task.toml", error)) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("{}: no task is there (no task.toml in that folder)", task));
  }
  task = folder.filename().string();
  tasks = folder.parent_path();
  return {};
}

}  // namespace grove::cli
