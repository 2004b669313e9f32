// Several GPUs of one model as one device, so that a search uses them all. A check goes to the
// member with the least to do; a timing to the one with the fewest timings before it; a comparison
// of two kernels runs on one member, so both see the same GPU. Outcomes name the GPU.
//
// Times of different members are compared with each other, as of one model; how far that holds is
// for the caller to find out with one kernel on all of them (member()).
//
// A member whose device ends with an Error (its driver is gone) is left out from then on, and its
// request goes to another; the last one's error is the group's.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "base/result.h"
#include "eval/device.h"

namespace grove::eval {

// Thread-safe, as Device.
class DeviceGroup : public Device {
 public:
  virtual std::size_t size() const = 0;  // members at the start
  virtual Device& member(std::size_t index) = 0;
  virtual std::size_t alive() const = 0;  // members still in use
};

// kInvalidInput for no members, for members of different models, and for one GPU given twice.
Result<std::unique_ptr<DeviceGroup>> MakeDeviceGroup(std::vector<std::unique_ptr<Device>> members);

}  // namespace grove::eval
