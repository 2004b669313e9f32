using u32 = unsigned int;
using u64 = unsigned long long;
constexpr int kHO = (dim::H + 2 * dim::P - dim::R) / dim::S + 1, kWO = (dim::W + 2 * dim::P - dim::R) / dim::S + 1;
constexpr int kHP = (kHO - 3) / 2 + 1, kWP = (kWO - 3) / 2 + 1;
constexpr int kRR = dim::R * dim::R, kK = dim::C * kRR, kTerms = 32, kSlices = (kK + 31) / 32;
constexpr int kCW = 2 * kWP + 1, kPixels = (2 * kHP + 1) * kCW, kTiles = (kPixels + 127) / 128;
constexpr int kNeed = dim::S * (kCW - 1) + dim::R;
constexpr int kPitch = kNeed + ((dim::R - kNeed) % 32 + 32) % 32;  // = R mod 32
constexpr int kRows = dim::S * 3 + dim::R;                         // 128 pixels touch four rows
constexpr int kPlane = kRows * kPitch + ((kRR - kRows * kPitch) % 32 + 32) % 32;
constexpr int kX = (dim::C * kPlane + 3) / 4 * 4;
constexpr u32 kPart = 96 * 64, kSlice = 2 * kPart;  // hi, lo: 96 filters x 32 k of fp16, 64-byte swizzle

// x = hi + lo, both fp16 to nearest, in one word (hi in the low half)
__device__ __forceinline__ u32 Split(float x) {
  u32 word;
  asm("{\n.reg .f16 h, l;\n.reg .f32 r;\ncvt.rn.f16.f32 h, %1;\ncvt.f32.f16 r, h;\nsub.rn.f32 r, %1, r;\n"
      "cvt.rn.f16.f32 l, r;\nmov.b32 %0, {h, l};\n}\n" : "=r"(word) : "f"(x));
  return word;
}
// The power of two that brings a largest magnitude (given as bits) to 2^14 .. 2^15, and its inverse.
__device__ __forceinline__ int Exponent(u32 largest) {
  const int e = static_cast<int>(largest >> 23);
  return e < 30 ? 30 : e;
}
__device__ __forceinline__ float Scale(int e) { return __int_as_float((268 - e) << 23); }
__device__ __forceinline__ float Inverse(int e) { return __int_as_float((e - 14) << 23); }

extern "C" __global__ void prepare(const tensor::w* w, u32* images, float* inverses, tensor::y* y) {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  __shared__ u32 most[8];
  unsigned short* parts = reinterpret_cast<unsigned short*>(images);
  for (int filter = blockIdx.x; filter < 96; filter += gridDim.x) {
    const float* row = w + filter * kK;
    u32 m = 0;
    if (filter < dim::F)
      for (int k = threadIdx.x; k < kK; k += 256) m = max(m, __float_as_uint(fabsf(row[k])));
    m = __reduce_max_sync(0xffffffffu, m);
    if (threadIdx.x % 32 == 0) most[threadIdx.x / 32] = m;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 8; ++i) m = max(m, most[i]);
    __syncthreads();
    const int e = Exponent(m);
    const float scale = Scale(e);
    if (threadIdx.x == 0) inverses[filter] = Inverse(e);
    for (int i = threadIdx.x; i < kSlices * kTerms; i += 256) {
      const int slice = i / kTerms, p = i % kTerms;  // words 2t, 2t + 1, 2t + 8, 2t + 9: terms t, t + 4, t + 8, t + 12
      const int k = slice * kTerms + p / 8 * 8 + (p & 1) * 4 + ((p & 7) >> 1);
      const u32 word = Split(k < kK && filter < dim::F ? row[k] * scale : 0.0f);
      const int at = slice * (kSlice / 2) + filter * 32 + (((p >> 3) ^ ((filter >> 1) & 3)) << 3) + (p & 7);
      parts[at] = static_cast<unsigned short>(word);
      parts[at + kPart / 2] = static_cast<unsigned short>(word >> 16);
    }
  }
  constexpr long long kAll = 1LL * dim::B * dim::F * kHP * kWP;
  const long long start = blockIdx.x * 256LL + threadIdx.x, step = gridDim.x * 256LL;
  for (long long i = start; i < kAll / 4; i += step) reinterpret_cast<float4*>(y)[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  for (long long i = kAll / 4 * 4 + start; i < kAll; i += step) y[i] = 0.0f;
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
__device__ __forceinline__ void Fetch(u32 to, const char* from, u32 bar) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(bar), "r"(kSlice) : "memory");
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               :: "r"(to), "l"(from), "r"(kSlice), "r"(bar) : "memory");
}
#define D4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
__device__ __forceinline__ void Multiply(float (&d)[24], const u32 (&a)[4], u64 b, int keep) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %29, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n48k16.f32.f16.f16 {"
      "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23}, "
      "{%24, %25, %26, %27}, %28, p, 1, 1, 0;\n}\n"
      : D4(0), D4(4), D4(8), D4(12), D4(16), D4(20)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(keep));
}
__device__ __forceinline__ void Pin(float (&d)[24]) {
#pragma unroll
  for (int i = 0; i < 24; ++i) asm volatile("" : "+f"(d[i]) :: "memory");
}

extern "C" __global__ void __launch_bounds__(256, 2)
convolve(const tensor::x* x, const u32* images, const float* inverses, const tensor::bias* bias, tensor::y* y) {
  extern __shared__ char raw[];
  const u32 begin = static_cast<u32>(__cvta_generic_to_shared(raw)), ring = (begin + 1023) & ~1023u;
  float* xs = reinterpret_cast<float*>(raw + (ring - begin) + 3 * kSlice);
  int* offsets = reinterpret_cast<int*>(xs + kX);
  const u32 xsAddress = ring + 3 * kSlice, full = xsAddress + (kX + kSlices * kTerms) * 4, empty = full + 24;
  u32* reduced = reinterpret_cast<u32*>(offsets + kSlices * kTerms + 12);
  const int tid = threadIdx.x, warp = tid >> 5, lane = tid & 31, g = lane >> 2, t = lane & 3;
  const int image = blockIdx.x / kTiles, start = blockIdx.x % kTiles * 128, first = start / kCW;
  const char* slices = reinterpret_cast<const char*>(images);
  if (tid == 0) {
    for (int i = 0; i < 3; ++i) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(full + 8 * i) : "memory");
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 8;" :: "r"(empty + 8 * i) : "memory");
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async;" ::: "memory");
  }
  for (int i = warp; i < dim::C * kRows; i += 8) {
    const int c = i / kRows, row = i % kRows, from = first * dim::S - dim::P + row;
    const bool inside = from >= 0 && from < dim::H;
    const float* source = x + (static_cast<long long>(image * dim::C + c) * dim::H + (inside ? from : 0)) * dim::W;
    const u32 line = xsAddress + (c * kPlane + row * kPitch) * 4;
    for (int j = lane; j < kPitch; j += 32) {
      const int column = j - dim::P;
      const bool valid = inside && column >= 0 && column < dim::W;
      asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" :: "r"(line + j * 4),
                   "l"(source + (valid ? column : 0)), "r"(valid ? 4 : 0) : "memory");
    }
  }
  for (int i = tid; i < kSlices * kTerms; i += 256) {
    const int k = i < kK ? i : i - 32;  // padding: any address of the same bank, its weights are zero
    offsets[i] = k / kRR * kPlane + k % kRR / dim::R * kPitch + k % dim::R;
  }
  asm volatile("griddepcontrol.wait;" ::: "memory");  // filters and cleared y from here on
  if (tid == 0)
    for (int i = 0; i < 2 && i < kSlices; ++i) Fetch(ring + i * kSlice, slices + i * kSlice, full + 8 * i);
  asm volatile("cp.async.wait_all;" ::: "memory");
  u32 most = 0;  // each thread looks at and splits the words it brought itself
  for (int i = warp; i < dim::C * kRows; i += 8) {
    const float* line = xs + i / kRows * kPlane + i % kRows * kPitch;
#pragma unroll
    for (int j = lane; j < kPitch; j += 32) most = max(most, __float_as_uint(fabsf(line[j])));
  }
  most = __reduce_max_sync(0xffffffffu, most);
  if (lane == 0) reduced[warp] = most;
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 8; ++i) most = max(most, reduced[i]);
  const int exponent = Exponent(most);
  {
    const float scale = Scale(exponent);
    for (int i = warp; i < dim::C * kRows; i += 8) {
      float* line = xs + i / kRows * kPlane + i % kRows * kPitch;
#pragma unroll
      for (int j = lane; j < kPitch; j += 32) line[j] = __uint_as_float(Split(line[j] * scale));
    }
  }
  __syncthreads();

  const u32* patch[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    int pixel = start + warp * 16 + g + i * 8;
    if (pixel >= kPixels) pixel = kPixels - 1;
    patch[i] = reinterpret_cast<const u32*>(xs) + (pixel / kCW - first) * dim::S * kPitch + pixel % kCW * dim::S;
  }
  float sum[2][24], d[24];
  u32 v[4][4];
#pragma unroll
  for (int i = 0; i < 24; ++i) { sum[0][i] = 0.0f; sum[1][i] = 0.0f; d[i] = 0.0f; }
  auto gather = [&](int slice) {
#pragma unroll
    for (int j = 0; j < 4; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i) v[j][i] = patch[i & 1][offsets[slice * 32 + j * 8 + (i >> 1) * 4 + t]];
  };
  gather(0);
  int slot = 0;
  u32 parity = 0;
  for (int slice = 0; slice < kSlices; ++slice) {
    if (tid == 0 && slice + 2 < kSlices) {  // the slot that slice - 1 has used
      const int to = slot == 0 ? 2 : slot - 1;
      if (slice > 0) Wait(empty + 8 * to, slot == 0 ? parity ^ 1 : parity);
      Fetch(ring + to * kSlice, slices + (slice + 2) * kSlice, full + 8 * to);
    }
    __syncwarp();
    u32 hi[2][4], lo[2][4];
#pragma unroll
    for (int j = 0; j < 2; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const u32 first_term = v[2 * j + (i >> 1)][i & 1], second_term = v[2 * j + (i >> 1)][(i & 1) + 2];
        hi[j][i] = __byte_perm(first_term, second_term, 0x5410);
        lo[j][i] = __byte_perm(first_term, second_term, 0x7632);
      }
    Wait(full + 8 * slot, parity);
    const u64 db = Describe(ring + slot * kSlice);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const u64 b = db + half * (kPart / 32);
      Pin(d);
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
      Multiply(d, lo[0], b, 0);
      Multiply(d, lo[1], b + 2, 1);
      Multiply(d, hi[0], b + kPart / 16, 1);
      Multiply(d, hi[1], b + kPart / 16 + 2, 1);
      Multiply(d, hi[0], b, 1);
      Multiply(d, hi[1], b + 2, 1);
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
      if (half == 0 && slice + 1 < kSlices) gather(slice + 1);
      asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
      Pin(d);
#pragma unroll
      for (int i = 0; i < 24; ++i) sum[half][i] += d[i];
    }
    __syncwarp();
    if (lane == 0) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(empty + 8 * slot) : "memory");
    if (++slot == 3) { slot = 0; parity ^= 1; }
  }
  __syncthreads();

  float* conv = xs;  // [96 filters][132]
#pragma unroll
  for (int half = 0; half < 2; ++half)
#pragma unroll
    for (int i = 0; i < 24; ++i)
      conv[(half * 48 + (i >> 2) * 8 + 2 * t + (i & 1)) * 132 + warp * 16 + g + ((i >> 1) & 1) * 8] = sum[half][i];
  __syncthreads();
  const int end = start + 128 < kPixels ? start + 128 : kPixels, odd = first & 1, top = (first + 1) / 2 - 1;
  int* out = reinterpret_cast<int*>(y) + static_cast<long long>(image) * dim::F * kHP * kWP;
  for (int item = tid; item < 96 * kWP; item += 256) {
    const int filter = item / kWP, column = item % kWP;
    float h[4];
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      h[r] = -__int_as_float(0x7f800000);
#pragma unroll
      for (int u = 0; u < 3; ++u) {
        const int pixel = (first + r) * kCW + 2 * column + u;
        if (pixel >= start && pixel < end) h[r] = fmaxf(h[r], conv[filter * 132 + pixel - start]);
      }
    }
    const float m12 = fmaxf(h[1], h[2]);
    const float best[3] = {odd ? fmaxf(h[0], h[1]) : h[0], odd ? fmaxf(m12, h[3]) : fmaxf(h[0], m12),
                           odd ? h[3] : fmaxf(h[2], h[3])};
    const float b = bias[filter], inverse = Inverse(exponent) * inverses[filter];
#pragma unroll
    for (int r = 0; r < 3; ++r) {
      const int row = top + r;
      const float value = best[r] * inverse + b;
      if (row < 0 || row >= kHP) continue;
      int* p = out + (filter * kHP + row) * kWP + column;
      const int from = 2 * row * kCW + 2 * column, to = from + 2 * kCW + 2;
      if (from >= start && to < end) *p = __float_as_int(fmaxf(value, 0.0f));
      else if (value > 0.0f) atomicMax(p, __float_as_int(value));
    }
  }
}

// Any shape: one thread per element of y, nine convolutions each.
extern "C" __global__ void direct(const tensor::x* x, const tensor::w* w, const tensor::bias* bias, tensor::y* y) {
  const long long element = blockIdx.x * 256LL + threadIdx.x;
  if (element >= 1LL * dim::B * dim::F * kHP * kWP) return;
  const int column = static_cast<int>(element % kWP), row = static_cast<int>(element / kWP % kHP);
  const int filter = static_cast<int>(element / kWP / kHP % dim::F);
  const long long image = element / kWP / kHP / dim::F;
  float largest = 0.0f;
  for (int u = 0; u < 9; ++u) {
    const int top = (2 * row + u / 3) * dim::S - dim::P, left = (2 * column + u % 3) * dim::S - dim::P;
    float sum = 0.0f;
    for (int c = 0; c < dim::C; ++c) {
      for (int r = 0; r < dim::R; ++r) {
        if (top + r < 0 || top + r >= dim::H) continue;
        for (int s = 0; s < dim::R; ++s) {
          if (left + s < 0 || left + s >= dim::W) continue;
          sum += x[((image * dim::C + c) * dim::H + top + r) * dim::W + left + s] *
                 w[((static_cast<long long>(filter) * dim::C + c) * dim::R + r) * dim::R + s];
        }
      }
    }
    largest = fmaxf(largest, sum + bias[filter]);
  }
  y[element] = largest;
}
