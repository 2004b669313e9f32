// The GPU worker process. Started by the head with a channel (ServeWorker), or by a profiler or
// compute-sanitizer with files of jobs (profile_run.h).
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/process.h"
#include "eval/cuda/profile_run.h"
#include "eval/cuda/sanitizer.h"
#include "eval/cuda/worker.h"

int main(int argc, char** argv) {
  if (argc == 3 && std::string_view(argv[1]) == "profile") {
    if (auto ran = grove::cuda::RunProfileJob(argv[2]); !ran) {
      std::fprintf(stderr, "grove-gpu-worker: %s\n", ran.error().message.c_str());
      return 1;
    }
    return 0;
  }
  if (argc >= 3 && std::string_view(argv[1]) == "sanitize") {
    const std::vector<std::filesystem::path> files(argv + 2, argv + argc);
    if (auto ran = grove::cuda::RunSanitizeJobs(files); !ran) {
      std::fprintf(stderr, "grove-gpu-worker: %s\n", ran.error().message.c_str());
      return 1;
    }
    std::printf("%s\n", std::string(grove::cuda::kSanitizeDone).c_str());
    return 0;
  }
  auto channel = grove::EnterWorker();
  if (!channel) {
    std::fprintf(stderr, "grove-gpu-worker is started by grove, not by hand: %s\n",
                 channel.error().message.c_str());
    return 2;
  }
  return grove::cuda::ServeWorker(channel->get());
}
