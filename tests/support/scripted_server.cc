#include "tests/support/scripted_server.h"

#include <atomic>
#include <cctype>
#include <condition_variable>
#include <mutex>
#include <thread>

#include <sys/socket.h>

#include <fmt/format.h>
#include <httplib.h>
#include <nlohmann/json.hpp>

namespace grove::testing {
namespace {

std::string Lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

}  // namespace

std::string SeenRequest::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? std::string() : found->second;
}

ScriptedAnswer ScriptedAnswer::Json(std::string body, int status) {
  ScriptedAnswer answer;
  answer.status = status;
  answer.pieces = {std::move(body)};
  return answer;
}

ScriptedAnswer ScriptedAnswer::Events(const std::vector<std::string>& data) {
  ScriptedAnswer answer;
  answer.content_type = "text/event-stream";
  for (const std::string& event : data) answer.pieces.push_back("data: " + event + "\n\n");
  return answer;
}

ScriptedAnswer ScriptedAnswer::Dripped() const {
  ScriptedAnswer dripped = *this;
  dripped.pieces.clear();
  for (const std::string& piece : pieces) {
    for (const char c : piece) dripped.pieces.emplace_back(1, c);
  }
  return dripped;
}

class ScriptedServer::Impl {
 public:
  Impl(Script script, int threads) : script_(std::move(script)) {
    server_.new_task_queue = [threads] {
      return new httplib::ThreadPool(static_cast<std::size_t>(threads));
    };
    server_.set_tcp_nodelay(true);
    server_.set_keep_alive_max_count(100000);
    // A connection kept open holds one of the threads.
    server_.set_keep_alive_timeout(1);
    const auto handler = [this](const httplib::Request& request, httplib::Response& response) {
      Handle(request, response);
    };
    server_.Post(".*", handler);
    int descriptor = -1;
    server_.set_socket_options([&descriptor](int socket) {
      const int yes = 1;
      ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
      descriptor = socket;
    });
    port_ = server_.bind_to_any_port("127.0.0.1");
    // The library's own queue holds 5: of 200 connections at once most would wait for the kernel to
    // try again, seconds later.
    if (descriptor >= 0) ::listen(descriptor, 1024);
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    while (!server_.is_running()) std::this_thread::yield();
  }
  ~Impl() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    ended_.notify_all();
    server_.stop();
    thread_.join();
  }

  int port() const { return port_; }
  std::vector<SeenRequest> seen() const {
    const std::lock_guard lock(mutex_);
    return seen_;
  }

 private:
  // False when the server ends before the time is over.
  bool Sleep(std::chrono::milliseconds time) {
    std::unique_lock lock(mutex_);
    return !ended_.wait_for(lock, time, [this] { return ending_; });
  }

  void Handle(const httplib::Request& request, httplib::Response& response) {
    SeenRequest seen;
    seen.path = request.path;
    seen.body = request.body;
    for (const auto& [name, value] : request.headers) seen.headers.emplace(Lower(name), value);
    {
      const std::lock_guard lock(mutex_);
      seen.number = static_cast<int>(seen_.size()) + 1;
      seen_.push_back(seen);
    }
    auto answer = std::make_shared<ScriptedAnswer>(script_(seen));
    Sleep(answer->before);
    response.status = answer->status;
    for (const auto& [name, value] : answer->headers) response.set_header(name, value);
    if (answer->length > 0) {
      response.set_content_provider(
          answer->length, answer->content_type,
          [answer](std::size_t, std::size_t left, httplib::DataSink& sink) {
            const std::string& piece = answer->pieces.back();
            return sink.write(piece.data(), std::min(left, piece.size()));
          });
      return;
    }
    auto next = std::make_shared<std::size_t>(0);
    response.set_chunked_content_provider(
        answer->content_type, [this, answer, next](std::size_t, httplib::DataSink& sink) {
          return Send(*answer, *next, sink);
        });
  }

  bool Send(const ScriptedAnswer& answer, std::size_t& next, httplib::DataSink& sink) {
    if (next >= answer.pieces.size()) {
      if (answer.endless) {
        next = answer.pieces.size() - 1;
      } else if (answer.hang) {
        Sleep(std::chrono::hours(1));
        return false;
      } else if (answer.cut) {
        return false;
      } else {
        sink.done();
        return true;
      }
    }
    if (next > 0 && answer.between.count() > 0 && !Sleep(answer.between)) return false;
    const std::string& piece = answer.pieces[next++];
    return sink.write(piece.data(), piece.size());
  }

  const Script script_;
  httplib::Server server_;
  std::thread thread_;
  int port_ = 0;
  mutable std::mutex mutex_;
  std::condition_variable ended_;
  // Guarded by mutex_.
  bool ending_ = false;
  std::vector<SeenRequest> seen_;
};

ScriptedServer::ScriptedServer(Script script, int threads)
    : impl_(std::make_unique<Impl>(std::move(script), threads)) {}
ScriptedServer::~ScriptedServer() = default;

std::string ScriptedServer::url() const {
  return fmt::format("http://127.0.0.1:{}", impl_->port());
}
std::vector<SeenRequest> ScriptedServer::seen() const { return impl_->seen(); }

ScriptedAnswer ChatStream(const std::vector<std::string>& words) {
  using nlohmann::json;
  std::vector<std::string> data;
  for (const std::string& word : words) {
    const json choice = {{"index", 0}, {"delta", {{"content", word}}}, {"finish_reason", nullptr}};
    data.push_back(json{{"model", "scripted-1"}, {"choices", json::array({choice})}}.dump());
  }
  const json last = {{"index", 0}, {"delta", json::object()}, {"finish_reason", "stop"}};
  data.push_back(json{{"model", "scripted-1"}, {"choices", json::array({last})}}.dump());
  const json usage = {{"prompt_tokens", 40},
                      {"completion_tokens", 7},
                      {"prompt_tokens_details", {{"cached_tokens", 32}}},
                      {"completion_tokens_details", {{"reasoning_tokens", 3}}}};
  data.push_back(json{{"choices", json::array()}, {"usage", usage}}.dump());
  data.push_back("[DONE]");
  return ScriptedAnswer::Events(data);
}

ScriptedAnswer MessagesStream(const std::vector<std::string>& words) {
  using nlohmann::json;
  ScriptedAnswer answer;
  answer.content_type = "text/event-stream";
  const auto add = [&](const json& event) {
    answer.pieces.push_back(
        fmt::format("event: {}\ndata: {}\n\n", event["type"].get<std::string>(), event.dump()));
  };
  const json usage = {{"input_tokens", 8},
                      {"cache_read_input_tokens", 30},
                      {"cache_creation_input_tokens", 2},
                      {"output_tokens", 1}};
  add({{"type", "message_start"}, {"message", {{"model", "scripted-2"}, {"usage", usage}}}});
  add({{"type", "content_block_start"}, {"content_block", {{"type", "text"}, {"text", ""}}}});
  add({{"type", "ping"}});
  for (const std::string& word : words) {
    add({{"type", "content_block_delta"}, {"delta", {{"type", "text_delta"}, {"text", word}}}});
  }
  add({{"type", "content_block_stop"}});
  add({{"type", "message_delta"},
       {"delta", {{"stop_reason", "end_turn"}}},
       {"usage", {{"output_tokens", 7}}}});
  add({{"type", "message_stop"}});
  return answer;
}

}  // namespace grove::testing
