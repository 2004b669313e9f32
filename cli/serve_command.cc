// `grove serve`: runs in a browser while they grow.
#include <chrono>
#include <condition_variable>
#include <mutex>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "cli/commands.h"
#include "cli/complain.h"
#include "cli/find_run.h"
#include "results/control.h"
#include "results/live/server.h"
#include "results/lock.h"

namespace grove::cli {
namespace {

// Passes it on as `grove hint`, `grove stop` and the like do (results/control.h).
Status PassOn(const std::filesystem::path& run, const results::LiveRequest& request) {
  using results::ControlKind;
  results::ControlMessage message;
  message.text = request.text;
  for (const ControlKind kind : {ControlKind::kHint, ControlKind::kGoal, ControlKind::kStop,
                                 ControlKind::kPause, ControlKind::kContinue}) {
    if (results::Name(kind) == request.kind) message.kind = kind;
  }
  const bool waits = message.kind == ControlKind::kHint || message.kind == ControlKind::kGoal;
  if (!waits && !results::IsLocked(run / "lock")) {
    return Fail(ErrorCode::kUnavailable, "no process works on this run now; nobody would hear it");
  }
  const SystemClock clock;
  auto posted = results::PostControl(run, message, clock);
  return posted ? Status() : Fail(posted.error());
}

}  // namespace

int ServeCommand(const ServeOptions& options, const Common& common) {
  results::LiveOptions live;
  live.runs = common.runs;
  live.port = options.port;
  live.token = results::NewToken();
  live.control = PassOn;
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
