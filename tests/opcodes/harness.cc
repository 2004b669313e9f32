#include "tests/opcodes/harness.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/hash.h"
#include "eval/emulator/emulator.h"

namespace grove::emulator::opcodes {
namespace {

constexpr std::size_t kOperandBytes = 32;
constexpr std::size_t kResultBytes = 16;

std::string Declare(const std::string& type, const std::string& name) {
  return fmt::format("  .reg .{} {};\n", type == "b8" ? "b16" : type, name);
}

std::uint64_t WidthMask(const std::string& type) {
  if (type == "b8") return 0xff;
  if (type == "b16") return 0xffff;
  if (type == "b64" || type == "f64") return ~std::uint64_t{0};
  return 0xffffffff;
}

bool IsNan(std::uint64_t bits, As as) {
  switch (as) {
    case As::kF32:
      return std::isnan(F32(bits));
    case As::kF64:
      return std::isnan(F64(bits));
    case As::kF16:
      return (bits & 0x7fff) > 0x7c00;
    case As::kBF16:
      return (bits & 0x7fff) > 0x7f80;
    default:
      return false;
  }
}

bool Same(std::uint64_t got, std::uint64_t want, As as) {
  if (as == As::kF16x2 || as == As::kBF16x2) {
    const As half = as == As::kF16x2 ? As::kF16 : As::kBF16;
    return Same(got & 0xffff, want & 0xffff, half) &&
           Same((got >> 16) & 0xffff, (want >> 16) & 0xffff, half);
  }
  if (IsNan(want, as)) return IsNan(got, as);
  return got == want;
}

std::vector<std::byte> PointerParam(std::uint64_t address) {
  std::vector<std::byte> bytes(8);
  std::memcpy(bytes.data(), &address, 8);
  return bytes;
}

// With GROVE_DUMP_PTX set, every module is also written there, so that ptxas can judge it.
void Dump(const std::string& ptx) {
  const char* folder = std::getenv("GROVE_DUMP_PTX");
  if (folder == nullptr) return;
  const std::size_t key = std::hash<std::string>{}(ptx);
  std::ofstream(fmt::format("{}/{:016x}.ptx", folder, key)) << ptx;
}

std::string Prologue() {
  return R"(.version 8.6
.target sm_90a
.address_size 64

.visible .entry k(.param .u64 p_in, .param .u64 p_out)
{
  .reg .b64 in, out, t8, gid64;
  .reg .b32 tid, gid, cta, ntid;
  .reg .pred p, q, r;
)";
}

std::string Loads() {
  return R"(  ld.param.u64 in, [p_in];
  ld.param.u64 out, [p_out];
  cvta.to.global.u64 in, in;
  cvta.to.global.u64 out, out;
  mov.u32 tid, %tid.x;
  mul.wide.u32 t8, tid, 8;
)";
}

}  // namespace

std::string ModuleText(const std::string& declarations, const std::string& body) {
  return Prologue() + declarations + Loads() + body + "\n  ret;\n}\n";
}

bool RunModule(const std::string& ptx, std::span<std::byte> in, std::span<std::byte> out,
               std::int64_t threads, std::int64_t blocks, std::int64_t shared_bytes) {
  Dump(ptx);
  const auto module = LoadModule(ptx);
  if (!module) {
    ADD_FAILURE() << module.error().message << "\n" << ptx;
    return false;
  }
  AddressSpace memory;
  const auto map = [&](const char* name, std::span<std::byte> span) {
    AddressSpace::Buffer buffer;
    buffer.name = name;
    buffer.host = span.data();
    buffer.bytes = static_cast<std::int64_t>(span.size());
    return memory.Map(buffer);
  };
  LaunchConfig config;
  config.kernel = "k";
  config.grid = {blocks, 1, 1};
  config.block = {threads, 1, 1};
  config.shared_bytes = shared_bytes;
  config.params = {PointerParam(map("in", in)), PointerParam(map("out", out))};
  const LaunchOutcome outcome = Run(**module, config, memory, LaunchOptions{});
  if (outcome.fault) {
    ADD_FAILURE() << Name(outcome.fault->kind) << ": " << outcome.fault->message << " ["
                  << outcome.fault->instruction << "]";
    return false;
  }
  return true;
}

std::vector<Results> Execute(const Op& op, std::span<const Operands> lanes) {
  static constexpr std::array<const char*, 4> kNames{"a", "b", "c", "f"};
  std::string text = Prologue() + op.declarations + "\n" + Declare(op.out, "d");
  if (!op.out2.empty()) text += Declare(op.out2, "e");
  for (std::size_t i = 0; i < op.in.size(); ++i) text += Declare(op.in[i], kNames[i]);
  text += Loads();
  text += fmt::format(R"(  mov.u32 cta, %ctaid.x;
  mov.u32 ntid, %ntid.x;
  mad.lo.u32 gid, cta, ntid, tid;
  mul.wide.u32 gid64, gid, {};
  add.u64 in, in, gid64;
  mul.wide.u32 gid64, gid, {};
  add.u64 out, out, gid64;
)",
                      kOperandBytes, kResultBytes);
  for (std::size_t i = 0; i < op.in.size(); ++i) {
    text += fmt::format("  ld.global.{} {}, [in+{}];\n", op.in[i], kNames[i], 8 * i);
  }
  text += "  " + op.body + "\n";
  text += fmt::format("  st.global.{} [out], d;\n", op.out);
  if (!op.out2.empty()) text += fmt::format("  st.global.{} [out+8], e;\n", op.out2);
  text += "  ret;\n}\n";

  constexpr std::size_t kThreads = 128;
  const std::size_t blocks = (lanes.size() + kThreads - 1) / kThreads;
  std::vector<Operands> in(lanes.begin(), lanes.end());
  in.resize(blocks * kThreads, lanes.empty() ? Operands{} : lanes[0]);
  std::vector<Results> out(in.size(), Results{});
  const bool ok =
      RunModule(text, std::as_writable_bytes(std::span(in)), std::as_writable_bytes(std::span(out)),
                kThreads, static_cast<std::int64_t>(blocks));
  if (!ok) return {};
  out.resize(lanes.size());
  for (Results& r : out) {
    r[0] &= WidthMask(op.out);
    r[1] &= WidthMask(op.out2);
  }
  return out;
}

void Check(const Op& op, std::span<const Operands> lanes, const Expected& expected, As as) {
  const std::vector<Results> got = Execute(op, lanes);
  if (got.empty()) return;
  int shown = 0;
  std::size_t wrong = 0;
  std::string report;
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    const std::uint64_t want = expected(lanes[i]) & WidthMask(op.out);
    if (Same(got[i][0], want, as)) continue;
    ++wrong;
    if (shown++ >= 4) continue;
    report += "\n  ";
    for (std::size_t k = 0; k < op.in.size(); ++k) report += fmt::format("{:#x} ", lanes[i][k]);
    report += fmt::format("-> {:#x}, expected {:#x}", got[i][0], want);
  }
  if (wrong > 0) {
    ADD_FAILURE() << op.body << ": " << wrong << " of " << lanes.size() << " lanes differ"
                  << report;
  }
}

namespace {

void AddRandom(std::vector<std::uint64_t>* values, int n, std::uint64_t mask) {
  std::mt19937_64 rng(20250101);
  for (int i = 0; i < n; ++i) values->push_back(rng() & mask);
}

}  // namespace

std::vector<std::uint64_t> Ints16() {
  std::vector<std::uint64_t> v{0,      1,      2,      3,      7,      8,      15,
                               16,     17,     0x7f,   0x80,   0xff,   0x100,  0x7ffe,
                               0x7fff, 0x8000, 0x8001, 0xfffe, 0xffff, 0x1234, 0xbeef};
  AddRandom(&v, 5, 0xffff);
  return v;
}

std::vector<std::uint64_t> Ints32() {
  std::vector<std::uint64_t> v{
      0,          1,          2,          3,          7,          8,         15,         16,
      24,         31,         32,         33,         63,         64,        0x7f,       0x80,
      0xff,       0x100,      0x7fff,     0x8000,     0xffff,     0x10000,   0x7ffffffe, 0x7fffffff,
      0x80000000, 0x80000001, 0xfffffffe, 0xffffffff, 0x12345678, 0xdeadbeef};
  AddRandom(&v, 6, 0xffffffff);
  return v;
}

std::vector<std::uint64_t> Ints64() {
  std::vector<std::uint64_t> v{0,
                               1,
                               2,
                               3,
                               31,
                               32,
                               33,
                               63,
                               64,
                               65,
                               0xff,
                               0x7fffffff,
                               0x80000000,
                               0xffffffff,
                               0x100000000,
                               0x7fffffffffffffff,
                               0x8000000000000000,
                               0x8000000000000001,
                               0xfffffffffffffffe,
                               0xffffffffffffffff,
                               0x123456789abcdef0,
                               0xdeadbeefcafebabe};
  AddRandom(&v, 6, ~std::uint64_t{0});
  return v;
}

std::vector<std::uint64_t> Floats32() {
  std::vector<std::uint64_t> v;
  for (const std::uint64_t bits :
       {0x00000000, 0x00000001, 0x00000123, 0x007fffff, 0x00800000, 0x00800001,
        0x3f800000, 0x3f800001, 0x3f7fffff, 0x3f000000, 0x3effffff, 0x3fc00000,
        0x40200000, 0x40400000, 0x3dcccccd, 0x40490fdb, 0x4b000001, 0x4b800000,
        0x4effffff, 0x4f000000, 0x4f7fffff, 0x4f800000, 0x5effffff, 0x5f000000,
        0x5f800000, 0x1e3ce508, 0x60ad78ec, 0x7f7fffff, 0x7f800000, 0x7fc00000}) {
    v.push_back(bits);
    v.push_back(bits | 0x80000000);
  }
  AddRandom(&v, 6, 0xffffffff);
  return v;
}

std::vector<std::uint64_t> Floats64() {
  std::vector<std::uint64_t> v;
  for (const double x : {0.0,
                         4.9406564584124654e-324,
                         2.2250738585072009e-308,
                         2.2250738585072014e-308,
                         1.0,
                         1.0 + 0x1p-52,
                         1.0 - 0x1p-53,
                         0.5,
                         1.5,
                         2.5,
                         3.0,
                         0.1,
                         1e-45,
                         1.4e-45,
                         1.1754943508222875e-38,
                         3.4028234663852886e+38,
                         3.4028235677973366e+38,
                         65504.0,
                         65519.999,
                         65520.0,
                         2147483647.0,
                         2147483647.5,
                         2147483648.0,
                         4294967295.0,
                         4294967296.0,
                         0x1p53,
                         0x1p53 + 2,
                         0x1p63,
                         0x1p64,
                         0x1.fffffffffffffp62,
                         1e300,
                         1.7976931348623157e308,
                         HUGE_VAL,
                         std::nan("")}) {
    v.push_back(Bits(x));
    v.push_back(Bits(x) | (std::uint64_t{1} << 63));
  }
  AddRandom(&v, 6, ~std::uint64_t{0});
  return v;
}

std::vector<std::uint64_t> Halves() {
  std::vector<std::uint64_t> v;
  for (const std::uint64_t bits :
       {0x0000, 0x0001, 0x0123, 0x03ff, 0x0400, 0x0401, 0x3800, 0x3bff, 0x3c00, 0x3c01, 0x3e00,
        0x4248, 0x2e66, 0x5bff, 0x6400, 0x7bff, 0x7c00, 0x7e00}) {
    v.push_back(bits);
    v.push_back(bits | 0x8000);
  }
  AddRandom(&v, 6, 0xffff);
  return v;
}

std::vector<std::uint64_t> BFloats() {
  std::vector<std::uint64_t> v;
  for (const std::uint64_t bits :
       {0x0000, 0x0001, 0x0012, 0x007f, 0x0080, 0x0081, 0x3f00, 0x3f7f, 0x3f80, 0x3f81, 0x3fc0,
        0x4049, 0x3dcd, 0x4b80, 0x5f00, 0x7f7f, 0x7f80, 0x7fc0}) {
    v.push_back(bits);
    v.push_back(bits | 0x8000);
  }
  AddRandom(&v, 6, 0xffff);
  return v;
}

std::vector<Operands> Cross(const std::vector<std::uint64_t>& a) {
  std::vector<Operands> lanes;
  for (const std::uint64_t x : a) lanes.push_back({x, 0, 0, 0});
  return lanes;
}

std::vector<Operands> Cross(const std::vector<std::uint64_t>& a,
                            const std::vector<std::uint64_t>& b) {
  std::vector<Operands> lanes;
  for (const std::uint64_t x : a) {
    for (const std::uint64_t y : b) lanes.push_back({x, y, 0, 0});
  }
  return lanes;
}

std::vector<Operands> Cross(const std::vector<std::uint64_t>& a,
                            const std::vector<std::uint64_t>& b,
                            const std::vector<std::uint64_t>& c) {
  std::vector<Operands> lanes;
  for (const std::uint64_t x : a) {
    for (const std::uint64_t y : b) {
      for (const std::uint64_t z : c) lanes.push_back({x, y, z, 0});
    }
  }
  return lanes;
}

std::vector<std::uint64_t> Thin(const std::vector<std::uint64_t>& values, std::size_t keep) {
  std::vector<std::uint64_t> kept;
  for (std::size_t i = 0; i < keep && i < values.size(); ++i) {
    kept.push_back(values[i * values.size() / keep]);
  }
  return kept;
}

std::vector<Operands> RandomLanes(std::size_t n, std::uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::vector<Operands> lanes(n);
  for (Operands& lane : lanes) {
    for (std::uint64_t& x : lane) x = rng();
  }
  return lanes;
}

float F32(std::uint64_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits)); }
double F64(std::uint64_t bits) { return std::bit_cast<double>(bits); }
std::uint64_t Bits(float value) { return std::bit_cast<std::uint32_t>(value); }
std::uint64_t Bits(double value) { return std::bit_cast<std::uint64_t>(value); }

}  // namespace grove::emulator::opcodes
