// Zero-filled host memory whose pages exist only once touched: the outputs of a case of which only
// a sample of blocks is executed stay small, however large the tensors are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "base/units.h"

namespace grove::eval {

// Move-only owner. The memory is page-aligned.
class HostMemory {
 public:
  HostMemory() = default;
  // kResource when the address space or memory is exhausted.
  static Result<HostMemory> Allocate(Bytes size);
  ~HostMemory();
  HostMemory(HostMemory&& other) noexcept;
  HostMemory& operator=(HostMemory&& other) noexcept;
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  std::span<std::byte> bytes() const { return {data_, size_}; }

 private:
  HostMemory(std::byte* data, std::size_t size) : data_(data), size_(size) {}
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace grove::eval
