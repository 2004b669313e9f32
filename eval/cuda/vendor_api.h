// The constants and the one struct of the vendor's headers that our calls into cuBLAS, cuBLASLt and
// cuDNN use, so that none of those headers is needed to build. tests/cuda/vendor_test.cc compares
// them with a toolkit's headers where there are some.
#pragma once

#include <cstddef>
#include <cstdint>

namespace grove::cuda::vendor {

// library_types.h
inline constexpr int kR32F = 0;
inline constexpr int kR16F = 2;
inline constexpr int kR16BF = 14;
// cublas_api.h
inline constexpr int kCompute32F = 68;
inline constexpr int kCompute32FPedantic = 69;
inline constexpr int kCompute32FFastTf32 = 77;
// cublasLt.h
inline constexpr int kPreferenceMaxWorkspace = 1;
struct LtAlgorithm {
  std::uint64_t data[8];
};
struct LtHeuristic {
  LtAlgorithm algorithm;
  std::size_t workspace;
  int state;
  float waves;
  int reserved[4];
};
// cudnn_graph.h, cudnn_ops.h, cudnn_cnn.h
inline constexpr int kFloat = 0;
inline constexpr int kNchw = 0;
inline constexpr int kCrossCorrelation = 1;
inline constexpr int kDefaultMath = 0;
inline constexpr int kFmaMath = 3;
inline constexpr int kIdentity = 5;
inline constexpr int kNotPropagateNan = 0;
// The one algorithm that the fused call takes with an identity activation.
inline constexpr int kImplicitPrecompGemm = 1;

}  // namespace grove::cuda::vendor
