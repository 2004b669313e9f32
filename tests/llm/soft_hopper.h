// TMA boxes and warpgroup products in plain CUDA, by the rules of the PTX ISA (tensor copies with
// 128-byte swizzle; wgmma descriptors, canonical layouts and accumulator fragments), to put in the
// place of the playbook's wrappers of those instructions: a program then runs in the emulator. It
// is written apart from the playbook, from the rules alone. Blocks of a cluster are not covered.
#pragma once

#include <cstdint>
#include <string>

namespace grove::llm::playbook {

// What stands in a kernel parameter in the place of a CUtensorMap; at most 4 dims, innermost first.
struct SoftMap {
  std::uint64_t address = 0;
  std::int32_t extent[4] = {1, 1, 1, 1};  // elements
  std::int32_t box[4] = {1, 1, 1, 1};
};
static_assert(sizeof(SoftMap) <= 128);

inline constexpr const char* kSoftHopper = R"(
struct SoftMap {
  unsigned long long address;
  int extent[4], box[4];
};
// 16-byte chunk c of the 128-byte row r lies at chunk c ^ (r % 8): address bits 4..6 ^= bits 7..9.
__device__ __forceinline__ unsigned SoftSwizzle(unsigned address) {
  return address ^ ((address >> 7 & 7) << 4);
}
__device__ __forceinline__ unsigned short SoftRead(unsigned address) {
  unsigned short value;
  asm volatile("ld.shared.u16 %0, [%1];" : "=h"(value) : "r"(SoftSwizzle(address)) : "memory");
  return value;
}
// Boxes of rows of 64 elements; dims beyond the second have boxes of 1.
__device__ inline void SoftLoad(unsigned to, const CUtensorMap& map, int x, int y, int z, int w,
                                unsigned barrier) {
  const SoftMap& m = reinterpret_cast<const SoftMap&>(map);
  const unsigned short* from = reinterpret_cast<const unsigned short*>(m.address);
  if (to % 1024 != 0 || m.box[0] != 64) asm volatile("trap;");
  // Rows are multiples of 16 bytes, so 8 elements are inside or outside together.
  for (int r = 0; r < m.box[1]; ++r) {
    for (int c = 0; c < 64; c += 8) {
      const bool inside = x + c >= 0 && x + c < m.extent[0] && y + r >= 0 && y + r < m.extent[1] &&
                          z >= 0 && z < m.extent[2] && w >= 0 && w < m.extent[3];
      const long long at =
          ((static_cast<long long>(w) * m.extent[2] + z) * m.extent[1] + y + r) * m.extent[0] + x + c;
      const uint4 v = inside ? *reinterpret_cast<const uint4*>(from + at) : make_uint4(0, 0, 0, 0);
      asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(SoftSwizzle(to + r * 128 + c * 2)),
                   "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
                   : "memory");
    }
  }
  asm volatile("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(barrier),
               "r"(m.box[1] * 128)
               : "memory");
}
__device__ inline void LoadBox(unsigned to, const CUtensorMap& map, int x, int y, unsigned barrier) {
  SoftLoad(to, map, x, y, 0, 0, barrier);
}
__device__ inline void LoadBoxOfHead(unsigned to, const CUtensorMap& map, int x, int y, int z, int w,
                                     unsigned barrier) {
  SoftLoad(to, map, x, y, z, w, barrier);
}
__device__ inline unsigned long long PolicyToKeep() { return 0; }
__device__ inline unsigned long long PolicyToDrop() { return 0; }
__device__ inline void LoadBoxOfHeadBy(unsigned to, const CUtensorMap& map, int x, int y, int z, int w,
                                       unsigned barrier, unsigned long long) {
  SoftLoad(to, map, x, y, z, w, barrier);
}
__device__ inline void LoadBoxOfHeadForBoth(unsigned, const CUtensorMap&, int, int, int, int, unsigned) {
  asm volatile("trap;");
}
__device__ inline void LoadBoxForBoth(unsigned, const CUtensorMap&, int, int, unsigned) {
  asm volatile("trap;");
}
__device__ inline void SoftStore(const CUtensorMap& map, int x, int y, int z, int w, unsigned from) {
  const SoftMap& m = reinterpret_cast<const SoftMap&>(map);
  unsigned short* to = reinterpret_cast<unsigned short*>(m.address);
  if (from % 1024 != 0 || m.box[0] != 64) asm volatile("trap;");
  for (int r = 0; r < m.box[1]; ++r) {
    for (int c = 0; c < 64; c += 8) {
      if (x + c >= m.extent[0] || y + r >= m.extent[1]) continue;
      const long long at =
          ((static_cast<long long>(w) * m.extent[2] + z) * m.extent[1] + y + r) * m.extent[0] + x + c;
      uint4 v;
      asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                   : "r"(SoftSwizzle(from + r * 128 + c * 2))
                   : "memory");
      *reinterpret_cast<uint4*>(to + at) = v;
    }
  }
}
__device__ inline void StoreBox(const CUtensorMap& map, int x, int y, unsigned from) {
  SoftStore(map, x, y, 0, 0, from);
}
__device__ inline void StoreBoxOfHead(const CUtensorMap& map, int x, int y, int z, int w,
                                      unsigned from) {
  SoftStore(map, x, y, z, w, from);
}

#define WGMMA_FENCE()
#define WGMMA_COMMIT()
#define WGMMA_WAIT(n)
template <int kCount>
__device__ void Pin(float (&)[kCount]) {}

// Terms k and k + 1 of line l (a row of A, a column of B); strides in bytes as described.
template <int kAlongLines>
__device__ __forceinline__ unsigned SoftPair(unsigned long long d, int l, int k) {
  const unsigned start = (d & 0x3fff) << 4, lead = (d >> 16 & 0x3fff) << 4;
  const unsigned stride = (d >> 32 & 0x3fff) << 4;
  if (kAlongLines == 0) {
    unsigned pair;
    asm volatile("ld.shared.u32 %0, [%1];"
                 : "=r"(pair)
                 : "r"(SoftSwizzle(start + l / 8 * stride + l % 8 * 128 + k * 2))
                 : "memory");
    return pair;
  }
  const unsigned at = start + l / 64 * lead + l % 64 * 2 + k / 8 * stride + k % 8 * 128;
  return SoftRead(at) | static_cast<unsigned>(SoftRead(at + 128)) << 16;
}
// Warp w of the warpgroup has rows 16 w .. 16 w + 15; its sums and a left operand in registers lie
// as those of mma.sync m16n8k16, one product for every eight columns.
template <int kAlongN, int kSums>
__device__ __noinline__ void MultiplyHeld(float (&d)[kSums], const unsigned (&a)[4],
                                          unsigned long long b, int keep) {
  if (b >> 62 != 1) asm volatile("trap;");  // 128-byte swizzle
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int j = 0; j < kSums / 4; ++j) {
    const unsigned b0 = SoftPair<kAlongN>(b, 8 * j + lane / 4, lane % 4 * 2);
    const unsigned b1 = SoftPair<kAlongN>(b, 8 * j + lane / 4, lane % 4 * 2 + 8);
    float* s = &d[4 * j];
    if (!keep) s[0] = s[1] = s[2] = s[3] = 0.0f;
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." WGMMA_TYPE "." WGMMA_TYPE
                 ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}
template <int kAlongN, int kSums>
__device__ __forceinline__ void Multiply(float (&d)[kSums], unsigned long long a,
                                         unsigned long long b, int keep) {
  if (a >> 62 != 1) asm volatile("trap;");
  const int row = threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4, k = threadIdx.x % 4 * 2;
  const unsigned left[4] = {SoftPair<0>(a, row, k), SoftPair<0>(a, row + 8, k),
                            SoftPair<0>(a, row, k + 8), SoftPair<0>(a, row + 8, k + 8)};
  MultiplyHeld<kAlongN>(d, left, b, keep);
}
)";

// `source` with what stands between its lines "// --- TMA" and "// --- results" replaced; empty
// when it has no such lines.
inline std::string Soften(const std::string& source) {
  const std::size_t begin = source.find("// --- TMA"), end = source.find("// --- results");
  if (begin == std::string::npos || end == std::string::npos || end < begin) return {};
  return source.substr(0, begin) + kSoftHopper + source.substr(end);
}

}  // namespace grove::llm::playbook
