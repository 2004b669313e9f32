// `grove serve`: runs in a browser while they grow.
//
// Who may do what. It listens on the loopback interface only. Every request must carry a Host
// header that names this server, so that a web page elsewhere cannot reach it through a name that
// it makes point here (DNS rebinding). Reading needs no more; what changes a run needs the token in
// the header X-Grove-Token, which no form and no page of another origin can send without leave.
//
// Never in the way of the search. Runs are read as any inspector reads them (store.h); between
// readings the server looks only at the size and time of a run's files, once a `poll`, while
// somebody watches. A run that cannot be read gives an error to who asked, and nothing else.
//
// Thread-safe. Stops and joins its threads when destroyed.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace grove::results {

// What a user asks of a run: kind "hint" or "goal" with a text, "stop", "pause" or "continue".
struct LiveRequest {
  std::string kind, text;
};

struct LiveOptions {
  std::filesystem::path runs;      // folder of the runs
  std::vector<std::string> names;  // to show; empty = all, also later ones
  int port = 0;                    // 0 = any free one
  std::string token;               // for changes; empty = nobody may change anything
  std::chrono::milliseconds poll{1000};
  // Passes a request on to the run in this folder; what it says is shown. Called from many threads.
  std::function<Status(const std::filesystem::path& run, const LiveRequest& request)> control;
};

class LiveServer {
 public:
  // Listens when it returns. kUnavailable when the port is taken.
  static Result<std::unique_ptr<LiveServer>> Start(LiveOptions options);
  ~LiveServer();
  LiveServer(const LiveServer&) = delete;
  LiveServer& operator=(const LiveServer&) = delete;

  int port() const;
  std::string url() const;  // "http://127.0.0.1:PORT/"

 private:
  struct Impl;
  explicit LiveServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// 32 hex digits from the system's random source.
std::string NewToken();

}  // namespace grove::results
