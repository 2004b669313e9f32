// Householder QR (what is measured: eval/qr_check.h).

// Column c of a matrix becomes row c: reflectors are read along their columns.
extern "C" __global__ void grove_transpose(const float* in, float* out, i64 n, i64 tiles) {
  __shared__ float tile[32][33];
  const i64 b = blockIdx.x / (tiles * tiles);
  const i64 at = blockIdx.x % (tiles * tiles);
  const i64 r0 = at / tiles * 32;
  const i64 c0 = at % tiles * 32;
  in += b * n * n;
  out += b * n * n;
  for (int y = threadIdx.x / 32; y < 32; y += blockDim.x / 32) {
    const int x = threadIdx.x % 32;
    if (r0 + y < n && c0 + x < n) tile[y][x] = in[(r0 + y) * n + c0 + x];
  }
  __syncthreads();
  for (int y = threadIdx.x / 32; y < 32; y += blockDim.x / 32) {
    const int x = threadIdx.x % 32;
    if (c0 + y < n && r0 + x < n) out[(c0 + y) * n + r0 + x] = tile[x][y];
  }
}

struct QrColumn {
  double a_norm1, a_norm2;
  double qta_norm1;
  double qr_norm2;
  double qtq_norm1;
  double defect;
  double tail;
  double non_finite;
};

__device__ double WarpSum(double v) {
  for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(0xffffffffu, v, d);
  return v;
}

// x := (I - tau v v^T) x, v = 1 at k and `h` below. One warp; x in shared memory.
__device__ void Reflect(double* x, const float* h, double tau, int k, int n, int lane) {
  if (tau == 0) return;
  double s = lane == 0 ? x[k] : 0;
  for (int i = k + 1 + lane; i < n; i += 32) s += static_cast<double>(h[i]) * x[i];
  s = WarpSum(s) * tau;
  for (int i = k + 1 + lane; i < n; i += 32) x[i] -= s * static_cast<double>(h[i]);
  if (lane == 0) x[k] -= s;
  __syncwarp();
}

// One warp a column; `ht` is H transposed. n doubles of shared memory a warp.
extern "C" __global__ void grove_qr_columns(const float* a, const float* ht, const float* tau, int n,
                                            i64 columns, QrColumn* out) {
  extern __shared__ double memory[];
  const int lane = threadIdx.x % 32;
  const i64 column = static_cast<i64>(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
  if (column >= columns) return;
  double* x = memory + static_cast<i64>(threadIdx.x / 32) * n;
  const int j = static_cast<int>(column % n);
  const i64 b = column / n;
  a += b * n * n;
  ht += b * n * n;
  tau += b * n;
  const float* own = ht + static_cast<i64>(j) * n;
  QrColumn q;

  double norm1 = 0, norm2 = 0, bad = 0, vtv = 0;
  for (int i = lane; i < n; i += 32) {
    const double v = static_cast<double>(a[static_cast<i64>(i) * n + j]);
    x[i] = v;
    norm1 += fabs(v);
    norm2 += v * v;
    const double h = static_cast<double>(own[i]);
    if (!(fabs(h) <= 3.5e38)) bad += 1;
    if (i > j) vtv += h * h;
  }
  __syncwarp();
  if (lane == 0 && !(fabs(static_cast<double>(tau[j])) <= 3.5e38)) bad += 1;
  q.a_norm1 = WarpSum(norm1);
  q.a_norm2 = sqrt(WarpSum(norm2));
  q.non_finite = WarpSum(bad);
  vtv = 1 + WarpSum(vtv);
  const double t = static_cast<double>(tau[j]);
  q.defect = t == 0 ? 0 : fabs(t * vtv - 2);
  q.tail = 0;

  // Qt a against R.
  for (int k = 0; k < n; ++k) {
    if (k == j && t == 0) {
      double sum = 0;
      for (int i = j + 1 + lane; i < n; i += 32) sum += x[i] * x[i];
      q.tail = sqrt(WarpSum(sum));
    }
    Reflect(x, ht + static_cast<i64>(k) * n, static_cast<double>(tau[k]), k, n, lane);
  }
  double sum = 0;
  for (int i = lane; i < n; i += 32) {
    sum += fabs((i <= j ? static_cast<double>(own[i]) : 0.0) - x[i]);
  }
  q.qta_norm1 = WarpSum(sum);
  __syncwarp();

  // Q r against a; reflectors behind column j do not touch it.
  for (int i = lane; i < n; i += 32) x[i] = i <= j ? static_cast<double>(own[i]) : 0.0;
  __syncwarp();
  for (int k = j; k >= 0; --k) {
    Reflect(x, ht + static_cast<i64>(k) * n, static_cast<double>(tau[k]), k, n, lane);
  }
  sum = 0;
  for (int i = lane; i < n; i += 32) {
    const double d = static_cast<double>(a[static_cast<i64>(i) * n + j]) - x[i];
    sum += d * d;
  }
  q.qr_norm2 = sqrt(WarpSum(sum));
  __syncwarp();

  // Qt Q e against e.
  for (int i = lane; i < n; i += 32) x[i] = i == j ? 1.0 : 0.0;
  __syncwarp();
  for (int k = j; k >= 0; --k) {
    Reflect(x, ht + static_cast<i64>(k) * n, static_cast<double>(tau[k]), k, n, lane);
  }
  for (int k = 0; k < n; ++k) {
    Reflect(x, ht + static_cast<i64>(k) * n, static_cast<double>(tau[k]), k, n, lane);
  }
  sum = 0;
  for (int i = lane; i < n; i += 32) sum += fabs(x[i] - (i == j ? 1.0 : 0.0));
  q.qtq_norm1 = WarpSum(sum);
  if (lane == 0) out[column] = q;
}
