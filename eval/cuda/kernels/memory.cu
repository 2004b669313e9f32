// Fill, scan, hash, gather.

// Byte at address p gets byte p % 8 of the pattern.
extern "C" __global__ void grove_fill(u8* data, i64 bytes, u64 pattern) {
  const i64 first = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x;
  const i64 step = static_cast<i64>(gridDim.x) * blockDim.x;
  const i64 head = min(bytes, static_cast<i64>((16 - (reinterpret_cast<u64>(data) & 15)) & 15));
  const i64 words = (bytes - head) / 16;
  const i64 tail = head + words * 16;
  ulonglong2* aligned = reinterpret_cast<ulonglong2*>(data + head);
  for (i64 i = first; i < words; i += step) aligned[i] = make_ulonglong2(pattern, pattern);
  if (first < head) data[first] = static_cast<u8>(pattern >> (8 * (reinterpret_cast<u64>(data + first) & 7)));
  if (tail + first < bytes) {
    data[tail + first] = static_cast<u8>(pattern >> (8 * (reinterpret_cast<u64>(data + tail + first) & 7)));
  }
}

// Zero-initialised; `first_inverted` is the largest ~index, so that zero means none.
struct ScanResult {
  u64 count;
  u64 first_inverted;
  u64 hash_a, hash_b;
};

__device__ u64 ElementBits(const u8* data, i64 i, int size) {
  switch (size) {
    case 1: return data[i];
    case 2: return reinterpret_cast<const u16*>(data)[i];
    case 4: return reinterpret_cast<const u32*>(data)[i];
    default: return reinterpret_cast<const u64*>(data)[i];
  }
}

__device__ void Found(ScanResult* result, u64 count, u64 first_inverted) {
  // Few threads find anything: no reduction needed.
  if (count == 0) return;
  atomicAdd(&result->count, count);
  atomicMax(&result->first_inverted, first_inverted);
}

extern "C" __global__ void grove_count_pattern(const u8* data, i64 elements, int size, u64 pattern,
                                               u8* mask, int first_pass, ScanResult* result) {
  const u64 wanted = size == 8 ? pattern : pattern & ((1ull << (8 * size)) - 1);
  u64 count = 0, first = 0;
  const i64 step = static_cast<i64>(gridDim.x) * blockDim.x;
  for (i64 i = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; i < elements; i += step) {
    bool same = ElementBits(data, i, size) == wanted;
    if (mask != nullptr) {
      if (first_pass) {
        mask[i] = same ? 1 : 0;
      } else {
        same = same && mask[i] != 0;
      }
    }
    if (!same) continue;
    ++count;
    if (~static_cast<u64>(i) > first) first = ~static_cast<u64>(i);
  }
  Found(result, count, first);
}

extern "C" __global__ void grove_check_guard(const u8* begin, i64 bytes, u64 pattern,
                                             ScanResult* result) {
  u64 count = 0, first = 0;
  const i64 step = static_cast<i64>(gridDim.x) * blockDim.x;
  for (i64 i = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; i < bytes; i += step) {
    const u8 wanted = static_cast<u8>(pattern >> (8 * (reinterpret_cast<u64>(begin + i) & 7)));
    if (begin[i] == wanted) continue;
    ++count;
    if (~static_cast<u64>(i) > first) first = ~static_cast<u64>(i);
  }
  Found(result, count, first);
}

extern "C" __global__ void grove_differ(const u8* a, const u8* b, i64 bytes, ScanResult* result) {
  u64 count = 0, first = 0;
  const i64 step = static_cast<i64>(gridDim.x) * blockDim.x;
  const i64 words = bytes / 16;
  const ulonglong2* wa = reinterpret_cast<const ulonglong2*>(a);
  const ulonglong2* wb = reinterpret_cast<const ulonglong2*>(b);
  const i64 start = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (i64 i = start; i < words; i += step) {
    const ulonglong2 x = wa[i], y = wb[i];
    if (x.x == y.x && x.y == y.y) continue;
    for (i64 k = 16 * i; k < 16 * i + 16; ++k) {
      if (a[k] == b[k]) continue;
      ++count;
      if (~static_cast<u64>(k) > first) first = ~static_cast<u64>(k);
    }
  }
  for (i64 k = 16 * words + start; k < bytes; k += step) {
    if (a[k] == b[k]) continue;
    ++count;
    if (~static_cast<u64>(k) > first) first = ~static_cast<u64>(k);
  }
  Found(result, count, first);
}

__device__ u64 Mix(u64 x) {  // the finaliser of MurmurHash3
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdull;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ull;
  return x ^ (x >> 33);
}

// Two order-independent 64-bit sums over (index, word).
extern "C" __global__ void grove_hash(const u8* data, i64 bytes, ScanResult* result) {
  u64 a = 0, b = 0;
  const i64 step = static_cast<i64>(gridDim.x) * blockDim.x;
  const i64 words = bytes / 8;
  const i64 start = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x;
  const u64* w = reinterpret_cast<const u64*>(data);
  for (i64 i = start; i < words + 1; i += step) {
    u64 word = 0;
    if (i < words) {
      word = w[i];
    } else {
      for (i64 k = 8 * words; k < bytes; ++k) word = word << 8 | data[k];
    }
    const u64 mixed = Mix(word + 0x9e3779b97f4a7c15ull * static_cast<u64>(i + 1));
    a += mixed;
    b += Mix(mixed ^ word ^ 0xd6e8feb86659fd93ull);
  }
  for (int offset = 16; offset > 0; offset /= 2) {
    a += __shfl_down_sync(0xffffffffu, a, offset);
    b += __shfl_down_sync(0xffffffffu, b, offset);
  }
  if (threadIdx.x % 32 == 0) {
    atomicAdd(&result->hash_a, a);
    atomicAdd(&result->hash_b, b);
  }
}

// out[i] = in[i * stride]
extern "C" __global__ void grove_gather(const double* in, i64 stride, i64 count, double* out) {
  const i64 step = static_cast<i64>(gridDim.x) * blockDim.x;
  for (i64 i = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    out[i] = in[i * stride];
  }
}
