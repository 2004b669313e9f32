// Collects a Profile event by event; internal to the readers.
#pragma once

#include <map>
#include <string>

#include "seeds/profile/profile.h"

namespace grove::profile {

class Builder {
 public:
  Builder() { profile_.operations.emplace_back(); }

  std::uint32_t KernelIndex(Kernel kernel) {
    const auto [at, added] =
        kernels_.try_emplace(std::move(kernel), static_cast<std::uint32_t>(kernels_.size()));
    if (added) profile_.kernels.push_back(at->first);
    return at->second;
  }
  std::uint32_t OperationIndex(Operation operation) {
    const auto [at, added] = operations_.try_emplace(
        std::move(operation), static_cast<std::uint32_t>(profile_.operations.size()));
    if (added) profile_.operations.push_back(at->first);
    return at->second;
  }
  Profile& profile() { return profile_; }

 private:
  Profile profile_;
  std::map<Kernel, std::uint32_t> kernels_;
  std::map<Operation, std::uint32_t> operations_;
};

}  // namespace grove::profile
