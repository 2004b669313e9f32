// An HTTP server on a free local port that behaves, and misbehaves, as a test tells it: what it
// sends, in which pieces, how slowly, where it hangs up. Thread-safe; the script is called by many
// threads.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace grove::testing {

struct SeenRequest {
  int number = 0;  // from 1, in order of arrival
  std::string path;
  std::multimap<std::string, std::string> headers;  // names in lower case
  std::string body;
  std::string header(const std::string& name) const;
};

struct ScriptedAnswer {
  int status = 200;
  // Not application/json: the server packs that by itself, and then sends no piece before the end.
  std::string content_type = "application/octet-stream";
  std::vector<std::pair<std::string, std::string>> headers;
  std::vector<std::string> pieces;       // of the body, each sent by itself
  std::chrono::milliseconds before{0};   // before the first byte
  std::chrono::milliseconds between{0};  // between two pieces
  bool cut = false;                      // hang up after the pieces, the body not ended
  bool hang = false;                     // after the pieces neither send nor hang up
  bool endless = false;                  // the last piece again and again
  std::size_t length = 0;  // not chunked: a Content-Length, and the last piece again up to it

  static ScriptedAnswer Json(std::string body, int status = 200);
  // Each piece becomes one `data:` event; nothing is added.
  static ScriptedAnswer Events(const std::vector<std::string>& data);
  // The body one byte at a time.
  ScriptedAnswer Dripped() const;
};

class ScriptedServer {
 public:
  using Script = std::function<ScriptedAnswer(const SeenRequest&)>;
  // `threads`: how many requests it can have open at once.
  explicit ScriptedServer(Script script, int threads = 8);
  ~ScriptedServer();
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;

  std::string url() const;  // "http://127.0.0.1:PORT"
  std::vector<SeenRequest> seen() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Chat completions: a streamed reply of `words`, with usage and end marks.
ScriptedAnswer ChatStream(const std::vector<std::string>& words);
// The messages protocol: the same.
ScriptedAnswer MessagesStream(const std::vector<std::string>& words);

}  // namespace grove::testing
