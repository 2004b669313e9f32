#include <cuda_fp16.h>
using u32 = unsigned int;
using u64 = unsigned long long;

constexpr int kTilesM = dim::M >= 128 ? dim::M / 128 : 1;
constexpr int kTilesN = dim::N >= 256 ? dim::N / 256 : 1;
constexpr int kSteps = dim::K >= 32 ? dim::K / 32 : 1;
constexpr u32 kPart = 8192;         // 128 rows x 32 fp16
constexpr u32 kImage = 2 * kPart;   // hi, lo
constexpr u32 kStage = 3 * kImage;  // a, left half of b, right half of b
constexpr int kStages = 4;

// Images of 128 rows (or columns of b) x 32 k: x = (hi + lo) * scale, scale a power of two of the image;
// images of a first, then those of b. With the peak at 2^14 .. 2^15 values from 2^-2 keep 22 bits, smaller ones an error
// below 2^-25 (2^-39 of the peak). The scale is -1 if more than 1 in 256 of the nonzero values is below 2^-2.
extern "C" __global__ void __launch_bounds__(256) split(const tensor::a* a, const tensor::b* b, __half* parts, float* scales) {
  __shared__ u32 peaks[8], tallies[8];
  int block = blockIdx.x;
  char* image = reinterpret_cast<char*>(parts) + static_cast<size_t>(block) * kImage;
  const bool left = block < kTilesM * kSteps;
  if (!left) block -= kTilesM * kSteps;
  const int tile = block / kSteps, step = block % kSteps;
  float v[2][8];
  u32 peak = 0;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int item = threadIdx.x + i * 256, line = tile * 128 + (item >> 2), k = step * 32 + (item & 3) * 8;
    if (left) {
      const float4* source = reinterpret_cast<const float4*>(a + static_cast<size_t>(line) * dim::K + k);
      const float4 p = source[0], q = source[1];
      v[i][0] = p.x; v[i][1] = p.y; v[i][2] = p.z; v[i][3] = p.w;
      v[i][4] = q.x; v[i][5] = q.y; v[i][6] = q.z; v[i][7] = q.w;
    } else {
#pragma unroll
      for (int j = 0; j < 8; ++j) v[i][j] = b[static_cast<size_t>(k + j) * dim::N + line];
    }
#pragma unroll
    for (int j = 0; j < 8; ++j) peak = max(peak, __float_as_uint(v[i][j]) & 0x7fffffffu);
  }
  peak = __reduce_max_sync(0xffffffffu, peak);
  if ((threadIdx.x & 31) == 0) peaks[threadIdx.x >> 5] = peak;
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 8; ++i) peak = max(peak, peaks[i]);
  const int exponent = static_cast<int>(peak >> 23);
  const bool bad = peak != 0 && (exponent < 80 || exponent > 187);
  u32 tally = 0;  // nonzero values, and small ones in the upper half
  const float scale = peak == 0 || bad ? 1.0f : __uint_as_float((268 - exponent) << 23);  // peak to 2^14 .. 2^15
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int item = threadIdx.x + i * 256, row = item >> 2, octet = item & 3;
    u32 hi[4], lo[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float x = v[i][2 * j] * scale, y = v[i][2 * j + 1] * scale;
      if (x != 0.0f) tally += fabsf(x) < 0.25f ? 0x10001u : 1u;
      if (y != 0.0f) tally += fabsf(y) < 0.25f ? 0x10001u : 1u;
      const __half2 h = __floats2half2_rn(x, y);
      const float2 f = __half22float2(h);
      const __half2 l = __floats2half2_rn(x - f.x, y - f.y);
      hi[j] = *reinterpret_cast<const u32*>(&h);
      lo[j] = *reinterpret_cast<const u32*>(&l);
    }
    const u32 offset = row * 64 + ((octet ^ ((row >> 1) & 3)) << 4);
    *reinterpret_cast<uint4*>(image + offset) = make_uint4(hi[0], hi[1], hi[2], hi[3]);
    *reinterpret_cast<uint4*>(image + kPart + offset) = make_uint4(lo[0], lo[1], lo[2], lo[3]);
  }
  tally = __reduce_add_sync(0xffffffffu, tally);
  if ((threadIdx.x & 31) == 0) tallies[threadIdx.x >> 5] = tally;
  __syncthreads();
  if (threadIdx.x == 0) {
    u32 some = 0, small = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) { some += tallies[i] & 0xffffu; small += tallies[i] >> 16; }
    scales[blockIdx.x] = bad || small * 256 > some ? -1.0f : 1.0f / scale;
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

extern "C" __global__ void __launch_bounds__(384, 1)
product(const __half* parts, const float* scales, const tensor::a* a, const tensor::b* b, tensor::c* c) {
  extern __shared__ char raw[];
  __shared__ float factor[2][kSteps];
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
  const int patch = blockIdx.x / (8 * kTilesM), first = patch * 8;
  const int width = kTilesN - first < 8 ? kTilesN - first : 8;
  const int within = blockIdx.x - patch * 8 * kTilesM;
  const int tileN = first + within % width, tileM = within / width;
  const int imageA = tileM * kSteps, imageB = (kTilesM + 2 * tileN) * kSteps;
  int bad = 0;
  for (int i = tid; i < kSteps; i += 384) {
    const float p = scales[imageA + i], q = scales[imageB + i], r = scales[imageB + kSteps + i];
    bad |= p < 0.0f || q < 0.0f || r < 0.0f;
    factor[0][i] = p * q;
    factor[1][i] = p * r;
  }
  if (__syncthreads_or(bad)) {  // some value has no good place in fp16: plain fp32
    if (tid < 256) {
      const float* column = reinterpret_cast<const float*>(b) + tileN * 256 + tid;
      for (int row = tileM * 128; row < tileM * 128 + 128; row += 8) {
        const float* line = reinterpret_cast<const float*>(a) + static_cast<size_t>(row) * dim::K;
        float s[8] = {};
        for (int k = 0; k < dim::K; ++k) {
          const float x = column[static_cast<size_t>(k) * dim::N];
#pragma unroll
          for (int i = 0; i < 8; ++i) s[i] = fmaf(line[i * dim::K + k], x, s[i]);
        }
#pragma unroll
        for (int i = 0; i < 8; ++i) c[static_cast<size_t>(row + i) * dim::N + tileN * 256 + tid] = s[i];
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
      for (int step = 0; step < kSteps; ++step) {
        Wait(empty + 8 * slot, parity);
        const u32 bar = full + 8 * slot, to = base + slot * kStage;
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(bar), "r"(kStage) : "memory");
#pragma unroll
        for (int i = 0; i < 3; ++i) {
          const int image = (i == 0 ? imageA : i == 1 ? imageB : imageB + kSteps) + step;
          asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                       :: "r"(to + i * kImage), "l"(from + static_cast<size_t>(image) * kImage), "r"(kImage), "r"(bar) : "memory");
        }
        if (++slot == kStages) { slot = 0; parity ^= 1; }
      }
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    float sum[4][32], acc[2][32];
#pragma unroll
    for (int i = 0; i < 32; ++i) { sum[0][i] = sum[1][i] = sum[2][i] = sum[3][i] = 0.0f; acc[0][i] = acc[1][i] = 0.0f; }
    const u32 line = ((group - 1) * 64 + ((tid >> 5) & 3) * 16 + (lane & 15)) * 64;
    constexpr int kGroup = kSteps % 4 == 0 ? 4 : kSteps % 2 == 0 ? 2 : 1;  // steps without a pause
    u32 ah[2][2][4], al[2][2][4];  // the running batch still reads the fragments of the step before
    int slot = 0;
    u32 parity = 0;
#pragma unroll 1
    for (int step = 0; step < kSteps; step += kGroup) {
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
    }
    const int row = tileM * 128 + (group - 1) * 64 + ((tid >> 5) & 3) * 16 + (lane >> 2);
    float* out = reinterpret_cast<float*>(c) + static_cast<size_t>(row) * dim::N + tileN * 256 + (lane & 3) * 2;
#pragma unroll
    for (int q = 0; q < 4; ++q) {
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        float* p = out + q * 64 + j * 8;
        *reinterpret_cast<float2*>(p) = make_float2(sum[q][4 * j], sum[q][4 * j + 1]);
        *reinterpret_cast<float2*>(p + static_cast<size_t>(8) * dim::N) =
            make_float2(sum[q][4 * j + 2], sum[q][4 * j + 3]);
      }
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
