  const long long n = it.tensors[0].shape.back();
  const double share = QrError(static_cast<const float*>(tensors[0]), static_cast<const float*>(tensors[1]),
                               static_cast<const float*>(tensors[2]), it.tensors[0].elements() / (n * n), n);
  right = share <= 1;
  char text[160];
  std::snprintf(text, sizeof text, "factorisation: %.4f of the error allowed", share);
  report = text;
