// Where the functions of a CUDA source are, as far as a diff that names the important ones needs to
// know. A light scan, not a parser: macros are taken as they stand, and a source that it does not
// understand has fewer regions, never a wrong line number. Pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace grove::ideas {

// A function with a body, at the top level or in a namespace.
struct Region {
  std::string name;
  std::size_t first = 0, last = 0;  // lines, from 0, of its head and of its closing brace
  bool kernel = false;              // __global__
  std::string code;                 // head and body without comments and strings
};
// In the order of the source. Time linear in the text.
std::vector<Region> RegionsOf(std::string_view source);

// Whether `code` has `name` as a whole word.
bool HasWord(std::string_view code, std::string_view name);

}  // namespace grove::ideas
