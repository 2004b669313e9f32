// The compile cache: outcomes on disk under the hash of everything that they depend on.
//
// Constraints: many processes on one machine (and on a network file system) read and write one
// cache with no lock; any of them may be killed at any instant; a damaged entry must cost a
// compilation and nothing else; the cache must never make a compilation fail. Rejected: a SQLite
// file (locks over network file systems, one writer at a time); one growing log with an index
// (compaction, and a damaged tail to repair); a folder per entry with its parts as files (four
// renames where only one is atomic). So: one file per entry, written beside its place and renamed
// (WriteFileAtomic).
//
// Layout: FOLDER/ab/ab01...ef.gkc, where ab01...ef are the 32 hex digits of the key. In the file,
// little-endian:
//
//   offset  bytes  field
//        0      4  magic "GRVC"
//        4      4  version of this format (kCacheVersion)
//        8     16  key: XXH3-128 of kCacheVersion, compiler, architecture, options, source
//       24     16  XXH3-128 of the compressed bytes
//       40      8  size of the payload before compression, bytes
//       48      8  size of the compressed bytes
//       56      -  zstd frame of the payload: base/wire.h fields of CompileOutcome, in order:
//       status,
//                  log, ptx, cubin, entries, time
//
// Only kOk and kError are kept: whether a compilation ends in time or in memory depends on the
// machine. A hit touches the file's modification time, so the longest unused go first.
//
// Thread-safety: all methods may be called from many threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/hash.h"
#include "base/units.h"
#include "codegen/compiler.h"

namespace grove::codegen {

inline constexpr std::uint32_t kCacheVersion = 1;

class CompileCache {
 public:
  using Warning = std::function<void(std::string_view)>;

  // Makes the folder when first needed. `warning` is called once, when the cache cannot be written.
  CompileCache(std::filesystem::path folder, Bytes limit, Warning warning);

  // `compiler` identifies NVRTC and the headers we serve to it.
  static Hash Key(std::string_view compiler, const CompileRequest& request,
                  const std::vector<std::string>& base_options);

  // nullopt when absent. A damaged file is removed and counts as absent.
  std::optional<CompileOutcome> Find(const Hash& key) const;
  // Does nothing for outcomes that are not kept.
  void Store(const Hash& key, const CompileOutcome& outcome);

  // Removes the longest unused entries until the cache is below nine tenths of its limit, and what
  // killed writers left behind more than an hour ago. Called by Store at first and after every
  // sixteenth of the limit written.
  void Trim();

  std::filesystem::path PathOf(const Hash& key) const;

 private:
  void Warn(std::string_view message);

  const std::filesystem::path folder_;
  const Bytes limit_;
  const Warning warning_;
  std::atomic<bool> warned_ = false;
  std::atomic<std::int64_t> written_since_trim_;  // bytes
};

}  // namespace grove::codegen
