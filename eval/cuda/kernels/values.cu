// The evaluator's own device code, one program of several files: CMake joins them in the order of
// eval/cuda/CMakeLists.txt, this one first, and embeds them as text. Compiled by NVRTC with
// --fmad=false (support.cc): drawing inputs must round exactly as eval/inputs.cc does on the host.
// No headers: nothing here may depend on what a toolkit ships.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

// DType of base/dtype.h, by value.
enum { kF64, kF32, kF16, kBF16, kI64, kI32, kI8, kU8, kBool };

// Rounded towards zero with the last bit set when inexact: a second rounding to a shorter type is
// then as if there had been one.
__device__ float RoundOdd(double v) {
  float f = __double2float_rz(v);
  if (v == v && static_cast<double>(f) != v && (__float_as_uint(f) & 0x7fffffffu) < 0x7f800000u) {
    f = __uint_as_float(__float_as_uint(f) | 1u);
  }
  return f;
}

__device__ u16 HalfBits(double v) {
  u16 bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(RoundOdd(v)));
  return bits;
}

__device__ u16 BFloat16Bits(double v) {
  const u32 bits = __float_as_uint(RoundOdd(v));
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<u16>((bits >> 16) | 0x40u);
  return static_cast<u16>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

__device__ double Saturated(double v, double low, double high) {
  if (v != v) return 0;
  return v < low ? low : v > high ? high : v;
}

__device__ void Store(int dtype, u8* data, i64 i, double v) {
  switch (dtype) {
    case kF64: reinterpret_cast<double*>(data)[i] = v; break;
    case kF32: reinterpret_cast<float*>(data)[i] = static_cast<float>(v); break;
    case kF16: reinterpret_cast<u16*>(data)[i] = HalfBits(v); break;
    case kBF16: reinterpret_cast<u16*>(data)[i] = BFloat16Bits(v); break;
    case kI64: reinterpret_cast<i64*>(data)[i] = __double2ll_rz(v); break;
    case kI32: reinterpret_cast<int*>(data)[i] = __double2int_rz(v); break;
    case kI8:
      reinterpret_cast<signed char*>(data)[i] =
          static_cast<signed char>(__double2int_rz(Saturated(v, -128, 127)));
      break;
    case kU8: data[i] = static_cast<u8>(__double2int_rz(Saturated(v, 0, 255))); break;
    case kBool: data[i] = v != 0 ? 1 : 0; break;
  }
}

__device__ double Load(int dtype, const u8* data, i64 i) {
  switch (dtype) {
    case kF64: return reinterpret_cast<const double*>(data)[i];
    case kF32: return static_cast<double>(reinterpret_cast<const float*>(data)[i]);
    case kF16: {
      float f;
      asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(reinterpret_cast<const u16*>(data)[i]));
      return static_cast<double>(f);
    }
    case kBF16:
      return static_cast<double>(
          __uint_as_float(static_cast<u32>(reinterpret_cast<const u16*>(data)[i]) << 16));
    case kI64: return static_cast<double>(reinterpret_cast<const i64*>(data)[i]);
    case kI32: return static_cast<double>(reinterpret_cast<const int*>(data)[i]);
    case kI8: return static_cast<double>(reinterpret_cast<const signed char*>(data)[i]);
    default: return static_cast<double>(data[i]);
  }
}
