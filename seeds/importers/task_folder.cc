#include "seeds/importers/task_folder.h"

#include <unistd.h>

#include <atomic>
#include <cctype>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "seeds/task.h"

namespace grove::importers {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxName = 60;

Failure Resource(const fs::path& path, const std::error_code& error) {
  return Fail(ErrorCode::kResource, fmt::format("{}: {}", path.string(), error.message()));
}

}  // namespace

std::string TaskNameOf(std::string_view text) {
  std::string name;
  for (const char c : text.substr(0, kMaxName)) {
    const bool kept = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' ||
                      (c == '.' && !name.empty());
    name += kept && static_cast<unsigned char>(c) < 0x80 ? c : '_';
  }
  if (name.empty() || name[0] == '-') name.insert(name.begin(), 't');
  return name;
}

Result<TaskFolder> TaskFolder::Make(const fs::path& tasks, const std::string& name, bool replace) {
  TaskFolder made;
  made.name_ = name;
  made.replace_ = replace;
  made.destination_ = tasks / name;
  std::error_code error;
  if (!replace && fs::exists(made.destination_, error)) {
    return Fail(ErrorCode::kInvalidInput, fmt::format("{} exists already (--replace, or --name)",
                                                      made.destination_.string()));
  }
  static std::atomic<int> count{0};
  const fs::path beside = tasks / fmt::format(".import-{}-{}", ::getpid(), count++);
  fs::create_directories(beside / name, error);
  if (error) return Resource(beside, error);
  made.beside_ = beside;
  made.folder_ = beside / name;
  return made;
}

TaskFolder::TaskFolder(TaskFolder&& other) noexcept
    : beside_(std::exchange(other.beside_, {})),
      folder_(std::move(other.folder_)),
      destination_(std::move(other.destination_)),
      name_(std::move(other.name_)),
      replace_(other.replace_) {}

TaskFolder::~TaskFolder() {
  std::error_code ignored;
  if (!beside_.empty()) fs::remove_all(beside_, ignored);
}

Status TaskFolder::Place() {
  auto task = seeds::LoadTask(beside_, name_);
  if (!task) {
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("the task that was made does not load: {}", task.error().message));
  }
  std::error_code error;
  if (replace_ && fs::exists(destination_, error)) {
    fs::rename(destination_, beside_ / ".old", error);
    if (error) return Resource(destination_, error);
  }
  fs::rename(folder_, destination_, error);
  if (error) {
    const Failure failure = Resource(destination_, error);
    fs::rename(beside_ / ".old", destination_, error);  // what was there comes back
    return failure;
  }
  return {};
}

}  // namespace grove::importers
