#include "codegen/compiler.h"

namespace grove::codegen {

std::string_view Name(CompileOutcome::Status status) {
  switch (status) {
    case CompileOutcome::Status::kOk:
      return "ok";
    case CompileOutcome::Status::kError:
      return "error";
    case CompileOutcome::Status::kTimeout:
      return "timeout";
    case CompileOutcome::Status::kMemory:
      return "memory";
    case CompileOutcome::Status::kCrashed:
      return "crashed";
  }
  return "unknown";
}

}  // namespace grove::codegen
