// --- inputs, check and timing --------------------------------------------------------------------
// Inputs are those that grove draws: element i of a tensor is a function of a seed and i.
namespace grove_inputs {
@@GENERATOR@@
}  // namespace grove_inputs

namespace grove_main {

using grove_plan::Check;

// Spins until the host opens the gate, so that what stands behind it is enqueued before it starts. Gives up
// after two seconds.
__global__ void Gate(const volatile int* open) {
  unsigned long long begin = 0, now = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (*open == 0 && now - begin < 2000000000ULL);
}

__device__ inline double Sum(double value) {
  __shared__ double parts[256];
  parts[threadIdx.x] = value;
  for (int width = 128; width > 0; width /= 2) {
    __syncthreads();
    if (threadIdx.x < width) parts[threadIdx.x] += parts[threadIdx.x + width];
  }
  __syncthreads();
  const double sum = parts[0];
  __syncthreads();
  return sum;
}

// Relative L2 error of each row against fp64; worst[0] gets the largest, as bits.
__global__ void CompareRows(const unsigned char* got, int type, const double* want, long long row, long long elements,
                            double largest, double tiny, unsigned long long* worst) {
  const long long begin = blockIdx.x * row;
  const long long end = begin + row < elements ? begin + row : elements;
  double errors = 0, squares = 0, wrong = 0;
  for (long long i = begin + threadIdx.x; i < end; i += blockDim.x) {
    const double a = grove_inputs::Load(type, got, i), b = want[i];
    if (isfinite(a) && isfinite(b) && fabs(b) <= largest) {
      errors += (a - b) * (a - b);
      squares += b * b;
    } else if (!(isnan(a) && isnan(b)) && !(fabs(b) > largest && isinf(a) && (a > 0) == (b > 0)) && a != b) {
      wrong += 1;
    }
  }
  errors = Sum(errors);
  squares = Sum(squares);
  wrong = Sum(wrong);
  if (threadIdx.x != 0) return;
  const double root = sqrt(static_cast<double>(end - begin));
  const double error = wrong > 0 ? INFINITY : sqrt(errors) / fmax(sqrt(squares), tiny * root);
  atomicMax(worst, static_cast<unsigned long long>(__double_as_longlong(error)));
}

// --- Householder QR ---
__global__ void Transpose(const float* in, float* out, long long n) {
  const long long i = blockIdx.x * 256LL + threadIdx.x;
  if (i >= n * n) return;
  const long long matrix = blockIdx.y * n * n;
  out[matrix + i % n * n + i / n] = in[matrix + i];
}

// One block a column: applies all reflectors to column j of a and compares with column j of R. out: 1-norm of the
// error, 1-norm and squared 2-norm of the column, squared 2-norm of the error, |tau v'v - 2|, bad tau.
__global__ void QrColumns(const float* a, const float* ht, const float* tau, long long n, double* out) {
  extern __shared__ double x[];
  const long long j = blockIdx.x, matrix = blockIdx.y * n * n;
  for (long long i = threadIdx.x; i < n; i += 256) x[i] = a[matrix + i * n + j];
  __syncthreads();
  double one = 0, two = 0;
  for (long long i = threadIdx.x; i < n; i += 256) {
    one += fabs(x[i]);
    two += x[i] * x[i];
  }
  const double norm1 = Sum(one), norm2 = Sum(two);
  for (long long k = 0; k < n; ++k) {
    const float* v = ht + matrix + k * n;
    const double factor = tau[blockIdx.y * n + k];
    if (factor == 0) continue;
    double dot = threadIdx.x == 0 ? x[k] : 0;
    for (long long i = k + 1 + threadIdx.x; i < n; i += 256) dot += static_cast<double>(v[i]) * x[i];
    dot = factor * Sum(dot);
    if (threadIdx.x == 0) x[k] -= dot;
    for (long long i = k + 1 + threadIdx.x; i < n; i += 256) x[i] -= dot * static_cast<double>(v[i]);
    __syncthreads();
  }
  const float* h = ht + matrix + j * n;
  double error1 = 0, error2 = 0, squares = 0, finite = 1;
  for (long long i = threadIdx.x; i < n; i += 256) {
    const double e = x[i] - (i <= j ? static_cast<double>(h[i]) : 0.0);
    if (!isfinite(h[i]) || !isfinite(e)) finite = 0;
    error1 += fabs(e);
    error2 += e * e;
    if (i > j) squares += static_cast<double>(h[i]) * static_cast<double>(h[i]);
  }
  error1 = Sum(error1);
  error2 = Sum(error2);
  squares = Sum(squares);
  finite = Sum(finite) == 256 ? 1 : 0;
  if (threadIdx.x != 0) return;
  double* r = out + (blockIdx.y * n + j) * 6;
  const double t = tau[blockIdx.y * n + j];
  r[0] = finite == 1 ? error1 : INFINITY;
  r[1] = norm1;
  r[2] = norm2;
  r[3] = error2;
  r[4] = t == 0 ? 0 : fabs(t * (1 + squares) - 2);
  r[5] = isfinite(t) ? 0 : 1;
}

// As shares of what is allowed: |R - Qt A|_1, every column by itself, every reflector's tau.
inline double QrError(const float* a, const float* h, const float* tau, long long batch, long long n) {
  float* ht = nullptr;
  double* columns = nullptr;
  Check(cudaMalloc(&ht, static_cast<size_t>(batch * n * n) * sizeof(float)), "cudaMalloc");
  Check(cudaMalloc(&columns, static_cast<size_t>(batch * n) * 6 * sizeof(double)), "cudaMalloc");
  Transpose<<<dim3(static_cast<unsigned>((n * n + 255) / 256), static_cast<unsigned>(batch)), 256>>>(h, ht, n);
  const auto shared = static_cast<size_t>(n) * sizeof(double);
  Check(cudaFuncSetAttribute(QrColumns, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared)),
        "shared memory of the check");
  QrColumns<<<dim3(static_cast<unsigned>(n), static_cast<unsigned>(batch)), 256, shared>>>(a, ht, tau, n, columns);
  std::vector<double> r(static_cast<size_t>(batch * n) * 6);
  Check(cudaMemcpy(r.data(), columns, r.size() * sizeof(double), cudaMemcpyDeviceToHost), "the check");
  cudaFree(ht);
  cudaFree(columns);
  const double unit = static_cast<double>(n) * 0x1p-23;
  double worst = 0;
  for (long long b = 0; b < batch; ++b) {
    double error = 0, norm = 0;
    for (long long j = 0; j < n; ++j) {
      const double* c = r.data() + (b * n + j) * 6;
      error = std::max(error, c[0]);
      norm = std::max(norm, c[1]);
      if (c[3] > 0) worst = std::max(worst, std::sqrt(c[3] / std::max(c[2], 1e-76)) / (20 * unit));
      worst = std::max(worst, c[4] / (4 * unit));
      if (c[5] != 0 || !std::isfinite(c[0])) worst = INFINITY;
    }
    if (norm > 0) worst = std::max(worst, error / norm / (20 * unit));
  }
  return worst;
}

// --- one case ---
struct Buffers {
  std::vector<void*> all;
  ~Buffers() {
    for (void* p : all) cudaFree(p);
  }
  void* Add(long long bytes) {
    void* p = nullptr;
    Check(cudaMalloc(&p, static_cast<size_t>(bytes > 0 ? bytes : 1)), "cudaMalloc");
    all.push_back(p);
    return p;
  }
};

inline float Quantile(std::vector<float> samples, double q) {
  std::sort(samples.begin(), samples.end());
  return samples[static_cast<size_t>(q * static_cast<double>(samples.size() - 1) + 0.5)];
}

struct Times {
  float median = 0, low = 0, high = 0;  // microseconds
  int count = 0;
};

// Cold: the L2 cache is written over before every run.
inline Times Measure(const Case& it, void* const* tensors, void* workspace, long long launches, void* blas) {
  int device = 0, l2 = 0;
  Check(cudaGetDevice(&device), "cudaGetDevice");
  Check(cudaDeviceGetAttribute(&l2, cudaDevAttrL2CacheSize, device), "the L2 cache's size");
  Buffers buffers;
  void* flush = buffers.Add(2LL * l2);
  cudaEvent_t start, stop;
  Check(cudaEventCreate(&start), "cudaEventCreate");
  Check(cudaEventCreate(&stop), "cudaEventCreate");
  int* open = nullptr;
  Check(cudaHostAlloc(&open, sizeof *open, cudaHostAllocMapped), "cudaHostAlloc");
  // A queue of launches is about a thousand long: a longer plan would wait for the gate it stands behind.
  const bool gated = launches < 400;
  std::vector<float> samples;
  float total = 0;
  while (samples.size() < 10 || (total < 3e5f && samples.size() < 100)) {
    Check(cudaMemsetAsync(flush, static_cast<int>(samples.size() & 1), 2u * static_cast<size_t>(l2)), "flush");
    *static_cast<volatile int*>(open) = 0;
    if (gated) Gate<<<1, 1>>>(open);
    Check(cudaEventRecord(start), "cudaEventRecord");
    grove_plan::Run run(tensors, workspace, nullptr, blas);
    Plan(it, run);
    Check(cudaEventRecord(stop), "cudaEventRecord");
    *static_cast<volatile int*>(open) = 1;
    Check(cudaEventSynchronize(stop), it.name);
    float ms = 0;
    Check(cudaEventElapsedTime(&ms, start, stop), "cudaEventElapsedTime");
    samples.push_back(1000 * ms);
    total += 1000 * ms;
  }
  cudaFreeHost(open);
  cudaEventDestroy(start);
  cudaEventDestroy(stop);
  return {Quantile(samples, 0.5), Quantile(samples, 0.25), Quantile(samples, 0.75), static_cast<int>(samples.size())};
}

// Whether the outputs are right.
inline bool RunCase(const Case& it, const CaseCheck& check, unsigned long long seed, bool timed, void* blas) {
  Buffers buffers;
  std::vector<void*> tensors;
  size_t input = 0;
  for (size_t t = 0; t < it.tensors.size(); ++t) {
    const grove_plan::Tensor& tensor = it.tensors[t];
    tensors.push_back(buffers.Add(tensor.bytes()));
    if (tensor.output) {
      Check(cudaMemset(tensors[t], 0xff, static_cast<size_t>(tensor.bytes())), "cudaMemset");  // NaN
    } else {
      grove_inputs::grove_generate<<<1024, 256>>>(static_cast<unsigned char*>(tensors[t]), check.inputs[input++], seed,
                                                  static_cast<unsigned long long>(t));
      Check(cudaGetLastError(), "drawing inputs");
    }
  }
  grove_plan::Run measure;
  Plan(it, measure);
  void* workspace = buffers.Add(measure.workspace_bytes());
  grove_plan::Run run(tensors.data(), workspace, nullptr, blas);
  Plan(it, run);
  Check(cudaDeviceSynchronize(), it.name);

  bool right = true;
  std::string report;
@@CHECK@@
  std::printf("%-16s %s %s", it.name, right ? "ok    " : "WRONG ", report.c_str());
  if (timed) {
    const Times times = Measure(it, tensors.data(), workspace, run.launches(), blas);
    std::printf("; %.2f us cold, median of %d (quartiles %.2f to %.2f)", static_cast<double>(times.median),
                times.count, static_cast<double>(times.low), static_cast<double>(times.high));
  }
  std::printf("\n");
  std::fflush(stdout);  // what is done is seen, whatever comes after
  return right;
}

inline int Main(int argc, char** argv) {
  unsigned long long seed = 1;
  bool timed = true;
  std::string only;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--seed" && i + 1 < argc) {
      seed = std::strtoull(argv[++i], nullptr, 10);
    } else if (argument == "--check") {
      timed = false;
    } else if (argument.rfind("-", 0) != 0) {
      only = argument;
    } else {
      std::fprintf(stderr, "usage: %s [CASE] [--check] [--seed N]\n", argv[0]);
      return 2;
    }
  }
  void* blas = nullptr;
#ifdef GROVE_BLAS
  cublasHandle_t handle = nullptr;
  if (cublasCreate(&handle) != CUBLAS_STATUS_SUCCESS) throw std::runtime_error("cublasCreate failed");
  void* scratch = nullptr;
  Check(cudaMalloc(&scratch, 32 << 20), "cudaMalloc");
  cublasSetWorkspace(handle, scratch, 32 << 20);
  blas = handle;
#endif
  bool right = true, found = false;
  for (size_t c = 0; c < Cases().size(); ++c) {
    if (!only.empty() && only != Cases()[c].name) continue;
    found = true;
    right &= RunCase(Cases()[c], Checks()[c], seed, timed, blas);
  }
  if (!found) {
    std::fprintf(stderr, "no case '%s' here; there are:", only.c_str());
    for (const Case& it : Cases()) std::fprintf(stderr, " %s", it.name);
    std::fprintf(stderr, "\n");
    return 2;
  }
@@COMPILER@@  return right ? 0 : 1;
}

}  // namespace grove_main

int main(int argc, char** argv) {
  try {
    return grove_main::Main(argc, argv);
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "%s\n", problem.what());
    return 3;
  }
}
