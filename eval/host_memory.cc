#include "eval/host_memory.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <sys/mman.h>

namespace grove::eval {

Result<HostMemory> HostMemory::Allocate(Bytes size) {
  const auto length = static_cast<std::size_t>(std::max<std::int64_t>(size.value, 1));
  void* memory = ::mmap(nullptr, length, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    return Fail(ErrorCode::kResource, fmt::format("cannot reserve {} bytes of host memory: {}",
                                                  length, std::strerror(errno)));
  }
  return HostMemory(static_cast<std::byte*>(memory), length);
}

HostMemory::~HostMemory() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

HostMemory::HostMemory(HostMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

HostMemory& HostMemory::operator=(HostMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

}  // namespace grove::eval
