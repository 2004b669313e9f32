// What a recorder of launches (recorder.h, record_cupy.py) prints for one case, from the resolved
// plan.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "codegen/plan.h"
#include "seeds/task.h"

namespace grove::results {

// What the recorders say that every kernel declares itself, in bytes: with it, some launches pass
// 48 KB of shared memory that stay below by their dynamic part alone.
inline constexpr long long kStaticShared = 2048;

// `kernels` gives the kernels' numbers, `maps` counts the tensor maps of the whole recording.
std::string ExpectedCalls(const seeds::Case& c, const codegen::ResolvedPlan& plan,
                          const std::vector<std::string>& kernels, int& maps);

// Lines behind "== NAME", by name.
std::map<std::string, std::string> Sections(const std::string& text);

// What a command prints.
std::string Output(const std::string& command);

}  // namespace grove::results
