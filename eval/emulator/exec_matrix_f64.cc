// Tensor core instructions in f64: mma.sync m8n8k4 and m16n8 with k of 4, 8, 16, and wmma m8n8k4
// with its loads and stores. One element a register; a lane with g = lane / 4 and t = lane % 4
// holds rows g and g + 8 of A by turns, 4 columns further every other register; B at (t + 4 r, g);
// C and D at (g + 8 (r / 2), 2 t + r % 2).
#include <bit>
#include <cmath>
#include <cstring>

#include "eval/emulator/access.h"
#include "eval/emulator/checks.h"
#include "eval/emulator/decoder.h"
#include "eval/emulator/emit.h"
#include "eval/emulator/lanes.h"

namespace grove::emulator {
namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

struct Place {
  u32 row, column;
};
Place PlaceInA(u32 m, u32 r, u32 lane) {
  const u32 halves = m / 8;
  return {lane / 4 + 8 * (r % halves), lane % 4 + 4 * (r / halves)};
}
Place PlaceInB(u32 r, u32 lane) { return {lane % 4 + 4 * r, lane / 4}; }
Place PlaceInC(u32 r, u32 lane) { return {lane / 4 + 8 * (r / 2), 2 * (lane % 4) + r % 2}; }

bool Ready(Warp& w) { return w.Together(kFull); }
void Meet(Warp& w) {
  if (w.block->races != nullptr) w.block->races->SyncWarp(w, w.live);
}

// a: rows, b: depth; extra: registers of a, b, c, d.
const Inst* Multiply(Warp& w, const Inst* ip) {
  if (!Ready(w)) return w.WaitFor(ip, kFull);
  Meet(w);
  const u32 m = ip->a, depth = ip->b;
  const u32* e = w.program->extra.data() + ip->x;
  double a[16][16], b[16][8];
  for (u32 r = 0; r < m * depth / kLanes; ++r) {
    const double* from = w.At<double>(*e++);
    for (u32 lane = 0; lane < kLanes; ++lane) {
      const Place p = PlaceInA(m, r, lane);
      a[p.row][p.column] = from[lane];
    }
  }
  for (u32 r = 0; r < depth * 8 / kLanes; ++r) {
    const double* from = w.At<double>(*e++);
    for (u32 lane = 0; lane < kLanes; ++lane) {
      const Place p = PlaceInB(r, lane);
      b[p.row][p.column] = from[lane];
    }
  }
  const u32 sums = m * 8 / kLanes;
  double sum[4][kLanes];
  for (u32 r = 0; r < sums; ++r) {
    const double* c = w.At<double>(*e++);
    for (u32 lane = 0; lane < kLanes; ++lane) {
      const Place p = PlaceInC(r, lane);
      double s = c[lane];
      for (u32 k = 0; k < depth; ++k) s = std::fma(a[p.row][k], b[k][p.column], s);
      sum[r][lane] = s;
    }
  }
  for (u32 r = 0; r < sums; ++r) std::memcpy(w.At<double>(*e++), sum[r], sizeof(sum[r]));
  return ip + 1;
}

enum Role : u32 { kA, kB, kC };

// a base, imm offset, b: bit 0 wide base, bit 1 column-major, bit 2 store, role above bit 4;
// c: space; d: register of the stride (0: dense); extra: the registers.
const Inst* Move(Warp& w, const Inst* ip) {
  if (!Ready(w)) return w.WaitFor(ip, kFull);
  Meet(w);
  const u32* e = w.program->extra.data() + ip->x;
  const Role role = static_cast<Role>(ip->b >> 4);
  const bool column_major = (ip->b & 2) != 0;
  AccessKind kind;
  kind.space = static_cast<Space>(ip->c);
  kind.bytes = 8;
  kind.store = (ip->b & 4) != 0;
  alignas(64) u64 address[kLanes];
  LaneAddresses(w, ip->a, (ip->b & 1) != 0, ip->imm, address);
  const int first = std::countr_zero(w.mask);
  const u64 base = address[first] + WindowOf(kind.space);
  const u64 rows = role == kB ? 4 : 8, columns = role == kA ? 4 : 8;
  const u64 stride = ip->d == 0 ? (column_major ? rows : columns) : u64{w.At<u32>(ip->d)[first]};
  for (u32 r = 0; r < (role == kC ? 2u : 1u); ++r) {
    for (u32 lane = 0; lane < kLanes; ++lane) {
      const Place p = role == kA   ? PlaceInA(8, r, lane)
                      : role == kB ? PlaceInB(r, lane)
                                   : PlaceInC(r, lane);
      address[lane] =
          base + 8 * (column_major ? p.column * stride + p.row : p.row * stride + p.column);
    }
    CountAccess(w, kind, address, kFull);
    double* values = w.At<double>(e[r]);
    for (int lane = 0; lane < kLanes; ++lane) {
      const auto* value = static_cast<const std::byte*>(static_cast<const void*>(values + lane));
      std::byte* cell = ResolveLane(w, ip, kind, address[lane], lane, value);
      if (cell == nullptr) return nullptr;
      if (kind.store)
        std::memcpy(cell, values + lane, 8);
      else
        std::memcpy(values + lane, cell, 8);
    }
  }
  Meet(w);
  return ip + 1;
}

bool Registers(Decoder& d, const Operand& o, bool destination, int count, std::vector<u32>& into) {
  const auto one = [&](const Operand& r) {
    into.push_back(destination ? d.Destination(r, Type::kF64) : d.Source(r, Type::kF64));
  };
  const bool vector = o.kind == Operand::Kind::kVector;
  if (static_cast<int>(vector ? o.elements.size() : 1) != count) {
    return d.Fail("the fragment has the wrong number of registers");
  }
  if (vector) {
    for (const Operand& r : o.elements) one(r);
  } else {
    one(o);
  }
  return true;
}

}  // namespace

bool DecodeDoubleMma(Decoder& d, int m, int n, int k) {
  const bool small = m == 8 && k == 4, tall = m == 16 && (k == 4 || k == 8 || k == 16);
  if (n != 8 || (!small && !tall)) return d.Fail("no such form");
  std::vector<u32> extra;
  const int sums = m * 8 / kLanes;
  if (!Registers(d, d.Op(1), false, m * k / kLanes, extra) ||
      !Registers(d, d.Op(2), false, k * 8 / kLanes, extra) ||
      !Registers(d, d.Op(3), false, sums, extra) || !Registers(d, d.Op(0), true, sums, extra)) {
    return false;
  }
  d.counts().tensor++;
  // Warp instructions of the fp64 pipe that take as long: the tensor cores are twice as fast.
  d.counts().fp64 += m * 8 * k / 64;
  const u32 x = d.AddExtra(extra);
  Inst& inst = d.Emit(Multiply);
  inst.a = static_cast<u32>(m);
  inst.b = static_cast<u32>(k);
  inst.x = x;
  return true;
}

bool DecodeDoubleTransfer(Decoder& d, int m, int n, int k, bool store) {
  Space space;
  if (m != 8 || n != 8 || k != 4 || !SpaceOf(d, space)) return d.Fail("no such form");
  const Role role = d.Has("a") ? kA : d.Has("b") ? kB : kC;
  const int count = role == kC ? 2 : 1;
  std::vector<u32> registers;
  if (!Registers(d, d.Op(store ? 1 : 0), !store, count, registers)) return false;
  const Address address = d.ResolveAddress(d.Op(store ? 0 : 1));
  const u32 stride = d.count() > 2 ? d.Source(d.Op(2), Type::kB32) : 0;
  Counters& c = d.counts();
  if (space == Space::kShared)
    (store ? c.shared_stores : c.shared_loads) += count;
  else
    (store ? c.global_stores : c.global_loads) += count;
  d.TouchShared(space, 8);
  const u32 x = d.AddExtra(registers);
  Inst& inst = d.Emit(Move);
  inst.a = address.base;
  inst.imm = address.offset;
  inst.b = (address.wide ? 1u : 0u) | (d.Has("col") ? 2u : 0u) | (store ? 4u : 0u) |
           static_cast<u32>(role) << 4;
  inst.c = static_cast<u32>(space);
  inst.d = stride;
  inst.x = x;
  return true;
}

}  // namespace grove::emulator
