// Comparison with the reference (the definition is in eval/check.h).

struct Sums {
  double error_squares, reference_squares, max_error, max_reference;
  double finite, mismatches;
  u64 first_mismatch_inverted;
  u64 unused;
};

struct CompareShape {
  i64 elements;
  i64 row;           // elements of a row
  i64 rows;
  i64 segment;       // elements of a segment
  i64 per_row;       // segments of a row
  double overflow;   // magnitudes from here on round to infinity
  double tiny;       // smallest normal number of the output's type
  int dtype;
  int threads;       // that share one segment: 32 or a whole block
};

struct CompareResult {
  double worst_row_l2;
  i64 worst_row;
  double scaled_max;
  i64 worst_element;
  double expected, got;
  double mismatches;
  i64 first_mismatch;
  i64 first_mismatch_row;
  u64 extreme;       // squares may have left the range of a double: the host must compare
};

__device__ bool IsInf(double v) { return fabs(v) == __longlong_as_double(0x7ff0000000000000ll); }

__device__ bool Matches(double g, double r, double overflow) {
  if (r != r) return g != g;
  if (fabs(r) >= overflow || IsInf(r)) return IsInf(g) && (g < 0) == (r < 0);
  return g == g && !IsInf(g);
}

__device__ bool Comparable(double g, double r, double overflow) {
  return fabs(r) < overflow && fabs(r) <= 1.7976931348623157e308 &&
         fabs(g) <= 1.7976931348623157e308;
}

__device__ void Merge(Sums& s, const Sums& o) {
  s.error_squares += o.error_squares;
  s.reference_squares += o.reference_squares;
  s.max_error = fmax(s.max_error, o.max_error);
  s.max_reference = fmax(s.max_reference, o.max_reference);
  s.finite += o.finite;
  s.mismatches += o.mismatches;
  s.first_mismatch_inverted = max(s.first_mismatch_inverted, o.first_mismatch_inverted);
}

__device__ Sums Shifted(const Sums& s, int offset) {
  Sums o;
  o.error_squares = __shfl_down_sync(0xffffffffu, s.error_squares, offset);
  o.reference_squares = __shfl_down_sync(0xffffffffu, s.reference_squares, offset);
  o.max_error = __shfl_down_sync(0xffffffffu, s.max_error, offset);
  o.max_reference = __shfl_down_sync(0xffffffffu, s.max_reference, offset);
  o.finite = __shfl_down_sync(0xffffffffu, s.finite, offset);
  o.mismatches = __shfl_down_sync(0xffffffffu, s.mismatches, offset);
  o.first_mismatch_inverted = __shfl_down_sync(0xffffffffu, s.first_mismatch_inverted, offset);
  return o;
}

// One segment per warp or per block of 256 threads; a fixed tree, so sums never change.
extern "C" __global__ void grove_compare_sums(const u8* got, const double* reference,
                                              CompareShape shape, Sums* sums) {
  __shared__ Sums parts[8];
  const int lane = threadIdx.x % shape.threads;
  const i64 group = (static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x) / shape.threads;
  const i64 groups = static_cast<i64>(gridDim.x) * blockDim.x / shape.threads;
  const i64 segments = shape.rows * shape.per_row;
  for (i64 index = group; index < segments; index += groups) {
    const i64 begin = index / shape.per_row * shape.row + index % shape.per_row * shape.segment;
    const i64 row_end = min(shape.elements, (index / shape.per_row + 1) * shape.row);
    const i64 end = min(row_end, begin + shape.segment);
    Sums s = {};
    for (i64 i = begin + lane; i < end; i += shape.threads) {
      const double g = Load(shape.dtype, got, i);
      const double r = reference[i];
      if (Comparable(g, r, shape.overflow)) {
        const double e = fabs(g - r);
        s.error_squares += e * e;
        s.reference_squares += r * r;
        s.max_error = fmax(s.max_error, e);
        s.max_reference = fmax(s.max_reference, fabs(r));
        s.finite += 1;
      } else if (!Matches(g, r, shape.overflow)) {
        s.mismatches += 1;
        s.first_mismatch_inverted = max(s.first_mismatch_inverted, ~static_cast<u64>(i));
      }
    }
    for (int offset = 16; offset > 0; offset /= 2) Merge(s, Shifted(s, offset));
    if (shape.threads > 32) {
      if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = s;
      __syncthreads();
      if (threadIdx.x == 0) {
        for (int i = 1; i < shape.threads / 32; ++i) Merge(s, parts[i]);
      }
      __syncthreads();
    }
    if (lane == 0) sums[index] = s;
  }
}

// Scale and error of every row.
extern "C" __global__ void grove_compare_rows(const Sums* sums, CompareShape shape, double* scales,
                                              double* errors, double* mismatches, CompareResult* result) {
  const i64 step = static_cast<i64>(gridDim.x) * blockDim.x;
  for (i64 row = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; row < shape.rows;
       row += step) {
    Sums s = sums[row * shape.per_row];
    for (i64 k = 1; k < shape.per_row; ++k) Merge(s, sums[row * shape.per_row + k]);
    const double low = 1e-140, high = 1e140;
    if ((s.max_error != 0 && (s.max_error < low || s.max_error > high)) ||
        (s.max_reference != 0 && (s.max_reference < low || s.max_reference > high))) {
      result->extreme = 1;
    }
    const double root = sqrt(fmax(s.finite, 1.0));
    const double scale = fmax(sqrt(s.reference_squares) / root, shape.tiny);
    scales[row] = scale;
    errors[row] = sqrt(s.error_squares) / root / scale;
    mismatches[row] = s.mismatches;
  }
}

struct WorstElement {
  double value;
  i64 element;
};

__device__ void Worse(WorstElement& w, double value, i64 element) {
  if (value > w.value || (value == w.value && value > 0 && element < w.element)) {
    w.value = value;
    w.element = element;
  }
}

__device__ void WorstOfWarp(WorstElement& w) {
  for (int offset = 16; offset > 0; offset /= 2) {
    const double value = __shfl_down_sync(0xffffffffu, w.value, offset);
    const i64 element = __shfl_down_sync(0xffffffffu, w.element, offset);
    Worse(w, value, element);
  }
}

extern "C" __global__ void grove_compare_worst(const u8* got, const double* reference,
                                               CompareShape shape, const double* scales,
                                               WorstElement* worst) {
  __shared__ WorstElement parts[8];
  const int lane = threadIdx.x % shape.threads;
  const i64 group = (static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x) / shape.threads;
  const i64 groups = static_cast<i64>(gridDim.x) * blockDim.x / shape.threads;
  const i64 segments = shape.rows * shape.per_row;
  for (i64 index = group; index < segments; index += groups) {
    const i64 row = index / shape.per_row;
    const i64 begin = row * shape.row + index % shape.per_row * shape.segment;
    const i64 end = min(min(shape.elements, (row + 1) * shape.row), begin + shape.segment);
    const double scale = scales[row];
    WorstElement w = {0, -1};
    for (i64 i = begin + lane; i < end; i += shape.threads) {
      const double g = Load(shape.dtype, got, i);
      const double r = reference[i];
      if (Comparable(g, r, shape.overflow)) Worse(w, fabs(g - r) / fmax(scale, fabs(r)), i);
    }
    WorstOfWarp(w);
    if (shape.threads > 32) {
      if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = w;
      __syncthreads();
      if (threadIdx.x == 0) {
        for (int i = 1; i < shape.threads / 32; ++i) Worse(w, parts[i].value, parts[i].element);
      }
      __syncthreads();
    }
    if (lane == 0) worst[index] = w;
  }
}

// One block of 1024 threads: the whole report.
extern "C" __global__ void grove_compare_report(const u8* got, const double* reference,
                                                CompareShape shape, const Sums* sums,
                                                const double* errors, const double* mismatches,
                                                const WorstElement* worst, CompareResult* result) {
  __shared__ WorstElement elements[32];
  __shared__ WorstElement rows[32];
  __shared__ double counts[32];
  __shared__ u64 firsts[32];
  WorstElement element = {0, -1};
  WorstElement row = {-1, -1};
  double count = 0;
  u64 first = 0;
  const i64 segments = shape.rows * shape.per_row;
  for (i64 i = threadIdx.x; i < segments; i += blockDim.x) {
    if (worst[i].element >= 0) Worse(element, worst[i].value, worst[i].element);
    first = max(first, sums[i].first_mismatch_inverted);
  }
  for (i64 i = threadIdx.x; i < shape.rows; i += blockDim.x) {
    if (errors[i] > row.value) row = {errors[i], i};
    count += mismatches[i];
  }
  for (int offset = 16; offset > 0; offset /= 2) {
    const double value = __shfl_down_sync(0xffffffffu, row.value, offset);
    const i64 index = __shfl_down_sync(0xffffffffu, row.element, offset);
    if (index >= 0 && (value > row.value || (value == row.value && index < row.element))) {
      row = {value, index};
    }
    count += __shfl_down_sync(0xffffffffu, count, offset);
    first = max(first, __shfl_down_sync(0xffffffffu, first, offset));
  }
  WorstOfWarp(element);
  if (threadIdx.x % 32 == 0) {
    elements[threadIdx.x / 32] = element;
    rows[threadIdx.x / 32] = row;
    counts[threadIdx.x / 32] = count;
    firsts[threadIdx.x / 32] = first;
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int i = 1; i < static_cast<int>(blockDim.x) / 32; ++i) {
    Worse(element, elements[i].value, elements[i].element);
    if (rows[i].element >= 0 &&
        (rows[i].value > row.value ||
         (rows[i].value == row.value && rows[i].element < row.element))) {
      row = rows[i];
    }
    count += counts[i];
    first = max(first, firsts[i]);
  }
  result->worst_row_l2 = row.value;
  result->worst_row = row.element;
  result->scaled_max = element.value;
  result->worst_element = element.element;
  result->mismatches = count;
  if (count > 0) {
    result->first_mismatch = static_cast<i64>(~first);
    result->first_mismatch_row = static_cast<i64>(~first) / shape.row;
    result->worst_element = static_cast<i64>(~first);
  }
  if (result->worst_element >= 0) {
    result->expected = reference[result->worst_element];
    result->got = Load(shape.dtype, got, result->worst_element);
  }
}
