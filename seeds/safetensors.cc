#include "seeds/safetensors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <simdjson.h>

#include "base/files.h"
#include "base/process.h"
#include "seeds/safetensors_text.h"

namespace grove::seeds {
namespace {

constexpr std::size_t kMaxName = 1024;
constexpr std::size_t kMostDims = 32;

struct NamedType {
  std::string_view name;
  DType dtype;
};
constexpr std::array<NamedType, 9> kTypes = {{{"F64", DType::kF64},
                                              {"F32", DType::kF32},
                                              {"F16", DType::kF16},
                                              {"BF16", DType::kBF16},
                                              {"I64", DType::kI64},
                                              {"I32", DType::kI32},
                                              {"I8", DType::kI8},
                                              {"U8", DType::kU8},
                                              {"BOOL", DType::kBool}}};

Failure Bad(std::string_view what) {
  return Fail(ErrorCode::kInvalidInput, fmt::format("not a safetensors file: {}", what));
}

// Foreign text in a message: short and printable.
std::string Quoted(std::string_view text) {
  std::string plain(text.substr(0, 60));
  for (char& c : plain) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return plain;
}

// All of `out` from `offset` on; false at the end of the file, an errno otherwise.
Status ReadAt(int fd, std::int64_t offset, std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t got = ::pread(fd, out.data(), std::min<std::size_t>(out.size(), 1U << 30),
                                static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Fail(ErrorCode::kResource, std::strerror(errno));
    if (got == 0) return Fail(ErrorCode::kResource, "it ends too early");
    offset += got;
    out = out.subspan(static_cast<std::size_t>(got));
  }
  return {};
}

using Element = simdjson::dom::element;

// One entry; none for a type that we do not have.
Result<std::optional<StoredTensor>> ParseTensor(std::string_view name, Element entry,
                                                std::int64_t data_bytes) {
  const std::string where = fmt::format("tensor '{}'", Quoted(name));
  if (name.empty() || name.size() > kMaxName)
    return Bad("the name of a tensor is empty or too long");
  std::string_view dtype;
  simdjson::dom::array shape, offsets;
  if (entry["dtype"].get(dtype) != simdjson::SUCCESS ||
      entry["shape"].get(shape) != simdjson::SUCCESS ||
      entry["data_offsets"].get(offsets) != simdjson::SUCCESS) {
    return Bad(where + " lacks dtype, shape or data_offsets");
  }
  std::array<std::int64_t, 2> range{};
  std::size_t count = 0;
  for (const Element value : offsets) {
    std::int64_t number = 0;
    if (count == 2 || value.get(number) != simdjson::SUCCESS) {
      return Bad(where + ": data_offsets are not two numbers");
    }
    range[count++] = number;
  }
  if (count != 2) return Bad(where + ": data_offsets are not two numbers");
  if (range[0] < 0 || range[1] < range[0] || range[1] > data_bytes) {
    return Bad(
        fmt::format("{}: data_offsets do not lie in the {} bytes of data", where, data_bytes));
  }
  StoredTensor tensor;
  tensor.name = name;
  tensor.offset = range[0];
  tensor.bytes = range[1] - range[0];
  std::int64_t elements = 1;
  for (const Element value : shape) {
    std::int64_t extent = 0;
    if (value.get(extent) != simdjson::SUCCESS || extent < 0 || tensor.shape.size() == kMostDims) {
      return Bad(where + ": its shape is not a short list of sizes");
    }
    if (__builtin_mul_overflow(elements, extent, &elements)) return Bad(where + " is too large");
    tensor.shape.push_back(extent);
  }
  const auto type = std::find_if(kTypes.begin(), kTypes.end(),
                                 [&](const NamedType& t) { return t.name == dtype; });
  if (type == kTypes.end()) return std::optional<StoredTensor>();
  tensor.dtype = type->dtype;
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(elements, static_cast<std::int64_t>(SizeOf(type->dtype)), &bytes) ||
      bytes != tensor.bytes) {
    return Bad(fmt::format("{} of {} elements in {} cannot have {} bytes", where, elements, dtype,
                           tensor.bytes));
  }
  return std::optional(std::move(tensor));
}

}  // namespace

const StoredTensor* SafetensorsHeader::Find(std::string_view name) const {
  const auto at =
      std::lower_bound(tensors.begin(), tensors.end(), name,
                       [](const StoredTensor& t, std::string_view n) { return t.name < n; });
  return at == tensors.end() || at->name != name ? nullptr : &*at;
}

Result<SafetensorsHeader> ParseSafetensorsHeader(std::string_view json, std::int64_t header_end,
                                                 std::int64_t file_bytes) {
  simdjson::dom::parser parser(kMaxSafetensorsHeader + 64);
  Element root;
  if (const auto error = parser.parse(json.data(), json.size()).get(root);
      error != simdjson::SUCCESS) {
    return Bad(fmt::format("its header is not JSON ({})", simdjson::error_message(error)));
  }
  simdjson::dom::object object;
  if (root.get(object) != simdjson::SUCCESS) return Bad("its header is not an object");
  SafetensorsHeader header;
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
  for (const auto& [name, entry] : object) {
    if (name == "__metadata__") continue;
    if (ranges.size() == kMaxStoredTensors) return Bad("it has too many tensors");
    auto tensor = ParseTensor(name, entry, file_bytes - header_end);
    if (!tensor) return Failure(std::move(tensor.error()));
    if (!*tensor) continue;
    ranges.emplace_back((*tensor)->offset, (*tensor)->offset + (*tensor)->bytes);
    (*tensor)->offset += header_end;
    header.tensors.push_back(std::move(**tensor));
  }
  std::sort(ranges.begin(), ranges.end());
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i].first < ranges[i - 1].second) return Bad("two tensors overlap");
  }
  std::sort(header.tensors.begin(), header.tensors.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  const auto twice =
      std::adjacent_find(header.tensors.begin(), header.tensors.end(),
                         [](const auto& a, const auto& b) { return a.name == b.name; });
  if (twice != header.tensors.end()) {
    return Bad(fmt::format("two tensors have the name '{}'", Quoted(twice->name)));
  }
  return header;
}

Result<SafetensorsHeader> ReadSafetensorsHeader(const std::filesystem::path& file) {
  const auto where = [&](Error error) {
    error.message = fmt::format("{}: {}", file.string(), error.message);
    return Failure(std::move(error));
  };
  const FileDescriptor fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) {
    return Fail(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kResource,
                fmt::format("{}: {}", file.string(), std::strerror(errno)));
  }
  struct stat status = {};
  if (::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_size < 10) {
    return where({ErrorCode::kInvalidInput, "not a safetensors file: too short, or no file"});
  }
  std::array<std::byte, 8> length_bytes{};
  if (auto read = ReadAt(fd.get(), 0, length_bytes); !read) return where(read.error());
  std::uint64_t length = 0;
  for (std::size_t i = 8; i-- > 0;) {
    length = length << 8 | std::to_integer<std::uint64_t>(length_bytes[i]);
  }
  if (length > kMaxSafetensorsHeader || length + 8 > static_cast<std::uint64_t>(status.st_size)) {
    return where(
        {ErrorCode::kInvalidInput, fmt::format("not a safetensors file: a header of {} bytes in {}",
                                               length, static_cast<std::int64_t>(status.st_size))});
  }
  std::string json(length, '\0');
  if (auto read = ReadAt(fd.get(), 8, std::as_writable_bytes(std::span(json))); !read) {
    return where(read.error());
  }
  auto header = ParseSafetensorsHeader(json, static_cast<std::int64_t>(length) + 8,
                                       static_cast<std::int64_t>(status.st_size));
  if (!header) return where(std::move(header.error()));
  return header;
}

Status ReadStored(const Stored& stored, std::int64_t first, std::span<std::byte> out) {
  const FileDescriptor fd(::open(stored.file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) {
    return Fail(ErrorCode::kResource, fmt::format("{}: {}", stored.file, std::strerror(errno)));
  }
  if (auto read = ReadAt(fd.get(), stored.offset + first, out); !read) {
    return Fail(ErrorCode::kResource,
                fmt::format("{}: tensor '{}': {}", stored.file, stored.key, read.error().message));
  }
  return {};
}

Result<SafetensorsHeader> ReadSafetensorsText(std::string_view text) {
  if (text.size() < 10) return Bad("not safetensors: too short");
  std::uint64_t length = 0;
  for (std::size_t i = 8; i-- > 0;) {
    length = length << 8 | static_cast<unsigned char>(text[i]);
  }
  if (length > kMaxSafetensorsHeader || length + 8 > text.size()) {
    return Bad(fmt::format("not safetensors: a header of {} bytes in {}", length, text.size()));
  }
  return ParseSafetensorsHeader(text.substr(8, length), static_cast<std::int64_t>(length) + 8,
                                static_cast<std::int64_t>(text.size()));
}

std::string SafetensorsText(const std::vector<Tensor>& tensors,
                            const std::vector<std::string>& contents,
                            const std::vector<std::pair<std::string, std::string>>& metadata) {
  std::string header;
  std::size_t offset = 0;
  for (const auto& [key, value] : metadata) {
    header += fmt::format(R"({}"{}":"{}")", header.empty() ? "" : ",", key, value);
  }
  if (!header.empty()) header = fmt::format(R"("__metadata__":{{{}}})", header);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto type = std::find_if(kTypes.begin(), kTypes.end(),
                                   [&](const NamedType& t) { return t.dtype == tensors[i].dtype; });
    // A tensor's name is an identifier: nothing to escape.
    header += fmt::format(R"({}"{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                          header.empty() ? "" : ",", tensors[i].name, type->name,
                          fmt::join(tensors[i].shape, ","), offset, offset + contents[i].size());
    offset += contents[i].size();
  }
  header = "{" + header + "}";
  header.append((8 - header.size() % 8) % 8, ' ');
  std::string text;
  text.reserve(8 + header.size() + offset);
  for (std::size_t i = 0; i < 8; ++i) {
    text += static_cast<char>(header.size() >> (8 * i) & 0xff);
  }
  text += header;
  for (const std::string& content : contents) text += content;
  return text;
}

Status WriteSafetensors(const std::filesystem::path& file, const std::vector<Tensor>& tensors,
                        const std::vector<std::string>& contents) {
  return WriteFileAtomic(file, SafetensorsText(tensors, contents));
}

}  // namespace grove::seeds
