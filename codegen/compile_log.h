// The compiler's messages: made fit for a prompt and a store, and read for what ptxas says about
// each kernel. Thread-safety: free functions.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace grove::codegen {

inline constexpr std::size_t kLogLimit = 64 * 1024;  // bytes, after sanitising
inline constexpr std::size_t kLogLineLimit = 1000;   // bytes

// What stands for what in a log, longest path first: the include folders as "<cuda>", each also by
// its canonical path.
using PathNames = std::vector<std::pair<std::string, std::string>>;
PathNames NamePaths(const std::vector<std::string>& include_folders);

// No host path is left: include folders get their short names, and any other absolute path below
// one of `root_folders` (the names in "/" of this machine) becomes <host>/FILE. Lines of ptxas
// statistics are dropped (see ReadPtxas), control characters become '?', long lines are cut, of
// ptxas lines that differ in their numbers alone the first three are kept and the rest counted, and
// when the whole exceeds the limit the part from the first error on is kept.
std::string SanitiseLog(std::string_view log, const PathNames& names,
                        const std::vector<std::string>& root_folders);

// The names in "/" of this machine.
std::vector<std::string> RootFolders();

// Per function, from `ptxas -v`; bytes except registers.
struct PtxasInfo {
  std::int64_t registers = 0;
  std::int64_t spill_stores = 0;
  std::int64_t spill_loads = 0;
  std::int64_t stack = 0;  // frame, or the cumulative stack where that is told
  std::int64_t static_shared = 0;
};
using PtxasInfos = std::map<std::string, PtxasInfo, std::less<>>;

// Lines that do not parse are skipped; of several reports about one function the last counts, since
// ptxas speaks after the front end (whose messages may quote source made to look like its).
PtxasInfos ReadPtxas(std::string_view log);

}  // namespace grove::codegen
