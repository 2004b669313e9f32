// How every command reports an Error.
#pragma once

#include <cstdio>

#include <fmt/format.h>

#include "base/result.h"
#include "cli/exit_code.h"

namespace grove::cli {

inline int Complain(const Error& error) {
  fmt::print(stderr, "grove: {}\n", error.message);
  return ExitCodeOf(error);
}

}  // namespace grove::cli
