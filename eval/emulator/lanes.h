// Handler templates that apply a function to every lane. With all lanes active the loops are plain
// and vectorise; otherwise results are blended by the mask. Operations must not fault or be slow
// for any input, since inactive lanes are computed too (and their results dropped).
#pragma once

#include <cstdint>
#include <type_traits>

#include "eval/emulator/machine.h"

namespace grove::emulator {

// How a value of type T lies in a register: 8 and 16 bits are zero-extended to 32.
template <typename T>
using Stored = std::conditional_t<(sizeof(T) < 4), std::uint32_t, T>;

template <typename T>
inline T Unpack(Stored<T> value) {
  return static_cast<T>(value);
}
template <typename T>
inline Stored<T> Pack(T value) {
  if constexpr (sizeof(T) < 4) {
    return static_cast<std::make_unsigned_t<T>>(value);
  } else {
    return value;
  }
}

template <typename D, typename F>
inline const Inst* MapLanes(Warp& w, const Inst* ip, F&& f) {
  Stored<D>* __restrict d = w.At<Stored<D>>(ip->d);
  if (w.mask == kFull) {
#pragma GCC ivdep
    for (int i = 0; i < kLanes; ++i) d[i] = Pack<D>(f(i));
  } else {
    const std::uint32_t mask = w.mask;
#pragma GCC ivdep
    for (int i = 0; i < kLanes; ++i) {
      const Stored<D> value = Pack<D>(f(i));
      d[i] = (mask >> i & 1) != 0 ? value : d[i];
    }
  }
  return ip + 1;
}

// d = F(a)
template <typename D, typename A, auto F>
const Inst* Map1(Warp& w, const Inst* ip) {
  const Stored<A>* a = w.At<Stored<A>>(ip->a);
  return MapLanes<D>(w, ip, [&](int i) { return static_cast<D>(F(Unpack<A>(a[i]))); });
}
// d = F(a, b)
template <typename D, typename A, typename B, auto F>
const Inst* Map2(Warp& w, const Inst* ip) {
  const Stored<A>* a = w.At<Stored<A>>(ip->a);
  const Stored<B>* b = w.At<Stored<B>>(ip->b);
  return MapLanes<D>(w, ip,
                     [&](int i) { return static_cast<D>(F(Unpack<A>(a[i]), Unpack<B>(b[i]))); });
}
// d = F(a, b, c)
template <typename D, typename A, typename B, typename C, auto F>
const Inst* Map3(Warp& w, const Inst* ip) {
  const Stored<A>* a = w.At<Stored<A>>(ip->a);
  const Stored<B>* b = w.At<Stored<B>>(ip->b);
  const Stored<C>* c = w.At<Stored<C>>(ip->c);
  return MapLanes<D>(w, ip, [&](int i) {
    return static_cast<D>(F(Unpack<A>(a[i]), Unpack<B>(b[i]), Unpack<C>(c[i])));
  });
}
// d = F(a, b, c, operand at frame offset imm)
template <typename D, typename A, typename B, typename C, typename E, auto F>
const Inst* Map4(Warp& w, const Inst* ip) {
  const Stored<A>* a = w.At<Stored<A>>(ip->a);
  const Stored<B>* b = w.At<Stored<B>>(ip->b);
  const Stored<C>* c = w.At<Stored<C>>(ip->c);
  const Stored<E>* e = w.At<Stored<E>>(static_cast<std::uint32_t>(ip->imm));
  return MapLanes<D>(w, ip, [&](int i) {
    return static_cast<D>(F(Unpack<A>(a[i]), Unpack<B>(b[i]), Unpack<C>(c[i]), Unpack<E>(e[i])));
  });
}

// The lanes where F(a, b) holds, as bits. Computed for inactive lanes too.
template <typename A, auto F>
inline std::uint32_t CompareLanes(Warp& w, std::uint32_t a_at, std::uint32_t b_at) {
  const Stored<A>* a = w.At<Stored<A>>(a_at);
  const Stored<A>* b = w.At<Stored<A>>(b_at);
  alignas(64) std::uint32_t lanes[kLanes];
  for (int i = 0; i < kLanes; ++i) {
    lanes[i] = F(Unpack<A>(a[i]), Unpack<A>(b[i])) ? kFull : 0u;
  }
  return MaskOf(lanes);
}

inline void Blend(std::uint32_t& predicate, std::uint32_t value, std::uint32_t mask) {
  predicate = (predicate & ~mask) | (value & mask);
}

}  // namespace grove::emulator
