// Runs one PTX instruction (or a few) over many lanes of operands in the emulator and compares
// every result with host arithmetic. A test writes the instruction, the register types and the
// expected value as a function of the operands; the harness writes the module around it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace grove::emulator::opcodes {

// Registers d and e are results; a, b, c, f are operands; p, q, r are predicates. A type is one of
// b8, b16, b32, b64, f32, f64 (b8 is loaded into a b16 register).
struct Op {
  std::string body;             // "add.s32 d, a, b;"
  std::string out = "b32";      // type of d
  std::vector<std::string> in;  // types of a, b, c, f
  std::string out2;             // type of e, empty = unused
  std::string declarations;     // further registers: ".reg .b32 t;"
};

// The operands of one lane, each in the low bits.
using Operands = std::array<std::uint64_t, 4>;
using Results = std::array<std::uint64_t, 2>;

// How a result is compared: bits, except that a NaN equals every NaN of the format.
enum class As { kBits, kF32, kF64, kF16, kBF16, kF16x2, kBF16x2 };

// Executes `op` over all lanes. Empty, with a test failure, when the module does not load or the
// launch faults.
std::vector<Results> Execute(const Op& op, std::span<const Operands> lanes);

using Expected = std::function<std::uint64_t(const Operands&)>;
// Executes and compares d with `expected` in every lane; reports the first few that differ.
void Check(const Op& op, std::span<const Operands> lanes, const Expected& expected,
           As as = As::kBits);

// A whole module with an entry `k(.param .u64 in, .param .u64 out)`, one block of `threads`, over
// raw buffers. For warp-level and memory instructions. False, with a test failure, on a fault.
bool RunModule(const std::string& ptx, std::span<std::byte> in, std::span<std::byte> out,
               std::int64_t threads, std::int64_t blocks = 1, std::int64_t shared_bytes = 0);
// The module text around `body`: registers `in`, `out` (b64 addresses), `tid` (b32, within the
// block) and `t8` (b64, 8 x tid) are ready; `declarations` come first.
std::string ModuleText(const std::string& declarations, const std::string& body);

// Operand values: the special ones of each type, and a few pseudo-random ones.
std::vector<std::uint64_t> Ints16();
std::vector<std::uint64_t> Ints32();
std::vector<std::uint64_t> Ints64();
std::vector<std::uint64_t> Floats32();
std::vector<std::uint64_t> Floats64();
std::vector<std::uint64_t> Halves();
std::vector<std::uint64_t> BFloats();

// Every combination of the lists.
std::vector<Operands> Cross(const std::vector<std::uint64_t>& a);
std::vector<Operands> Cross(const std::vector<std::uint64_t>& a,
                            const std::vector<std::uint64_t>& b);
std::vector<Operands> Cross(const std::vector<std::uint64_t>& a,
                            const std::vector<std::uint64_t>& b,
                            const std::vector<std::uint64_t>& c);
// Every k-th value, so that a triple product stays small.
std::vector<std::uint64_t> Thin(const std::vector<std::uint64_t>& values, std::size_t keep);
// `n` lanes of uniformly random bits (fixed seed).
std::vector<Operands> RandomLanes(std::size_t n, std::uint64_t seed);

float F32(std::uint64_t bits);
double F64(std::uint64_t bits);
std::uint64_t Bits(float value);
std::uint64_t Bits(double value);

}  // namespace grove::emulator::opcodes
