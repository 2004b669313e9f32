#include "eval/cuda/sass.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <iterator>

#include <fmt/format.h>

#include "base/files.h"
#include "base/temporary_folder.h"
#include "eval/cuda/tool.h"

namespace grove::cuda {
namespace {

bool IsWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

struct Prefix {
  std::string_view prefix;
  std::string_view kind;
};

// First match wins, so longer prefixes stand before shorter ones.
constexpr Prefix kPrefixes[] = {
    {"HGMMA", "tensor"},     {"QGMMA", "tensor"},      {"IGMMA", "tensor"},
    {"BGMMA", "tensor"},     {"HMMA", "tensor"},       {"IMMA", "tensor"},
    {"DMMA", "tensor"},      {"QMMA", "tensor"},       {"UTCHMMA", "tensor"},
    {"UTCQMMA", "tensor"},   {"UTMALDG", "bulk copy"}, {"UTMASTG", "bulk copy"},
    {"UBLKCP", "bulk copy"}, {"LDGSTS", "async copy"}, {"LDGDEPBAR", "async copy"},
    {"LDG", "global load"},  {"LD.", "global load"},   {"STG", "global store"},
    {"ST.", "global store"}, {"LDL", "local (spill)"}, {"STL", "local (spill)"},
    {"LDSM", "shared"},      {"STSM", "shared"},       {"LDS", "shared"},
    {"STS", "shared"},       {"ATOMS", "atomic"},      {"ATOMG", "atomic"},
    {"ATOM", "atomic"},      {"RED.", "atomic"},       {"REDG", "atomic"},
    {"LDC", "constant"},     {"ULDC", "constant"},     {"MUFU", "special function"},
    {"SHFL", "warp"},        {"REDUX", "warp"},        {"VOTE", "warp"},
    {"MATCH", "warp"},       {"BAR", "barrier"},       {"SYNCS", "barrier"},
    {"DEPBAR", "barrier"},   {"WARPSYNC", "barrier"},  {"WARPGROUP", "barrier"},
    {"MEMBAR", "barrier"},   {"FENCE", "barrier"},     {"DFMA", "fp64"},
    {"DADD", "fp64"},        {"DMUL", "fp64"},         {"DSETP", "fp64"},
    {"HFMA2", "fp16"},       {"HADD2", "fp16"},        {"HMUL2", "fp16"},
    {"HMNMX2", "fp16"},      {"HSETP2", "fp16"},       {"HSET2", "fp16"},
    {"F2F", "convert"},      {"F2I", "convert"},       {"I2F", "convert"},
    {"F2FP", "convert"},     {"I2FP", "convert"},      {"FRND", "convert"},
    {"FFMA", "fp32"},        {"FADD", "fp32"},         {"FMUL", "fp32"},
    {"FMNMX", "fp32"},       {"FSETP", "fp32"},        {"FSEL", "fp32"},
    {"FSET", "fp32"},        {"FCHK", "fp32"},         {"FSWZADD", "fp32"},
    {"BRA", "control"},      {"BRX", "control"},       {"BSSY", "control"},
    {"BSYNC", "control"},    {"CALL", "control"},      {"RET", "control"},
    {"EXIT", "control"},     {"WARPSYNC", "control"},  {"BREAK", "control"},
    {"YIELD", "control"},    {"UBRA", "control"},      {"BREV", "int"},
    {"IMAD", "int"},         {"IADD", "int"},          {"UIADD", "int"},
    {"UIMAD", "int"},        {"LOP3", "int"},          {"ULOP3", "int"},
    {"SHF", "int"},          {"USHF", "int"},          {"LEA", "int"},
    {"ULEA", "int"},         {"ISETP", "int"},         {"UISETP", "int"},
    {"IMNMX", "int"},        {"VIMNMX", "int"},        {"VIADD", "int"},
    {"IABS", "int"},         {"POPC", "int"},          {"FLO", "int"},
    {"PRMT", "int"},         {"SEL", "int"},           {"SGXT", "int"},
    {"BMSK", "int"},         {"IDP", "int"},           {"PLOP3", "int"},
    {"MOV", "move"},         {"UMOV", "move"},         {"S2R", "move"},
    {"S2UR", "move"},        {"CS2R", "move"},         {"R2UR", "move"},
    {"R2P", "move"},         {"P2R", "move"},
};

// Elements of `mnemonic`'s access in registers of 4 bytes: 4 of LDG.E.128.
int RegistersOf(std::string_view mnemonic) {
  if (mnemonic.find(".128") != std::string_view::npos) return 4;
  return mnemonic.find(".64") != std::string_view::npos ? 2 : 1;
}

int BytesOf(std::string_view mnemonic) {
  if (mnemonic.find(".U8") != std::string_view::npos ||
      mnemonic.find(".S8") != std::string_view::npos) {
    return 1;
  }
  if (mnemonic.find(".U16") != std::string_view::npos ||
      mnemonic.find(".S16") != std::string_view::npos) {
    return 2;
  }
  return 4 * RegistersOf(mnemonic);
}

// The numbers of the registers "R12" that `operands` names, in order; not UR12 and not RZ.
std::vector<int> RegistersNamed(std::string_view operands) {
  std::vector<int> numbers;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const bool starts = operands[i] == 'R' && (i == 0 || !IsWord(operands[i - 1]));
    int number = 0;
    const char* const end = operands.data() + operands.size();
    if (starts && std::from_chars(operands.data() + i + 1, end, number).ec == std::errc()) {
      numbers.push_back(number);
    }
  }
  return numbers;
}

// Follows the loads of one function through its listing.
class LoadsInFlight {
 public:
  // The next instruction; `mix` gets the largest numbers so far.
  void Step(std::string_view mnemonic, std::string_view operands, SassMix& mix) {
    std::vector<int> named = RegistersNamed(operands);
    const bool loads = KindOfSass(mnemonic) == "global load" && !named.empty();
    // Wide stores and products read more registers than they name; of a load it is the address, a
    // pair, and what it writes must be free.
    const int reach = KindOfSass(mnemonic) == "tensor" ? 4 : RegistersOf(mnemonic);
    for (std::size_t i = 0; i < named.size(); ++i) Touch(named[i], loads && i > 0 ? 2 : reach);
    if (!loads) return;
    const Load load{named.front(), RegistersOf(mnemonic), BytesOf(mnemonic)};
    bytes_ += load.bytes;
    under_way_.push_back(load);
    mix.loads_in_flight = std::max(mix.loads_in_flight, static_cast<int>(under_way_.size()));
    mix.bytes_in_flight = std::max(mix.bytes_in_flight, bytes_);
  }

 private:
  struct Load {
    int first = 0;  // register
    int count = 0;  // of registers
    int bytes = 0;
  };

  void Touch(int first, int count) {
    for (std::size_t i = under_way_.size(); i-- > 0;) {
      const Load& load = under_way_[i];
      if (first >= load.first + load.count || load.first >= first + count) continue;
      for (std::size_t done = 0; done <= i; ++done) bytes_ -= under_way_[done].bytes;
      under_way_.erase(under_way_.begin(), under_way_.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      return;
    }
  }

  std::vector<Load> under_way_;  // oldest first
  int bytes_ = 0;
};

std::string_view Trim(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

}  // namespace

std::string_view KindOfSass(std::string_view mnemonic) {
  for (const Prefix& row : kPrefixes) {
    if (mnemonic.starts_with(row.prefix)) return row.kind;
  }
  return "other";
}

std::vector<SassMix> ParseSass(std::string_view listing) {
  std::vector<SassMix> mixes;
  LoadsInFlight loads;
  const auto begin_function = [&](std::string_view name) {
    mixes.emplace_back().kernel = name;
    loads = {};
  };
  while (!listing.empty()) {
    const std::size_t end = listing.find('\n');
    std::string_view line = Trim(listing.substr(0, end));
    listing = end == std::string_view::npos ? std::string_view() : listing.substr(end + 1);
    // cuobjdump: "Function : name"; nvdisasm: ".text.name:".
    constexpr std::string_view kFunction = "Function : ";
    constexpr std::string_view kText = ".text.";
    if (line.starts_with(kFunction)) {
      begin_function(line.substr(kFunction.size()));
      continue;
    }
    if (line.starts_with(kText) && line.ends_with(':')) {
      line.remove_suffix(1);
      begin_function(line.substr(kText.size()));
      continue;
    }
    // "/*0010*/  @!P0 LDG.E R2, [R2.64] ;  /* 0x... */": an address, then the instruction. The
    // encoding's continuation lines have "/* 0x...", with a blank, and no instruction.
    if (mixes.empty() || !line.starts_with("/*") || line.starts_with("/* ")) continue;
    const std::size_t close = line.find("*/");
    if (close == std::string_view::npos) continue;
    if (line.substr(2, close - 2).find_first_not_of("0123456789abcdef") != std::string_view::npos) {
      continue;
    }
    line = Trim(line.substr(close + 2));
    if (line.starts_with('{')) line = Trim(line.substr(1));
    if (line.starts_with('@')) {
      const std::size_t blank = line.find_first_of(" \t");
      if (blank == std::string_view::npos) continue;
      line = Trim(line.substr(blank));
    }
    const std::string_view mnemonic = line.substr(0, line.find_first_of(" \t;"));
    if (mnemonic.empty() || mnemonic == "NOP") continue;
    SassMix& mix = mixes.back();
    ++mix.total;
    ++mix.kinds[std::string(KindOfSass(mnemonic))];
    // Behind the semicolon stands the encoding.
    loads.Step(mnemonic, line.substr(mnemonic.size(), line.find(';') - mnemonic.size()), mix);
  }
  std::erase_if(mixes, [](const SassMix& mix) { return mix.total == 0; });
  return mixes;
}

std::string Describe(const SassMix& mix) {
  std::vector<std::pair<int, std::string>> kinds;
  for (const auto& [kind, count] : mix.kinds) kinds.emplace_back(count, kind);
  std::sort(kinds.begin(), kinds.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  std::string text = fmt::format("{} instructions:", mix.total);
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    text += fmt::format("{} {} {} ({:.0f}%)", i == 0 ? "" : ",", kinds[i].second, kinds[i].first,
                        100.0 * kinds[i].first / mix.total);
  }
  if (mix.loads_in_flight > 0) {
    text +=
        fmt::format("; at most {} global load{} ({} bytes) of a thread under way at once",
                    mix.loads_in_flight, mix.loads_in_flight == 1 ? "" : "s", mix.bytes_in_flight);
  }
  return text;
}

Result<std::vector<SassMix>> DisassembleCubin(std::string_view cubin) {
  const auto cuobjdump = FindTool("cuobjdump");
  const auto nvdisasm = FindTool("nvdisasm");
  if (!cuobjdump && !nvdisasm) {
    return Fail(ErrorCode::kUnavailable,
                "no disassembler here (cuobjdump or nvdisasm of the CUDA toolkit)");
  }
  auto folder = TemporaryFolder::Make("grove-sass");
  if (!folder) return Failure(std::move(folder.error()));
  const std::filesystem::path file = folder->path() / "kernel.cubin";
  Result<std::vector<SassMix>> mixes = Fail(ErrorCode::kInternal, "not run");
  if (auto written = WriteFileAtomic(file, cubin); !written) {
    mixes = Failure(std::move(written.error()));
  } else {
    ToolRun run;
    run.program = cuobjdump ? *cuobjdump : *nvdisasm;
    if (cuobjdump) run.arguments.emplace_back("-sass");
    run.arguments.push_back(file.string());
    run.deadline = std::chrono::milliseconds(30000);
    auto output = RunTool(run);
    if (!output) {
      mixes = Failure(std::move(output.error()));
    } else {
      mixes = ParseSass(output->out);
      if (mixes->empty()) {
        mixes = Fail(ErrorCode::kUnavailable,
                     fmt::format("{} gave no listing ({}): {}", run.program.filename().string(),
                                 output->status.Describe(), output->errors.substr(0, 200)));
      }
    }
  }
  return mixes;
}

}  // namespace grove::cuda
