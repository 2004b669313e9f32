#include "eval/cuda/convolution.h"

#include <fmt/format.h>

#include "eval/cuda/vendor_api.h"
#include "eval/cuda/vendor_library.h"

namespace grove::cuda {
namespace {

using namespace vendor;  // the constants of its headers

int Int(std::int64_t value) { return static_cast<int>(value); }

Failure Failed(const char* call, int code) {
  return Fail(ErrorCode::kUnavailable, fmt::format("{} failed with status {}", call, code));
}

}  // namespace

struct Convolution::Api {
  int (*create)(void**) = nullptr;
  int (*destroy)(void*) = nullptr;
  std::size_t (*version)() = nullptr;
  int (*set_stream)(void*, CuStream) = nullptr;
  int (*tensor_create)(void**) = nullptr;
  int (*tensor_destroy)(void*) = nullptr;
  int (*tensor_set)(void*, int, int, int, int, int, int) = nullptr;
  int (*filter_create)(void**) = nullptr;
  int (*filter_destroy)(void*) = nullptr;
  int (*filter_set)(void*, int, int, int, int, int, int) = nullptr;
  int (*conv_create)(void**) = nullptr;
  int (*conv_destroy)(void*) = nullptr;
  int (*conv_set)(void*, int, int, int, int, int, int, int, int) = nullptr;
  int (*conv_math)(void*, int) = nullptr;
  int (*activation_create)(void**) = nullptr;
  int (*activation_destroy)(void*) = nullptr;
  int (*activation_set)(void*, int, int, double) = nullptr;
  int (*workspace)(void*, void*, void*, void*, void*, int, std::size_t*) = nullptr;
  int (*forward)(void*, const void*, void*, const void*, void*, const void*, void*, int, void*,
                 std::size_t, const void*, void*, const void*, void*, const void*, void*, void*,
                 void*) = nullptr;

  void* handle = nullptr;
  void* x = nullptr;
  void* y = nullptr;
  void* bias = nullptr;
  void* w = nullptr;
  void* conv = nullptr;
  void* activation = nullptr;
};

Result<std::unique_ptr<Convolution>> Convolution::Load() {
  auto library = VendorLibrary::Open("cuDNN", {"libcudnn.so.9", "libcudnn.so.8", "libcudnn.so"});
  if (!library) return Failure(std::move(library.error()));
  std::unique_ptr<Convolution> convolution(new Convolution);
  convolution->api_ = std::make_unique<Api>();
  Api& api = *convolution->api_;
  const bool whole = library->Find("cudnnCreate", api.create) &&
                     library->Find("cudnnDestroy", api.destroy) &&
                     library->Find("cudnnGetVersion", api.version) &&
                     library->Find("cudnnSetStream", api.set_stream) &&
                     library->Find("cudnnCreateTensorDescriptor", api.tensor_create) &&
                     library->Find("cudnnDestroyTensorDescriptor", api.tensor_destroy) &&
                     library->Find("cudnnSetTensor4dDescriptor", api.tensor_set) &&
                     library->Find("cudnnCreateFilterDescriptor", api.filter_create) &&
                     library->Find("cudnnDestroyFilterDescriptor", api.filter_destroy) &&
                     library->Find("cudnnSetFilter4dDescriptor", api.filter_set) &&
                     library->Find("cudnnCreateConvolutionDescriptor", api.conv_create) &&
                     library->Find("cudnnDestroyConvolutionDescriptor", api.conv_destroy) &&
                     library->Find("cudnnSetConvolution2dDescriptor", api.conv_set) &&
                     library->Find("cudnnSetConvolutionMathType", api.conv_math) &&
                     library->Find("cudnnCreateActivationDescriptor", api.activation_create) &&
                     library->Find("cudnnDestroyActivationDescriptor", api.activation_destroy) &&
                     library->Find("cudnnSetActivationDescriptor", api.activation_set) &&
                     library->Find("cudnnGetConvolutionForwardWorkspaceSize", api.workspace) &&
                     library->Find("cudnnConvolutionBiasActivationForward", api.forward);
  if (!whole) return Failure(library->Lacks());
  if (const int code = api.create(&api.handle); code != 0) return Failed("cudnnCreate", code);
  for (void** slot : {&api.x, &api.y, &api.bias}) {
    if (const int code = api.tensor_create(slot); code != 0) {
      return Failed("cudnnCreateTensorDescriptor", code);
    }
  }
  if (const int code = api.filter_create(&api.w); code != 0) {
    return Failed("cudnnCreateFilterDescriptor", code);
  }
  if (const int code = api.conv_create(&api.conv); code != 0) {
    return Failed("cudnnCreateConvolutionDescriptor", code);
  }
  if (const int code = api.activation_create(&api.activation); code != 0) {
    return Failed("cudnnCreateActivationDescriptor", code);
  }
  // 91300 = 9.13.0 since cuDNN 9, 8907 = 8.9.7 before.
  const std::size_t number = api.version();
  convolution->version_ =
      number >= 90000
          ? fmt::format("cuDNN {}.{}.{}", number / 10000, number / 100 % 100, number % 100)
          : fmt::format("cuDNN {}.{}.{}", number / 1000, number / 100 % 10, number % 100);
  return convolution;
}

Convolution::~Convolution() {
  Api& api = *api_;
  for (void* tensor : {api.x, api.y, api.bias}) {
    if (tensor != nullptr) api.tensor_destroy(tensor);
  }
  if (api.w != nullptr) api.filter_destroy(api.w);
  if (api.conv != nullptr) api.conv_destroy(api.conv);
  if (api.activation != nullptr) api.activation_destroy(api.activation);
  if (api.handle != nullptr) api.destroy(api.handle);
}

Result<std::int64_t> Convolution::Prepare(const ConvolutionShape& s, bool tf32) {
  Api& api = *api_;
  int code = api.tensor_set(api.x, kNchw, kFloat, Int(s.batch), Int(s.channels), Int(s.height),
                            Int(s.width));
  if (code == 0) {
    code = api.tensor_set(api.y, kNchw, kFloat, Int(s.batch), Int(s.filters), Int(s.out_height()),
                          Int(s.out_width()));
  }
  if (code == 0) code = api.tensor_set(api.bias, kNchw, kFloat, 1, Int(s.filters), 1, 1);
  if (code != 0) return Failed("cudnnSetTensor4dDescriptor", code);
  code = api.filter_set(api.w, kFloat, kNchw, Int(s.filters), Int(s.channels), Int(s.kernel),
                        Int(s.kernel));
  if (code != 0) return Failed("cudnnSetFilter4dDescriptor", code);
  code = api.conv_set(api.conv, Int(s.padding), Int(s.padding), Int(s.stride), Int(s.stride), 1, 1,
                      kCrossCorrelation, kFloat);
  if (code == 0) code = api.conv_math(api.conv, tf32 ? kDefaultMath : kFmaMath);
  if (code != 0) return Failed("cudnnSetConvolution2dDescriptor", code);
  code = api.activation_set(api.activation, kIdentity, kNotPropagateNan, 0);
  if (code != 0) return Failed("cudnnSetActivationDescriptor", code);
  std::size_t bytes = 0;
  code = api.workspace(api.handle, api.x, api.w, api.conv, api.y, kImplicitPrecompGemm, &bytes);
  if (code != 0) return Failed("cudnnGetConvolutionForwardWorkspaceSize", code);
  return static_cast<std::int64_t>(bytes);
}

Status Convolution::Run(CuStream stream, CuDevicePtr x, CuDevicePtr w, CuDevicePtr bias,
                        CuDevicePtr y, CuDevicePtr workspace, std::int64_t workspace_bytes) {
  Api& api = *api_;
  api.set_stream(api.handle, stream);
  const float one = 1;
  const float zero = 0;
  const int code =
      api.forward(api.handle, &one, api.x, DevicePointer(x), api.w, DevicePointer(w), api.conv,
                  kImplicitPrecompGemm, DevicePointer(workspace),
                  static_cast<std::size_t>(workspace_bytes), &zero, api.y, DevicePointer(y),
                  api.bias, DevicePointer(bias), api.activation, api.y, DevicePointer(y));
  if (code != 0) return Failed("cudnnConvolutionBiasActivationForward", code);
  return {};
}

}  // namespace grove::cuda
