// Entry points of compiled kernels, from PTX text.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "codegen/plan.h"

namespace grove::codegen {

// Every `.entry` that has a body: name, the byte size of each parameter (scalars by their type,
// `.b8 name[N]` by type and count), and max_threads from .reqntid or .maxntid (else 1024).
// Registers, spills, stack and shared memory stay 0: only ptxas knows them. kInvalidInput with the
// line for text that is not PTX. Thread-safe; time linear in the text.
Result<std::vector<EntryPoint>> EntryPointsFromPtx(std::string_view ptx);

}  // namespace grove::codegen
