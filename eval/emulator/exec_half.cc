// Arithmetic of f16, bf16 and their pairs. Operands are widened exactly; add, sub and mul round
// once in f32 and once more (innocuous: 24 >= 2*11+2), fma rounds through a double in round-to-odd.
#include <cmath>

#include "eval/emulator/decoder.h"
#include "eval/emulator/emit.h"
#include "eval/emulator/float_math.h"
#include "eval/emulator/lanes.h"
#include "eval/emulator/softfloat.h"

namespace grove::emulator {
namespace {

using u32 = std::uint32_t;
constexpr int kValues = 2 * kLanes;  // low and high half of every lane, interleaved

template <bool kB>
void Widen(const u32* from, float* to) {
  if constexpr (kB) {
    for (int i = 0; i < kLanes; ++i) {
      to[2 * i] = std::bit_cast<float>(from[i] << 16);
      to[2 * i + 1] = std::bit_cast<float>(from[i] & 0xffff0000u);
    }
  } else {
#if defined(__F16C__)
    for (int i = 0; i < kValues; i += 8) {
      const __m128i h =
          _mm_loadu_si128(static_cast<const __m128i*>(static_cast<const void*>(from + i / 2)));
      _mm256_storeu_ps(to + i, _mm256_cvtph_ps(h));
    }
#else
    for (int i = 0; i < kLanes; ++i) {
      to[2 * i] = HalfBits(from[i] & 0xffff);
      to[2 * i + 1] = HalfBits(from[i] >> 16);
    }
#endif
  }
}

template <bool kB>
void Narrow(const float* from, u32* to) {
  if constexpr (kB) {
    for (int i = 0; i < kLanes; ++i) {
      to[i] = ToBFloatBits(from[2 * i]) | ToBFloatBits(from[2 * i + 1]) << 16;
    }
  } else {
#if defined(__F16C__)
    for (int i = 0; i < kValues; i += 8) {
      _mm_storeu_si128(static_cast<__m128i*>(static_cast<void*>(to + i / 2)),
                       _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
    }
#else
    for (int i = 0; i < kLanes; ++i) {
      to[i] = ToHalfBits(from[2 * i]) | ToHalfBits(from[2 * i + 1]) << 16;
    }
#endif
  }
}

template <bool kB>
void FlushSubnormals(float* r) {
  const float least = kB ? std::numeric_limits<float>::min() : 6.103515625e-05f;
  for (int i = 0; i < kValues; ++i)
    r[i] = std::fabs(r[i]) < least ? std::copysign(0.0f, r[i]) : r[i];
}

// imm bit 0: one value per lane instead of two; bit 1: .sat; bit 2: .relu; bit 3: .ftz.
template <bool kB>
const Inst* Finish(Warp& w, const Inst* ip, float* r) {
  const auto flags = static_cast<u32>(ip->imm);
  if ((flags & 8) != 0) FlushSubnormals<kB>(r);
  if ((flags & 2) != 0) {
    for (int i = 0; i < kValues; ++i) r[i] = Saturate(r[i]);
  }
  if ((flags & 4) != 0) {
    for (int i = 0; i < kValues; ++i) r[i] = r[i] < 0 ? 0.0f : r[i];
  }
  alignas(64) u32 packed[kLanes];
  Narrow<kB>(r, packed);
  const u32 keep = (flags & 1) != 0 ? 0xffffu : kFull;
  return MapLanes<u32>(w, ip, [&](int i) { return packed[i] & keep; });
}

// An operand, widened; .ftz makes zeros of its subnormals.
template <bool kB>
void Operands(Warp& w, const Inst* ip, u32 at, float* to) {
  Widen<kB>(w.At<u32>(at), to);
  if ((ip->imm & 8) != 0) FlushSubnormals<kB>(to);
}

template <bool kB, auto F>
const Inst* Half1(Warp& w, const Inst* ip) {
  alignas(64) float a[kValues];
  Operands<kB>(w, ip, ip->a, a);
  for (int i = 0; i < kValues; ++i) a[i] = F(a[i]);
  return Finish<kB>(w, ip, a);
}
template <bool kB, auto F>
const Inst* Half2(Warp& w, const Inst* ip) {
  alignas(64) float a[kValues], b[kValues];
  Operands<kB>(w, ip, ip->a, a);
  Operands<kB>(w, ip, ip->b, b);
  for (int i = 0; i < kValues; ++i) a[i] = F(a[i], b[i]);
  return Finish<kB>(w, ip, a);
}
template <bool kB>
const Inst* HalfFma(Warp& w, const Inst* ip) {
  alignas(64) float a[kValues], b[kValues], c[kValues];
  Operands<kB>(w, ip, ip->a, a);
  Operands<kB>(w, ip, ip->b, b);
  Operands<kB>(w, ip, ip->c, c);
  for (int i = 0; i < kValues; ++i) {
    // The product of two 11-bit numbers is exact in a double. So is the sum in f16, as far as its
    // rounding to 11 bits can tell; bf16 spans too many exponents for that.
    const double product = double{a[i]} * double{b[i]}, c_wide = double{c[i]};
    a[i] = ToOdd(kB ? SumToOdd(product, c_wide) : product + c_wide);
  }
  return Finish<kB>(w, ip, a);
}

// Only bits change: exact for NaN too.
template <u32 kAnd, u32 kXor>
const Inst* HalfBitsOp(Warp& w, const Inst* ip) {
  const u32* a = w.At<u32>(ip->a);
  const u32 keep = (ip->imm & 1) != 0 ? 0xffffu : kFull;
  return MapLanes<u32>(w, ip, [&](int i) { return ((a[i] & kAnd) ^ kXor) & keep; });
}

float HAdd(float a, float b) { return a + b; }
float HSub(float a, float b) { return a - b; }
float HMul(float a, float b) { return a * b; }
float HTanh(float a) { return std::tanh(a); }

template <bool kB>
Handler HalfHandler(Decoder& d) {
  const std::string& op = d.statement().opcode;
  const bool nan = d.Has("NaN"), xorsign = d.Has("xorsign");
  if (op == "add") return Half2<kB, HAdd>;
  if (op == "sub") return Half2<kB, HSub>;
  if (op == "mul") return Half2<kB, HMul>;
  if (op == "fma" || op == "mad") return HalfFma<kB>;
  if (op == "min" && xorsign)
    return nan ? Half2<kB, MinMaxXorsign<false, true>> : Half2<kB, MinMaxXorsign<false, false>>;
  if (op == "max" && xorsign)
    return nan ? Half2<kB, MinMaxXorsign<true, true>> : Half2<kB, MinMaxXorsign<true, false>>;
  if (op == "min")
    return nan ? Half2<kB, MinMax<float, false, true>> : Half2<kB, MinMax<float, false, false>>;
  if (op == "max")
    return nan ? Half2<kB, MinMax<float, true, true>> : Half2<kB, MinMax<float, true, false>>;
  if (op == "ex2") return Half1<kB, Exp2Float>;
  if (op == "tanh") return Half1<kB, HTanh>;
  if (op == "abs") return HalfBitsOp<0x7fff7fffu, 0>;
  if (op == "neg") return HalfBitsOp<kFull, 0x80008000u>;
  return nullptr;
}

bool Compare(const std::string& op, float a, float b) {
  const bool unordered = a != a || b != b;
  if (op == "eq") return a == b;
  if (op == "ne") return !unordered && a != b;
  if (op == "lt") return a < b;
  if (op == "le") return a <= b;
  if (op == "gt") return a > b;
  if (op == "ge") return a >= b;
  if (op == "equ") return unordered || a == b;
  if (op == "neu") return unordered || a != b;
  if (op == "ltu") return unordered || a < b;
  if (op == "leu") return unordered || a <= b;
  if (op == "gtu") return unordered || a > b;
  if (op == "geu") return unordered || a >= b;
  if (op == "num") return !unordered;
  return unordered;  // nan
}

constexpr const char* kComparisons[] = {"eq",  "ne",  "lt",  "le",  "gt",  "ge",  "equ",
                                        "neu", "ltu", "leu", "gtu", "geu", "num", "nan"};

// imm: bits 0-3 comparison, 4: pair, 5-6: combination, 7: negated, x: predicate. For a pair, c gets
// the result of the high halves; otherwise the complement.
template <bool kB>
const Inst* HalfSetp(Warp& w, const Inst* ip) {
  alignas(64) float a[kValues], b[kValues];
  Widen<kB>(w.At<u32>(ip->a), a);
  Widen<kB>(w.At<u32>(ip->b), b);
  const auto mode = static_cast<u32>(ip->imm);
  const std::string op = kComparisons[mode & 0xf];
  u32 low = 0, high = 0;
  for (int i = 0; i < kLanes; ++i) {
    low |= u32{Compare(op, a[2 * i], b[2 * i])} << i;
    high |= u32{Compare(op, a[2 * i + 1], b[2 * i + 1])} << i;
  }
  if ((mode & 0x10) == 0) high = ~low;
  if (const u32 how = mode >> 5 & 3; how != 0) {
    const u32 p = w.Pred(ip->x) ^ ((mode & 0x80) != 0 ? kFull : 0);
    low = how == 1 ? low & p : how == 2 ? low | p : low ^ p;
    high = how == 1 ? high & p : how == 2 ? high | p : high ^ p;
  }
  Blend(w.Pred(ip->d), low, w.mask);
  if (ip->c != 0) Blend(w.Pred(ip->c), high, w.mask);
  return ip + 1;
}

}  // namespace

bool DecodeHalfOp(Decoder& d) {
  const Type t = d.TypeAt(-1);
  const bool bfloat = t == Type::kBF16 || t == Type::kBF16x2;
  const bool single = t == Type::kF16 || t == Type::kBF16;
  const Handler h = bfloat ? HalfHandler<true>(d) : HalfHandler<false>(d);
  if (h == nullptr || d.Has("rz") || d.Has("rm") || d.Has("rp")) return d.Fail("no such form");
  const std::string& op = d.statement().opcode;
  const std::size_t sources = op == "fma" || op == "mad"                                  ? 3
                              : op == "abs" || op == "neg" || op == "ex2" || op == "tanh" ? 1
                                                                                          : 2;
  std::array<u32, 3> at{};
  for (std::size_t i = 0; i < sources; ++i) at[i] = d.Source(d.Op(i + 1), t);
  const u32 to = d.Destination(d.Op(0), t);
  if (op == "ex2" || op == "tanh")
    d.counts().special++;
  else
    d.counts().fp16++;
  Inst& inst = d.Emit(h);
  inst.d = to;
  inst.a = at[0];
  inst.b = at[1];
  inst.c = at[2];
  inst.imm =
      (single ? 1 : 0) | (d.Has("sat") ? 2 : 0) | (d.Has("relu") ? 4 : 0) | (d.Has("ftz") ? 8 : 0);
  return true;
}

namespace {

// Emits the comparison; results go to the predicates p and q (0: none).
bool EmitHalfCompare(Decoder& d, Type t, u32 p, u32 q) {
  const bool bfloat = t == Type::kBF16 || t == Type::kBF16x2;
  const bool pair = t == Type::kF16x2 || t == Type::kBF16x2;
  std::int64_t mode = -1;
  for (std::int64_t i = 0; i < 14; ++i) {
    if (d.statement().modifiers[0] == kComparisons[i]) mode = i;
  }
  if (mode < 0) return d.Fail("no such comparison");
  if (pair) mode |= 0x10;
  const std::int64_t how = d.Has("and") ? 1 : d.Has("or") ? 2 : d.Has("xor") ? 3 : 0;
  mode |= how << 5;
  const u32 a = d.Source(d.Op(1), t), b = d.Source(d.Op(2), t);
  u32 c = 0;
  if (how != 0) {
    c = d.PredicateSource(d.Op(3));
    if (d.Op(3).negated) mode |= 0x80;
  }
  d.counts().fp16++;
  Inst& inst = d.Emit(bfloat ? HalfSetp<true> : HalfSetp<false>);
  inst.d = p;
  inst.a = a;
  inst.b = b;
  inst.c = q;
  inst.imm = mode;
  inst.x = c;
  return true;
}

// d = imm where predicate a holds, and imm << 16 where predicate b (0: none) holds.
const Inst* FromPredicates(Warp& w, const Inst* ip) {
  const u32 low = w.Pred(ip->a), high = ip->b == 0 ? 0 : w.Pred(ip->b);
  const u32 one = static_cast<u32>(ip->imm);
  return MapLanes<u32>(w, ip, [&](int i) {
    return ((low >> i & 1) != 0 ? one : 0u) | ((high >> i & 1) != 0 ? one << 16 : 0u);
  });
}

}  // namespace

bool DecodeHalfSetp(Decoder& d) {
  const u32 p = d.PredicateDestination(d.Op(0));
  const u32 q = d.Op(0).pair.empty() ? 0 : d.PredicateDestination(d.Op(0).pair[0]);
  return EmitHalfCompare(d, d.TypeAt(-1), p, q);
}

// set.cmp[.bool].dtype.stype d, a, b [, c]: one or all bits set, per half for pairs.
bool DecodeHalfSet(Decoder& d) {
  const Type result = d.TypeAt(0), t = d.TypeAt(1);
  const bool pair = t == Type::kF16x2 || t == Type::kBF16x2;
  std::int64_t one = 0;
  switch (result) {
    case Type::kF16:
    case Type::kF16x2:
      one = 0x3c00;
      break;
    case Type::kBF16:
    case Type::kBF16x2:
      one = 0x3f80;
      break;
    case Type::kU16:
    case Type::kS16:
      one = 0xffff;
      break;
    case Type::kU32:
    case Type::kS32:
      one = pair ? 0xffff : std::int64_t{kFull};
      break;
    default:
      return d.Fail("no such form");
  }
  const u32 p = d.Temporary(false), q = pair ? d.Temporary(false) : 0;
  if (!EmitHalfCompare(d, t, p, q)) return false;
  const u32 to = d.Destination(d.Op(0), result);
  Inst& inst = d.Emit(FromPredicates);
  inst.d = to;
  inst.a = p;
  inst.b = q;
  inst.imm = one;
  return true;
}

}  // namespace grove::emulator
