// What the head and a compile worker say to each other, as payloads of base/framing.h. The worker
// speaks first (kHello), gets its headers once (kHeaders), then answers every kCompile by kOutput.
// A decoder gives nullopt for anything that is not exactly one message: a worker's answers are
// hostile input. Thread-safety: free functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/nvrtc.h"

namespace grove::codegen {

enum class Message : std::uint16_t { kHello = 1, kHeaders = 2, kCompile = 3, kOutput = 4 };

// Largest payloads, bytes. A cubin of 1 MiB of source stays far below.
inline constexpr std::size_t kRequestLimit = std::size_t{64} << 20;
inline constexpr std::size_t kOutputLimit = std::size_t{256} << 20;

// The worker's exit code when it ran into its memory limit.
inline constexpr int kOutOfMemoryExitCode = 77;

struct Hello {
  std::string error;  // why NVRTC could not be loaded; empty when it was
  int major = 0;
  int minor = 0;
};

struct CompileCall {
  std::string source;
  std::vector<std::string> options;  // all of NVRTC's options
};

std::string Encode(const Hello& hello);
std::string Encode(const std::vector<Header>& headers);
std::string Encode(const CompileCall& call);
std::string Encode(const NvrtcOutput& output);

std::optional<Hello> DecodeHello(std::string_view payload);
std::optional<std::vector<Header>> DecodeHeaders(std::string_view payload);
std::optional<CompileCall> DecodeCall(std::string_view payload);
std::optional<NvrtcOutput> DecodeOutput(std::string_view payload);

}  // namespace grove::codegen
