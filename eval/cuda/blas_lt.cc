#include "eval/cuda/blas_lt.h"

#include <algorithm>

#include <fmt/format.h>

#include "eval/cuda/vendor_api.h"
#include "eval/cuda/vendor_library.h"

namespace grove::cuda {
namespace {

using vendor::kCompute32F;
using vendor::kCompute32FFastTf32;
using vendor::kPreferenceMaxWorkspace;
using vendor::kR16BF;
using vendor::kR16F;
using vendor::kR32F;
using Algorithm = vendor::LtAlgorithm;
using Heuristic = vendor::LtHeuristic;
constexpr int kProposals = 8;

}  // namespace

struct BlasLt::Api {
  int (*create)(void**) = nullptr;
  int (*destroy)(void*) = nullptr;
  std::size_t (*version)() = nullptr;
  int (*desc_create)(void**, int, int) = nullptr;
  int (*desc_destroy)(void*) = nullptr;
  int (*layout_create)(void**, int, std::uint64_t, std::uint64_t, std::int64_t) = nullptr;
  int (*layout_destroy)(void*) = nullptr;
  int (*preference_create)(void**) = nullptr;
  int (*preference_destroy)(void*) = nullptr;
  int (*preference_set)(void*, int, const void*, std::size_t) = nullptr;
  int (*heuristic)(void*, void*, void*, void*, void*, void*, void*, int, Heuristic*,
                   int*) = nullptr;
  int (*matmul)(void*, void*, const void*, const void*, void*, const void*, void*, const void*,
                const void*, void*, void*, void*, const Algorithm*, void*, std::size_t,
                CuStream) = nullptr;

  void* desc = nullptr;
  void* layouts[3] = {nullptr, nullptr, nullptr};  // of B, A and C: column-major, swapped
  std::vector<Heuristic> proposals;
};

Result<std::unique_ptr<BlasLt>> BlasLt::Load() {
  auto library =
      VendorLibrary::Open("cuBLASLt", {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"});
  if (!library) return Failure(std::move(library.error()));
  std::unique_ptr<BlasLt> lt(new BlasLt);
  lt->api_ = std::make_unique<Api>();
  Api& api = *lt->api_;
  const bool whole = library->Find("cublasLtCreate", api.create) &&
                     library->Find("cublasLtDestroy", api.destroy) &&
                     library->Find("cublasLtGetVersion", api.version) &&
                     library->Find("cublasLtMatmulDescCreate", api.desc_create) &&
                     library->Find("cublasLtMatmulDescDestroy", api.desc_destroy) &&
                     library->Find("cublasLtMatrixLayoutCreate", api.layout_create) &&
                     library->Find("cublasLtMatrixLayoutDestroy", api.layout_destroy) &&
                     library->Find("cublasLtMatmulPreferenceCreate", api.preference_create) &&
                     library->Find("cublasLtMatmulPreferenceDestroy", api.preference_destroy) &&
                     library->Find("cublasLtMatmulPreferenceSetAttribute", api.preference_set) &&
                     library->Find("cublasLtMatmulAlgoGetHeuristic", api.heuristic) &&
                     library->Find("cublasLtMatmul", api.matmul);
  if (!whole) return Failure(library->Lacks());
  if (const int code = api.create(&lt->handle_); code != 0) {
    return Fail(ErrorCode::kUnavailable, fmt::format("cublasLtCreate failed with status {}", code));
  }
  const std::size_t number = api.version();
  lt->version_ = fmt::format("cuBLASLt {}.{}.{}", number / 10000, number / 100 % 100, number % 100);
  return lt;
}

BlasLt::~BlasLt() {
  Forget();
  if (handle_ != nullptr) api_->destroy(handle_);
}

void BlasLt::Forget() {
  for (void*& layout : api_->layouts) {
    if (layout != nullptr) api_->layout_destroy(layout);
    layout = nullptr;
  }
  if (api_->desc != nullptr) api_->desc_destroy(api_->desc);
  api_->desc = nullptr;
  api_->proposals.clear();
}

Result<int> BlasLt::Prepare(GemmKind kind, std::int64_t m, std::int64_t n, std::int64_t k) {
  Forget();
  Api& api = *api_;
  const int type = kind == GemmKind::kFp16 ? kR16F : kind == GemmKind::kBf16 ? kR16BF : kR32F;
  const int compute = kind == GemmKind::kTf32 ? kCompute32FFastTf32 : kCompute32F;
  const auto size = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };
  // Column-major library, row-major matrices: C^T = B^T A^T, and each is its transpose in columns.
  int code = api.desc_create(&api.desc, compute, kR32F);
  if (code == 0) code = api.layout_create(&api.layouts[0], type, size(n), size(k), n);
  if (code == 0) code = api.layout_create(&api.layouts[1], type, size(k), size(m), k);
  if (code == 0) code = api.layout_create(&api.layouts[2], type, size(n), size(m), n);
  void* preference = nullptr;
  if (code == 0) code = api.preference_create(&preference);
  const std::size_t workspace = kWorkspace;
  if (code == 0) {
    code = api.preference_set(preference, kPreferenceMaxWorkspace, &workspace, sizeof workspace);
  }
  api.proposals.resize(kProposals);
  int found = 0;
  if (code == 0) {
    code = api.heuristic(handle_, api.desc, api.layouts[0], api.layouts[1], api.layouts[2],
                         api.layouts[2], preference, kProposals, api.proposals.data(), &found);
  }
  if (preference != nullptr) api.preference_destroy(preference);
  if (code != 0 || found <= 0) {
    Forget();
    return Fail(ErrorCode::kUnavailable,
                fmt::format("cuBLASLt proposes no algorithm for {} {}x{}x{} (status {})",
                            Name(kind), m, n, k, code));
  }
  api.proposals.resize(static_cast<std::size_t>(std::min(found, kProposals)));
  return static_cast<int>(api.proposals.size());
}

Status BlasLt::Gemm(CuStream stream, int algorithm, CuDevicePtr a, CuDevicePtr b, CuDevicePtr c,
                    CuDevicePtr workspace) {
  Api& api = *api_;
  const Heuristic& chosen = api.proposals.at(static_cast<std::size_t>(algorithm));
  const float one = 1;
  const float zero = 0;
  const int code = api.matmul(
      handle_, api.desc, &one, DevicePointer(b), api.layouts[0], DevicePointer(a), api.layouts[1],
      &zero, DevicePointer(c), api.layouts[2], DevicePointer(c), api.layouts[2], &chosen.algorithm,
      DevicePointer(workspace), static_cast<std::size_t>(kWorkspace), stream);
  if (code != 0) {
    return Fail(ErrorCode::kUnavailable, fmt::format("cublasLtMatmul failed with status {}", code));
  }
  return {};
}

}  // namespace grove::cuda
