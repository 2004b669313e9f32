#include "codegen/headers.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace grove::codegen {
namespace {

// Of the toolkit, for device code.
constexpr std::array<std::string_view, 18> kToolkit = {
    "cuda_fp16.h",      "cuda_bf16.h",
    "cuda_fp8.h",       "cuda_fp6.h",
    "cuda_fp4.h",       "mma.h",
    "cuComplex.h",      "cooperative_groups.h",
    "cuda_pipeline.h",  "cuda_pipeline_primitives.h",
    "cuda_awbarrier.h", "cuda_awbarrier_primitives.h",
    "math_constants.h", "cuda_fp16.hpp",
    "cuda_bf16.hpp",    "cuda_fp8.hpp",
    "cuda_fp6.hpp",     "cuda_fp4.hpp",
};
constexpr std::size_t kToolkitNamed = 13;  // in messages; the rest are their insides
constexpr std::array<std::string_view, 4> kToolkitFolders = {"cuda/", "cub/", "nv/",
                                                             "cooperative_groups/"};

// What NVRTC declares by itself.
constexpr std::array<std::string_view, 9> kEmpty = {
    "cuda_runtime.h",   "cuda_runtime_api.h", "device_launch_parameters.h",
    "vector_types.h",   "vector_functions.h", "device_functions.h",
    "math_functions.h", "stdbool.h",          "driver_types.h",
};

// C++ headers that cuda/std has under the same name.
constexpr std::array<std::string_view, 14> kForwarded = {
    "array",   "bit",      "complex", "concepts", "functional", "iterator",    "limits",
    "numeric", "optional", "ratio",   "span",     "tuple",      "type_traits", "utility"};

// Other headers served from memory.
constexpr std::array<std::string_view, 22> kServed = {
    "cuda.h",   "limits.h", "climits",   "stdint.h",        "cstdint",  "inttypes.h",
    "float.h",  "cfloat",   "math.h",    "cmath",           "stddef.h", "cstddef",
    "assert.h", "cassert",  "stdio.h",   "cstdio",          "stdlib.h", "cstdlib",
    "string.h", "cstring",  "algorithm", "initializer_list"};

// The toolkit's own declares host functions, which NVRTC refuses; kernels need the descriptor type.
constexpr std::string_view kCuda = R"(
#ifndef CUDA_VERSION
#define CUDA_VERSION (__CUDACC_VER_MAJOR__ * 1000 + __CUDACC_VER_MINOR__ * 10)
#endif
typedef struct alignas(64) CUtensorMap_st {
  unsigned long long opaque[16];
} CUtensorMap;
)";

// The toolkit has no cuda/std/algorithm.
constexpr std::string_view kAlgorithm = R"(
namespace std {
template <typename T>
__host__ __device__ constexpr const T& min(const T& a, const T& b) { return b < a ? b : a; }
template <typename T>
__host__ __device__ constexpr const T& max(const T& a, const T& b) { return a < b ? b : a; }
template <typename T>
__host__ __device__ constexpr const T& clamp(const T& value, const T& low, const T& high) {
  return value < low ? low : high < value ? high : value;
}
}
)";

constexpr std::string_view kStdint = R"(
typedef signed char int8_t;
typedef signed short int16_t;
typedef signed int int32_t;
typedef signed long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
typedef int8_t int_least8_t;
typedef int16_t int_least16_t;
typedef int32_t int_least32_t;
typedef int64_t int_least64_t;
typedef uint8_t uint_least8_t;
typedef uint16_t uint_least16_t;
typedef uint32_t uint_least32_t;
typedef uint64_t uint_least64_t;
typedef int8_t int_fast8_t;
typedef int16_t int_fast16_t;
typedef int32_t int_fast32_t;
typedef int64_t int_fast64_t;
typedef uint8_t uint_fast8_t;
typedef uint16_t uint_fast16_t;
typedef uint32_t uint_fast32_t;
typedef uint64_t uint_fast64_t;
typedef int64_t intptr_t;
typedef uint64_t uintptr_t;
typedef int64_t intmax_t;
typedef uint64_t uintmax_t;
#ifndef INT8_MAX
#define INT8_MIN SCHAR_MIN
#define INT16_MIN SHRT_MIN
#define INT32_MIN INT_MIN
#define INT64_MIN LLONG_MIN
#define INT8_MAX SCHAR_MAX
#define INT16_MAX SHRT_MAX
#define INT32_MAX INT_MAX
#define INT64_MAX LLONG_MAX
#define UINT8_MAX UCHAR_MAX
#define UINT16_MAX USHRT_MAX
#define UINT32_MAX UINT_MAX
#define UINT64_MAX ULLONG_MAX
#define INTPTR_MIN INT64_MIN
#define INTPTR_MAX INT64_MAX
#define UINTPTR_MAX UINT64_MAX
#define SIZE_MAX UINT64_MAX
#endif
)";

// The tokens of cuda/std/climits, so that a later include of it redefines nothing differently.
constexpr std::string_view kLimits = R"(
#ifndef INT_MAX
#define CHAR_BIT 8
#define SCHAR_MIN (-128)
#define SCHAR_MAX 127
#define UCHAR_MAX 255
#define CHAR_MIN SCHAR_MIN
#define CHAR_MAX SCHAR_MAX
#define SHRT_MIN (-SHRT_MAX - 1)
#define SHRT_MAX 0x7fff
#define USHRT_MAX 0xffff
#define INT_MIN (-INT_MAX - 1)
#define INT_MAX 0x7fffffff
#define UINT_MAX 0xffffffff
#define LONG_MIN (-LONG_MAX - 1)
#define LONG_MAX LLONG_MAX
#define ULONG_MAX ULLONG_MAX
#define LLONG_MIN (-LLONG_MAX - 1)
#define LLONG_MAX 0x7fffffffffffffffLL
#define ULLONG_MAX 0xffffffffffffffffUL
#endif
)";

constexpr std::string_view kFloat = R"(
#ifndef FLT_MAX
#define FLT_RADIX 2
#define FLT_MANT_DIG 24
#define FLT_DIG 6
#define FLT_MIN_EXP (-125)
#define FLT_MAX_EXP 128
#define FLT_MIN 1.17549435082228750796873653722224568e-38F
#define FLT_MAX 3.40282346638528859811704183484516925e+38F
#define FLT_EPSILON 1.19209289550781250000000000000000000e-7F
#define FLT_TRUE_MIN 1.40129846432481707092372958328991613e-45F
#define DBL_MANT_DIG 53
#define DBL_DIG 15
#define DBL_MIN_EXP (-1021)
#define DBL_MAX_EXP 1024
#define DBL_MIN 2.22507385850720138309023271733240406e-308
#define DBL_MAX 1.79769313486231570814527423731704357e+308
#define DBL_EPSILON 2.22044604925031308084726333618164062e-16
#define DBL_TRUE_MIN 4.94065645841246544176568792868221372e-324
#endif
)";

constexpr std::string_view kMath = R"(
#ifndef INFINITY
#define INFINITY (__builtin_bit_cast(float, 0x7f800000))
#endif
#ifndef NAN
#define NAN (__builtin_bit_cast(float, 0x7fffffff))
#endif
#ifndef HUGE_VALF
#define HUGE_VALF INFINITY
#endif
#ifndef HUGE_VAL
#define HUGE_VAL (__builtin_bit_cast(double, 0x7ff0000000000000LL))
#endif
#ifndef M_PI
#define M_E 2.7182818284590452354
#define M_LOG2E 1.4426950408889634074
#define M_LOG10E 0.43429448190325182765
#define M_LN2 0.69314718055994530942
#define M_LN10 2.30258509299404568402
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_1_PI 0.31830988618379067154
#define M_2_PI 0.63661977236758134308
#define M_2_SQRTPI 1.12837916709551257390
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
#endif
)";

// `::` already has the functions; `std::` has only some of them.
constexpr std::string_view kStdMath = R"(
namespace std {
using ::abs;
using ::acos;
using ::asin;
using ::atan;
using ::atan2;
using ::cbrt;
using ::ceil;
using ::cos;
using ::cosh;
using ::erf;
using ::exp;
using ::exp2;
using ::expm1;
using ::fabs;
using ::floor;
using ::fma;
using ::fmax;
using ::fmin;
using ::fmod;
using ::hypot;
using ::isfinite;
using ::isinf;
using ::isnan;
using ::log;
using ::log10;
using ::log1p;
using ::log2;
using ::lrint;
using ::pow;
using ::rint;
using ::round;
using ::sin;
using ::sinh;
using ::sqrt;
using ::tan;
using ::tanh;
using ::tgamma;
using ::trunc;
}
)";

constexpr std::string_view kStdStdint = R"(
namespace std {
using ::int8_t;
using ::int16_t;
using ::int32_t;
using ::int64_t;
using ::uint8_t;
using ::uint16_t;
using ::uint32_t;
using ::uint64_t;
using ::intptr_t;
using ::uintptr_t;
using ::size_t;
}
)";

constexpr std::string_view kStddef = R"(
#ifndef NULL
#define NULL 0
#endif
#ifndef offsetof
#define offsetof(type, member) (::size_t)((char*)&(((type*)0)->member) - (char*)0)
#endif
namespace std {
using ::size_t;
using ::ptrdiff_t;
typedef decltype(nullptr) nullptr_t;
}
)";

constexpr std::string_view kAssert = R"(
#ifndef assert
#ifdef NDEBUG
#define assert(condition) (static_cast<void>(0))
#else
#define assert(condition) ((condition) ? static_cast<void>(0) : __trap())
#endif
#endif
)";

std::string Once(std::string_view body) { return fmt::format("#pragma once\n{}", body); }

}  // namespace

std::vector<std::pair<std::string, std::string>> BuiltinHeaders() {
  std::vector<std::pair<std::string, std::string>> headers;
  const auto add = [&](std::string_view name, std::string content) {
    headers.emplace_back(std::string(name), std::move(content));
  };
  for (const std::string_view name : kEmpty) add(name, Once(""));
  add("cuda.h", Once(kCuda));
  add("algorithm", Once(kAlgorithm));
  add("limits.h", Once(kLimits));
  add("climits", Once("#include <limits.h>\n"));
  add("stdint.h", Once(fmt::format("#include <limits.h>\n{}", kStdint)));
  add("cstdint", Once(fmt::format("#include <stdint.h>\n{}", kStdStdint)));
  add("inttypes.h", Once("#include <stdint.h>\n"));
  add("float.h", Once(kFloat));
  add("cfloat", Once("#include <float.h>\n"));
  add("math.h", Once(kMath));
  add("cmath", Once(fmt::format("#include <math.h>\n{}", kStdMath)));
  add("stddef.h", Once(kStddef));
  add("cstddef", Once("#include <stddef.h>\n"));
  add("assert.h", Once(kAssert));
  add("cassert", Once("#include <assert.h>\n"));
  // printf, memcpy, memset, malloc and free are declared by NVRTC.
  for (const std::string_view name : {"stdio.h", "stdlib.h", "string.h"}) {
    add(name, Once("#include <stddef.h>\n"));
  }
  add("cstdio", Once("#include <stdio.h>\nnamespace std { using ::printf; }\n"));
  add("cstdlib", Once("#include <stdlib.h>\nnamespace std { using ::abs; }\n"));
  add("cstring", Once("#include <string.h>\nnamespace std { using ::memcpy; using ::memset; }\n"));
  for (const std::string_view name : kForwarded) {
    add(name, Once(fmt::format("#include <cuda/std/{}>\nnamespace std {{ using namespace "
                               "cuda::std; }}\n",
                               name)));
  }
  add("initializer_list", Once("#include <cuda/std/initializer_list>\n"));
  return headers;
}

bool HeaderAllowed(std::string_view name) {
  const auto is = [&](std::string_view other) { return other == name; };
  if (std::any_of(kToolkit.begin(), kToolkit.end(), is)) return true;
  const bool in_folder = std::any_of(kToolkitFolders.begin(), kToolkitFolders.end(),
                                     [&](std::string_view f) { return name.starts_with(f); });
  if (in_folder) {
    // Every component is a plain name that does not begin with a dot.
    char before = '/';
    for (const char c : name) {
      const bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                        (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.' || c == '/';
      if (!word || (before == '/' && (c == '.' || c == '/'))) return false;
      before = c;
    }
    return before != '/';
  }
  return std::any_of(kEmpty.begin(), kEmpty.end(), is) ||
         std::any_of(kServed.begin(), kServed.end(), is) ||
         std::any_of(kForwarded.begin(), kForwarded.end(), is);
}

std::string AllowedHeaders() {
  return fmt::format("{}, {}*, {}, {}, {}",
                     fmt::join(kToolkit.begin(), kToolkit.begin() + kToolkitNamed, ", "),
                     fmt::join(kToolkitFolders, "*, "), kEmpty.front(), fmt::join(kServed, ", "),
                     fmt::join(kForwarded, ", "));
}

}  // namespace grove::codegen
