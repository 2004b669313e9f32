// A launch plan made from the `// grove: grid=... block=...` comments above the kernels of a
// source. Internal to codegen/.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "codegen/source_lexer.h"

namespace grove::codegen {

struct KernelParam {
  std::string name;
  std::string type;  // the words of its type without const, volatile and __restrict__
  bool pointer = false;
};

// A kernel definition in the source.
struct KernelDefinition {
  std::string name;
  std::uint32_t offset = 0;  // of its name
  std::vector<KernelParam> params;
  std::string comment;  // text after "grove:" of the nearest such comment above it
  std::uint32_t comment_offset = 0;
  bool has_comment = false;
};

// Every `__global__` function with a body, in order.
std::vector<KernelDefinition> FindKernels(const LexedSource& lexed);

// The plan's JSON: one launch per kernel, in the order of the source.
//   // grove: grid=(ceil_div(N, 256), M) block=256 [shared=BYTES] [cluster=(2)] [cooperative]
//   //        [dependent] [args=x, y, N, f32:eps]
// Without args they are the kernel's parameters by name: pointers are buffers, int, long long,
// float and double are scalars of that type. kInvalidInput with line and column: no kernel, a
// kernel without comment, a kernel defined twice, an unknown key, a parameter that cannot be
// inferred.
Result<std::string> PlanFromComments(std::string_view source);

}  // namespace grove::codegen
