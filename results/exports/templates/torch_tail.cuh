// --- what the PyTorch side calls -----------------------------------------------------------------
namespace grove_export {

const std::vector<CaseInfo>& Cases() {
  static const std::vector<CaseInfo> cases = [] {
    std::vector<CaseInfo> list;
    for (const Case& it : ::Cases()) {
      CaseInfo info{it.name, {}};
      for (const grove_plan::Tensor& t : it.tensors) info.tensors.push_back({t.name, t.type, t.output, t.shape});
      list.push_back(info);
    }
    return list;
  }();
  return cases;
}

long long WorkspaceBytes(int index) {
  grove_plan::Run measure;
  Plan(::Cases()[static_cast<size_t>(index)], measure);
  return measure.workspace_bytes();
}

void Execute(int index, void* const* tensors, void* workspace, void* stream, void* blas) {
  grove_plan::Run run(tensors, workspace, static_cast<cudaStream_t>(stream), blas);
  Plan(::Cases()[static_cast<size_t>(index)], run);
}

}  // namespace grove_export
