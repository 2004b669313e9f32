// How importers put a task folder into place: it is made beside its destination and renamed when it
// is whole and loads, so nothing half-written is ever seen. Also what importers share: names.
// Thread-safety: one object per thread.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"

namespace grove::importers {

// A task name of any text: letters, digits, '_', '-' and '.', at most 60, never empty.
std::string TaskNameOf(std::string_view text);

// A folder TASKS/.import-PID-N/NAME to be filled, removed by the destructor unless it was put into
// place.
class TaskFolder {
 public:
  // kResource when nothing can be made in `tasks`; kInvalidInput when TASKS/NAME is there already
  // and is not to be replaced.
  static Result<TaskFolder> Make(const std::filesystem::path& tasks, const std::string& name,
                                 bool replace);
  TaskFolder(TaskFolder&& other) noexcept;
  TaskFolder& operator=(TaskFolder&&) = delete;
  ~TaskFolder();

  const std::filesystem::path& path() const { return folder_; }
  const std::filesystem::path& destination() const { return destination_; }
  // Loads the task as a check, then renames the folder. kInvalidInput with the reason when it does
  // not load.
  Status Place();

 private:
  TaskFolder() = default;
  std::filesystem::path beside_, folder_, destination_;
  std::string name_;
  bool replace_ = false;
};

}  // namespace grove::importers
