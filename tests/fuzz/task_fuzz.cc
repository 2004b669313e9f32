// Any text either is a task or is refused as invalid input at a place in the file; a task's sizes
// are within its limits.
#include <cstdint>
#include <cstdlib>

#include "seeds/task.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace grove::seeds;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const grove::Result<Task> task = ParseTask(text, "task.toml");
  if (!task) {
    if (task.error().code != grove::ErrorCode::kInvalidInput) std::abort();
    if (!task.error().message.starts_with("task.toml")) std::abort();
    return 0;
  }
  if (task->cases.size() != task->reduction.size()) std::abort();
  for (const Case& one : task->cases) {
    for (const Tensor& tensor : one.tensors) {
      if (tensor.elements() <= 0 || tensor.bytes().value <= 0) std::abort();
    }
  }
  return 0;
}
