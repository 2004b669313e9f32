// Reads the safetensors format: 8 bytes of header length (little endian), a JSON object of that
// length, then the data.
//
//   {"NAME": {"dtype": "F32", "shape": [4096, 512], "data_offsets": [begin, end]}, ...,
//    "__metadata__": {"any": "text"}}
//
// Offsets count from the end of the header. The file is foreign: the header is bounded, every
// tensor must lie inside the file, in order and without overlap, and its size must be that of its
// type and shape. Only the header is read into memory. Functions are thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"
#include "seeds/task.h"

namespace grove::seeds {

inline constexpr std::uint64_t kMaxSafetensorsHeader = std::uint64_t{16} << 20;  // bytes
inline constexpr std::size_t kMaxStoredTensors = 100000;

struct StoredTensor {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
  std::int64_t offset = 0;  // of the first byte, from the beginning of the file
  std::int64_t bytes = 0;
};

struct SafetensorsHeader {
  std::vector<StoredTensor> tensors;  // sorted by name
  const StoredTensor* Find(std::string_view name) const;
};

// `json` is the header's text, `header_end` where the data begin and `file_bytes` the size of the
// file. Tensors of types that we do not have (F8_E4M3, ...) are left out. kInvalidInput.
Result<SafetensorsHeader> ParseSafetensorsHeader(std::string_view json, std::int64_t header_end,
                                                 std::int64_t file_bytes);

// kNotFound when there is no such file; kInvalidInput, with the path, when it is not one of these.
Result<SafetensorsHeader> ReadSafetensorsHeader(const std::filesystem::path& file);

// Reads the contents of a tensor that LoadTask has found, from element byte `first` on. kResource
// when the file is gone or has become shorter.
Status ReadStored(const Stored& stored, std::int64_t first, std::span<std::byte> out);

// Writes tensors with their contents, whole or not at all (WriteFileAtomic).
// REQUIRES: as many contents as tensors, each of the tensor's size.
Status WriteSafetensors(const std::filesystem::path& file, const std::vector<Tensor>& tensors,
                        const std::vector<std::string>& contents);

}  // namespace grove::seeds
