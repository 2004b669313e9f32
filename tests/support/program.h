// Runs the built program as a user would: no shell, its output kept, killable.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace grove::testing {

struct ProgramResult {
  int exit_code = -1;  // -1 when killed by a signal
  int signal = 0;
  std::string out;
  std::string err;
};

struct ProgramOptions {
  std::filesystem::path folder;                         // working directory; empty = ours
  std::vector<std::string> environment;                 // NAME=value, added to ours
  std::optional<std::chrono::milliseconds> kill_after;  // SIGKILL then
  std::string interrupt_on;                             // SIGINT when stderr first shows this
  bool terminal = false;  // stdout and stderr are a pseudo-terminal of 100 columns (both in `out`)
  std::chrono::seconds deadline{280};  // SIGKILL then, and the result shows the signal
};

// `program` ("grove") beside the test's own binary, or of the build's bin folder.
ProgramResult RunProgram(const std::string& program, const std::vector<std::string>& arguments,
                         const ProgramOptions& options = {});

// A fresh folder under the test's temporary folder, removed with the object.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace grove::testing
