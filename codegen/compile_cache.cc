#include "codegen/compile_cache.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <zstd.h>

#include "base/files.h"
#include "base/wire.h"

namespace grove::codegen {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kMagic = 0x43565247;                       // "GRVC"
constexpr std::size_t kHeaderSize = 56;                            // bytes
constexpr std::uint64_t kPayloadLimit = std::uint64_t{512} << 20;  // bytes, before compression
constexpr std::size_t kLeastEntryBytes = 8 + 8 + 6 * 8;            // of one EntryPoint on the wire
constexpr int kZstdLevel = 3;
constexpr std::string_view kSuffix = ".gkc";

std::string EncodeOutcome(const CompileOutcome& outcome) {
  WireWriter out;
  out.U32(static_cast<std::uint32_t>(outcome.status));
  out.Text(outcome.log);
  out.Text(outcome.ptx);
  out.Text(outcome.cubin);
  out.U64(outcome.entries.size());
  for (const EntryPoint& entry : outcome.entries) {
    out.Text(entry.name);
    out.U64(entry.param_sizes.size());
    for (const std::size_t size : entry.param_sizes) out.U64(size);
    for (const std::int64_t value : {entry.registers, entry.spill_stores, entry.spill_loads,
                                     entry.stack_bytes, entry.static_shared, entry.max_threads}) {
      out.I64(value);
    }
  }
  out.F64(outcome.time.count());
  return std::move(out).Take();
}

std::optional<CompileOutcome> DecodeOutcome(std::string_view payload) {
  WireReader in(payload);
  CompileOutcome outcome;
  const std::uint32_t status = in.U32();
  outcome.status = static_cast<CompileOutcome::Status>(status);
  outcome.log = in.Text();
  outcome.ptx = in.Text();
  outcome.cubin = in.Text();
  outcome.entries.resize(in.Count(kLeastEntryBytes));
  for (EntryPoint& entry : outcome.entries) {
    entry.name = in.Text();
    entry.param_sizes.resize(in.Count(sizeof(std::uint64_t)));
    for (std::size_t& size : entry.param_sizes) size = in.U64();
    for (std::int64_t* value : {&entry.registers, &entry.spill_stores, &entry.spill_loads,
                                &entry.stack_bytes, &entry.static_shared, &entry.max_threads}) {
      *value = in.I64();
    }
  }
  outcome.time = Milliseconds(in.F64());
  const bool kept = status == static_cast<std::uint32_t>(CompileOutcome::Status::kOk) ||
                    status == static_cast<std::uint32_t>(CompileOutcome::Status::kError);
  if (!in.AtEnd() || !kept) return std::nullopt;
  return outcome;
}

std::optional<std::string> Decompress(std::string_view bytes, std::uint64_t size) {
  if (size > kPayloadLimit || ZSTD_getFrameContentSize(bytes.data(), bytes.size()) != size) {
    return std::nullopt;
  }
  std::string payload(size, '\0');
  const std::size_t got =
      ZSTD_decompress(payload.data(), payload.size(), bytes.data(), bytes.size());
  if (ZSTD_isError(got) != 0 || got != size) return std::nullopt;
  return payload;
}

std::optional<CompileOutcome> Decode(std::string_view file, const Hash& key) {
  WireReader header(file.substr(0, kHeaderSize));
  const bool format = header.U32() == kMagic && header.U32() == kCacheVersion;
  const Hash stored_key{header.U64(), header.U64()};
  const Hash checksum{header.U64(), header.U64()};
  const std::uint64_t size = header.U64();
  const std::uint64_t compressed_size = header.U64();
  if (!header.ok() || !format || stored_key != key) return std::nullopt;
  const std::string_view compressed = file.substr(kHeaderSize);
  if (compressed.size() != compressed_size || HashText(compressed) != checksum) return std::nullopt;
  const auto payload = Decompress(compressed, size);
  if (!payload) return std::nullopt;
  return DecodeOutcome(*payload);
}

}  // namespace

CompileCache::CompileCache(fs::path folder, Bytes limit, Warning warning)
    : folder_(std::move(folder)),
      limit_(limit),
      warning_(std::move(warning)),
      written_since_trim_(std::numeric_limits<std::int64_t>::max() / 2) {}

Hash CompileCache::Key(std::string_view compiler, const CompileRequest& request,
                       const std::vector<std::string>& base_options) {
  const std::string version = std::to_string(kCacheVersion);
  const std::string base_count = std::to_string(base_options.size());
  std::vector<std::string_view> texts = {version, compiler, request.arch, base_count};
  texts.insert(texts.end(), base_options.begin(), base_options.end());
  texts.insert(texts.end(), request.options.begin(), request.options.end());
  texts.push_back(request.source);
  return HashTexts(texts);
}

fs::path CompileCache::PathOf(const Hash& key) const {
  const std::string hex = key.Hex();
  return folder_ / hex.substr(0, 2) / (hex + std::string(kSuffix));
}

std::optional<CompileOutcome> CompileCache::Find(const Hash& key) const {
  const fs::path path = PathOf(key);
  const auto file = ReadFile(path, kPayloadLimit);
  if (!file) return std::nullopt;
  std::error_code ignored;
  auto outcome = Decode(*file, key);
  if (!outcome) {
    fs::remove(path, ignored);
    return std::nullopt;
  }
  outcome->from_cache = true;
  fs::last_write_time(path, fs::file_time_type::clock::now(), ignored);
  return outcome;
}

void CompileCache::Store(const Hash& key, const CompileOutcome& outcome) {
  using Kind = CompileOutcome::Status;
  if (outcome.status != Kind::kOk && outcome.status != Kind::kError) return;
  const std::string payload = EncodeOutcome(outcome);
  std::string compressed(ZSTD_compressBound(payload.size()), '\0');
  const std::size_t size = ZSTD_compress(compressed.data(), compressed.size(), payload.data(),
                                         payload.size(), kZstdLevel);
  if (ZSTD_isError(size) != 0) return Warn(ZSTD_getErrorName(size));
  compressed.resize(size);

  const Hash checksum = HashText(compressed);
  WireWriter header;
  header.U32(kMagic);
  header.U32(kCacheVersion);
  for (const std::uint64_t word : {key.high, key.low, checksum.high, checksum.low}) {
    header.U64(word);
  }
  header.U64(payload.size());
  header.U64(compressed.size());
  const std::string file = std::move(header).Take() + compressed;

  const fs::path path = PathOf(key);
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  if (error)
    return Warn(fmt::format("cannot make {}: {}", path.parent_path().string(), error.message()));
  if (auto written = WriteFileAtomic(path, file); !written) return Warn(written.error().message);

  const auto bytes = static_cast<std::int64_t>(file.size());
  if (written_since_trim_.fetch_add(bytes) + bytes > limit_.value / 16) {
    written_since_trim_ = 0;
    Trim();
  }
}

void CompileCache::Trim() {
  struct Entry {
    fs::path path;
    fs::file_time_type used;
    std::int64_t bytes;
  };
  std::vector<Entry> entries;
  std::int64_t total = 0;
  const auto now = fs::file_time_type::clock::now();
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder_, error), end; !error && it != end;
       it.increment(error)) {
    // Another process may remove files while we look: what cannot be read is not counted.
    std::error_code gone;
    if (!it->is_regular_file(gone)) continue;
    const std::string name = it->path().filename().string();
    const auto used = it->last_write_time(gone);
    const auto bytes = static_cast<std::int64_t>(it->file_size(gone));
    if (gone) continue;
    if (name.ends_with(kSuffix)) {
      entries.push_back({it->path(), used, bytes});
      total += bytes;
    } else if (name.find(std::string(kSuffix) + ".tmp") != std::string::npos &&
               now - used > std::chrono::hours(1)) {
      fs::remove(it->path(), gone);
    }
  }
  if (total <= limit_.value) return;
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.used < b.used; });
  for (const Entry& entry : entries) {
    if (total <= limit_.value / 10 * 9) break;
    std::error_code gone;
    fs::remove(entry.path, gone);
    total -= entry.bytes;
  }
}

void CompileCache::Warn(std::string_view message) {
  if (warned_.exchange(true) || !warning_) return;
  warning_(fmt::format("the compile cache is not written: {}", message));
}

}  // namespace grove::codegen
