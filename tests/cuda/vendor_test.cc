// Which vendor library applies to a case, and our declarations of those libraries.
#include "eval/cuda/baselines.h"
#include "eval/cuda/vendor_api.h"
#include "eval/cuda/vendor_library.h"

#include <gtest/gtest.h>

#if __has_include(<cublasLt.h>)
#include <cublasLt.h>
#define GROVE_HAVE_CUBLASLT 1
#endif
#if __has_include(<cudnn.h>)
#include <cudnn.h>
#define GROVE_HAVE_CUDNN 1
#endif

namespace grove::cuda {
namespace {

using seeds::Case;
using seeds::Task;
using seeds::Tensor;
using seeds::TensorRole;

Tensor Make(const char* name, TensorRole role, std::vector<std::int64_t> shape,
            DType dtype = DType::kF32) {
  Tensor tensor;
  tensor.name = name;
  tensor.role = role;
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  return tensor;
}

Task Family(const char* name, const char* family) {
  Task task;
  task.name = name;
  task.family = family;
  return task;
}

Case Product(std::vector<std::int64_t> a, std::vector<std::int64_t> b,
             std::vector<std::int64_t> c) {
  Case task_case;
  task_case.tensors = {Make("a", TensorRole::kInput, std::move(a)),
                       Make("b", TensorRole::kInput, std::move(b)),
                       Make("c", TensorRole::kOutput, std::move(c))};
  return task_case;
}

TEST(VendorBaselines, AProductIsKnownByItsShapes) {
  const Task gemm = Family("matmul", "gemm");
  const auto product = ProductOf(gemm, Product({8, 32}, {32, 16}, {8, 16}));
  ASSERT_TRUE(product);
  EXPECT_EQ(product->m, 8);
  EXPECT_EQ(product->n, 16);
  EXPECT_EQ(product->k, 32);
  EXPECT_FALSE(ProductOf(gemm, Product({8, 32}, {16, 32}, {8, 16})));  // B transposed
  EXPECT_FALSE(ProductOf(gemm, Product({8, 32}, {32, 16}, {16, 8})));
  EXPECT_FALSE(ProductOf(gemm, Product({2, 8, 32}, {32, 16}, {8, 16})));
  EXPECT_FALSE(ProductOf(Family("softmax", "row_reduction"), Product({8, 32}, {32, 16}, {8, 16})));
  Case with_bias = Product({8, 32}, {32, 16}, {8, 16});
  with_bias.tensors.insert(with_bias.tensors.begin() + 2, Make("d", TensorRole::kInput, {16}));
  EXPECT_FALSE(ProductOf(gemm, with_bias));
}

TEST(VendorBaselines, AFactorisationIsABatchOfSquareFp32Matrices) {
  const Task qr = Family("qr", "factorisation");
  Case c;
  c.tensors = {Make("a", TensorRole::kInput, {20, 32, 32}),
               Make("h", TensorRole::kOutput, {20, 32, 32}),
               Make("tau", TensorRole::kOutput, {20, 32})};
  const auto factorisation = FactorisationOf(qr, c);
  ASSERT_TRUE(factorisation);
  EXPECT_EQ(factorisation->batch, 20);
  EXPECT_EQ(factorisation->n, 32);
  EXPECT_TRUE(FactorisationOf(Family("householder", "qr"), c));
  EXPECT_FALSE(FactorisationOf(Family("softmax", "row_reduction"), c));
  c.tensors[0].shape = {20, 32, 16};
  EXPECT_FALSE(FactorisationOf(qr, c));
  c.tensors[0].shape = {20, 32, 32};
  c.tensors[0].dtype = DType::kF16;
  EXPECT_FALSE(FactorisationOf(qr, c));
}

TEST(VendorBaselines, AConvolutionMustHaveExactlyTheConvolutionsOutput) {
  const Task conv = Family("conv2d", "conv");
  Case c;
  c.dims = {{"S", 4}, {"P", 2}};
  c.tensors = {Make("x", TensorRole::kInput, {100, 3, 224, 224}),
               Make("w", TensorRole::kInput, {96, 3, 11, 11}),
               Make("bias", TensorRole::kInput, {96}),
               Make("y", TensorRole::kOutput, {100, 96, 55, 55})};
  const auto shape = ConvolutionOf(conv, c);
  ASSERT_TRUE(shape);
  EXPECT_EQ(shape->out_height(), 55);
  EXPECT_EQ(shape->stride, 4);
  EXPECT_EQ(shape->padding, 2);
  c.tensors[3].shape = {100, 96, 27, 27};  // pooled: another operation
  EXPECT_FALSE(ConvolutionOf(conv, c));
  c.tensors[3].shape = {100, 96, 55, 55};
  c.dims = {{"P", 2}};
  EXPECT_FALSE(ConvolutionOf(conv, c));
  c.dims = {{"S", 0}, {"P", 2}};
  EXPECT_FALSE(ConvolutionOf(conv, c));
}

TEST(VendorLibrary, ALibraryThatIsNotHereIsOneLineWithItsProduct) {
  const auto library = VendorLibrary::Open("cuNothing", {"libcunothing.so.1"});
  ASSERT_FALSE(library);
  EXPECT_EQ(library.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(library.error().message.find("cuNothing"), std::string::npos);
  EXPECT_EQ(library.error().message.find('\n'), std::string::npos);
}

TEST(VendorLibrary, AFunctionThatIsMissingIsNamed) {
  auto library = VendorLibrary::Open("libm", {"libm.so.6"});
  ASSERT_TRUE(library) << library.error().message;
  double (*cosine)(double) = nullptr;
  EXPECT_TRUE(library->Find("cos", cosine));
  EXPECT_EQ(cosine(0), 1);
  EXPECT_FALSE(library->Find("no_such_function", cosine));
  EXPECT_NE(library->Lacks().message.find("no_such_function"), std::string::npos);
}

#ifdef GROVE_HAVE_CUBLASLT
TEST(VendorApi, CublasDeclarationsAreTheToolkits) {
  EXPECT_EQ(vendor::kR32F, static_cast<int>(CUDA_R_32F));
  EXPECT_EQ(vendor::kR16F, static_cast<int>(CUDA_R_16F));
  EXPECT_EQ(vendor::kR16BF, static_cast<int>(CUDA_R_16BF));
  EXPECT_EQ(vendor::kCompute32F, static_cast<int>(CUBLAS_COMPUTE_32F));
  EXPECT_EQ(vendor::kCompute32FPedantic, static_cast<int>(CUBLAS_COMPUTE_32F_PEDANTIC));
  EXPECT_EQ(vendor::kCompute32FFastTf32, static_cast<int>(CUBLAS_COMPUTE_32F_FAST_TF32));
  EXPECT_EQ(vendor::kPreferenceMaxWorkspace,
            static_cast<int>(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES));
  EXPECT_EQ(sizeof(vendor::LtHeuristic), sizeof(cublasLtMatmulHeuristicResult_t));
  EXPECT_EQ(sizeof(vendor::LtAlgorithm), sizeof(cublasLtMatmulAlgo_t));
  EXPECT_EQ(offsetof(vendor::LtHeuristic, state), offsetof(cublasLtMatmulHeuristicResult_t, state));
}
#endif

#ifdef GROVE_HAVE_CUDNN
TEST(VendorApi, CudnnDeclarationsAreTheToolkits) {
  EXPECT_EQ(vendor::kFloat, static_cast<int>(CUDNN_DATA_FLOAT));
  EXPECT_EQ(vendor::kNchw, static_cast<int>(CUDNN_TENSOR_NCHW));
  EXPECT_EQ(vendor::kCrossCorrelation, static_cast<int>(CUDNN_CROSS_CORRELATION));
  EXPECT_EQ(vendor::kDefaultMath, static_cast<int>(CUDNN_DEFAULT_MATH));
  EXPECT_EQ(vendor::kFmaMath, static_cast<int>(CUDNN_FMA_MATH));
  EXPECT_EQ(vendor::kIdentity, static_cast<int>(CUDNN_ACTIVATION_IDENTITY));
  EXPECT_EQ(vendor::kNotPropagateNan, static_cast<int>(CUDNN_NOT_PROPAGATE_NAN));
  EXPECT_EQ(vendor::kImplicitPrecompGemm,
            static_cast<int>(CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM));
}
#endif

}  // namespace
}  // namespace grove::cuda
