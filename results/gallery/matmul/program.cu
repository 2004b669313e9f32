#include <cuda_fp16.h>
using u32 = unsigned int;
using u64 = unsigned long long;

constexpr int kHalfM = dim::M / 2, kHalfN = dim::N / 2, kHalfK = dim::K / 2;
constexpr int kTilesM = kHalfM >= 128 ? kHalfM / 128 : 1;  // tiles of a quadrant
constexpr int kTilesN = kHalfN >= 256 ? kHalfN / 256 : 1;
constexpr int kSteps = kHalfK >= 32 ? kHalfK / 32 : 1;
constexpr int kPhases = 7;
constexpr u32 kPart = 8192;         // 128 rows x 32 fp16
constexpr u32 kImage = 2 * kPart;   // hi, lo
constexpr u32 kStage = 3 * kImage;  // a, left half of b, right half of b
constexpr int kStages = 4;

// The left or right operand of product p at one place, from the four quadrants (11, 12, 21, 22).
// a: A11, S2, S3, A22, S1, S4, A12    b: B11, T2, T3, T4, T1, B22, B21
__device__ __forceinline__ float Operand(bool left, int p, float x, float y, float z, float w) {
  if (left) {
    const float s1 = z + w, s2 = s1 - x;
    return p == 0 ? x : p == 1 ? s2 : p == 2 ? x - z : p == 3 ? w : p == 4 ? s1 : p == 5 ? y - s2 : y;
  }
  const float t1 = y - x, t2 = w - t1;
  return p == 0 ? x : p == 1 ? t2 : p == 2 ? w - y : p == 3 ? t2 - z : p == 4 ? t1 : p == 5 ? w : z;
}

// Seven images of 128 rows (or columns of b) x 32 k: x = (hi + lo) * scale, scale a power of two of the image that puts
// the peak to 2^14 .. 2^15. The scale is -1 where the quadrants are of too different sizes, or too many values too small.
template <bool left>
__device__ __forceinline__ void Split(const float* from, int tile, int step, char* parts, float* scales,
                                      u32 (&peaks)[kPhases][16], u32 (&tallies)[16]) {
  constexpr int tiles = left ? kTilesM : 2 * kTilesN;
  const int tid = threadIdx.x, warp = tid >> 5, row = tid >> 2, octet = tid & 3;
  const int line = tile * 128 + row, k = step * 32 + octet * 8;
  float v[4][8];
#pragma unroll
  for (int q = 0; q < 4; ++q) {
    if (left) {
      const float4* source = reinterpret_cast<const float4*>(
          from + static_cast<size_t>(line + (q >> 1) * kHalfM) * dim::K + k + (q & 1) * kHalfK);
      const float4 s = source[0], t = source[1];
      v[q][0] = s.x; v[q][1] = s.y; v[q][2] = s.z; v[q][3] = s.w;
      v[q][4] = t.x; v[q][5] = t.y; v[q][6] = t.z; v[q][7] = t.w;
    } else {
#pragma unroll
      for (int j = 0; j < 8; ++j)
        v[q][j] = from[static_cast<size_t>(k + j + (q >> 1) * kHalfK) * dim::N + line + (q & 1) * kHalfN];
    }
  }
  float most = 0.0f, least = 3.0e38f;  // the peaks of this row's 32 k in the quadrants
#pragma unroll
  for (int q = 0; q < 4; ++q) {
    float m = 0.0f;
#pragma unroll
    for (int j = 0; j < 8; ++j) m = fmaxf(m, fabsf(v[q][j]));
    m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, 1));
    m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, 2));
    most = fmaxf(most, m);
    least = fminf(least, m);
  }
  int bad = !(least * 8.0f >= most);
#pragma unroll
  for (int p = 0; p < kPhases; ++p) {
    u32 peak = 0;
#pragma unroll
    for (int j = 0; j < 8; ++j)
      peak = max(peak, __float_as_uint(Operand(left, p, v[0][j], v[1][j], v[2][j], v[3][j])) & 0x7fffffffu);
    peak = __reduce_max_sync(0xffffffffu, peak);
    if ((tid & 31) == 0) peaks[p][warp] = peak;
  }
  __syncthreads();
  u32 tally = 0;  // nonzero values, and small ones in the upper half
  float mine = 1.0f;
#pragma unroll
  for (int p = 0; p < kPhases; ++p) {
    const u32 peak = __reduce_max_sync(0xffffffffu, peaks[p][tid & 15]);
    const int exponent = static_cast<int>(peak >> 23);
    const bool odd = peak != 0 && (exponent < 80 || exponent > 187);
    const float scale = peak == 0 || odd ? 1.0f : __uint_as_float((268 - exponent) << 23);
    bad |= odd;
    if (tid == p) mine = 1.0f / scale;
    u32 hi[4], lo[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float x = Operand(left, p, v[0][2 * j], v[1][2 * j], v[2][2 * j], v[3][2 * j]) * scale;
      const float y = Operand(left, p, v[0][2 * j + 1], v[1][2 * j + 1], v[2][2 * j + 1], v[3][2 * j + 1]) * scale;
      if (x != 0.0f) tally += fabsf(x) < 0.25f ? 0x10001u : 1u;
      if (y != 0.0f) tally += fabsf(y) < 0.25f ? 0x10001u : 1u;
      const __half2 h = __floats2half2_rn(x, y);
      const float2 f = __half22float2(h);
      const __half2 l = __floats2half2_rn(x - f.x, y - f.y);
      hi[j] = *reinterpret_cast<const u32*>(&h);
      lo[j] = *reinterpret_cast<const u32*>(&l);
    }
    char* image = parts + static_cast<size_t>((p * tiles + tile) * kSteps + step) * kImage;
    const u32 offset = row * 64 + ((octet ^ ((row >> 1) & 3)) << 4);
    *reinterpret_cast<uint4*>(image + offset) = make_uint4(hi[0], hi[1], hi[2], hi[3]);
    *reinterpret_cast<uint4*>(image + kPart + offset) = make_uint4(lo[0], lo[1], lo[2], lo[3]);
  }
  tally = __reduce_add_sync(0xffffffffu, tally);
  if ((tid & 31) == 0) tallies[warp] = tally;
  bad = __syncthreads_or(bad);
  if (tid < kPhases) {
    u32 some = 0, small = 0;
#pragma unroll
    for (int i = 0; i < 16; ++i) { some += tallies[i] & 0xffffu; small += tallies[i] >> 16; }
    scales[(tid * tiles + tile) * kSteps + step] = bad || small * 2048 > some ? -1.0f : mine;
  }
}

extern "C" __global__ void __launch_bounds__(512, 2) split(const tensor::a* a, const tensor::b* b, __half* parts, float* scales) {
  __shared__ u32 peaks[kPhases][16], tallies[16];
  constexpr int images = kPhases * kTilesM * kSteps;  // of a
  int block = blockIdx.x;
  char* to = reinterpret_cast<char*>(parts);
  if (block < kTilesM * kSteps) {
    Split<true>(reinterpret_cast<const float*>(a), block / kSteps, block % kSteps, to, scales, peaks, tallies);
  } else {
    block -= kTilesM * kSteps;
    Split<false>(reinterpret_cast<const float*>(b), block / kSteps, block % kSteps, to + static_cast<size_t>(images) * kImage,
                 scales + images, peaks, tallies);
  }
}

__device__ __forceinline__ u64 Describe(u32 address) {  // K-major, 64-byte swizzle, 8 rows = 512 bytes
  return static_cast<u64>((address & 0x3ffff) >> 4) | (1ull << 16) | (32ull << 32) | (2ull << 62);
}
__device__ __forceinline__ void Wait(u32 barrier, u32 parity) {
  u32 done;
  do {
    asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                 "selp.u32 %0, 1, 0, p;\n}\n" : "=r"(done) : "r"(barrier), "r"(parity) : "memory");
  } while (!done);
}
__device__ __forceinline__ void Copy(u32 to, const char* from, u32 bar) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               :: "r"(to), "l"(from), "r"(kImage), "r"(bar) : "memory");
}
#define D4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define D16(i) D4(i), D4(i + 4), D4(i + 8), D4(i + 12)
__device__ __forceinline__ void Multiply(float (&d)[32], const u32 (&a)[4], u64 b, int keep) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {"
      "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
      "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, "
      "{%32, %33, %34, %35}, %36, p, 1, 1, 0;\n}\n"
      : D16(0), D16(16)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(keep));
}
__device__ __forceinline__ void Pin(float (&d)[32]) {
#pragma unroll
  for (int i = 0; i < 32; ++i) asm volatile("" : "+f"(d[i]) :: "memory");
}
__device__ __forceinline__ void Load(u32 (&r)[4], u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address) : "memory");
}
#define FENCE asm volatile("wgmma.fence.sync.aligned;" ::: "memory")
#define COMMIT asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory")
#define AWAIT(n) asm volatile("wgmma.wait_group.sync.aligned " #n ";" ::: "memory")

// Stores the sums, or adds them to memory without reading it. Neighbouring lanes exchange halves, so that each has four
// columns of one row: even lanes of block j, odd ones of block j + 1.
template <bool add>
__device__ __forceinline__ void Store(const float (&sum)[4][32], float* out) {
  const bool odd = threadIdx.x & 1;
#pragma unroll
  for (int q = 0; q < 4; ++q) {
#pragma unroll
    for (int j = 0; j < 8; j += 2) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {  // rows 0 .. 7 and 8 .. 15 of the warp
        const float px = sum[q][4 * j + 2 * half], py = sum[q][4 * j + 2 * half + 1];
        const float rx = sum[q][4 * j + 4 + 2 * half], ry = sum[q][4 * j + 4 + 2 * half + 1];
        const float x = __shfl_xor_sync(0xffffffffu, odd ? px : rx, 1);
        const float y = __shfl_xor_sync(0xffffffffu, odd ? py : ry, 1);
        const float4 v = odd ? make_float4(x, y, rx, ry) : make_float4(px, py, x, y);
        float* p = out + q * 64 + j * 8 + static_cast<size_t>(half * 8) * dim::N;
        if (add) {
          asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};"
                       :: "l"(p), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w) : "memory");
        } else {
          *reinterpret_cast<float4*>(p) = v;
        }
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(384, 1)
product(const __half* parts, const float* scales, const tensor::a* a, const tensor::b* b, tensor::c* c) {
  extern __shared__ char raw[];
  __shared__ float factor[2][kPhases * kSteps];
  const u32 base = (static_cast<u32>(__cvta_generic_to_shared(raw)) + 1023) & ~1023u;
  const u32 full = base + kStages * kStage, empty = full + 8 * kStages;
  const int tid = threadIdx.x, group = tid >> 7, lane = tid & 31;
  if (tid == 0) {
    for (int i = 0; i < kStages; ++i) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(full + 8 * i) : "memory");
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 8;" :: "r"(empty + 8 * i) : "memory");
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async;" ::: "memory");
  }
  asm volatile("griddepcontrol.wait;" ::: "memory");  // for the split
  const int tileN = blockIdx.x % kTilesN, tileM = blockIdx.x / kTilesN;
  constexpr int imagesA = kPhases * kTilesM * kSteps;
  int bad = 0;
  for (int i = tid; i < kPhases * kSteps; i += 384) {
    const int phase = i / kSteps, step = i % kSteps;
    const int at = imagesA + (phase * 2 * kTilesN + 2 * tileN) * kSteps + step;
    const float p = scales[(phase * kTilesM + tileM) * kSteps + step], q = scales[at], r = scales[at + kSteps];
    bad |= p < 0.0f || q < 0.0f || r < 0.0f;
    const float sign = phase == 3 ? -p : p;
    factor[0][i] = sign * q;
    factor[1][i] = sign * r;
  }
  if (__syncthreads_or(bad)) {  // some value has no good place in fp16: plain fp32
    if (tid < 256) {
      for (int quadrant = 0; quadrant < 4; ++quadrant) {
        const int n = tileN * 256 + tid + (quadrant & 1) * kHalfN, m = tileM * 128 + (quadrant >> 1) * kHalfM;
        const float* column = reinterpret_cast<const float*>(b) + n;
        for (int row = m; row < m + 128; row += 8) {
          const float* line = reinterpret_cast<const float*>(a) + static_cast<size_t>(row) * dim::K;
          float s[8] = {};
          for (int k = 0; k < dim::K; ++k) {
            const float x = column[static_cast<size_t>(k) * dim::N];
#pragma unroll
            for (int i = 0; i < 8; ++i) s[i] = fmaf(line[i * dim::K + k], x, s[i]);
          }
#pragma unroll
          for (int i = 0; i < 8; ++i) c[static_cast<size_t>(row + i) * dim::N + n] = s[i];
        }
      }
    }
    return;
  }

  if (group == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    if (tid == 0) {
      const char* from = reinterpret_cast<const char*>(parts);
      int slot = 0;
      u32 parity = 1;
      for (int i = 0; i < kPhases * kSteps; ++i) {
        const int phase = i / kSteps, step = i % kSteps;
        const char* fromA = from + static_cast<size_t>((phase * kTilesM + tileM) * kSteps + step) * kImage;
        const char* fromB = from + static_cast<size_t>(imagesA + (phase * 2 * kTilesN + 2 * tileN) * kSteps + step) * kImage;
        Wait(empty + 8 * slot, parity);
        const u32 bar = full + 8 * slot, to = base + slot * kStage;
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(bar), "r"(kStage) : "memory");
        Copy(to, fromA, bar);
        Copy(to + kImage, fromB, bar);
        Copy(to + 2 * kImage, fromB + static_cast<size_t>(kSteps) * kImage, bar);
        if (++slot == kStages) { slot = 0; parity ^= 1; }
      }
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    float sum[4][32], acc[2][32];
#pragma unroll
    for (int i = 0; i < 32; ++i) { sum[0][i] = sum[1][i] = sum[2][i] = sum[3][i] = 0.0f; acc[0][i] = acc[1][i] = 0.0f; }
    const u32 line = ((group - 1) * 64 + ((tid >> 5) & 3) * 16 + (lane & 15)) * 64;
    constexpr int kGroup = kSteps % 4 == 0 ? 4 : 1;  // steps without a pause
    u32 ah[2][2][4], al[2][2][4];  // the running batch still reads the fragments of the step before
    int slot = 0;
    u32 parity = 0;
#pragma unroll 1
    for (int step = 0; step < kPhases * kSteps; step += kGroup) {
      float f[2] = {0.0f, 0.0f}, last = 0.0f;
#pragma unroll
      for (int g = 0; g < kGroup; ++g) {
        Wait(full + 8 * slot, parity);
        const u32 stage = base + slot * kStage;
#pragma unroll
        for (int k = 0; k < 2; ++k) {
          const u32 from = stage + line + (((2 * k + (lane >> 4)) ^ ((lane >> 1) & 3)) << 4);
          Load(al[g & 1][k], from + kPart);
          Load(ah[g & 1][k], from);
        }
        const u64 db = Describe(stage + kImage);
        last = f[1];
        f[0] = factor[0][step + g];
        f[1] = factor[1][step + g];
#pragma unroll
        for (int q = 0; q < 4; ++q) {
          const u64 bh = db + (q >> 1) * (kImage / 16) + (q & 1) * 256, bl = bh + kPart / 16;
          Pin(acc[q & 1]);
          FENCE;
          Multiply(acc[q & 1], al[g & 1][0], bh, 0);
          Multiply(acc[q & 1], al[g & 1][1], bh + 2, 1);
          Multiply(acc[q & 1], ah[g & 1][0], bl, 1);
          Multiply(acc[q & 1], ah[g & 1][1], bl + 2, 1);
          Multiply(acc[q & 1], ah[g & 1][0], bh, 1);
          Multiply(acc[q & 1], ah[g & 1][1], bh + 2, 1);
          COMMIT;
          if (q > 0) {
            AWAIT(1);
            Pin(acc[(q - 1) & 1]);
#pragma unroll
            for (int i = 0; i < 32; ++i) sum[q - 1][i] = fmaf(acc[(q - 1) & 1][i], f[(q - 1) >> 1], sum[q - 1][i]);
          } else if (g > 0) {
            AWAIT(1);
            Pin(acc[1]);
            __syncwarp();
            const int before = slot == 0 ? kStages - 1 : slot - 1;  // has been read
            if (lane == 0) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(empty + 8 * before) : "memory");
#pragma unroll
            for (int i = 0; i < 32; ++i) sum[3][i] = fmaf(acc[1][i], last, sum[3][i]);
          }
        }
        if (g == kGroup - 1) {
          AWAIT(0);
          Pin(acc[1]);
          __syncwarp();
          if (lane == 0) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(empty + 8 * slot) : "memory");
#pragma unroll
          for (int i = 0; i < 32; ++i) sum[3][i] = fmaf(acc[1][i], f[1], sum[3][i]);
        }
        if (++slot == kStages) { slot = 0; parity ^= 1; }
      }
      if ((step + kGroup) % kSteps != 0) continue;
      const int phase = step / kSteps;  // done; what a thread reads here it has written itself
      const int row = tileM * 128 + static_cast<int>(threadIdx.x >> 5) * 16 - 64 + ((threadIdx.x & 31) >> 2);
      float* out = reinterpret_cast<float*>(c) + static_cast<size_t>(row) * dim::N + tileN * 256 + (threadIdx.x & 2) * 2 +
                   (threadIdx.x & 1) * 8;
      // c11, c12, c22, c21; then + c22, and the same sum with the next product + c12, the last one + c11
      if (phase == 1 || phase == 2 || phase == 4 || phase == 5) out += kHalfN;
      if (phase == 2 || phase == 3 || phase == 4) out += static_cast<size_t>(kHalfM) * dim::N;
      if (phase < 4) Store<false>(sum, out); else Store<true>(sum, out);
      if (phase == 3 || phase == 5) {
#pragma unroll
        for (int i = 0; i < 32; ++i) { sum[0][i] = sum[1][i] = sum[2][i] = sum[3][i] = 0.0f; }
      }
#pragma unroll
      for (int i = 0; i < 32; ++i) acc[0][i] = acc[1][i] = 0.0f;  // not alive meanwhile: registers
    }
  }
}

extern "C" __global__ void matmul(const tensor::a* a, const tensor::b* b, tensor::c* c) {
  const int column = blockIdx.x * 16 + threadIdx.x;
  const int row = blockIdx.y * 16 + threadIdx.y;
  if (row >= dim::M || column >= dim::N) return;
  float sum = 0.0f;
  for (int k = 0; k < dim::K; ++k) {
    sum += static_cast<float>(a[static_cast<long long>(row) * dim::K + k]) *
           static_cast<float>(b[static_cast<long long>(k) * dim::N + column]);
  }
  c[static_cast<long long>(row) * dim::N + column] = static_cast<tensor::c>(sum);
}
