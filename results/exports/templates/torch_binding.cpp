#include <string>
#include <vector>

#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/extension.h>

namespace {

at::ScalarType ScalarTypeOf(int type) {
  switch (type) {
    case grove_export::kF64: return at::kDouble;
    case grove_export::kF32: return at::kFloat;
    case grove_export::kF16: return at::kHalf;
    case grove_export::kBF16: return at::kBFloat16;
    case grove_export::kI64: return at::kLong;
    case grove_export::kI32: return at::kInt;
    case grove_export::kI8: return at::kChar;
    case grove_export::kU8: return at::kByte;
    default: return at::kBool;
  }
}

bool Fits(const grove_export::CaseInfo& info, const std::vector<at::Tensor>& inputs) {
  size_t next = 0;
  for (const grove_export::TensorInfo& tensor : info.tensors) {
    if (tensor.output) continue;
    if (next == inputs.size()) return false;
    const at::Tensor& input = inputs[next++];
    if (input.scalar_type() != ScalarTypeOf(tensor.type)) return false;
    if (input.dim() != static_cast<int64_t>(tensor.shape.size())) return false;
    for (size_t i = 0; i < tensor.shape.size(); ++i) {
      if (input.size(static_cast<int64_t>(i)) != tensor.shape[i]) return false;
    }
  }
  return next == inputs.size();
}

std::string Describe(const grove_export::CaseInfo& info) {
  std::string text = std::string("\n  ") + info.name + ":";
  for (const grove_export::TensorInfo& tensor : info.tensors) {
    if (tensor.output) continue;
    text += std::string(" ") + tensor.name + " " + c10::toString(ScalarTypeOf(tensor.type)) + " (";
    for (size_t i = 0; i < tensor.shape.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(tensor.shape[i]);
    text += ")";
  }
  return text;
}

}  // namespace

// The outputs, in the task's order.
std::vector<at::Tensor> run(const std::vector<at::Tensor>& inputs) {
  const std::vector<grove_export::CaseInfo>& cases = grove_export::Cases();
  int found = -1;
  for (size_t c = 0; c < cases.size() && found < 0; ++c) {
    if (Fits(cases[c], inputs)) found = static_cast<int>(c);
  }
  if (found < 0) {
    std::string got, known;
    for (const at::Tensor& input : inputs) {
      got += std::string(" ") + c10::toString(input.scalar_type()) + " " + c10::str(input.sizes());
    }
    for (const grove_export::CaseInfo& info : cases) known += Describe(info);
    TORCH_CHECK(false, "this kernel is compiled for fixed shapes and element types; got", got, ", known are", known,
                "\n(grove export --cases adds others)");
  }
  const grove_export::CaseInfo& info = cases[static_cast<size_t>(found)];
  for (size_t i = 0; i < inputs.size(); ++i) {
    TORCH_CHECK(inputs[i].is_cuda(), "input ", i, " is not on a GPU but on ", inputs[i].device());
    TORCH_CHECK(inputs[i].device() == inputs[0].device(), "inputs are on several devices");
    TORCH_CHECK(inputs[i].is_contiguous(), "input ", i, " is not contiguous; call .contiguous() first");
    TORCH_CHECK(reinterpret_cast<uintptr_t>(inputs[i].data_ptr()) % 16 == 0, "input ", i,
                " does not begin at a multiple of 16 bytes; call .clone() first");
  }
  const c10::cuda::CUDAGuard guard(inputs[0].device());
  const at::TensorOptions options = at::TensorOptions().device(inputs[0].device());
  std::vector<at::Tensor> outputs;
  std::vector<void*> addresses;
  size_t next = 0;
  for (const grove_export::TensorInfo& tensor : info.tensors) {
    if (tensor.output) {
      outputs.push_back(at::empty(std::vector<int64_t>(tensor.shape.begin(), tensor.shape.end()),
                                  options.dtype(ScalarTypeOf(tensor.type))));
      addresses.push_back(outputs.back().data_ptr());
    } else {
      addresses.push_back(inputs[next++].data_ptr());
    }
  }
  // Given back to the allocator at the end, in the order of the stream.
  const long long bytes = grove_export::WorkspaceBytes(found);
  at::Tensor workspace;
  if (bytes > 0) workspace = at::empty({static_cast<int64_t>(bytes)}, options.dtype(at::kByte));
  void* blas = nullptr;
#ifdef GROVE_BLAS
  blas = at::cuda::getCurrentCUDABlasHandle();
#endif
  try {
    grove_export::Execute(found, addresses.data(), bytes > 0 ? workspace.data_ptr() : nullptr,
                          at::cuda::getCurrentCUDAStream().stream(), blas);
  } catch (const std::exception& problem) {
    TORCH_CHECK(false, info.name, ": ", problem.what());
  }
  return outputs;
}
