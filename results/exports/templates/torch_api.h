// What the PyTorch side sees of the CUDA side.
#ifndef GROVE_EXPORT_API
#define GROVE_EXPORT_API

#include <vector>

namespace grove_export {

enum Type { kF64, kF32, kF16, kBF16, kI64, kI32, kI8, kU8, kBool };

struct TensorInfo {
  const char* name;
  int type;
  bool output;
  std::vector<long long> shape;
};
struct CaseInfo {
  const char* name;
  std::vector<TensorInfo> tensors;
};

const std::vector<CaseInfo>& Cases();
// Bytes of workspace that one execution needs on the current device.
long long WorkspaceBytes(int index);
// Enqueues one execution. Throws std::runtime_error.
void Execute(int index, void* const* tensors, void* workspace, void* stream, void* blas);

}  // namespace grove_export

#endif  // GROVE_EXPORT_API
