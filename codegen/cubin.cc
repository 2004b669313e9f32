#include "codegen/cubin.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

#include <elf.h>
#include <fmt/format.h>

namespace grove::codegen {
namespace {

constexpr Elf64_Half kMachineCuda = 190;     // EM_CUDA
constexpr unsigned char kEntryFlag = 0x10;   // st_other of a __global__ function
constexpr std::size_t kMaxSections = 65536;  // far more than NVRTC makes of 1 MiB of source

// Attributes of .nv.info (EIATTR_*), as cuobjdump names them.
constexpr std::uint8_t kMaxThreads = 0x05;    // u32 x, y, z
constexpr std::uint8_t kFrameSize = 0x11;     // u32 symbol, u32 bytes
constexpr std::uint8_t kMinStackSize = 0x12;  // u32 symbol, u32 bytes
constexpr std::uint8_t kRegCount = 0x2f;      // u32 symbol, u32 registers
// From sm_90 on, CUDA keeps 1 KB of every block's shared memory, in front of the kernel's own. The
// section's size then includes it; the section below is there to say so.
constexpr std::int64_t kReservedShared = 1024;  // bytes
constexpr std::string_view kReservedSection = ".nv.shared.reserved.0";
constexpr std::uint8_t kSized = 0x04;  // format: u16 size, then data

std::optional<std::string_view> Slice(std::string_view bytes, std::uint64_t offset,
                                      std::uint64_t size) {
  if (offset > bytes.size() || size > bytes.size() - offset) return std::nullopt;
  return bytes.substr(offset, size);
}

template <typename T>
std::optional<T> ReadAt(std::string_view bytes, std::uint64_t offset) {
  const auto slice = Slice(bytes, offset, sizeof(T));
  if (!slice) return std::nullopt;
  T value;
  std::memcpy(&value, slice->data(), sizeof value);
  return value;
}

std::string_view TextAt(std::string_view table, std::uint64_t offset) {
  if (offset >= table.size()) return {};
  const std::string_view rest = table.substr(offset);
  return rest.substr(0, rest.find('\0'));
}

struct Section {
  std::string_view name;
  std::string_view bytes;  // empty for NOBITS
  std::uint64_t size = 0;
};

using Sections = std::vector<Section>;

Failure Damaged(std::string_view what) {
  return Fail(ErrorCode::kInvalidInput, fmt::format("the cubin is damaged: {}", what));
}

Result<Sections> ReadSections(std::string_view cubin) {
  const auto header = ReadAt<Elf64_Ehdr>(cubin, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_machine != kMachineCuda) {
    return Damaged("it is no 64-bit CUDA ELF file");
  }
  if (header->e_shentsize != sizeof(Elf64_Shdr) || header->e_shoff > cubin.size()) {
    return Damaged("its section table is out of place");
  }
  const auto read_header = [&](std::uint64_t index) {
    return ReadAt<Elf64_Shdr>(cubin, header->e_shoff + index * sizeof(Elf64_Shdr));
  };
  // 0 means "too many for this field": the count stands in the first section's size then.
  std::uint64_t count = header->e_shnum;
  std::uint64_t names_index = header->e_shstrndx;
  if (const auto first = read_header(0)) {
    if (count == 0) count = first->sh_size;
    if (names_index == SHN_XINDEX) names_index = first->sh_link;
  }
  if (count > kMaxSections || names_index >= count) return Damaged("it names too many sections");
  const auto names_header = read_header(names_index);
  if (!names_header) return Damaged("its section table is cut off");
  const auto names = Slice(cubin, names_header->sh_offset, names_header->sh_size);
  if (!names) return Damaged("its section names are cut off");

  Sections sections;
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto section = read_header(i);
    if (!section) return Damaged("its section table is cut off");
    const std::string_view name = TextAt(*names, section->sh_name);
    // NOBITS is CUDA's own type for .nv.shared.*, whose size may lie beyond the file.
    const bool in_file = section->sh_type != SHT_NOBITS && !name.starts_with(".nv.shared.");
    std::optional<std::string_view> bytes = std::string_view();
    if (in_file) bytes = Slice(cubin, section->sh_offset, section->sh_size);
    if (!bytes) return Damaged(fmt::format("section {} is cut off", i));
    sections.push_back({name, *bytes, section->sh_size});
  }
  return sections;
}

// Calls visit(attribute, data) for every sized attribute; false when the list is cut off.
template <typename Visit>
bool ForEachAttribute(std::string_view info, Visit visit) {
  while (!info.empty()) {
    const auto size = ReadAt<std::uint16_t>(info, 2);
    if (!size) return false;
    const auto format = static_cast<std::uint8_t>(info[0]);
    const auto attribute = static_cast<std::uint8_t>(info[1]);
    info.remove_prefix(4);
    if (format != kSized) continue;
    const auto data = Slice(info, 0, *size);
    if (!data) return false;
    visit(attribute, *data);
    info.remove_prefix(*size);
  }
  return true;
}

const Section* Find(const Sections& sections, std::string_view name) {
  const auto found = std::find_if(sections.begin(), sections.end(),
                                  [&](const Section& section) { return section.name == name; });
  return found == sections.end() ? nullptr : &*found;
}

}  // namespace

Result<std::vector<CubinKernel>> ReadCubin(std::string_view cubin) {
  const auto sections = ReadSections(cubin);
  if (!sections) return tl::unexpected(sections.error());
  const Section* symbols = Find(*sections, ".symtab");
  const Section* names = Find(*sections, ".strtab");
  if (symbols == nullptr || names == nullptr) return Damaged("it has no symbols");

  std::vector<CubinKernel> kernels;
  std::map<std::uint32_t, std::size_t> kernel_of_symbol;
  const std::size_t count = symbols->bytes.size() / sizeof(Elf64_Sym);
  for (std::size_t i = 0; i < count; ++i) {
    const auto symbol = *ReadAt<Elf64_Sym>(symbols->bytes, i * sizeof(Elf64_Sym));
    if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || (symbol.st_other & kEntryFlag) == 0) continue;
    kernel_of_symbol[static_cast<std::uint32_t>(i)] = kernels.size();
    kernels.push_back({std::string(TextAt(names->bytes, symbol.st_name)), 0, 0, 0, 0});
  }

  for (const Section& section : *sections) {
    if (section.name != ".nv.info") continue;
    const bool whole =
        ForEachAttribute(section.bytes, [&](std::uint8_t attribute, std::string_view data) {
          const auto symbol = ReadAt<std::uint32_t>(data, 0);
          const auto value = ReadAt<std::uint32_t>(data, 4);
          if (!symbol || !value) return;
          const auto found = kernel_of_symbol.find(*symbol);
          if (found == kernel_of_symbol.end()) return;
          CubinKernel& kernel = kernels[found->second];
          if (attribute == kRegCount) kernel.registers = *value;
          if (attribute == kFrameSize || attribute == kMinStackSize) {
            kernel.stack_bytes = std::max(kernel.stack_bytes, std::int64_t{*value});
          }
        });
    if (!whole) return Damaged("its attributes are cut off");
  }
  const bool reserves = Find(*sections, kReservedSection) != nullptr;
  for (CubinKernel& kernel : kernels) {
    if (const Section* shared = Find(*sections, ".nv.shared." + kernel.name)) {
      kernel.static_shared =
          static_cast<std::int64_t>(std::min<std::uint64_t>(shared->size, std::uint64_t{1} << 40));
      if (reserves)
        kernel.static_shared = std::max<std::int64_t>(0, kernel.static_shared - kReservedShared);
    }
    const Section* info = Find(*sections, ".nv.info." + kernel.name);
    if (info == nullptr) continue;
    const bool whole =
        ForEachAttribute(info->bytes, [&](std::uint8_t attribute, std::string_view data) {
          if (attribute != kMaxThreads) return;
          std::uint64_t threads = 1;
          for (std::uint64_t axis = 0; axis < 3; ++axis) {
            threads *= std::min(ReadAt<std::uint32_t>(data, 4 * axis).value_or(1), 1u << 16);
          }
          kernel.max_threads = static_cast<std::int64_t>(threads);
        });
    if (!whole) return Damaged("its attributes are cut off");
  }
  return kernels;
}

}  // namespace grove::codegen
