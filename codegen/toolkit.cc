// FindToolkit and DefaultCacheFolder of codegen/compile_farm.h.
#include <algorithm>
#include <cstdlib>
#include <optional>
#include <system_error>

#include <fmt/format.h>

#include "codegen/compile_farm.h"

namespace grove::codegen {
namespace {

namespace fs = std::filesystem;

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

// "libnvrtc.so.13" -> {13}; nullopt for anything else (libnvrtc.alt.so, libnvrtc-builtins.so).
std::optional<std::vector<int>> LibraryVersion(std::string_view name) {
  constexpr std::string_view kStem = "libnvrtc.so";
  if (!name.starts_with(kStem)) return std::nullopt;
  name.remove_prefix(kStem.size());
  std::vector<int> version;
  while (!name.empty()) {
    if (name.front() != '.') return std::nullopt;
    name.remove_prefix(1);
    const std::size_t digits = std::min(name.find_first_not_of("0123456789"), name.size());
    if (digits == 0 || digits > 6) return std::nullopt;
    version.push_back(std::stoi(std::string(name.substr(0, digits))));
    name.remove_prefix(digits);
  }
  return version;
}

// The newest libnvrtc.so* of a folder.
std::optional<fs::path> LibraryIn(const fs::path& folder) {
  std::optional<fs::path> best;
  std::vector<int> best_version;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const auto version = LibraryVersion(it->path().filename().string());
    if (!version || (best && *version <= best_version)) continue;
    best = it->path();
    best_version = *version;
  }
  return best;
}

void AddIncludes(const fs::path& folder, std::vector<fs::path>& includes) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) return;
  if (std::find(includes.begin(), includes.end(), folder) != includes.end()) return;
  includes.push_back(folder);
  if (fs::is_directory(folder / "cccl", error)) includes.push_back(folder / "cccl");
}

bool HasTarget(const fs::path& folder) {
  std::error_code error;
  return fs::exists(folder / "nv" / "target", error);
}

// A toolkit's root, as CUDA_HOME names it.
std::optional<Toolkit> ToolkitAt(const fs::path& root) {
  for (const char* sub : {"lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib",
                          "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu"}) {
    auto library = LibraryIn(root / sub);
    if (!library) continue;
    Toolkit toolkit{std::move(*library), {}};
    for (const char* include :
         {"include", "targets/x86_64-linux/include", "targets/sbsa-linux/include"}) {
      std::error_code error;
      if (fs::exists(root / include / "cuda_fp16.h", error)) {
        AddIncludes(root / include, toolkit.include_folders);
        break;
      }
    }
    return toolkit;
  }
  return std::nullopt;
}

// Python's site-packages folders: of the active environment, the system and the user.
std::vector<fs::path> SitePackages() {
  std::vector<fs::path> roots;
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    if (const std::string value = Variable(name); !value.empty()) roots.emplace_back(value);
  }
  if (const std::string home = Variable("HOME"); !home.empty()) {
    roots.push_back(fs::path(home) / ".local");
  }
  roots.emplace_back("/usr/local");
  roots.emplace_back("/usr");
  std::vector<fs::path> found;
  for (const fs::path& root : roots) {
    std::error_code error;
    for (fs::directory_iterator it(root / "lib", error), end; !error && it != end;
         it.increment(error)) {
      if (!it->path().filename().string().starts_with("python")) continue;
      for (const char* leaf : {"site-packages", "dist-packages"}) {
        std::error_code ignored;
        if (fs::is_directory(it->path() / leaf, ignored)) found.push_back(it->path() / leaf);
      }
    }
  }
  return found;
}

std::optional<Toolkit> ToolkitInWheels(const fs::path& site) {
  const fs::path nvidia = site / "nvidia";
  if (auto toolkit = ToolkitAt(nvidia / "cu13")) return toolkit;
  if (auto library = LibraryIn(nvidia / "cuda_nvrtc" / "lib")) {
    Toolkit toolkit{std::move(*library), {}};
    for (const char* wheel : {"cuda_runtime", "cuda_nvrtc", "cuda_cccl"}) {
      AddIncludes(nvidia / wheel / "include", toolkit.include_folders);
    }
    return toolkit;
  }
  return std::nullopt;
}

// cooperative_groups.h includes CCCL's nv/target, which Python's wheels keep apart and
// installations may lack: then it is of the first other place that has it, behind the toolkit's own
// headers.
Toolkit WithTarget(Toolkit toolkit) {
  std::vector<fs::path>& folders = toolkit.include_folders;
  if (folders.empty() || std::any_of(folders.begin(), folders.end(), HasTarget)) return toolkit;
  std::vector<fs::path> roots = {folders.front().parent_path()};
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const std::string value = Variable(name); !value.empty()) roots.emplace_back(value);
  }
  roots.emplace_back("/usr/local/cuda");
  for (const fs::path& site : SitePackages()) {
    roots.push_back(site / "nvidia" / "cu13");
    roots.push_back(site / "nvidia" / "cuda_runtime");
  }
  roots.emplace_back("/usr");
  for (const fs::path& root : roots) {
    for (const fs::path& folder :
         {root / "include" / "cccl", root / "targets/x86_64-linux/include/cccl",
          root / "targets/sbsa-linux/include/cccl", root.parent_path() / "cuda_cccl" / "include",
          root / "include"}) {
      if (!HasTarget(folder)) continue;
      folders.push_back(folder);
      return toolkit;
    }
  }
  return toolkit;
}

std::vector<fs::path> LoaderFolders() {
  std::vector<fs::path> folders;
  std::string list = Variable("LD_LIBRARY_PATH");
  while (!list.empty()) {
    const std::size_t colon = std::min(list.find(':'), list.size());
    if (colon > 0) folders.emplace_back(list.substr(0, colon));
    list.erase(0, colon + 1);
  }
  for (const char* folder : {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
                             "/usr/lib64", "/usr/local/lib", "/usr/lib"}) {
    folders.emplace_back(folder);
  }
  return folders;
}

Result<Toolkit> FindLibrary(const fs::path& cuda_home) {
  if (!cuda_home.empty()) {
    if (auto toolkit = ToolkitAt(cuda_home)) return *toolkit;
    return Fail(
        ErrorCode::kUnavailable,
        fmt::format("no NVRTC (libnvrtc.so) under {}: install the CUDA toolkit 12.4 or newer "
                    "or name its folder",
                    cuda_home.string()));
  }
  std::string searched;
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"}) {
    const std::string value = Variable(name);
    if (value.empty()) continue;
    if (auto toolkit = ToolkitAt(value)) return *toolkit;
    searched += fmt::format("{}={}, ", name, value);
  }
  if (auto toolkit = ToolkitAt("/usr/local/cuda")) return *toolkit;
  for (const fs::path& folder : LoaderFolders()) {
    auto library = LibraryIn(folder);
    if (!library) continue;
    Toolkit toolkit{std::move(*library), {}};
    for (const fs::path& include : {folder / "../include", fs::path("/usr/include")}) {
      std::error_code error;
      if (!toolkit.include_folders.empty() || !fs::exists(include / "cuda_fp16.h", error)) continue;
      AddIncludes(include.lexically_normal(), toolkit.include_folders);
    }
    return toolkit;
  }
  for (const fs::path& site : SitePackages()) {
    if (auto toolkit = ToolkitInWheels(site)) return *toolkit;
  }
  return Fail(
      ErrorCode::kUnavailable,
      fmt::format("no NVRTC (libnvrtc.so): searched {}/usr/local/cuda, the loader's path and "
                  "Python wheels; install the CUDA toolkit 12.4 or newer, or pip install "
                  "nvidia-cuda-nvrtc nvidia-cuda-runtime, or set CUDA_HOME",
                  searched));
}

}  // namespace

Result<Toolkit> FindToolkit(const fs::path& cuda_home) {
  auto toolkit = FindLibrary(cuda_home);
  if (!toolkit) return toolkit;
  return WithTarget(*std::move(toolkit));
}

fs::path DefaultCacheFolder() {
  if (const std::string own = Variable("GROVE_CACHE"); !own.empty()) return own;
  if (const std::string xdg = Variable("XDG_CACHE_HOME"); !xdg.empty())
    return fs::path(xdg) / "grove";
  if (const std::string home = Variable("HOME"); !home.empty()) {
    return fs::path(home) / ".cache" / "grove";
  }
  return fs::temp_directory_path() / "grove-cache";
}

}  // namespace grove::codegen
