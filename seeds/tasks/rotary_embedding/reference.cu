// Rotary embedding in fp64: one thread per element of y in row-major order, so block b writes elements
// 256 * b to 256 * b + 255.
// Every input type reaches double exactly by way of float.
template <typename T>
__device__ double Wide(T value) {
  return static_cast<double>(static_cast<float>(value));
}

extern "C" __global__ void __launch_bounds__(256)
rotary_embedding_reference(const tensor::x* x, const tensor::cosine* cosine,
                           const tensor::sine* sine, tensor::y* y) {
  const long long element = blockIdx.x * 256LL + threadIdx.x;
  if (element >= 1LL * dim::B * dim::H * dim::S * dim::D) return;
  const int d = static_cast<int>(element % dim::D);
  const int s = static_cast<int>(element / dim::D % dim::S);
  const int pair = s * (dim::D / 2) + d / 2;
  const double own = Wide(x[element]);
  const double other = Wide(x[d % 2 == 0 ? element + 1 : element - 1]);
  const double turned = d % 2 == 0 ? -other : other;
  y[element] = static_cast<tensor::y>(own * Wide(cosine[pair]) + turned * Wide(sine[pair]));
}
