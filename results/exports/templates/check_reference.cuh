  // The task's own reference program, which accumulates in fp64, writes what is right.
  std::vector<void*> reference = tensors;
  for (size_t t = 0; t < it.tensors.size(); ++t) {
    if (it.tensors[t].output) reference[t] = buffers.Add(it.tensors[t].elements() * 8);
  }
  const Case& other = References()[static_cast<size_t>(&check - Checks().data())];
  grove_plan::Run other_measure;
  ReferencePlan(other, other_measure);
  void* other_workspace = buffers.Add(other_measure.workspace_bytes());
  grove_plan::Run other_run(reference.data(), other_workspace, nullptr, nullptr);
  ReferencePlan(other, other_run);
  Check(cudaDeviceSynchronize(), "the reference");
  auto* worst = static_cast<unsigned long long*>(buffers.Add(8));
  size_t output = 0;
  for (size_t t = 0; t < it.tensors.size(); ++t) {
    const grove_plan::Tensor& tensor = it.tensors[t];
    if (!tensor.output) continue;
    const OutputCheck& allowed = check.outputs[output++];
    Check(cudaMemset(worst, 0, 8), "cudaMemset");
    const long long rows = grove_plan::ceil_div(tensor.elements(), allowed.row);
    CompareRows<<<static_cast<unsigned>(rows), 256>>>(static_cast<const unsigned char*>(tensors[t]), tensor.type,
                                                      static_cast<const double*>(reference[t]), allowed.row,
                                                      tensor.elements(), allowed.largest, allowed.tiny, worst);
    double error = 0;
    Check(cudaMemcpy(&error, worst, 8, cudaMemcpyDeviceToHost), "the comparison");
    right &= error <= allowed.error;
    char text[160];
    std::snprintf(text, sizeof text, "%s%s: worst row error %.2e (allowed %.2e)", report.empty() ? "" : ", ",
                  tensor.name, error, allowed.error);
    report += text;
  }
