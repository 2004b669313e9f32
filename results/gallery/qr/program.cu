// traits: op=qr strategy=left_looking_bulk_copy_whole_image
constexpr int n = dim::n;
constexpr int N = 512;  // the fast program's size
constexpr unsigned kFull = 0xffffffffu;
__device__ __forceinline__ float Root(float x) {
  float y;
  asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ float Inverse(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// Named barrier of a part of the block's warps.
__device__ __forceinline__ void Meet(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
struct Scratch {
  float xs[32 * 20];
  float part[2][8][32];
  float row[2][32];
  float gram[32][32];
  float rtop[32][32];
  float tau[32];
  float scale[32];
};
// The next pivot column of this thread's rows; rows up to k count as zero.
template <int E, int NI, int NA>
__device__ __forceinline__ void Publish(const float (&a)[NA][4], int k, float* xs, int row) {
#pragma unroll
  for (int c = 0; c < (NI + 3) / 4; ++c) {
    float y[4];
#pragma unroll
    for (int u = 0; u < 4; ++u) y[u] = 4 * c + u < NI ? a[min(4 * c + u, NI - 1)][E] : 0.0f;
    if (c == 0 && row <= k) y[0] = 0.0f;
    *(float4*)(xs + 4 * c) = make_float4(y[0], y[1], y[2], y[3]);
  }
}
// One column of a panel. A thread holds rows 32 i + 4 w + rg (i < NI) of the columns 4 cg .. 4 cg + 3.
// One block barrier: all dots with the raw pivot column, its own square included, come from one pass.
// The next pivot column is brought up to date and published before the rest. A finished column stays as
// it was; its factor waits in the lane that has it in the tail (`mine`).
template <int E, int NI, int NA>
__device__ __forceinline__ void Step(float (&a)[NA][4], float& mine, int kk, Scratch& s, int w, int rg,
    int cg) {
  constexpr int F = (E + 1) & 3;
  const int k = 4 * kk + E, row = 4 * w + rg;
  float* xs = s.xs + row * 20;
  __syncwarp();
  float x[(NI + 3) / 4 * 4];
  float d[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
  for (int c = 0; c < (NI + 3) / 4; ++c) {
    const float4 v = *(const float4*)(xs + 4 * c);
    x[4 * c] = v.x;
    x[4 * c + 1] = v.y;
    x[4 * c + 2] = v.z;
    x[4 * c + 3] = v.w;
  }
#pragma unroll
  for (int i = 0; i < NI; ++i) {
#pragma unroll
    for (int q = 0; q < 4; ++q) d[q] = fmaf(x[i], a[i][q], d[q]);
  }
  const bool hi = rg & 2, lo = rg & 1;
  float k0 = hi ? d[2] : d[0], k1 = hi ? d[3] : d[1];
  k0 += __shfl_xor_sync(kFull, hi ? d[0] : d[2], 16);
  k1 += __shfl_xor_sync(kFull, hi ? d[1] : d[3], 16);
  float kp = lo ? k1 : k0;
  kp += __shfl_xor_sync(kFull, lo ? k0 : k1, 8);
  s.part[E & 1][w][4 * cg + rg] = kp;
  __syncthreads();
  // From here on a lane has the column 4 cg + rg, until the coefficients go back.
  const int col = 4 * cg + rg;
  float p[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) p[i] = s.part[E & 1][i][col];
  const float r = s.row[E & 1][col], alpha = s.row[E & 1][k];
  const float sum = ((p[0] + p[1]) + (p[2] + p[3])) + ((p[4] + p[5]) + (p[6] + p[7]));
  const float dk = __shfl_sync(kFull, sum, 8 * E + kk);
  const float sq = fmaf(alpha, alpha, dk);
  float beta = alpha, scale = 0.0f, t = 0.0f;
  if (dk > 0.0f && sq > 1e-37f) {
    beta = -copysignf(Root(sq), alpha);
    scale = Inverse(alpha - beta);
    t = (beta - alpha) * Inverse(beta);
  }
  const float z = fmaf(scale, sum, r);
  const float wj = t * z;
  const float coef = col > k ? -wj * scale : 0.0f;
  float cf[4];
#pragma unroll
  for (int q = 0; q < 4; ++q) cf[q] = __shfl_sync(kFull, coef, 8 * q + cg);
  const int next = kk + (E == 3);
#pragma unroll
  for (int i = 0; i < NI; ++i) a[i][F] = fmaf(cf[F], x[i], a[i][F]);
  if (cg == next) Publish<F, NI>(a, k + 1, xs, row);
#pragma unroll
  for (int i = 0; i < NI; ++i) {
#pragma unroll
    for (int q = 0; q < 4; ++q) {
      if (q != F) a[i][q] = fmaf(cf[q], x[i], a[i][q]);
    }
  }
  if (w == next && rg == F) {
    *(float4*)&s.row[F & 1][4 * cg] = make_float4(a[0][0], a[0][1], a[0][2], a[0][3]);
  }
  if (w == 7 - kk) {
    s.rtop[k][col] = col > k ? r - wj : beta;
    s.gram[k][col] = z * mine;  // v_j^T v_k for j < k
    if (col == 0) s.tau[k] = t;
  }
  if (col == k) mine = scale;
}
template <int NI, int NA>
__device__ __forceinline__ void Factor(float (&a)[NA][4], Scratch& s, int w, int rg, int cg) {
  if (cg == 0) Publish<0, NI>(a, 0, s.xs + (4 * w + rg) * 20, 4 * w + rg);
  if (w == 0 && rg == 0) {
    *(float4*)&s.row[0][4 * cg] = make_float4(a[0][0], a[0][1], a[0][2], a[0][3]);
  }
  float mine = 1.0f;
#pragma unroll 1
  for (int kk = 0; kk < 8; ++kk) {
    Step<0, NI>(a, mine, kk, s, w, rg, cg);
    Step<1, NI>(a, mine, kk, s, w, rg, cg);
    Step<2, NI>(a, mine, kk, s, w, rg, cg);
    Step<3, NI>(a, mine, kk, s, w, rg, cg);
  }
  if (w == 0) s.scale[4 * cg + rg] = mine;
  __syncthreads();
}
__device__ __forceinline__ unsigned Addr(const void* p) {
  return (unsigned)__cvta_generic_to_shared(p);
}
__device__ __forceinline__ void Ldsm(unsigned (&r)[4], unsigned p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
      : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(p));
}
__device__ __forceinline__ void LdsmT(unsigned (&r)[4], unsigned p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
      : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(p));
}
__device__ __forceinline__ void Mma(float& d0, float& d1, float& d2, float& d3,
    const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
      "{%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ unsigned Pack(float x, float y) {
  unsigned r;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(y), "f"(x));
  return r;
}
__device__ __forceinline__ void GridWait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
__device__ __forceinline__ void GridGo() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}
__device__ __forceinline__ void BarInit(unsigned bar, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count) : "memory");
}
__device__ __forceinline__ void BarExpect(unsigned bar, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}
__device__ __forceinline__ void BarWait(unsigned bar, unsigned parity) {
  asm volatile("{\n.reg .pred p;\nLAB_WAIT:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra LAB_DONE;\nbra LAB_WAIT;\nLAB_DONE:\n}"
      ::"r"(bar), "r"(parity) : "memory");
}
__device__ __forceinline__ void Bulk(unsigned dst, const void* src, unsigned bytes, unsigned bar) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
      ::"r"(dst), "l"(src), "r"(bytes), "r"(bar) : "memory");
}
__device__ __forceinline__ void ProxyFence() { asm volatile("fence.proxy.async;" ::: "memory"); }
// What Pack leaves over, packed.
__device__ __forceinline__ unsigned Low(float x, float y, unsigned hi) {
  float hx, hy;
  asm("{.reg .f16 l, h;\n mov.b32 {l, h}, %2;\n cvt.f32.f16 %0, l;\n cvt.f32.f16 %1, h;}"
      : "=f"(hx), "=f"(hy) : "r"(hi));
  return Pack(x - hx, y - hy);
}
// Rows of 128 bytes (32 halves, high parts and low parts, or 32 floats), pieces swapped by row & 7.
__device__ __forceinline__ int At(int row, int piece) {
  return row * 128 + ((piece ^ (row & 7)) << 4);
}
// Rows of 64 bytes: 32 halves of V.
__device__ __forceinline__ int AtV(int row, int piece) {
  return row * 64 + ((piece ^ ((row >> 1) & 3)) << 4);
}
// Strip of 32 columns as C^T. Warp (r, m) has the tiles r + 4 s of 16 rows and the columns 16 m .. 16 m + 15:
// c[s][2 rr + q] is row 2 t + (rr & 1) + 8 (rr >> 1) of the tile and column 16 m + 2 g + q.
// W^T = C^T V, this warp's rows of V and columns of C; row 16 m + g + 8 q of W'^T is column 16 m + 2 g + q.
// Slots S0 .. 7, the first only if `live`.
template <int S0>
__device__ __forceinline__ void Product1(const float (&c)[8][8], unsigned vs, bool live, float* wp, int r,
    int m, int lane) {
  const int g = lane >> 2, t = lane & 3;
  float acc[4][4] = {};
  const unsigned p0 = vs + r * 1024 + AtV(lane & 15, lane >> 4), p1 = p0 ^ 32;
#pragma unroll
  for (int s = S0; s < 8; ++s) {
    if (s > S0 || live) {
      unsigned b0[4], b1[4];
      LdsmT(b0, p0 + s * 4096);
      LdsmT(b1, p1 + s * 4096);
      const unsigned a[4] = {Pack(c[s][0], c[s][2]), Pack(c[s][1], c[s][3]),
          Pack(c[s][4], c[s][6]), Pack(c[s][5], c[s][7])};
#pragma unroll
      for (int u = 0; u < 2; ++u) {
        float(&d)[4] = acc[u];
        float(&e)[4] = acc[2 + u];
        Mma(d[0], d[1], d[2], d[3], a, b0[2 * u], b0[2 * u + 1]);
        Mma(e[0], e[1], e[2], e[3], a, b1[2 * u], b1[2 * u + 1]);
      }
    }
  }
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const int col = (8 * j + 2 * t) ^ ((g & 3) << 3);
    float* p = wp + r * 1024 + (16 * m + g) * 32 + col;
    *(float2*)p = make_float2(acc[j][0], acc[j][1]);
    *(float2*)(p + 256) = make_float2(acc[j][2], acc[j][3]);
  }
}
// T = [T1, -T1 (V1^T V2) T2; 0, T2]: two warps make the blocks of 16, all threads the rest.
__device__ __forceinline__ void MakeT(const Scratch& s, float* tm, float* mm, int tid) {
  const int w = tid >> 5, lane = tid & 31;
  if (w < 2) {
    const int b = 16 * w;
    float t[16];
#pragma unroll
    for (int k = 0; k < 16; ++k) {
      float s0 = 0.0f, s1 = 0.0f;
#pragma unroll
      for (int j = 0; j < k; j += 2) {
        s0 = fmaf(t[j], s.gram[b + k][b + j], s0);
        if (j + 1 < k) s1 = fmaf(t[j + 1], s.gram[b + k][b + j + 1], s1);
      }
      const float tk = s.tau[b + k];
      t[k] = lane == k ? tk : (lane < k ? -tk * (s0 + s1) : 0.0f);
    }
    if (lane < 16) {
#pragma unroll
      for (int k = 0; k < 16; k += 4) {
        *(float4*)(tm + (b + lane) * 32 + b + k) = make_float4(t[k], t[k + 1], t[k + 2], t[k + 3]);
        if (w == 1) *(float4*)(tm + (16 + lane) * 32 + k) = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
      }
    }
  }
  __syncthreads();
  const int i = tid >> 4, k = tid & 15;
  float m = 0.0f;
#pragma unroll
  for (int j = 0; j < 16; ++j) m = fmaf(s.gram[16 + j][i], tm[(16 + j) * 32 + 16 + k], m);
  mm[tid] = m;
  __syncthreads();
  float o = 0.0f;
#pragma unroll
  for (int j = 0; j < 16; ++j) o = fmaf(-tm[i * 32 + j], mm[j * 16 + k], o);
  tm[i * 32 + 16 + k] = o;
  __syncthreads();
}
// The panel's columns, each scaled by the power of two that brings its largest entry below 1 (p > 0);
// the way back is left in cinv.
__device__ __forceinline__ void LoadStrip(float (&c)[8][8], const float* src, int cb, bool scaled,
    float* cm, float* cinv, int r, int m, int lane) {
  const int col = 16 * m + 2 * (lane >> 2);
  float x0 = 0.0f, x1 = 0.0f;
#pragma unroll
  for (int s = 0; s < 8; ++s) {
    const int tile = r + 4 * s;
#pragma unroll
    for (int rr = 0; rr < 4; ++rr) {
      const float2 v = __ldcs((const float2*)(src + (16 * tile + 2 * (lane & 3) + (rr & 1) + 8 * (rr >> 1)) * N + cb + col));
      c[s][2 * rr] = v.x;
      c[s][2 * rr + 1] = v.y;
    }
  }
  if (!scaled) return;
#pragma unroll
  for (int s = 0; s < 8; ++s) {
#pragma unroll
    for (int rr = 0; rr < 4; ++rr) {
      x0 = fmaxf(x0, fabsf(c[s][2 * rr]));
      x1 = fmaxf(x1, fabsf(c[s][2 * rr + 1]));
    }
  }
  x0 = fmaxf(x0, __shfl_xor_sync(kFull, x0, 1));
  x0 = fmaxf(x0, __shfl_xor_sync(kFull, x0, 2));
  x1 = fmaxf(x1, __shfl_xor_sync(kFull, x1, 1));
  x1 = fmaxf(x1, __shfl_xor_sync(kFull, x1, 2));
  if ((lane & 3) == 0) *(float2*)(cm + r * 32 + col) = make_float2(x0, x1);
  __syncthreads();
#pragma unroll
  for (int q = 0; q < 2; ++q) {
    float x = 0.0f;
#pragma unroll
    for (int i = 0; i < 4; ++i) x = fmaxf(x, cm[i * 32 + col + q]);
    const int e = min((int)(__float_as_uint(x) >> 23), 252);
    const float f = __uint_as_float((unsigned)(253 - e) << 23);
    if (r == 0 && (lane & 3) == 0) cinv[col + q] = __uint_as_float((unsigned)(e + 1) << 23);
#pragma unroll
    for (int s = 0; s < 8; ++s) {
#pragma unroll
      for (int rr = 0; rr < 4; ++rr) c[s][2 * rr + q] *= f;
    }
  }
}
// Minus the sum of the four row groups' parts.
__device__ __forceinline__ void Reduce(const float* wp, unsigned char* wb, int tid) {
  const int r = tid >> 3, v = tid & 7;
  const float* p = wp + r * 32 + ((4 * v) ^ ((r & 3) << 3));
  float o[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float4 x = *(const float4*)(p + i * 1024);
    o[0] -= x.x;
    o[1] -= x.y;
    o[2] -= x.z;
    o[3] -= x.w;
  }
  const uint2 hi = make_uint2(Pack(o[0], o[1]), Pack(o[2], o[3]));
  const int at = At(r, v >> 1) + (v & 1) * 8;
  *(uint2*)(wb + at) = hi;
  *(uint2*)(wb + (at ^ 64)) = make_uint2(Low(o[0], o[1], hi.x), Low(o[2], o[3], hi.y));
}
// C^T += (-W'^T) V^T, W' in two terms, slots S0 .. 7, the first only if `live`; two slots together.
__device__ __forceinline__ void Slot2(float (&c)[8][8], int s, int ns, unsigned from, const unsigned (&wh)[2][4],
    const unsigned (&wl)[2][4]) {
  unsigned b[4][4];
#pragma unroll
  for (int v = 0; v < 4; ++v) {
    if (v < 2 * ns) Ldsm(b[v], from + (s + (v >> 1)) * 4096 + (v & 1) * 512);
  }
#pragma unroll
  for (int x = 0; x < 4; ++x) {
#pragma unroll
    for (int v = 0; v < 4; ++v) {
      if (v < 2 * ns) {
        float(&d)[8] = c[s + (v >> 1) < 8 ? s + (v >> 1) : 7];
        const int u = 4 * (v & 1), k = x >> 1;
        Mma(d[u], d[u + 2], d[u + 1], d[u + 3], x & 1 ? wh[k] : wl[k], b[v][2 * k], b[v][2 * k + 1]);
      }
    }
  }
}
template <int S0>
__device__ __forceinline__ void Product2(float (&c)[8][8], unsigned wb, unsigned vs, bool live, int r, int m,
    int lane) {
  unsigned wh[2][4], wl[2][4];
#pragma unroll
  for (int ks = 0; ks < 2; ++ks) {
    const int o = At(16 * m + (lane & 15), 2 * ks + (lane >> 4));
    Ldsm(wh[ks], wb + o);
    Ldsm(wl[ks], wb + (o ^ 64));
  }
  const unsigned from = vs + r * 1024 + AtV(lane & 7, lane >> 3);
  if (live) Slot2(c, S0, 1, from, wh, wl);
#pragma unroll
  for (int s = S0 + 1; s < 8; s += 2) Slot2(c, s, s < 7 ? 2 : 1, from, wh, wl);
}
constexpr int kPanels = N / 32;
constexpr int kImage = N * 64;
// Panel q's V from its first row on and its T, by one thread.
__device__ __forceinline__ void Fetch(unsigned bar, unsigned dst, unsigned tdst, const unsigned char* image,
    const unsigned char* timage, int q) {
  const int o = q * 2048;
  BarExpect(bar, kImage - o + 4096);
  Bulk(dst + o, image + o, kImage - o, bar);
  Bulk(tdst, timage, 4096, bar);
}
// -W'^T = (-W^T) T, one 16 x 8 tile a warp, three terms; in and out in two terms.
__device__ __forceinline__ void ApplyT(unsigned wb, unsigned char* wt, const unsigned char* ts, int w,
    int lane) {
  const int mt = w >> 2, nt = w & 3;
  const uint4 x = *(const uint4*)(ts + nt * 1024 + lane * 16);
  const uint4 y = *(const uint4*)(ts + nt * 1024 + 512 + lane * 16);
  const unsigned bh[4] = {x.x, x.y, x.z, x.w}, bl[4] = {y.x, y.y, y.z, y.w};
  float d[4] = {}, e[4] = {};
#pragma unroll
  for (int ks = 0; ks < 2; ++ks) {
    unsigned ah[4], al[4];
    const int o = At(16 * mt + (lane & 15), 2 * ks + (lane >> 4));
    Ldsm(ah, wb + o);
    Ldsm(al, wb + (o ^ 64));
    Mma(e[0], e[1], e[2], e[3], al, bh[2 * ks], bh[2 * ks + 1]);
    Mma(d[0], d[1], d[2], d[3], ah, bh[2 * ks], bh[2 * ks + 1]);
    Mma(e[0], e[1], e[2], e[3], ah, bl[2 * ks], bl[2 * ks + 1]);
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) d[i] += e[i];
  const int at = At(16 * mt + (lane >> 2), nt) + 4 * (lane & 3);
  const unsigned h0 = Pack(d[0], d[1]), h1 = Pack(d[2], d[3]);
  *(unsigned*)(wt + at) = h0;
  *(unsigned*)(wt + (at ^ 64)) = Low(d[0], d[1], h0);
  *(unsigned*)(wt + at + 1024) = h1;
  *(unsigned*)(wt + ((at + 1024) ^ 64)) = Low(d[2], d[3], h1);
}
// The pair with the reflectors of panel q, whose rows begin in slot S0 (q odd: in its second half).
template <int S0>
__device__ __forceinline__ void Pair(float (&c)[8][8], unsigned char* smem, int q, int w, int lane) {
  float* const wp = (float*)(smem + 65536);
  unsigned char* const wb = smem + 98304;
  unsigned char* const wt = smem + 102400;
  const int tid = threadIdx.x, r = w >> 1, m = w & 1;
  const unsigned now = Addr(smem) + 32768 * (q & 1);
  const bool live = !(q & 1) || r > 1;
  Product1<S0>(c, now, live, wp, r, m, lane);
  __syncthreads();
  Reduce(wp, wb, tid);
  __syncthreads();
  ApplyT(Addr(wb), wt, smem + 106496 + 4096 * (q & 1), w, lane);
  __syncthreads();
  Product2<S0>(c, Addr(wt), now, live, r, m, lane);
}
extern "C" __global__ void __launch_bounds__(256, 2)
qr_left(const float* a_in, float* h, float* tau, unsigned char* images, unsigned char* timages, int b0) {
  // Two buffers of V (together the place of the panel in fp32), parts, W, W', two buffers of T.
  extern __shared__ __align__(1024) unsigned char smem[];
  float* const wp = (float*)(smem + 65536);
  unsigned char* const wb = smem + 98304;
  unsigned char* const wt = smem + 102400;
  unsigned char* const ts = smem + 106496;
  float* const cm = (float*)wt;
  float* const cinv = (float*)(smem + 114688);
  Scratch& s = *(Scratch*)wp;
  const int tid = threadIdx.x, w = tid >> 5, lane = tid & 31, rg = lane >> 3, cg = lane & 7;
  const int wr = w >> 1, wm = w & 1;  // rows and columns of the products
  constexpr int kNone = 1 << 20;
  if (n != N) return;
  const unsigned bars = Addr(smem) + 114816;  // full 0, full 1, warps that are through with a pair
  unsigned phases = 0;  // bits: full 0, full 1, pairs
  if (tid == 0) {
    BarInit(bars, 1);
    BarInit(bars + 8, 1);
    BarInit(bars + 16, 8);
    ProxyFence();
  }
  __syncthreads();
  const unsigned vs = Addr(smem);
  const size_t block = blockIdx.x + b0;
  a_in += block * N * N;
  h += block * N * N;
  tau += block * N;
  images += block * kPanels * kImage;
  timages += block * kPanels * 4096;
  GridGo();
#pragma unroll 1
  for (int p = 0; p < kPanels; ++p) {
    const int j0 = 32 * p;
    {
      float c[8][8];
      const int col = 16 * wm + 2 * (lane >> 2);
      LoadStrip(c, a_in, j0, p > 0, cm, cinv, wr, wm, lane);
#pragma unroll 1
      for (int q = 0; q < p; ++q) {
        const int nb = (q + 1) & 1;
        if (tid == 0 && q + 1 < p) {  // the other buffer has been used by all warps
          if (q > 0) BarWait(bars + 16, ~(phases >> 2) & 1);
          Fetch(bars + 8 * nb, vs + 32768 * nb, Addr(ts) + 4096 * nb, images + (q + 1) * kImage,
              timages + (q + 1) * 4096, q + 1);
        }
        __syncwarp();
        BarWait(bars + 8 * (q & 1), (phases >> (q & 1)) & 1);
        phases ^= 4u | 1u << (q & 1);
        switch (q >> 1) {
          case 0: Pair<0>(c, smem, q, w, lane); break;
          case 1: Pair<1>(c, smem, q, w, lane); break;
          case 2: Pair<2>(c, smem, q, w, lane); break;
          case 3: Pair<3>(c, smem, q, w, lane); break;
          case 4: Pair<4>(c, smem, q, w, lane); break;
          case 5: Pair<5>(c, smem, q, w, lane); break;
          case 6: Pair<6>(c, smem, q, w, lane); break;
          default: Pair<7>(c, smem, q, w, lane);
        }
        __syncwarp();
        if (lane == 0) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bars + 16) : "memory");
      }
      __syncthreads();  // both buffers become the panel's place
      float2 b = make_float2(1.0f, 1.0f);
      if (p > 0) b = *(const float2*)(cinv + col);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const int tile = wr + 4 * i;
#pragma unroll
        for (int rr = 0; rr < 4; ++rr) {
          const int r = 16 * tile + 2 * (lane & 3) + (rr & 1) + 8 * (rr >> 1);
          const float2 v = make_float2(c[i][2 * rr] * b.x, c[i][2 * rr + 1] * b.y);
          if (tile < 2 * p) {
            __stcs((float2*)(h + r * N + j0 + col), v);
          } else {
            *(float2*)(smem + At(r, col >> 2) + 4 * (col & 2)) = v;
          }
        }
      }
    }
    __syncthreads();
    if (p + 1 < kPanels) {  // the next strip, a line a row
      const float* x = a_in + tid * N + j0 + 32;
      asm volatile("prefetch.global.L2 [%0];" ::"l"(x));
      asm volatile("prefetch.global.L2 [%0];" ::"l"(x + 256 * N));
    }
    const int ni = kPanels - p, nc = (ni + 3) / 4;
    float a[16][4];
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
      if (i < ni) v = *(const float4*)(smem + At(j0 + 32 * i + 4 * w + rg, cg));
      a[i][0] = v.x;
      a[i][1] = v.y;
      a[i][2] = v.z;
      a[i][3] = v.w;
    }
    switch (nc) {
      case 4: Factor<16>(a, s, w, rg, cg); break;
      case 3: Factor<12>(a, s, w, rg, cg); break;
      case 2: Factor<8>(a, s, w, rg, cg); break;
      default: Factor<4>(a, s, w, rg, cg);
    }
    const float4 f = *(const float4*)&s.scale[4 * cg];
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      if (i < ni) {
        const int r = 32 * i + 4 * w + rg;
        float v[4] = {a[i][0] * f.x, a[i][1] * f.y, a[i][2] * f.z, a[i][3] * f.w};
        float o[4] = {v[0], v[1], v[2], v[3]};
        if (i == 0) {
#pragma unroll
          for (int q = 0; q < 4; ++q) {
            if (4 * cg + q >= r) {
              o[q] = s.rtop[r][4 * cg + q];
              v[q] = 4 * cg + q == r ? 1.0f : 0.0f;
            }
          }
        }
        __stcs((float4*)(h + (j0 + r) * N + j0 + 4 * cg), make_float4(o[0], o[1], o[2], o[3]));
        *(uint2*)(images + p * kImage + AtV(j0 + r, cg >> 1) + (cg & 1) * 8) =
            make_uint2(Pack(v[0], v[1]), Pack(v[2], v[3]));
      }
    }
    if (tid < 32) tau[j0 + tid] = s.tau[tid];
    if (p + 1 == kPanels) break;
    MakeT(s, wp + 4096, wp + 5120, tid);
    if (tid < 128) {  // T as the fragments of 4 tiles of 8 columns
      const float* x = wp + 4096 + 64 * (lane & 3) + 8 * w + (lane >> 2);
      unsigned hi[4], lo[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        hi[i] = Pack(x[256 * i], x[256 * i + 32]);
        lo[i] = Low(x[256 * i], x[256 * i + 32], hi[i]);
      }
      uint4* const d = (uint4*)(timages + p * 4096 + w * 1024) + lane;
      d[0] = make_uint4(hi[0], hi[1], hi[2], hi[3]);
      d[32] = make_uint4(lo[0], lo[1], lo[2], lo[3]);
    }
    ProxyFence();
    __syncthreads();  // V and T can be read from now on
    if (tid == 0) Fetch(bars, vs, Addr(ts), images, timages, 0);
  }
  if (b0) GridWait();  // the first launch has ended, too
}
// For the other sizes: column after column in memory, a block a matrix.
__device__ float BlockSum(float value, float* parts) {
  for (int d = 16; d > 0; d /= 2) value += __shfl_xor_sync(kFull, value, d);
  __syncthreads();
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < 8; ++i) sum += parts[i];
  return sum;
}
extern "C" __global__ void qr_simple(const float* a, float* h, float* tau) {
  __shared__ float parts[8];
  const int tid = threadIdx.x;
  a += (size_t)blockIdx.x * n * n;
  h += (size_t)blockIdx.x * n * n;
  tau += (size_t)blockIdx.x * n;
  for (int i = tid; i < n * n; i += 256) h[i] = a[i];
  __syncthreads();
  for (int k = 0; k < n; ++k) {
    float sq = 0, t = 0, vtv = 0;
    for (int i = k + 1 + tid; i < n; i += 256) sq += h[i * n + k] * h[i * n + k];
    sq = BlockSum(sq, parts);
    if (sq != 0) {
      const float alpha = h[k * n + k];
      const float beta = -copysignf(sqrtf(alpha * alpha + sq), alpha);
      const float scale = 1.0f / (alpha - beta);
      for (int i = k + 1 + tid; i < n; i += 256) {
        const float v = h[i * n + k] * scale;
        h[i * n + k] = v;
        vtv += v * v;
      }
      t = 2.0f / (1.0f + BlockSum(vtv, parts));
      if (tid == 0) h[k * n + k] = beta;
    }
    if (tid == 0) tau[k] = t;
    __syncthreads();
    for (int j = k + 1 + tid; j < n && t != 0; j += 256) {
      float sum = h[k * n + j];
      for (int i = k + 1; i < n; ++i) sum += h[i * n + k] * h[i * n + j];
      sum *= t;
      h[k * n + j] -= sum;
      for (int i = k + 1; i < n; ++i) h[i * n + j] -= sum * h[i * n + k];
    }
    __syncthreads();
  }
}
