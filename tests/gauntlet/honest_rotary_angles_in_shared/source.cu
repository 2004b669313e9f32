extern "C" __global__ void rotary(const tensor::x* x, const tensor::cosine* cosine, const tensor::sine* sine,
                                  tensor::y* y) {
  __shared__ float c[dim::D / 2], s[dim::D / 2];
  const int position = blockIdx.x;
  for (int p = threadIdx.x; p < dim::D / 2; p += 64) {
    c[p] = static_cast<float>(cosine[position * (dim::D / 2) + p]);
    s[p] = static_cast<float>(sine[position * (dim::D / 2) + p]);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < dim::B * dim::H * (dim::D / 2); i += 64) {
    const int p = i % (dim::D / 2), head = i / (dim::D / 2);
    const long long at = (1LL * head * dim::S + position) * dim::D + 2 * p;
    const float a = static_cast<float>(x[at]), b = static_cast<float>(x[at + 1]);
    y[at] = static_cast<tensor::y>(a * c[p] - b * s[p]);
    y[at + 1] = static_cast<tensor::y>(a * s[p] + b * c[p]);
  }
}
