// cuDNN's convolution, loaded at run time where the library is there, for baselines. The legacy
// interface: deprecated in cuDNN 9 and still served there, a dozen plain functions where the graph
// interface would need its C++ front end. Needs a current context; belongs to one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "eval/cuda/driver_api.h"

namespace grove::cuda {

// y = conv(x, w) + bias; fp32 NCHW, square kernel, the same stride and padding in both directions.
struct ConvolutionShape {
  std::int64_t batch = 0, channels = 0, height = 0, width = 0;
  std::int64_t filters = 0, kernel = 0, stride = 1, padding = 0;
  std::int64_t out_height() const { return (height + 2 * padding - kernel) / stride + 1; }
  std::int64_t out_width() const { return (width + 2 * padding - kernel) / stride + 1; }
};

class Convolution {
 public:
  // kUnavailable when there is no cuDNN.
  static Result<std::unique_ptr<Convolution>> Load();
  ~Convolution();
  Convolution(const Convolution&) = delete;
  Convolution& operator=(const Convolution&) = delete;

  const std::string& version() const { return version_; }  // "cuDNN 9.13.0"
  // Makes a convolution ready, `tf32` allowing tensor cores, and says how much workspace it takes,
  // bytes.
  Result<std::int64_t> Prepare(const ConvolutionShape& shape, bool tf32);
  // Enqueues the prepared convolution with its bias.
  Status Run(CuStream stream, CuDevicePtr x, CuDevicePtr w, CuDevicePtr bias, CuDevicePtr y,
             CuDevicePtr workspace, std::int64_t workspace_bytes);

 private:
  struct Api;
  Convolution() = default;
  std::unique_ptr<Api> api_;
  std::string version_;
};

}  // namespace grove::cuda
