// Helpers of the decode functions: handlers by type, and the plain emission d, a, b, c, e.
#pragma once

#include <array>
#include <initializer_list>

#include "eval/emulator/decoder.h"

namespace grove::emulator {

struct Typed {
  Type type;
  Handler handler;
};

inline Handler Pick(Type type, std::initializer_list<Typed> list) {
  for (const Typed& t : list) {
    if (t.type == type) return t.handler;
  }
  return nullptr;
}

// Sources from operand 1 on into a, b, c and imm; counts as an integer instruction.
inline bool EmitOperands(Decoder& d, Handler handler, Type result,
                         std::initializer_list<Type> sources) {
  if (handler == nullptr) return d.Fail("no such form");
  std::array<std::uint32_t, 4> at{};
  std::size_t i = 0;
  for (const Type t : sources) {
    at[i] = d.Source(d.Op(i + 1), t);
    ++i;
  }
  const std::uint32_t to = d.Destination(d.Op(0), result);
  d.counts().integer++;
  Inst& inst = d.Emit(handler);
  inst.d = to;
  inst.a = at[0];
  inst.b = at[1];
  inst.c = at[2];
  inst.imm = at[3];
  return true;
}

// The space that a modifier names, kGeneric when none does; false for forms that are not known.
bool SpaceOf(Decoder& decoder, Space& space);  // exec_memory.cc

// The arithmetic opcodes on floating-point types (exec_float.cc) and on f16 and bf16
// (exec_half.cc).
bool DecodeFloatAdd(Decoder& decoder);
bool DecodeFloatSub(Decoder& decoder);
bool DecodeFloatMul(Decoder& decoder);
bool DecodeFloatFma(Decoder& decoder);
bool DecodeFloatDiv(Decoder& decoder);
bool DecodeFloatMin(Decoder& decoder);
bool DecodeFloatMax(Decoder& decoder);
bool DecodeFloatAbs(Decoder& decoder);
bool DecodeFloatNeg(Decoder& decoder);
bool DecodeHalfOp(Decoder& decoder);
bool DecodeHalfSetp(Decoder& decoder);
bool DecodeHalfSet(Decoder& decoder);

// cp.async.bulk in all its forms (exec_bulk.cc).
bool DecodeBulkCopy(Decoder& decoder);

// Matrix instructions in f64 (exec_matrix_f64.cc), by shape.
bool DecodeDoubleMma(Decoder& decoder, int m, int n, int k);
bool DecodeDoubleTransfer(Decoder& decoder, int m, int n, int k, bool store);

// and, or, xor, mov and not of predicates, in exec_select.cc.
enum class Logic { kAnd, kOr, kXor, kMove, kNot };
bool DecodePredicateLogic(Decoder& decoder, Logic logic);

}  // namespace grove::emulator
