#include "codegen/compile_options.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

#include <fmt/format.h>

namespace grove::codegen {
namespace {

// Whole options, or, ending in '=' or in the letter of -D and -U, what one may begin with.
constexpr std::array<std::string_view, 33> kAllowed = {"--use_fast_math",
                                                       "-use_fast_math",
                                                       "--fmad=",
                                                       "-fmad=",
                                                       "--ftz=",
                                                       "-ftz=",
                                                       "--prec-div=",
                                                       "-prec-div=",
                                                       "--prec-sqrt=",
                                                       "-prec-sqrt=",
                                                       "--maxrregcount=",
                                                       "-maxrregcount=",
                                                       "--extra-device-vectorization",
                                                       "-extra-device-vectorization",
                                                       "--std=",
                                                       "-std=",
                                                       "-D",
                                                       "--define-macro=",
                                                       "-U",
                                                       "--undefine-macro=",
                                                       "--restrict",
                                                       "-restrict",
                                                       "--device-int128",
                                                       "-device-int128",
                                                       "--diag-suppress=",
                                                       "-diag-suppress=",
                                                       "--disable-warnings",
                                                       "-w",
                                                       "--builtin-move-forward=",
                                                       "--builtin-initializer-list=",
                                                       "--dopt=",
                                                       "-dopt=",
                                                       "--ptxas-options=-O"};

bool IsPrefix(std::string_view allowed) {
  return allowed.back() == '=' || allowed == "-D" || allowed == "-U" ||
         allowed == "--ptxas-options=-O";
}

bool Allowed(std::string_view option) {
  // One option is one line of text: nothing to hide a second one in.
  const bool plain = std::all_of(option.begin(), option.end(),
                                 [](unsigned char c) { return c >= 0x20 && c != 0x7f; });
  if (!plain || option.size() > 4096) return false;
  return std::any_of(kAllowed.begin(), kAllowed.end(), [&](std::string_view allowed) {
    if (!IsPrefix(allowed)) return option == allowed;
    return option.size() > allowed.size() && option.starts_with(allowed);
  });
}

bool IsArchitecture(std::string_view text) {
  if (!text.starts_with("sm_")) return false;
  text.remove_prefix(3);
  if (text.ends_with('a') || text.ends_with('f')) text.remove_suffix(1);
  return (text.size() == 2 || text.size() == 3) &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c); });
}

}  // namespace

std::vector<std::string> BaseOptions() { return {"-default-device", "--ptxas-options=-v"}; }

Status CheckRequest(const CompileRequest& request) {
  if (!IsArchitecture(request.arch)) {
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("'{}' is no architecture: expected one like sm_90 or sm_90a",
                            request.arch.substr(0, 40)));
  }
  for (const std::string& option : request.options) {
    if (!Allowed(option)) {
      return Fail(ErrorCode::kInvalidInput,
                  fmt::format("compiler option '{}' is not allowed", option.substr(0, 80)));
    }
  }
  return {};
}

std::vector<std::string> AllOptions(const CompileRequest& request, int nvrtc_major,
                                    const std::vector<std::filesystem::path>& include_folders) {
  std::vector<std::string> options = {"--gpu-architecture=" + request.arch};
  for (std::string& option : BaseOptions()) options.push_back(std::move(option));
  const bool has_standard =
      std::any_of(request.options.begin(), request.options.end(), [](const std::string& option) {
        return option.starts_with("--std=") || option.starts_with("-std=");
      });
  if (!has_standard) options.emplace_back("--std=c++17");
  // NVRTC 13 keeps a cache of its own on disk, which would make times and failures depend on it.
  if (nvrtc_major >= 13) options.emplace_back("--no-cache");
  for (const auto& folder : include_folders) options.push_back("-I" + folder.string());
  options.insert(options.end(), request.options.begin(), request.options.end());
  return options;
}

}  // namespace grove::codegen
