#include "seeds/importers/torch_python.h"

#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/files.h"
#include "base/process.h"

namespace grove::importers {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kProbe{30};

bool IsProgram(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) && ::access(path.c_str(), X_OK) == 0;
}

std::vector<fs::path> OnPath(const std::string& name) {
  std::vector<fs::path> found;
  const char* variable = std::getenv("PATH");
  std::string_view rest = variable == nullptr ? "" : variable;
  while (!rest.empty()) {
    const std::string_view folder = rest.substr(0, rest.find(':'));
    if (!folder.empty() && IsProgram(fs::path(folder) / name)) {
      found.push_back(fs::path(folder) / name);
    }
    rest.remove_prefix(std::min(rest.size(), folder.size() + 1));
  }
  return found;
}

bool HasTorch(const fs::path& python) {
  ProcessOptions options;
  options.program = python;
  options.arguments = {"-c",
                       "import importlib.util, sys\n"
                       "sys.exit(0 if importlib.util.find_spec('torch') else 1)"};
  options.environment = TorchEnvironment("");
  options.channel = false;
  auto process = Process::Start(options);
  if (!process) return false;
  const auto status = process->WaitFor(kProbe);
  if (!status) process->Kill();
  return status && status->ok();
}

}  // namespace

std::vector<std::string> TorchEnvironment(const std::string& gpu) {
  auto environment =
      SelectEnvironment({"PATH", "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PYTHONPATH",
                         "PYTHONHOME", "VIRTUAL_ENV", "TMPDIR", "PYENV_VERSION", "PYENV_ROOT"});
  // Importing must not depend on the machine's GPUs, nor load a driver; a reference has one.
  environment.push_back("CUDA_VISIBLE_DEVICES=" + gpu);
  environment.emplace_back("PYTHONDONTWRITEBYTECODE=1");
  environment.emplace_back("PYTHONUNBUFFERED=1");
  environment.emplace_back("OMP_NUM_THREADS=1");
  return environment;
}

Result<fs::path> TorchScript(std::string_view name) {
  const fs::path bin = ExecutableFolder();
  const fs::path places[] = {bin / "../share/grove/importers/torch" / name,
                             bin / "share/grove/importers/torch" / name,
                             fs::path(GROVE_SOURCE_DIR) / "seeds/importers/torch" / name};
  std::error_code error;
  for (const fs::path& place : places) {
    if (fs::exists(place, error)) return place.lexically_normal();
  }
  return Fail(ErrorCode::kNotFound,
              fmt::format("{} is missing beside {}: reinstall grove", name, bin.string()));
}

Bytes TorchMemory() {
  struct sysinfo info = {};
  if (::sysinfo(&info) != 0) return Bytes(std::int64_t{24} << 30);
  const auto total = static_cast<std::int64_t>(info.totalram) * info.mem_unit;
  return Bytes(total / 10 * 9 + (std::int64_t{8} << 30));
}

Result<fs::path> FindTorchPython(const std::string& preferred) {
  std::vector<fs::path> places;
  const char* variable = std::getenv("GROVE_PYTHON");
  const std::string given =
      !preferred.empty() ? preferred : std::string(variable == nullptr ? "" : variable);
  if (!given.empty()) {
    places = given.find('/') != std::string::npos ? std::vector<fs::path>{given} : OnPath(given);
    if (places.empty()) places = {given};
  } else {
    places = OnPath("python3");
    places.emplace_back("/usr/bin/python3");
    for (int minor = 14; minor >= 8; --minor) {
      for (fs::path& path : OnPath(fmt::format("python3.{}", minor))) {
        places.push_back(std::move(path));
      }
    }
  }
  std::string tried;
  std::set<fs::path> seen;
  for (const fs::path& place : places) {
    if (!seen.insert(place).second) continue;
    if (HasTorch(place)) return place;
    tried += (tried.empty() ? "" : ", ") + place.string();
  }
  return Fail(
      ErrorCode::kUnavailable,
      fmt::format("no Python with torch (tried {}): install Debian's python3-torch, or name "
                  "one with --python or GROVE_PYTHON",
                  tried));
}

}  // namespace grove::importers
