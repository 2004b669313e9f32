// The GPU worker process. Started by the head with a channel (ServeWorker).
#include <cstdio>

#include "base/process.h"
#include "eval/cuda/worker.h"

int main() {
  auto channel = grove::EnterWorker();
  if (!channel) {
    std::fprintf(stderr, "grove-gpu-worker is started by grove, not by hand: %s\n",
                 channel.error().message.c_str());
    return 2;
  }
  return grove::cuda::ServeWorker(channel->get());
}
