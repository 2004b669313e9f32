// How soon a stop ends a request, and what 200 streams at a time cost in memory and threads
// (docs/models.md). Against local servers, no network.
//
//   transport_bench cancel [BATCHES]     times from a stop to the end, by phase of the request
//   transport_bench streams [MEGABYTES]  resident memory while 200 streams bring so much each
#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/clock.h"
#include "llm/transport.h"
#include "tests/support/deaf_server.h"
#include "tests/support/scripted_server.h"

namespace grove::llm {
namespace {

using namespace std::chrono_literals;
using testing::DeafServer;
using testing::ScriptedAnswer;
using testing::ScriptedServer;
using testing::SeenRequest;
using Milli = std::chrono::duration<double, std::milli>;

// Counts the bytes and keeps nothing.
class Counter final : public ResponseReader {
 public:
  void Begin(const ResponseHead&) override {}
  bool Read(std::string_view bytes) override {
    total += bytes.size();
    return true;
  }
  std::optional<AttemptFailure> End() override { return std::nullopt; }
  AttemptFailure Refused(const ResponseHead&, std::string_view) override {
    AttemptFailure failure;
    failure.error = {ErrorCode::kUnavailable, "refused"};
    failure.retry = failure.throttled = true;
    return failure;
  }
  static std::atomic<std::size_t> total;
};
std::atomic<std::size_t> Counter::total{0};

ScriptedAnswer Answer(const SeenRequest& seen) {
  ScriptedAnswer answer = ScriptedAnswer::Json(std::string(64, 'x'));
  if (seen.body == "wait") {
    answer.before = 400ms;
  } else if (seen.body == "stream") {
    answer.pieces.assign(400, std::string(64, 'x'));
    answer.between = 1ms;
  } else {
    answer.status = 429;
    answer.headers = {{"Retry-After", "100"}};
  }
  return answer;
}

struct Phase {
  const char* name;
  std::string url;
  std::string body;
};

struct Try {
  std::stop_source stop;
  Counter reader;
  std::chrono::steady_clock::time_point stopped;
  std::chrono::steady_clock::time_point ended;
  bool cancelled = false;
};

int Cancel(int batches) {
  constexpr int kEach = 8;
  const DeafServer unreachable(DeafServer::Kind::kUnreachable);
  const DeafServer silent(DeafServer::Kind::kSilent);
  // One for each phase: a rate limit holds back its whole endpoint.
  ScriptedServer waiting(Answer, 2 * kEach);
  ScriptedServer streaming(Answer, 2 * kEach);
  ScriptedServer refusing(Answer, 2 * kEach);
  const std::vector<Phase> phases = {{"connecting", unreachable.url(), ""},
                                     {"TLS handshake", silent.url("https"), ""},
                                     {"waiting for a byte", waiting.url(), "wait"},
                                     {"streaming", streaming.url(), "stream"},
                                     {"wait for a retry", refusing.url(), "refuse"}};
  const SystemClock clock;
  std::map<std::string, std::vector<double>> times;
  int missed = 0;
  for (int batch = 0; batch < batches; ++batch) {
    // A transport of its own: what an earlier batch was refused would hold this one back.
    auto transport = Transport::Create({}, clock);
    if (!transport) return 1;
    std::mutex mutex;
    std::condition_variable over;
    std::size_t open = 0;
    std::map<std::string, std::vector<std::unique_ptr<Try>>> tries;
    for (const Phase& phase : phases) {
      for (int i = 0; i < kEach; ++i) {
        auto& one = *tries[phase.name].emplace_back(std::make_unique<Try>());
        HttpRequest request;
        request.url = phase.url;
        request.body = phase.body;
        const std::lock_guard lock(mutex);
        ++open;
        (*transport)
            ->Start(std::move(request), one.reader, one.stop.get_token(),
                    [&](Result<HttpOutcome> outcome) {
                      one.ended = std::chrono::steady_clock::now();
                      one.cancelled = !outcome && outcome.error().code == ErrorCode::kCancelled;
                      const std::lock_guard guard(mutex);
                      --open;
                      over.notify_one();
                    });
      }
    }
    // Somewhere in the phase.
    std::this_thread::sleep_for(std::chrono::milliseconds(60 + 7 * (batch % 20)));
    for (auto& [name, group] : tries) {
      for (auto& one : group) {
        one->stopped = std::chrono::steady_clock::now();
        one->stop.request_stop();
      }
    }
    std::unique_lock lock(mutex);
    over.wait(lock, [&] { return open == 0; });
    for (auto& [name, group] : tries) {
      for (auto& one : group) {
        if (one->cancelled && one->ended >= one->stopped) {
          times[name].push_back(Milli(one->ended - one->stopped).count());
        } else {
          ++missed;  // it had ended before
        }
      }
    }
  }
  fmt::print("{:<20} {:>6} {:>10} {:>10} {:>10}\n", "phase", "stops", "median ms", "99% ms",
             "most ms");
  std::vector<double> all;
  const auto row = [](const std::string& name, std::vector<double>& list) {
    if (list.empty()) return;
    std::sort(list.begin(), list.end());
    fmt::print("{:<20} {:>6} {:>10.2f} {:>10.2f} {:>10.2f}\n", name, list.size(),
               list[list.size() / 2], list[list.size() * 99 / 100], list.back());
  };
  for (auto& [name, list] : times) {
    all.insert(all.end(), list.begin(), list.end());
    row(name, list);
  }
  row("all", all);
  if (missed > 0) fmt::print("{} had ended before their stop\n", missed);
  return !all.empty() && all.back() < 100 ? 0 : 1;
}

// Of this process: resident megabytes, threads.
std::pair<double, int> Held() {
  std::ifstream status("/proc/self/status");
  double resident = 0;
  int threads = 0;
  for (std::string word; status >> word;) {
    if (word == "VmRSS:") status >> resident;
    if (word == "Threads:") status >> threads;
  }
  return {resident / 1024, threads};
}

int Streams(int megabytes) {
  constexpr int kStreams = 200;
  const std::size_t each = static_cast<std::size_t>(megabytes) << 20;
  int pipe[2];
  if (::pipe(pipe) != 0) return 1;
  // The server is a process of its own: what it holds is not ours.
  const pid_t child = ::fork();
  if (child == 0) {
    std::atomic<int> begun{0};
    ScriptedServer server(
        [&](const SeenRequest&) {
          // All are open before the first has its end.
          ++begun;
          while (begun < kStreams) std::this_thread::sleep_for(1ms);
          ScriptedAnswer answer = ScriptedAnswer::Json(std::string(1 << 14, 'x'));
          answer.length = each;
          return answer;
        },
        kStreams + 4);
    const std::string url = server.url();
    if (::write(pipe[1], url.data(), url.size()) < 0) ::_exit(1);
    ::pause();
    ::_exit(0);
  }
  char url[64] = {};
  if (::read(pipe[0], url, sizeof url - 1) <= 0) return 1;
  const auto line = [&](const char* when, std::size_t bytes) {
    const auto [resident, threads] = Held();
    fmt::print("{:<28} {:>8.1f} MB come {:>8.1f} MB resident {:>3} threads\n", when,
               static_cast<double>(bytes) / 1e6, resident, threads);
    return resident;
  };
  line("before the transport", 0);
  const SystemClock clock;
  TransportOptions options;
  options.concurrency = {.initial = kStreams, .most = kStreams};
  auto transport = Transport::Create(options, clock);
  if (!transport) return 1;
  line("no request yet", 0);
  std::vector<Counter> readers(kStreams);
  std::atomic<int> over{0};
  std::atomic<int> good{0};
  for (Counter& reader : readers) {
    HttpRequest request;
    request.url = url;
    (*transport)->Start(std::move(request), reader, {}, [&](Result<HttpOutcome> outcome) {
      good += outcome.has_value() ? 1 : 0;
      ++over;
    });
  }
  const std::size_t all = each * kStreams;
  std::vector<double> held;
  for (const int percent : {5, 25, 50, 75, 95, 100}) {
    while (Counter::total < all / 100 * static_cast<std::size_t>(percent) && over < kStreams) {
      std::this_thread::sleep_for(1ms);
    }
    held.push_back(
        line(fmt::format("{}% of {} streams", percent, kStreams).c_str(), Counter::total));
  }
  while (over < kStreams) std::this_thread::sleep_for(1ms);
  line("all have ended", Counter::total);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  const auto [least, most] = std::minmax_element(held.begin(), held.end());
  fmt::print("{} of {} streams whole; resident memory moved by {:.1f} MB\n", good.load(), kStreams,
             *most - *least);
  return good == kStreams && *most - *least < 16 ? 0 : 1;
}

}  // namespace
}  // namespace grove::llm

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  int amount = 0;
  if (argc > 2) {
    const std::string text = argv[2];
    std::from_chars(text.data(), text.data() + text.size(), amount);
  }
  if (what == "cancel") return grove::llm::Cancel(amount > 0 ? amount : 50);
  if (what == "streams") return grove::llm::Streams(amount > 0 ? amount : 4);
  fmt::print(stderr, "transport_bench cancel [BATCHES] | streams [MEGABYTES of each]\n");
  return 2;
}
