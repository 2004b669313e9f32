// The safetensors format (seeds/safetensors.h) as a text in memory: what a file of it holds, and
// what goes over a pipe. Functions are thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "seeds/safetensors.h"

namespace grove::seeds {

// Tensors with their contents; `metadata` are plain words, nothing is escaped.
// REQUIRES: as many contents as tensors, each of the tensor's size.
std::string SafetensorsText(const std::vector<Tensor>& tensors,
                            const std::vector<std::string>& contents,
                            const std::vector<std::pair<std::string, std::string>>& metadata = {});

// The header of such a text; offsets count from the text's beginning. kInvalidInput.
Result<SafetensorsHeader> ReadSafetensorsText(std::string_view text);

}  // namespace grove::seeds
