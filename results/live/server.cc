#include "results/live/server.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include <fmt/format.h>
#include <httplib.h>
#include <nlohmann/json.hpp>

#include "results/lock.h"
#include "results/report/report.h"

namespace grove::results {
namespace {

constexpr const char* kHost = "127.0.0.1";
constexpr std::size_t kThreads = 32;  // a watching page holds one
constexpr std::size_t kLargestBody = 16 << 10;
constexpr std::chrono::seconds kHeartbeat{15};

// A run as it was when its files looked like `signature`.
struct Snapshot {
  std::string signature;
  std::unique_ptr<Reader> reader;
  RunData data;
  std::unique_ptr<RunIndex> index;
};

// Changes when the run does. WAL: the search writes run.db-wal, a checkpoint run.db.
std::string Signature(const std::filesystem::path& run) {
  std::string out;
  for (const char* name : {"run.db", "run.db-wal"}) {
    std::error_code error;
    const auto size = std::filesystem::file_size(run / name, error);
    const auto time = std::filesystem::last_write_time(run / name, error);
    out += error ? std::string("-;") : fmt::format("{}@{};", size, time.time_since_epoch().count());
  }
  return out + (IsLocked(run / "lock") ? "live" : "still");
}

bool SameText(const std::string& a, const std::string& b) {
  // In a time that does not depend on where they differ.
  unsigned difference = a.size() == b.size() ? 0u : 1u;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  }
  return difference == 0;
}

int StatusOf(const Error& error) {
  switch (error.code) {
    case ErrorCode::kNotFound:
      return 404;
    case ErrorCode::kInvalidInput:
      return 400;
    case ErrorCode::kUnavailable:
      return 503;
    default:
      return 500;
  }
}

}  // namespace

std::string NewToken() {
  std::random_device device;
  std::string token;
  for (int i = 0; i < 4; ++i) token += fmt::format("{:08x}", device());
  return token;
}

struct LiveServer::Impl {
  explicit Impl(LiveOptions o) : options(std::move(o)) {}

  Result<std::filesystem::path> Folder(const std::string& name) const {
    if (Status valid = CheckRunName(name); !valid) return Fail(valid.error());
    if (!options.names.empty() &&
        std::find(options.names.begin(), options.names.end(), name) == options.names.end()) {
      return Fail(ErrorCode::kNotFound, "this run is not shown here");
    }
    return options.runs / name;
  }

  Result<std::shared_ptr<const Snapshot>> Read(const std::string& name) {
    auto folder = Folder(name);
    if (!folder) return Fail(folder.error());
    const std::string signature = Signature(*folder);
    {
      const std::scoped_lock lock(mutex);
      if (const auto it = snapshots.find(name);
          it != snapshots.end() && it->second->signature == signature) {
        return it->second;
      }
    }
    auto snapshot = std::make_shared<Snapshot>();
    snapshot->signature = signature;
    auto reader = Reader::Open(*folder);
    if (!reader) return Fail(reader.error());
    snapshot->reader = *std::move(reader);
    auto data = snapshot->reader->Load();
    if (!data) return Fail(data.error());
    snapshot->data = *std::move(data);
    snapshot->index = std::make_unique<RunIndex>(snapshot->data);
    const std::scoped_lock lock(mutex);
    snapshots[name] = snapshot;
    return std::shared_ptr<const Snapshot>(snapshot);
  }

  void SetUp() {
    server.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
    server.set_payload_max_length(kLargestBody);
    server.set_keep_alive_timeout(2);
    server.set_tcp_nodelay(true);
    // Without the library's SO_REUSEPORT: two servers would share a port and halve each other.
    server.set_socket_options([](socket_t socket) {
      const int yes = 1;
      ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
    server.set_default_headers({{"X-Content-Type-Options", "nosniff"},
                                {"Referrer-Policy", "no-referrer"},
                                {"X-Frame-Options", "DENY"},
                                {"Cache-Control", "no-store"}});
    server.set_pre_routing_handler([this](const auto& request, auto& response) {
      const std::string host = request.get_header_value("Host");
      for (const char* name : {"127.0.0.1", "localhost", "[::1]"}) {
        if (host == fmt::format("{}:{}", name, port)) {
          return httplib::Server::HandlerResponse::Unhandled;
        }
      }
      response.status = 403;
      response.set_content("this server answers to its own address only\n", "text/plain");
      return httplib::Server::HandlerResponse::Handled;
    });
    server.set_exception_handler([](const auto&, auto& response, std::exception_ptr) {
      response.status = 500;
      response.set_content("out of memory, or a bug of grove\n", "text/plain");
    });
    server.Get("/", [this](const auto&, auto& response) { List(response); });
    server.Get("/style.css", [](const auto&, auto& response) {
      response.set_content(std::string(StyleSheet()), "text/css");
    });
    server.Get(R"(/runs/([^/]+))", [this](const auto& request, auto& response) {
      const std::string name = request.matches[1];
      if (auto folder = Folder(name); !folder) return Refuse(response, folder.error());
      response.set_content(LivePage("api/runs/" + name, NewToken()), "text/html; charset=utf-8");
    });
    server.Get(R"(/api/runs/([^/]+)/summary)", [this](const auto& request, auto& response) {
      auto run = Read(request.matches[1]);
      if (!run) return Refuse(response, run.error());
      response.set_content(SummaryJson((*run)->data, *(*run)->index, BaselinesOf((*run)->data)),
                           "application/json");
    });
    server.Get(R"(/api/runs/([^/]+)/kernel/([^/]+))", [this](const auto& request, auto& response) {
      auto run = Read(request.matches[1]);
      if (!run) return Refuse(response, run.error());
      const CandidateRow* c = (*run)->data.FindCandidate(std::string(request.matches[2]));
      if (c == nullptr) return Refuse(response, {ErrorCode::kNotFound, "no such kernel"});
      response.set_content(KernelJson(*(*run)->reader, (*run)->data, *(*run)->index, *c),
                           "application/json");
    });
    server.Get(R"(/api/runs/([^/]+)/call/(\d{1,18}))", [this](const auto& request, auto& response) {
      auto run = Read(request.matches[1]);
      if (!run) return Refuse(response, run.error());
      const CallRow* call = (*run)->index->FindCall(CallId(std::stoll(request.matches[2])));
      if (call == nullptr) return Refuse(response, {ErrorCode::kNotFound, "no such request"});
      response.set_content(CallJson(*(*run)->reader, *call), "application/json");
    });
    server.Get(R"(/api/runs/([^/]+)/events)", [this](const auto& request, auto& response) {
      auto folder = Folder(request.matches[1]);
      if (!folder) return Refuse(response, folder.error());
      Watch(*folder, response);
    });
    server.Post(R"(/api/runs/([^/]+)/control)",
                [this](const auto& request, auto& response) { Control(request, response); });
  }

  static void Refuse(httplib::Response& response, const Error& error) {
    response.status = StatusOf(error);
    response.set_content(error.message + "\n", "text/plain; charset=utf-8");
  }

  void List(httplib::Response& response) {
    auto runs = ListRuns(options.runs);
    if (!runs) return Refuse(response, runs.error());
    std::erase_if(*runs, [this](const RunSummary& run) {
      return !options.names.empty() &&
             std::find(options.names.begin(), options.names.end(), run.name) == options.names.end();
    });
    response.set_content(RunListPage(*runs), "text/html; charset=utf-8");
  }

  // Server-sent events: "changed" whenever the run's files did.
  void Watch(const std::filesystem::path& folder, httplib::Response& response) {
    auto last = std::make_shared<std::string>();
    auto said = std::make_shared<std::chrono::steady_clock::time_point>();
    response.set_chunked_content_provider(
        "text/event-stream", [this, folder, last, said](std::size_t, httplib::DataSink& sink) {
          std::string text;
          const auto now = std::chrono::steady_clock::now();
          if (std::string signature = Signature(folder); signature != *last) {
            // The page has just read the run when it begins to watch.
            text = last->empty() ? "retry: 2000\n\n" : "event: changed\ndata: {}\n\n";
            *last = std::move(signature);
          } else if (now - *said >= kHeartbeat) {
            text = ": still here\n\n";
          }
          if (!text.empty()) {
            *said = now;
            if (!sink.write(text.data(), text.size())) return false;
          }
          std::unique_lock lock(mutex);
          wake.wait_for(lock, options.poll, [this] { return stopping; });
          if (stopping) sink.done();
          return !stopping;
        });
  }

  void Control(const httplib::Request& request, httplib::Response& response) {
    if (options.token.empty() ||
        !SameText(request.get_header_value("X-Grove-Token"), options.token)) {
      response.status = 403;
      response.set_content("changing a run needs the token that grove serve printed\n",
                           "text/plain");
      return;
    }
    auto folder = Folder(request.matches[1]);
    if (!folder) return Refuse(response, folder.error());
    const auto json = nlohmann::json::parse(request.body, nullptr, false);
    LiveRequest asked;
    if (json.is_object()) {
      if (json.contains("kind") && json["kind"].is_string()) asked.kind = json["kind"];
      if (json.contains("text") && json["text"].is_string()) asked.text = json["text"];
    }
    constexpr std::string_view kKinds[] = {"hint", "goal", "stop", "pause", "continue"};
    if (std::find(std::begin(kKinds), std::end(kKinds), asked.kind) == std::end(kKinds)) {
      return Refuse(response, {ErrorCode::kInvalidInput,
                               "wanted: {\"kind\": hint, goal, stop, pause or continue, "
                               "\"text\": ...}"});
    }
    if (!options.control) {
      return Refuse(response, {ErrorCode::kUnavailable, "this server only shows runs"});
    }
    if (Status done = options.control(*folder, asked); !done) {
      return Refuse(response, done.error());
    }
    response.set_content(asked.kind + ": passed on to the run\n", "text/plain");
  }

  const LiveOptions options;
  httplib::Server server;
  int port = 0;
  std::thread thread;
  std::mutex mutex;
  std::condition_variable wake;
  bool stopping = false;                                             // guarded by mutex
  std::map<std::string, std::shared_ptr<const Snapshot>> snapshots;  // guarded by mutex
};

Result<std::unique_ptr<LiveServer>> LiveServer::Start(LiveOptions options) {
  auto impl = std::make_unique<Impl>(std::move(options));
  impl->SetUp();
  const int wanted = impl->options.port;
  impl->port = wanted > 0 ? (impl->server.bind_to_port(kHost, wanted) ? wanted : -1)
                          : impl->server.bind_to_any_port(kHost);
  if (impl->port <= 0) {
    return Fail(ErrorCode::kUnavailable,
                fmt::format("cannot listen on port {} of {}; another program has it: name another "
                            "(--port)",
                            wanted, kHost));
  }
  impl->thread = std::thread([server = &impl->server] { server->listen_after_bind(); });
  while (!impl->server.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return std::unique_ptr<LiveServer>(new LiveServer(std::move(impl)));
}

LiveServer::LiveServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

LiveServer::~LiveServer() {
  {
    const std::scoped_lock lock(impl_->mutex);
    impl_->stopping = true;
  }
  impl_->wake.notify_all();
  impl_->server.stop();
  impl_->thread.join();
}

int LiveServer::port() const { return impl_->port; }
std::string LiveServer::url() const { return fmt::format("http://{}:{}/", kHost, impl_->port); }

}  // namespace grove::results
