// The syntax tree of a PTX module and its parser. The text is hostile: sizes are bounded, nesting
// is bounded, nothing is executed here. Thread-compatible plain values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"

namespace grove::emulator {

// Limits on foreign text; beyond them LoadModule answers kInvalidInput.
constexpr std::size_t kMaxPtxBytes = std::size_t{64} << 20;
constexpr std::size_t kMaxRegisters = 65536;          // virtual registers that a function uses
constexpr std::int64_t kMaxSharedBytes = 227 * 1024;  // per block, static and dynamic together
constexpr std::int64_t kMaxLocalBytes = 512 * 1024;   // per thread, all frames together
constexpr std::int64_t kMaxVariableBytes = std::int64_t{1} << 30;  // one module-scope variable

enum class Type : std::uint8_t {
  kNone,
  kPred,
  kB8,
  kB16,
  kB32,
  kB64,
  kB128,
  kU8,
  kU16,
  kU32,
  kU64,
  kS8,
  kS16,
  kS32,
  kS64,
  kF16,
  kF16x2,
  kBF16,
  kBF16x2,
  kTF32,
  kF32,
  kF64,
  kE4M3,
  kE5M2,
  kE4M3x2,
  kE5M2x2,
};
// kNone for text that names no type. `name` without the dot: "u32".
Type TypeFromName(std::string_view name);
// Bytes of one value; 0 for kNone and kPred.
int SizeOf(Type type);
bool IsSigned(Type type);
bool IsFloatType(Type type);

enum class Space : std::uint8_t { kGeneric, kGlobal, kConst, kShared, kLocal, kParam };

struct Operand {
  enum class Kind : std::uint8_t {
    kRegister,  // index: into Function::registers
    kSpecial,   // name: "%tid.x"
    kInteger,   // value
    kFloat,     // value: the bits of a double (0d, decimal) or of a float (0f, single = true)
    kSymbol,    // name: label, variable, function, parameter; value: byte offset
    kAddress,   // elements[0]: base (register, symbol or integer); value: byte offset
    kVector,    // elements in braces
    kList,      // elements in parentheses
    kSink,      // _
  };
  Kind kind = Kind::kSink;
  bool negated = false;  // !%p, or a minus sign before a register
  bool single = false;
  std::uint32_t index = 0;
  std::int64_t value = 0;
  std::string name;
  std::vector<Operand> elements;
  std::vector<Operand> pair;  // p|q: q
};

struct Statement {
  enum class Kind : std::uint8_t { kInstruction, kLabel };
  Kind kind = Kind::kInstruction;
  int line = 0;
  bool guarded = false;
  Operand guard;
  std::string label;                   // as renamed to be unique in the function
  std::string opcode;                  // the part before the first dot
  std::vector<std::string> modifiers;  // the parts after it
  std::vector<Operand> operands;
  std::string text;  // for messages, at most 200 characters
};

struct Variable {
  Space space = Space::kGlobal;
  std::string name;
  std::int64_t align = 1;
  std::int64_t bytes = 0;  // 0: `extern .shared x[]`
  bool external = false;
  std::vector<std::uint8_t> data;  // initialiser, shorter or empty: zeros follow
  struct Relocation {
    std::int64_t offset;
    int bytes;
    std::string symbol;
    std::int64_t addend;
  };
  std::vector<Relocation> relocations;
};

struct Register {
  std::string name;
  Type type = Type::kNone;
};

struct Function {
  std::string name;
  bool entry = false;
  bool defined = false;
  std::vector<Variable> results;     // .param of .func results
  std::vector<Variable> parameters;  // in order
  std::vector<Variable> variables;   // .local, .shared, and .param of call sequences, unique names
  std::vector<Register> registers;
  std::vector<Statement> statements;
  std::unordered_map<std::string, std::vector<std::string>> branch_targets;
  std::int64_t max_threads = 0;  // .maxntid product, 0 = not given
};

struct PtxModule {
  std::string version, target;
  std::vector<Variable> variables;
  std::vector<Function> functions;
};

// kInvalidInput with the line and what was expected.
Result<PtxModule> ParsePtx(std::string_view text);

}  // namespace grove::emulator
