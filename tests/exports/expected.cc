#include "tests/exports/expected.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace grove::results {
namespace {

using codegen::ResolvedArg;
using codegen::ResolvedPlan;
using seeds::Case;

constexpr std::uint64_t kWorkspace = std::uint64_t{100} << 40;
std::uint64_t TensorAddress(std::size_t index) {
  return static_cast<std::uint64_t>(index + 1) << 40;
}

std::string Hex(std::uint64_t value, std::size_t bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes; ++i) text += fmt::format("{:02x}", (value >> (8 * i)) & 0xff);
  return text;
}

// What the recorder should print for one case, from the resolved plan alone.
class Expected {
 public:
  Expected(const Case& c, const ResolvedPlan& plan, const std::vector<std::string>& kernels)
      : case_(c), plan_(plan), kernels_(kernels) {}

  std::string Text(int& maps) {
    std::uint64_t at = kWorkspace;
    for (const auto& w : plan_.workspaces) {
      workspaces_.push_back(at);
      at += static_cast<std::uint64_t>((w.bytes().value + 255) / 256 * 256);
      if (w.zero) {
        out_ += fmt::format("memset {} 0 {} stream 0x77\n", Address(workspaces_.back()),
                            w.bytes().value);
      }
    }
    for (const auto& map : plan_.tensor_maps) {
      maps_.push_back(++maps);
      AddMap(map, maps);
    }
    bool behind_kernel = false;
    for (const auto& launch : plan_.launches) {
      if (launch.gemm) {
        AddGemm(*launch.gemm);
      } else {
        AddLaunch(launch, behind_kernel);
      }
      behind_kernel = launch.gemm == nullptr;
    }
    return out_ + fmt::format("workspace {}\n", at - kWorkspace);
  }

 private:
  static std::string Address(std::uint64_t a) { return fmt::format("{:#x}", a); }

  void AddMap(const codegen::ResolvedTensorMap& map, int number) {
    static const std::map<DType, int> kTypes = {
        {DType::kF64, 8}, {DType::kF32, 7}, {DType::kF16, 6}, {DType::kBF16, 9}, {DType::kI64, 5},
        {DType::kI32, 3}, {DType::kU8, 0},  {DType::kI8, 0},  {DType::kBool, 0}};
    std::uint64_t address = 0;
    for (std::size_t i = 0; i < case_.tensors.size(); ++i) {
      if (case_.tensors[i].name == map.tensor) address = TensorAddress(i);
    }
    for (std::size_t i = 0; i < plan_.workspaces.size(); ++i) {
      if (plan_.workspaces[i].name == map.tensor) address = workspaces_[i];
    }
    const auto mode = [](const std::string& text) {
      return text == "none" ? 0 : text == "32B" ? 1 : text == "64B" ? 2 : text == "128B" ? 3 : 4;
    };
    const int interleave = map.interleave == "none" ? 0 : map.interleave == "16B" ? 1 : 2;
    const int promotion = map.l2_promotion == "none"   ? 0
                          : map.l2_promotion == "64B"  ? 1
                          : map.l2_promotion == "128B" ? 2
                                                       : 3;
    out_ += fmt::format("map {} type {} address {} modes {} {} {} 0", number, kTypes.at(map.dtype),
                        Address(address), interleave, mode(map.swizzle), promotion);
    std::uint64_t stride = SizeOf(map.dtype);
    for (std::size_t i = map.shape.size(); i-- > 0;) {
      stride *= static_cast<std::uint64_t>(map.shape[i]);
      out_ +=
          fmt::format(" dim {} box {} step {}", map.shape[i], map.box[i], map.element_strides[i]);
      if (i > 0) out_ += fmt::format(" stride {}", stride);
    }
    out_ += "\n";
  }

  std::size_t Kernel(const std::string& name) const {
    return static_cast<std::size_t>(std::find(kernels_.begin(), kernels_.end(), name) -
                                    kernels_.begin());
  }

  void AddLaunch(const codegen::ResolvedLaunch& l, bool behind_kernel) {
    const std::size_t kernel = Kernel(l.kernel);
    if (l.shared_bytes > 0 && l.shared_bytes + kStaticShared > 49152) {
      out_ += fmt::format("attribute {} 8 {}\n", kernel, l.shared_bytes);
    }
    if (l.cluster && (*l.cluster)[0] * (*l.cluster)[1] * (*l.cluster)[2] > 8) {
      out_ += fmt::format("attribute {} 14 1\n", kernel);
    }
    out_ += fmt::format("launch {} grid {} block {} shared {} stream 0x77", kernel,
                        fmt::join(l.grid, " "), fmt::join(l.block, " "), l.shared_bytes);
    if (l.cluster) out_ += fmt::format(" cluster {}", fmt::join(*l.cluster, " "));
    if (l.cooperative) out_ += " cooperative 1";
    if (l.dependent && behind_kernel) out_ += " dependent 1";
    out_ += " args";
    for (const ResolvedArg& a : l.args) {
      switch (a.kind) {
        case ResolvedArg::Kind::kTensor:
          out_ += " " + Hex(TensorAddress(a.index), 8);
          break;
        case ResolvedArg::Kind::kWorkspace:
          out_ += " " + Hex(workspaces_[a.index], 8);
          break;
        case ResolvedArg::Kind::kTensorMap:
          out_ += " " + Hex(static_cast<std::uint64_t>(maps_[a.index]), 8);
          break;
        case ResolvedArg::Kind::kScalar: {
          std::string bytes;
          for (std::size_t i = 0; i < a.size; ++i) {
            bytes += fmt::format("{:02x}", static_cast<unsigned>(a.bytes[i]));
          }
          out_ += " " + bytes;
          break;
        }
      }
    }
    out_ += "\n";
  }

  std::string Operand(char name, const codegen::ResolvedMatrix& m) const {
    const std::uint64_t base =
        m.kind == ResolvedArg::Kind::kTensor ? TensorAddress(m.index) : workspaces_[m.index];
    const int type = m.dtype == DType::kF64    ? 1
                     : m.dtype == DType::kF16  ? 2
                     : m.dtype == DType::kBF16 ? 14
                                               : 0;
    return fmt::format(" {} {} {} {} {}", name,
                       Address(base + static_cast<std::uint64_t>(m.offset) * SizeOf(m.dtype)), type,
                       m.ld, m.stride);
  }

  // Numbers of cublas_api.h.
  void AddGemm(const codegen::ResolvedGemm& g) {
    using codegen::GemmCompute;
    const std::map<GemmCompute, int> kCompute = {
        {GemmCompute::kFp32, g.a.dtype == DType::kF32 ? 69 : 68},
        {GemmCompute::kTf32, 77},
        {GemmCompute::kFp16, 74},
        {GemmCompute::kBf16, 75},
        {GemmCompute::kBf16x9, 78},
        {GemmCompute::kFp64, 70}};
    char scale[80];
    std::snprintf(scale, sizeof scale, "%a %a", g.alpha, g.beta);
    out_ += fmt::format(
        "math 0\ngemm {} {} {} {} {} batch {} scale {}{}{}{} compute {} -1\nmath 3\n",
        g.b.transpose ? 1 : 0, g.a.transpose ? 1 : 0, g.n, g.m, g.k, g.batch, scale,
        Operand('a', g.b), Operand('b', g.a), Operand('c', g.c), kCompute.at(g.compute));
  }

  const Case& case_;
  const ResolvedPlan& plan_;
  const std::vector<std::string>& kernels_;
  std::vector<std::uint64_t> workspaces_;
  std::vector<int> maps_;
  std::string out_;
};

}  // namespace

std::string ExpectedCalls(const Case& c, const ResolvedPlan& plan,
                          const std::vector<std::string>& kernels, int& maps) {
  return Expected(c, plan, kernels).Text(maps);
}

std::map<std::string, std::string> Sections(const std::string& text) {
  std::map<std::string, std::string> got;
  std::string* section = nullptr;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    if (line.starts_with("== ")) {
      section = &got[line.substr(3)];
    } else if (section != nullptr) {
      *section += line + "\n";
    }
  }
  return got;
}

std::string Output(const std::string& command) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(::popen(command.c_str(), "r"),
                                                             ::pclose);
  std::string text;
  char buffer[65536];
  while (const std::size_t n = std::fread(buffer, 1, sizeof buffer, pipe.get())) {
    text.append(buffer, n);
  }
  return text;
}

}  // namespace grove::results
