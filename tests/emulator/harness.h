// Runs kernels of tests/data/ptx, or of text in a test, over host vectors.
#pragma once

#include <cstring>
#include <deque>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "eval/emulator/emulator.h"

namespace grove::emulator {

inline std::string ReadPtx(const std::string& name) {
  std::ifstream file(std::string(GROVE_SOURCE_DIR) + "/tests/data/ptx/" + name + ".ptx");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// One module and one address space.
class Machine {
 public:
  explicit Machine(const std::string& ptx) {
    auto module = LoadModule(ptx);
    if (module)
      module_ = *module;
    else
      error_ = module.error().message;
    config.block = {32, 1, 1};
  }
  static Machine File(const std::string& name) { return Machine(ReadPtx(name)); }

  template <typename T>
  std::uint64_t Map(std::vector<T>& data, const std::string& name = "data", bool writable = true,
                    bool track = false) {
    AddressSpace::Buffer buffer;
    buffer.name = name;
    buffer.host = static_cast<std::byte*>(static_cast<void*>(data.data()));
    buffer.bytes = static_cast<std::int64_t>(data.size() * sizeof(T));
    buffer.writable = writable;
    buffer.track_uninitialised = track;
    return space.Map(buffer);
  }

  template <typename... Args>
  LaunchOutcome Launch(const std::string& kernel, Args... args) {
    if (module_ == nullptr) {
      ADD_FAILURE() << error_;
      return {};
    }
    config.kernel = kernel;
    config.params.clear();
    (config.params.push_back(Bytes(args)), ...);
    return Run(*module_, config, space, options);
  }
  // As Launch, and nothing may go wrong.
  template <typename... Args>
  Counters Good(const std::string& kernel, Args... args) {
    LaunchOutcome outcome = Launch(kernel, args...);
    EXPECT_FALSE(outcome.fault.has_value()) << outcome.fault->message;
    return outcome.counters;
  }
  // As Launch, and it must end in a fault of this kind.
  template <typename... Args>
  Fault Bad(Fault::Kind kind, const std::string& kernel, Args... args) {
    LaunchOutcome outcome = Launch(kernel, args...);
    if (!outcome.fault) {
      ADD_FAILURE() << kernel << " did not fault";
      return {};
    }
    EXPECT_EQ(Name(outcome.fault->kind), Name(kind)) << outcome.fault->message;
    return *outcome.fault;
  }

  const std::string& error() const { return error_; }
  LaunchConfig config;
  LaunchOptions options;
  AddressSpace space;

 private:
  template <typename T>
  static std::vector<std::byte> Bytes(T value) {
    std::vector<std::byte> bytes(sizeof(T));
    std::memcpy(bytes.data(), &value, sizeof(T));
    return bytes;
  }
  std::shared_ptr<const Module> module_;
  std::string error_;
};

}  // namespace grove::emulator
