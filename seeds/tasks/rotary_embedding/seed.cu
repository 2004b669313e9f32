// Rotary embedding: one thread per element of y.
extern "C" __global__ void rotary_embedding(const tensor::x* x, const tensor::cosine* cosine,
                                            const tensor::sine* sine, tensor::y* y) {
  const long long element = blockIdx.x * 256LL + threadIdx.x;
  if (element >= 1LL * dim::B * dim::H * dim::S * dim::D) return;
  const int d = static_cast<int>(element % dim::D);
  const int s = static_cast<int>(element / dim::D % dim::S);
  const int pair = s * (dim::D / 2) + d / 2;
  const float own = static_cast<float>(x[element]);
  const float other = static_cast<float>(x[d % 2 == 0 ? element + 1 : element - 1]);
  const float turned = d % 2 == 0 ? -other : other;
  y[element] = static_cast<tensor::y>(own * static_cast<float>(cosine[pair]) +
                                      turned * static_cast<float>(sine[pair]));
}
