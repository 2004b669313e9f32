// Compilation as a service: text in, PTX and cubin and resources out. A compile error is an
// outcome, not an Error.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "base/units.h"
#include "codegen/plan.h"

namespace grove::codegen {

struct CompileRequest {
  std::string source;                // prelude included
  std::string arch = "sm_90";        // sm_75 and newer; "sm_90a" for wgmma and setmaxnreg
  std::vector<std::string> options;  // further NVRTC options, part of the cache key
};

struct CompileOutcome {
  enum class Status {
    kOk,
    kError,    // the compiler refused the text: see log
    kTimeout,  // killed at the deadline
    kMemory,   // killed at the memory limit
    kCrashed,  // the compiler itself died
  };
  Status status = Status::kError;
  std::string log;  // the compiler's messages, sanitised: no host path
  std::string ptx;
  std::string cubin;  // ELF bytes
  std::vector<EntryPoint> entries;
  Milliseconds time{0};  // of the compilation itself, also when it came from the cache
  bool from_cache = false;

  bool ok() const { return status == Status::kOk; }
};
std::string_view Name(CompileOutcome::Status status);

// Thread-safe; Compile blocks until the outcome is there. An Error means that no compiler could be
// had at all (no NVRTC, worker cannot start, disk full).
class Compiler {
 public:
  virtual ~Compiler() = default;
  virtual Result<std::shared_ptr<const CompileOutcome>> Compile(const CompileRequest& request) = 0;
  // "NVRTC 13.0": part of the cache key and of a run's environment.
  virtual Result<std::string> Version() = 0;
};

}  // namespace grove::codegen
