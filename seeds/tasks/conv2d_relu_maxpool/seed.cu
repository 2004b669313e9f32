// Convolution, ReLU and maximum pool in one kernel: one thread per element of y computes its nine
// convolutions (neighbours compute some of them again), everything read from global memory.
constexpr int kConvHeight = (dim::H + 2 * dim::P - dim::R) / dim::S + 1;
constexpr int kConvWidth = (dim::W + 2 * dim::P - dim::R) / dim::S + 1;

__device__ float Convolve(const tensor::x* x, const tensor::w* w, const tensor::bias* bias,
                           long long image, int filter, int row, int column) {
  float sum = 0;
  for (int c = 0; c < dim::C; ++c) {
    const tensor::x* plane = x + (image * dim::C + c) * dim::H * dim::W;
    const tensor::w* kernel = w + (static_cast<long long>(filter) * dim::C + c) * dim::R * dim::R;
    for (int r = 0; r < dim::R; ++r) {
      const int i = row * dim::S + r - dim::P;
      if (i < 0 || i >= dim::H) continue;
      for (int s = 0; s < dim::R; ++s) {
        const int j = column * dim::S + s - dim::P;
        if (j < 0 || j >= dim::W) continue;
        sum += plane[i * dim::W + j] * kernel[r * dim::R + s];
      }
    }
  }
  return sum + bias[filter];
}

extern "C" __global__ void conv2d_relu_maxpool(const tensor::x* x, const tensor::w* w,
                                               const tensor::bias* bias, tensor::y* y) {
  constexpr int kHeight = (kConvHeight - 3) / 2 + 1, kWidth = (kConvWidth - 3) / 2 + 1;
  const long long element = blockIdx.x * 256LL + threadIdx.x;
  if (element >= 1LL * dim::B * dim::F * kHeight * kWidth) return;
  const int column = static_cast<int>(element % kWidth);
  const int row = static_cast<int>(element / kWidth % kHeight);
  const int filter = static_cast<int>(element / kWidth / kHeight % dim::F);
  const long long image = element / kWidth / kHeight / dim::F;
  float largest = 0;
  for (int u = 0; u < 3; ++u) {
    for (int v = 0; v < 3; ++v) {
      largest = fmaxf(largest, Convolve(x, w, bias, image, filter, 2 * row + u, 2 * column + v));
    }
  }
  y[element] = largest;
}
