#include "codegen/cubin.h"

#include <cstring>
#include <random>

#include <elf.h>
#include <gtest/gtest.h>

namespace grove::codegen {
namespace {

// Builds the ELF file of a cubin as NVRTC lays it out: sections in order, names, symbols.
class CubinBuilder {
 public:
  CubinBuilder() { AddSection("", "", 0, SHT_NULL); }

  std::size_t AddSection(const std::string& name, std::string bytes, std::uint64_t size,
                         std::uint32_t type) {
    sections_.push_back({name, std::move(bytes), size, type});
    return sections_.size() - 1;
  }
  void AddSection(const std::string& name, const std::string& bytes) {
    AddSection(name, bytes, bytes.size(), SHT_PROGBITS);
  }
  // Returns the symbol's index.
  std::uint32_t AddKernel(const std::string& name, bool entry = true) {
    Elf64_Sym symbol{};
    symbol.st_name = static_cast<Elf64_Word>(names_.size());
    symbol.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
    symbol.st_other = entry ? 0x10 : 0;
    names_ += name + '\0';
    symbols_.append(reinterpret_cast<const char*>(&symbol), sizeof symbol);
    return static_cast<std::uint32_t>(symbols_.size() / sizeof symbol - 1);
  }

  std::string Build() {
    AddSection(".symtab", symbols_);
    AddSection(".strtab", names_);
    std::string section_names;
    std::string body;
    const std::size_t names_index = sections_.size();
    sections_.push_back({".shstrtab", "", 0, SHT_STRTAB});
    std::vector<Elf64_Shdr> headers;
    for (const Section& section : sections_) {
      Elf64_Shdr header{};
      header.sh_name = static_cast<Elf64_Word>(section_names.size());
      section_names += section.name + '\0';
      header.sh_type = section.type;
      headers.push_back(header);
    }
    sections_.back().bytes = section_names;
    sections_.back().size = section_names.size();
    for (std::size_t i = 0; i < sections_.size(); ++i) {
      headers[i].sh_offset = sizeof(Elf64_Ehdr) + body.size();
      headers[i].sh_size = sections_[i].size;
      body += sections_[i].bytes;
    }
    Elf64_Ehdr file{};
    std::memcpy(file.e_ident, ELFMAG, SELFMAG);
    file.e_ident[EI_CLASS] = ELFCLASS64;
    file.e_machine = 190;
    file.e_shentsize = sizeof(Elf64_Shdr);
    file.e_shoff = sizeof file + body.size();
    file.e_shnum = static_cast<Elf64_Half>(headers.size());
    file.e_shstrndx = static_cast<Elf64_Half>(names_index);
    std::string out(reinterpret_cast<const char*>(&file), sizeof file);
    out += body;
    for (const Elf64_Shdr& header : headers) {
      out.append(reinterpret_cast<const char*>(&header), sizeof header);
    }
    return out;
  }

 private:
  struct Section {
    std::string name;
    std::string bytes;
    std::uint64_t size;
    std::uint32_t type;
  };
  std::vector<Section> sections_;
  std::string symbols_ = std::string(sizeof(Elf64_Sym), '\0');
  std::string names_ = std::string(1, '\0');
};

std::string Words(std::initializer_list<std::uint32_t> words) {
  std::string bytes;
  for (const std::uint32_t word : words) {
    for (int i = 0; i < 4; ++i) bytes.push_back(static_cast<char>(word >> (8 * i)));
  }
  return bytes;
}

// A sized attribute: {4, attribute, size, data}.
std::string Attribute(std::uint32_t attribute, std::initializer_list<std::uint32_t> data) {
  return Words({4u | attribute << 8 | static_cast<std::uint32_t>(4 * data.size()) << 16}) +
         Words(data);
}

std::string Sample() {
  CubinBuilder builder;
  const std::uint32_t k = builder.AddKernel("k");
  const std::uint32_t helper = builder.AddKernel("helper", false);
  const std::uint32_t plain = builder.AddKernel("plain");
  builder.AddSection(".nv.info", Attribute(0x2f, {k, 40}) + Attribute(0x11, {k, 520}) +
                                     Attribute(0x12, {k, 528}) + Attribute(0x2f, {helper, 99}) +
                                     Attribute(0x2f, {plain, 12}));
  // Between sized attributes stand short ones, of 4 bytes in all.
  builder.AddSection(".nv.info.k", Words({0x00ff1b03}) + Attribute(0x05, {256, 2, 1}));
  builder.AddSection(".nv.shared.k", "", 4096, 0x7000000a);
  return builder.Build();
}

TEST(Cubin, EntryPointsAndWhatTheyTakeAreRead) {
  const auto kernels = ReadCubin(Sample());
  ASSERT_TRUE(kernels) << kernels.error().message;
  ASSERT_EQ(kernels->size(), 2u);
  const CubinKernel& k = (*kernels)[0];
  EXPECT_EQ(k.name, "k");
  EXPECT_EQ(k.registers, 40);
  EXPECT_EQ(k.stack_bytes, 528);
  EXPECT_EQ(k.static_shared, 4096);
  EXPECT_EQ(k.max_threads, 512);
  const CubinKernel& plain = (*kernels)[1];
  EXPECT_EQ(plain.name, "plain");
  EXPECT_EQ(plain.registers, 12);
  EXPECT_EQ(plain.static_shared, 0);
  EXPECT_EQ(plain.max_threads, 0);
}

TEST(Cubin, TheKilobyteThatCudaKeepsIsNotTheKernels) {
  CubinBuilder builder;
  builder.AddKernel("k");
  builder.AddKernel("none");
  builder.AddSection(".nv.shared.reserved.0", "", 0, SHT_NOBITS);
  builder.AddSection(".nv.shared.k", "", 1040, SHT_NOBITS);
  builder.AddSection(".nv.shared.none", "", 1024, SHT_NOBITS);
  const auto kernels = ReadCubin(builder.Build());
  ASSERT_TRUE(kernels) << kernels.error().message;
  EXPECT_EQ(kernels->at(0).static_shared, 16);
  EXPECT_EQ(kernels->at(1).static_shared, 0);
}

TEST(Cubin, OtherFilesAreRefused) {
  EXPECT_FALSE(ReadCubin(""));
  EXPECT_FALSE(
      ReadCubin("text that is long enough to be the header of an ELF file but is none...."));
  std::string other_machine = Sample();
  other_machine[offsetof(Elf64_Ehdr, e_machine)] = 62;
  EXPECT_FALSE(ReadCubin(other_machine));
}

TEST(Cubin, EveryCutFileIsRefused) {
  const std::string good = Sample();
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(ReadCubin(std::string_view(good).substr(0, size))) << size;
  }
}

TEST(Cubin, AnAttributeListThatIsCutOffIsRefused) {
  CubinBuilder builder;
  const std::uint32_t k = builder.AddKernel("k");
  std::string list = Attribute(0x2f, {k, 40});
  list.resize(list.size() - 2);
  builder.AddSection(".nv.info", list);
  EXPECT_FALSE(ReadCubin(builder.Build()));
}

TEST(Cubin, RandomDamageIsNeverReadOutOfBounds) {
  const std::string good = Sample();
  for (const unsigned seed : {1u, 2u, 3u}) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    int refused = 0;
    for (int round = 0; round < 3000; ++round) {
      std::string bad = good;
      for (int i = 0; i < 4; ++i) bad[random() % bad.size()] = static_cast<char>(random());
      refused += ReadCubin(bad) ? 0 : 1;
    }
    EXPECT_GT(refused, 0);
    EXPECT_LT(refused, 3000);
  }
}

}  // namespace
}  // namespace grove::codegen
