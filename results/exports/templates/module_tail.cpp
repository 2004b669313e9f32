
PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  module.def("run", [](const std::vector<at::Tensor>& inputs) { return run(inputs); }, "@@SIGNATURE@@");
}
