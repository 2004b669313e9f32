// `grove serve`: runs in a browser while they grow.
#include <chrono>
#include <condition_variable>
#include <mutex>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/complain.h"
#include "cli/find_run.h"
#include "results/live/server.h"

namespace grove::cli {

int ServeCommand(const ServeOptions& options, const Common& common) {
  results::LiveOptions live;
  live.runs = common.runs;
  live.port = options.port;
  live.token = results::NewToken();
  for (const std::string& name : options.runs) {
    auto found = FindRun(common.runs, name);
    if (!found) return Complain(found.error());
    live.names.push_back(*std::move(found));
  }
  const std::string token = live.token;
  auto server = results::LiveServer::Start(std::move(live));
  if (!server) return Complain(server.error());
  const std::string page =
      options.runs.size() == 1
          ? fmt::format("{}runs/{}?token={}", (*server)->url(), options.runs[0], token)
          : (*server)->url();
  if (common.json) {
    fmt::print("{}\n", nlohmann::ordered_json({{"url", (*server)->url()},
                                               {"port", (*server)->port()},
                                               {"token", token},
                                               {"page", page}})
                           .dump(2));
  } else {
    fmt::print("{}\nadd ?token={} to a run's address to send it hints and stop it; Ctrl-C ends\n",
               page, token);
  }
  std::fflush(stdout);
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock lock(mutex);
  wake.wait(lock, common.stop, [] { return false; });
  return kExitDone;
}

}  // namespace grove::cli
