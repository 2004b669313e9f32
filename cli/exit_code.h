// What the program's exit code says (cli/README.md).
#pragma once

#include "base/result.h"

namespace grove::cli {

enum ExitCode : int {
  kExitDone = 0,
  kExitFailed = 1,    // the kernel or the run failed, as asked to find out
  kExitBadInput = 2,  // the user's input: nothing was touched
  kExitMachine = 3,   // disk, compiler, device: nothing is lost, try again when it is mended
  kExitInterrupted = 130,
};

inline ExitCode ExitCodeOf(const Error& error) {
  switch (error.code) {
    case ErrorCode::kInvalidInput:
    case ErrorCode::kNotFound:
      return kExitBadInput;
    case ErrorCode::kCancelled:
      return kExitInterrupted;
    case ErrorCode::kUnavailable:
    case ErrorCode::kResource:
    case ErrorCode::kBudget:
    case ErrorCode::kInternal:
      return kExitMachine;
  }
  return kExitMachine;
}

}  // namespace grove::cli
