// "Did you mean": the nearest of the valid names to what the user wrote.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace grove {

// Levenshtein distance in bytes.
std::size_t EditDistance(std::string_view a, std::string_view b);

// The valid name nearest to `name`, or empty when none is near (more than half its letters differ).
std::string Nearest(std::string_view name, std::span<const std::string> valid);

// "unknown task 'sofmax'; did you mean 'softmax'? valid: layernorm, matmul, softmax"
std::string UnknownName(std::string_view kind, std::string_view name,
                        std::span<const std::string> valid);

}  // namespace grove
