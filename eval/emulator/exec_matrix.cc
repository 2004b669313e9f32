// Tensor core instructions: wmma, mma.sync, ldmatrix, stmatrix, movmatrix. Fragments lie in
// registers as the PTX manual says for mma.sync; those of wmma are two m16n8 tiles side by side, as
// on sm_80 and newer (checked against an H200). Products are exact, sums are taken in binary32 in
// order of k.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "eval/emulator/access.h"
#include "eval/emulator/checks.h"
#include "eval/emulator/decoder.h"
#include "eval/emulator/emit.h"
#include "eval/emulator/lanes.h"
#include "eval/emulator/softfloat.h"

namespace grove::emulator {
namespace {

using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;

enum Role { kA, kB, kC };

struct Place {
  int row = 0, column = 0;
};

// Where element `i` of register `r` of a lane lies. `per`: elements per register.
Place PlaceOf(Role role, int m, int k, int per, int r, int i, int lane) {
  const int g = lane / 4, t = lane % 4;
  switch (role) {
    case kA:
      if (per == 1) return {g + 8 * (r & 1), t + 4 * (r >> 1)};
      if (per == 4) {
        if (m == 8) return {g, 4 * t + i};
        const int tile = k / 8;  // registers of 16 rows
        const int rr = r % tile;
        return {16 * (r / tile) + g + 8 * (rr & 1), 4 * t + i + 16 * (rr >> 1)};
      }
      if (m == 8) return {g, 2 * t + i + 8 * r};
      {
        const int tile = k == 16 ? 4 : 2;
        const int rr = r % tile;
        return {16 * (r / tile) + g + 8 * (rr & 1), 2 * t + i + 8 * (rr >> 1)};
      }
    case kB: {
      const int tile = std::max(1, per == 1 ? k / 4 : per == 4 ? k / 16 : k / 8);
      const int rr = r % tile, n = g + 8 * (r / tile);
      if (per == 1) return {t + 4 * rr, n};
      if (per == 4) return {4 * t + i + 16 * rr, n};
      return {2 * t + i + 8 * rr, n};
    }
    case kC: {
      if (m == 8)
        return per == 1 ? Place{g, 2 * t + (r & 1) + 8 * (r >> 1)} : Place{g, 2 * t + i + 8 * r};
      const int tile = per == 1 ? 4 : 2;
      const int rr = r % tile, which = r / tile;
      const int row = per == 1 ? g + 8 * (rr >> 1) : g + 8 * rr;
      const int column = per == 1 ? 2 * t + (rr & 1) : 2 * t + i;
      return m == 32 ? Place{row + 16 * which, column} : Place{row, column + 8 * which};
    }
  }
  return {};
}

int PerRegister(Type t) {
  switch (t) {
    case Type::kF16:
    case Type::kBF16:
      return 2;
    case Type::kS8:
    case Type::kU8:
    case Type::kE4M3:
    case Type::kE5M2:
      return 4;
    default:
      return 1;
  }
}

// Row-major positions by [register][element][lane]; shared by the instructions of a program.
// `packed`: as row * 256 + column instead.
u32 TableFor(Program& program, Role role, int m, int n, int k, int per, int registers,
             bool packed = false) {
  const std::array<int, 6> key{packed ? role + 8 : role, m, n, k, per, registers};
  const auto [found, fresh] =
      program.table_index.try_emplace(key, static_cast<u32>(program.tables.size()));
  if (!fresh) return found->second;
  const int columns = role == kA ? k : n;
  std::vector<u16> table;
  for (int r = 0; r < registers; ++r) {
    for (int i = 0; i < per; ++i) {
      for (int lane = 0; lane < kLanes; ++lane) {
        const Place p = PlaceOf(role, m, k, per, r, i, lane);
        table.push_back(static_cast<u16>(p.row * (packed ? 256 : columns) + p.column));
      }
    }
  }
  program.tables.push_back(std::move(table));
  return found->second;
}

float ElementToFloat(Type t, u32 bits) {
  switch (t) {
    case Type::kF16:
      return HalfBits(bits & 0xffff);
    case Type::kBF16:
      return BFloatBits(bits & 0xffff);
    case Type::kTF32:
      return TruncateTf32(std::bit_cast<float>(bits));
    case Type::kE4M3:
      return static_cast<float>(Fp8Value(bits & 0xff, false));
    case Type::kE5M2:
      return static_cast<float>(Fp8Value(bits & 0xff, true));
    default:
      return std::bit_cast<float>(bits);
  }
}

// One register of every lane, spread by the table.
void GatherHalf(const u32* from, const u16* table, float* to) {
#if defined(__F16C__)
  alignas(32) float values[2 * kLanes];
  for (int i = 0; i < 2 * kLanes; i += 8) {
    const __m128i h =
        _mm_loadu_si128(static_cast<const __m128i*>(static_cast<const void*>(from + i / 2)));
    _mm256_store_ps(values + i, _mm256_cvtph_ps(h));
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    to[table[lane]] = values[2 * lane];
    to[table[lane + kLanes]] = values[2 * lane + 1];
  }
#else
  for (int lane = 0; lane < kLanes; ++lane) {
    to[table[lane]] = HalfBits(from[lane] & 0xffff);
    to[table[lane + kLanes]] = HalfBits(from[lane] >> 16);
  }
#endif
}

void Gather(Warp& w, const u32* registers, u32 count, Type t, const u16* table, float* to) {
  const u32 per = static_cast<u32>(PerRegister(t));
  const u32 bits = 32 / per;
  for (u32 r = 0; r < count; ++r) {
    const u32* from = w.At<u32>(registers[r]);
    if (t == Type::kF16) {
      GatherHalf(from, table, to);
      table += 2 * kLanes;
      continue;
    }
    for (u32 i = 0; i < per; ++i, table += kLanes) {
      if (t == Type::kF32) {
        for (int lane = 0; lane < kLanes; ++lane)
          to[table[lane]] = std::bit_cast<float>(from[lane]);
      } else {
        for (int lane = 0; lane < kLanes; ++lane) {
          to[table[lane]] = ElementToFloat(t, from[lane] >> (i * bits));
        }
      }
    }
  }
}

void Scatter(Warp& w, const u32* registers, u32 count, Type t, const u16* table,
             const float* from) {
  for (u32 r = 0; r < count; ++r) {
    u32* to = w.At<u32>(registers[r]);
    if (PerRegister(t) == 1) {
      for (int lane = 0; lane < kLanes; ++lane) to[lane] = std::bit_cast<u32>(from[table[lane]]);
      table += kLanes;
    } else {
      for (int lane = 0; lane < kLanes; ++lane) {
        const float low = from[table[lane]], high = from[table[lane + kLanes]];
        to[lane] = t == Type::kF16 ? ToHalfBits(low) | ToHalfBits(high) << 16
                                   : ToBFloatBits(low) | ToBFloatBits(high) << 16;
      }
      table += 2 * kLanes;
    }
  }
}

bool Ready(Warp& w) { return w.Together(kFull); }
void Meet(Warp& w) {
  if (w.block->races != nullptr) w.block->races->SyncWarp(w, w.live);
}

// extra: see Multiply.
struct Product {
  u32 m, n, k, a_type, b_type, c_type, d_type, a_table, b_table, c_table, d_table, a_count, b_count,
      c_count, d_count, flags;
};
constexpr std::size_t kProductWords = sizeof(Product) / 4;

template <int kN>
void MultiplyRows(const float* a, const float* b, float* c, u32 m, u32 k) {
  for (u32 i = 0; i < m; ++i) {
    float sum[kN];
    for (int j = 0; j < kN; ++j) sum[j] = c[i * kN + static_cast<u32>(j)];
    for (u32 l = 0; l < k; ++l) {
      const float x = a[i * k + l];
      const float* row = b + l * kN;
      for (int j = 0; j < kN; ++j) sum[j] = __builtin_fmaf(x, row[j], sum[j]);
    }
    for (int j = 0; j < kN; ++j) c[i * kN + static_cast<u32>(j)] = sum[j];
  }
}

const Inst* Multiply(Warp& w, const Inst* ip) {
  if (!Ready(w)) return w.WaitFor(ip, kFull);
  Meet(w);
  const u32* e = w.program->extra.data() + ip->x;
  Product p;
  std::memcpy(&p, e, sizeof(p));
  e += kProductWords;
  alignas(64) float a[32 * 32], b[32 * 32], c[32 * 32];
  const auto& tables = w.program->tables;
  Gather(w, e, p.a_count, static_cast<Type>(p.a_type), tables[p.a_table].data(), a);
  e += p.a_count;
  Gather(w, e, p.b_count, static_cast<Type>(p.b_type), tables[p.b_table].data(), b);
  e += p.b_count;
  Gather(w, e, p.c_count, static_cast<Type>(p.c_type), tables[p.c_table].data(), c);
  e += p.c_count;
  if (p.n == 8)
    MultiplyRows<8>(a, b, c, p.m, p.k);
  else if (p.n == 16)
    MultiplyRows<16>(a, b, c, p.m, p.k);
  else
    MultiplyRows<32>(a, b, c, p.m, p.k);
  Scatter(w, e, p.d_count, static_cast<Type>(p.d_type), tables[p.d_table].data(), c);
  return ip + 1;
}

// s8 and u8 into s32, wrapping (flags 1: saturating).
const Inst* MultiplyInteger(Warp& w, const Inst* ip) {
  if (!Ready(w)) return w.WaitFor(ip, kFull);
  Meet(w);
  const u32* e = w.program->extra.data() + ip->x;
  Product p;
  std::memcpy(&p, e, sizeof(p));
  e += kProductWords;
  std::int32_t a[32 * 32], b[32 * 32];
  const auto gather = [&](u32 count, u32 type, const u16* table, std::int32_t* to) {
    for (u32 r = 0; r < count; ++r) {
      const u32* from = w.At<u32>(*e++);
      for (u32 i = 0; i < 4; ++i, table += kLanes) {
        for (int lane = 0; lane < kLanes; ++lane) {
          const u32 byte = from[lane] >> (8 * i) & 0xff;
          to[table[lane]] = static_cast<Type>(type) == Type::kS8
                                ? std::int32_t{static_cast<std::int8_t>(byte)}
                                : static_cast<std::int32_t>(byte);
        }
      }
    }
  };
  const auto& tables = w.program->tables;
  gather(p.a_count, p.a_type, tables[p.a_table].data(), a);
  gather(p.b_count, p.b_type, tables[p.b_table].data(), b);
  const u16* table = tables[p.c_table].data();
  std::int64_t sum[8][kLanes];
  for (u32 r = 0; r < p.c_count; ++r, table += kLanes) {
    const std::int32_t* c = w.At<std::int32_t>(*e++);
    for (int lane = 0; lane < kLanes; ++lane) {
      const u32 row = table[lane] / p.n, column = table[lane] % p.n;
      std::int64_t s = c[lane];
      for (u32 l = 0; l < p.k; ++l) s += std::int64_t{a[row * p.k + l]} * b[l * p.n + column];
      sum[r][lane] = s;
    }
  }
  for (u32 r = 0; r < p.d_count; ++r) {
    u32* d = w.At<u32>(*e++);
    for (int lane = 0; lane < kLanes; ++lane) {
      std::int64_t s = sum[r][lane];
      if (p.flags != 0) s = std::clamp<std::int64_t>(s, INT32_MIN, INT32_MAX);
      d[lane] = static_cast<u32>(static_cast<u64>(s));
    }
  }
  return ip + 1;
}

// --- wmma.load and wmma.store ---

struct Transfer {
  u32 rows, columns, transposed, bytes, per, table, count, space, wide, stride, store, repeat;
};
constexpr std::size_t kTransferWords = sizeof(Transfer) / 4;

const Inst* Move(Warp& w, const Inst* ip) {
  if (!Ready(w)) return w.WaitFor(ip, kFull);
  Meet(w);
  const u32* e = w.program->extra.data() + ip->x;
  Transfer t;
  std::memcpy(&t, e, sizeof(t));
  e += kTransferWords;
  alignas(64) u64 address[kLanes];
  LaneAddresses(w, ip->a, t.wide != 0, ip->imm, address);
  const int first = std::countr_zero(w.mask);
  AccessKind kind;
  kind.space = static_cast<Space>(t.space);
  kind.bytes = t.bytes;
  kind.store = t.store != 0;
  const u64 base = address[first] + WindowOf(kind.space);
  const u64 stride =
      t.stride == 0 ? (t.transposed != 0 ? t.rows : t.columns) : w.At<u32>(t.stride)[first];
  const auto offset_of = [&](u32 place) {
    const u64 row = place >> 8, column = place & 0xff;
    return (t.transposed != 0 ? column * stride + row : row * stride + column) * t.bytes;
  };
  if ((base & (t.bytes * 8 - 1)) != 0 || (stride * t.bytes) % 16 != 0) {
    // The manual asks for 256-bit alignment of the matrix and 16 bytes of the stride; hardware
    // faults below 16 bytes.
    if ((base & 15) != 0 || (stride * t.bytes) % 16 != 0) {
      return w.Fail(ip, Fault::Kind::kMisaligned,
                    "the matrix or its stride is not aligned to 16 bytes");
    }
  }
  const u64 span = offset_of((t.rows - 1) << 8 | (t.columns - 1)) + t.bytes;
  std::byte* host = nullptr;
  if (!w.slow_memory && stride < (u64{1} << 31) && t.per != 4) {
    host = kind.space == Space::kShared ? SharedWindow(w, base - kSharedWindow, span)
                                        : PlainWindow(w, base, span, kind.store);
  }
  const u16* table = w.program->tables[t.table].data();
  const u32 bits = 8 * t.bytes;
  for (u32 r = 0; r < t.count; ++r) {
    u32* reg = w.At<u32>(e[r]);
    if (host == nullptr && w.block->memory_counter != nullptr) {
      // Neighbours in a register move as one word when they are neighbours in memory.
      AccessKind word = kind;
      const bool whole = t.per > 1 && t.transposed == 0 && t.columns % t.per == 0;
      word.bytes = whole ? 4 : t.bytes;
      for (u32 i = 0; i < (whole ? 1 : t.per); ++i) {
        u64 at[kLanes];
        for (int lane = 0; lane < kLanes; ++lane) {
          at[lane] = base + offset_of(table[i * kLanes + static_cast<u32>(lane)]);
        }
        CountAccess(w, word, at, kFull);
      }
    }
    if (host != nullptr) {
      const u64 by_row = (t.transposed != 0 ? 1 : stride) * t.bytes;
      const u64 by_column = (t.transposed != 0 ? stride : 1) * t.bytes;
      const auto cell = [&](u32 i, int lane) {
        const u32 place = table[i * kLanes + static_cast<u32>(lane)];
        return host + (place >> 8) * by_row + (place & 0xff) * by_column;
      };
      if (t.per == 1) {
        for (int lane = 0; lane < kLanes; ++lane) {
          if (kind.store)
            std::memcpy(cell(0, lane), reg + lane, 4);
          else
            std::memcpy(reg + lane, cell(0, lane), 4);
        }
      } else {
        for (int lane = 0; lane < kLanes; ++lane) {
          u16 low = static_cast<u16>(reg[lane]), high = static_cast<u16>(reg[lane] >> 16);
          if (kind.store) {
            std::memcpy(cell(0, lane), &low, 2);
            std::memcpy(cell(1, lane), &high, 2);
          } else {
            std::memcpy(&low, cell(0, lane), 2);
            std::memcpy(&high, cell(1, lane), 2);
            reg[lane] = u32{low} | u32{high} << 16;
          }
        }
      }
      table += t.per * kLanes;
    }
    for (u32 i = 0; host == nullptr && i < t.per; ++i, table += kLanes) {
      for (int lane = 0; lane < kLanes; ++lane) {
        const u64 at = offset_of(table[lane]);
        u32 value = reg[lane] >> (i * bits % 32);
        std::byte* cell =
            ResolveLane(w, ip, kind, base + at, lane,
                        static_cast<const std::byte*>(static_cast<const void*>(&value)));
        if (cell == nullptr) return nullptr;
        if (kind.store) {
          std::memcpy(cell, &value, t.bytes);
        } else {
          u32 in = 0;
          std::memcpy(&in, cell, t.bytes);
          reg[lane] = i == 0 ? in : reg[lane] | in << (i * bits);
        }
      }
    }
    // wmma.load of f16 gives every element twice.
    if (!kind.store && t.repeat != 0) std::memcpy(w.At<u32>(e[r + t.count]), reg, 4 * kLanes);
  }
  Meet(w);
  return ip + 1;
}

// --- ldmatrix, stmatrix, movmatrix ---

// d: number of 8x8 matrices, b: bit 0 wide base, bit 1 trans, bit 2 store; c: space.
const Inst* MoveMatrices(Warp& w, const Inst* ip) {
  if (!Ready(w)) return w.WaitFor(ip, kFull);
  Meet(w);
  const u32* e = w.program->extra.data() + ip->x;
  alignas(64) u64 address[kLanes];
  LaneAddresses(w, ip->a, (ip->b & 1) != 0, ip->imm, address);
  const bool trans = (ip->b & 2) != 0, store = (ip->b & 4) != 0;
  AccessKind kind;
  kind.space = static_cast<Space>(ip->c);
  kind.bytes = 16;
  kind.store = store;
  for (int i = 0; i < kLanes; ++i) address[i] += WindowOf(kind.space);
  const u32 rows = 8 * ip->d;
  CountAccess(w, kind, address, rows == 32 ? kFull : (1u << rows) - 1);
  u16 matrix[4][8][8];
  for (u32 j = 0; store && j < ip->d; ++j) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const u32 value = w.At<u32>(e[j])[lane];
      for (int i = 0; i < 2; ++i) {
        const auto half = static_cast<u16>(value >> (16 * i));
        if (trans)
          matrix[j][2 * (lane % 4) + i][lane / 4] = half;
        else
          matrix[j][lane / 4][2 * (lane % 4) + i] = half;
      }
    }
  }
  for (u32 row = 0; row < rows; ++row) {
    u16* line = matrix[row / 8][row % 8];
    std::byte* host = ResolveLane(w, ip, kind, address[row], static_cast<int>(row),
                                  static_cast<const std::byte*>(static_cast<const void*>(line)));
    if (host == nullptr) return nullptr;
    if (store)
      std::memcpy(host, line, 16);
    else
      std::memcpy(line, host, 16);
  }
  for (u32 j = 0; !store && j < ip->d; ++j) {
    u32* to = w.At<u32>(e[j]);
    for (int lane = 0; lane < kLanes; ++lane) {
      const int g = lane / 4, t = 2 * (lane % 4);
      to[lane] = trans ? u32{matrix[j][t][g]} | u32{matrix[j][t + 1][g]} << 16
                       : u32{matrix[j][g][t]} | u32{matrix[j][g][t + 1]} << 16;
    }
  }
  Meet(w);
  return ip + 1;
}

const Inst* Transpose(Warp& w, const Inst* ip) {
  if (!Ready(w)) return w.WaitFor(ip, kFull);
  Meet(w);
  const u32* a = w.At<u32>(ip->a);
  u16 matrix[8][8];
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int i = 0; i < 2; ++i) {
      matrix[lane / 4][2 * (lane % 4) + i] = static_cast<u16>(a[lane] >> (16 * i));
    }
  }
  u32* d = w.At<u32>(ip->d);
  for (int lane = 0; lane < kLanes; ++lane) {
    const int g = lane / 4, t = 2 * (lane % 4);
    d[lane] = u32{matrix[t][g]} | u32{matrix[t + 1][g]} << 16;
  }
  return ip + 1;
}

// --- decoding ---

struct Shape {
  int m = 0, n = 0, k = 0;
};
bool ShapeOf(Decoder& d, Shape& s) {
  for (const std::string& text : d.statement().modifiers) {
    if (text.size() < 5 || text[0] != 'm' || text[1] < '0' || text[1] > '9') continue;
    std::array<int*, 3> into{&s.m, &s.n, &s.k};
    int part = -1;
    for (const char c : text) {
      if (c == 'm' || c == 'n' || c == 'k') {
        if (++part > 2) return false;
      } else if (c >= '0' && c <= '9' && part >= 0) {
        int& value = *into[static_cast<std::size_t>(part)];
        value = std::min(value * 10 + (c - '0'), 1000);
      } else {
        return false;
      }
    }
    return true;
  }
  return false;
}

// Registers of a fragment, all of 32 bits.
bool Registers(Decoder& d, const Operand& o, bool destination, std::vector<u32>& into) {
  const auto one = [&](const Operand& r) {
    into.push_back(destination ? d.Destination(r, Type::kB32) : d.Source(r, Type::kB32));
  };
  if (o.kind == Operand::Kind::kVector) {
    for (const Operand& r : o.elements) one(r);
  } else {
    one(o);
  }
  return true;
}

int RegisterCount(Role role, const Shape& s, Type t) {
  const int elements = role == kA ? s.m * s.k : role == kB ? s.k * s.n : s.m * s.n;
  return elements / kLanes / PerRegister(t);
}

bool EmitProduct(Decoder& d, const Shape& s, Type a, Type b, Type c, Type dt) {
  Product p{};
  p.m = static_cast<u32>(s.m);
  p.n = static_cast<u32>(s.n);
  p.k = static_cast<u32>(s.k);
  p.a_type = static_cast<u32>(a);
  p.b_type = static_cast<u32>(b);
  p.c_type = static_cast<u32>(c);
  p.d_type = static_cast<u32>(dt);
  p.flags = d.Has("satfinite") ? 1 : 0;
  std::vector<u32> ra, rb, rc, rd;
  Registers(d, d.Op(0), true, rd);
  Registers(d, d.Op(1), false, ra);
  Registers(d, d.Op(2), false, rb);
  Registers(d, d.Op(3), false, rc);
  const auto fit = [&](std::vector<u32>& r, Role role, Type t, u32& count) {
    const auto need = static_cast<std::size_t>(RegisterCount(role, s, t));
    // wmma gives A and B in f16 with every element twice.
    if (need == 0 || r.size() < need || (r.size() != need && r.size() % need != 0)) return false;
    r.resize(need);
    count = static_cast<u32>(need);
    return true;
  };
  if (!fit(ra, kA, a, p.a_count) || !fit(rb, kB, b, p.b_count) || !fit(rc, kC, c, p.c_count) ||
      !fit(rd, kC, dt, p.d_count)) {
    return d.Fail("the fragments have the wrong number of registers");
  }
  Program& program = d.program();
  const auto table = [&](Role role, Type t, u32 count) {
    return TableFor(program, role, s.m, s.n, s.k, PerRegister(t), static_cast<int>(count));
  };
  p.a_table = table(kA, a, p.a_count);
  p.b_table = table(kB, b, p.b_count);
  p.c_table = table(kC, c, p.c_count);
  p.d_table = table(kC, dt, p.d_count);
  std::vector<u32> extra(kProductWords);
  std::memcpy(extra.data(), &p, sizeof(p));
  for (const auto* list : {&ra, &rb, &rc, &rd})
    extra.insert(extra.end(), list->begin(), list->end());
  // Bytes run at twice the 16-bit rate.
  const double flops = (PerRegister(a) == 4 ? 1.0 : 2.0) * s.m * s.n * s.k;
  d.counts().tensor++;
  if (a == Type::kTF32)
    d.counts().tensor_flops_tf32 += flops;
  else
    d.counts().tensor_flops_f16 += flops;
  const u32 x = d.AddExtra(extra);
  d.Emit(a == Type::kS8 || a == Type::kU8 ? MultiplyInteger : Multiply).x = x;
  return true;
}

bool KnownShape(const Shape& s, Type a, bool wmma) {
  if (wmma) {
    if (a == Type::kTF32) return s.m == 16 && s.n == 16 && s.k == 8;
    if (PerRegister(a) == 4 && a != Type::kS8 && a != Type::kU8) return false;
    return s.k == 16 &&
           ((s.m == 16 && s.n == 16) || (s.m == 32 && s.n == 8) || (s.m == 8 && s.n == 32));
  }
  if (s.m == 8 && s.n == 8) return s.k == 16 && (a == Type::kS8 || a == Type::kU8);
  if (s.m != 16 || s.n != 8) return false;
  switch (PerRegister(a)) {
    case 1:
      return s.k == 4 || s.k == 8;
    case 2:
      return s.k == 8 || s.k == 16;
    default:
      return s.k == 16 || s.k == 32;
  }
}

bool DecodeMma(Decoder& d) {
  Shape s;
  if (!ShapeOf(d, s) || d.Has("sp") || d.Has("block_scale")) return d.Fail("no such form");
  const Type dt = d.TypeAt(0), a = d.TypeAt(1), b = d.TypeAt(2), c = d.TypeAt(3);
  if (dt == Type::kF64) return DecodeDoubleMma(d, s.m, s.n, s.k);
  const bool integer = a == Type::kS8 || a == Type::kU8;
  const bool same = integer ? (b == Type::kS8 || b == Type::kU8) : PerRegister(a) == PerRegister(b);
  const bool sums =
      integer ? dt == Type::kS32 && c == Type::kS32
              : (dt == Type::kF32 || dt == Type::kF16) && (c == Type::kF32 || c == Type::kF16);
  const bool operands = integer || a == Type::kF16 || a == Type::kBF16 || a == Type::kTF32 ||
                        a == Type::kE4M3 || a == Type::kE5M2;
  if (!same || !sums || !operands || !KnownShape(s, a, false)) return d.Fail("no such form");
  return EmitProduct(d, s, a, b, c, dt);
}

bool DecodeTransfer(Decoder& d, bool store) {
  Shape s;
  Space space;
  if (!ShapeOf(d, s) || !SpaceOf(d, space)) return d.Fail("no such form");
  const Type t = d.TypeAt(-1);
  const Role role = d.Has("a") ? kA : d.Has("b") ? kB : kC;
  const bool column_major = d.Has("col");
  if (t == Type::kF64) return DecodeDoubleTransfer(d, s.m, s.n, s.k, store);
  const bool operand = t == Type::kBF16 || t == Type::kTF32 || t == Type::kS8 || t == Type::kU8;
  const bool sum = t == Type::kF32 || t == Type::kS32;
  const Type key = sum ? (s.k == 8 ? Type::kTF32 : Type::kF16) : t;
  if (!KnownShape(s, key, true) || (t != Type::kF16 && !operand && !sum) ||
      (role == kC ? operand : sum)) {
    return d.Fail("no such form");
  }
  std::vector<u32> registers;
  Registers(d, d.Op(store ? 1 : 0), !store, registers);
  const auto need = static_cast<std::size_t>(RegisterCount(role, s, t));
  Transfer f{};
  if (registers.size() < need || registers.size() % need != 0) {
    return d.Fail("the fragment has the wrong number of registers");
  }
  // An element may be there twice; the manual's 8 registers of f16 for 256 elements.
  f.repeat = registers.size() == 2 * need && !store ? 1 : 0;
  if (registers.size() > 2 * need && !store) {
    // Four times (8 x 16 in 8 registers): the further copies are never read.
    f.repeat = 1;
  }
  const Address address = d.ResolveAddress(d.Op(store ? 0 : 1));
  f.rows = static_cast<u32>(role == kB ? s.k : s.m);
  f.columns = static_cast<u32>(role == kA ? s.k : s.n);
  f.transposed = column_major ? 1 : 0;
  f.bytes = static_cast<u32>(SizeOf(t));
  f.per = static_cast<u32>(PerRegister(t));
  f.count = static_cast<u32>(need);
  f.table =
      TableFor(d.program(), role, s.m, s.n, s.k, PerRegister(t), static_cast<int>(need), true);
  f.space = static_cast<u32>(space);
  f.wide = address.wide ? 1 : 0;
  f.stride = d.count() > 2 ? d.Source(d.Op(2), Type::kB32) : 0;
  f.store = store ? 1 : 0;
  d.TouchShared(space, SizeOf(t));
  std::vector<u32> extra(kTransferWords);
  std::memcpy(extra.data(), &f, sizeof(f));
  extra.insert(extra.end(), registers.begin(), registers.end());
  Counters& c = d.counts();
  const auto n = static_cast<std::int64_t>(need);
  if (space == Space::kShared)
    (store ? c.shared_stores : c.shared_loads) += n;
  else
    (store ? c.global_stores : c.global_loads) += n;
  const u32 x = d.AddExtra(extra);
  Inst& inst = d.Emit(Move);
  inst.a = address.base;
  inst.imm = address.offset;
  inst.x = x;
  return true;
}

bool DecodeWmma(Decoder& d) {
  if (d.Has("load")) return DecodeTransfer(d, false);
  if (d.Has("store")) return DecodeTransfer(d, true);
  Shape s;
  if (!d.Has("mma") || !ShapeOf(d, s)) return d.Fail("no such form");
  // .dtype.ctype for f16, .dtype.atype.btype.ctype for the others.
  const bool four = d.TypeAt(2) != Type::kNone;
  const Type dt = d.TypeAt(0), c = four ? d.TypeAt(3) : d.TypeAt(1);
  const Type a = four ? d.TypeAt(1) : Type::kF16;
  if (a == Type::kF64 || dt == Type::kF64) return DecodeDoubleMma(d, s.m, s.n, s.k);
  const bool integer = a == Type::kS8 || a == Type::kU8;
  const Type b = four ? d.TypeAt(2) : a;
  const bool sums =
      integer ? dt == Type::kS32 && c == Type::kS32
              : (dt == Type::kF32 || dt == Type::kF16) && (c == Type::kF32 || c == Type::kF16);
  if ((!integer && a != Type::kF16 && a != Type::kBF16 && a != Type::kTF32) || a != b || !sums ||
      !KnownShape(s, a, true)) {
    return d.Fail("no such form");
  }
  return EmitProduct(d, s, a, b, c, dt);
}

bool DecodeMatrices(Decoder& d, bool store) {
  Space space;
  if (!SpaceOf(d, space) || !d.Has("m8n8") || d.TypeAt(-1) != Type::kB16) {
    return d.Fail("no such form");
  }
  const std::size_t n = d.Has("x4") ? 4 : d.Has("x2") ? 2 : 1;
  std::vector<u32> registers;
  Registers(d, d.Op(store ? 1 : 0), !store, registers);
  if (registers.size() != n) return d.Fail("the wrong number of registers");
  const Address address = d.ResolveAddress(d.Op(store ? 0 : 1));
  if (store)
    d.counts().shared_stores++;
  else
    d.counts().shared_loads++;
  const u32 x = d.AddExtra(registers);
  Inst& inst = d.Emit(MoveMatrices);
  inst.d = static_cast<u32>(n);
  inst.a = address.base;
  inst.b = (address.wide ? 1u : 0u) | (d.Has("trans") ? 2u : 0u) | (store ? 4u : 0u);
  inst.c = static_cast<u32>(space);
  inst.imm = address.offset;
  inst.x = x;
  return true;
}
bool DecodeLdmatrix(Decoder& d) { return DecodeMatrices(d, false); }
bool DecodeStmatrix(Decoder& d) { return DecodeMatrices(d, true); }

bool DecodeMovmatrix(Decoder& d) {
  const u32 a = d.Source(d.Op(1), Type::kB32), to = d.Destination(d.Op(0), Type::kB32);
  d.counts().shuffles++;
  Inst& inst = d.Emit(Transpose);
  inst.d = to;
  inst.a = a;
  return true;
}

}  // namespace

void RegisterMatrix(OpcodeTable& table) {
  table["mma"] = {DecodeMma, true};
  table["wmma"] = {DecodeWmma, true};
  table["ldmatrix"] = {DecodeLdmatrix, true};
  table["stmatrix"] = {DecodeStmatrix, true};
  table["movmatrix"] = {DecodeMovmatrix, true};
}

}  // namespace grove::emulator
