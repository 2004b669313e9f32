#include "llm/transport.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <charconv>
#include <condition_variable>
#include <cstdlib>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include <curl/curl.h>
#include <fmt/format.h>

namespace grove::llm {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kRefusalLimit = std::size_t{64} << 10;
// After a complete reply the connection may end by itself, to be used again, for this long.
constexpr milliseconds kDrain{200};
// The longest sleep with requests at hand: how late a clock moved by a test is noticed.
constexpr milliseconds kNap{50};

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

// "1.5 s"
std::string Spoken(milliseconds wait) {
  return fmt::format("{:.3g} s", static_cast<double>(wait.count()) / 1000);
}

struct Endpoint {
  Endpoint(std::string named, const TransportOptions& options)
      : name(std::move(named)), limit(options.concurrency), breaker(options.breaker) {}
  std::string name;
  ConcurrencyLimit limit;
  CircuitBreaker breaker;
  SteadyTime hold_until;  // asked for by a rate limit
};

struct UrlCloser {
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
};
struct EasyCloser {
  void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
};
struct ListCloser {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

}  // namespace

TransportOptions TransportOptions::FromEnvironment() {
  TransportOptions options;
  options.ca_bundle = Environment("CURL_CA_BUNDLE");
  if (options.ca_bundle.empty()) options.ca_bundle = Environment("SSL_CERT_FILE");
  options.ca_folder = Environment("SSL_CERT_DIR");
  return options;
}

Result<std::string> EndpointOf(const std::string& text) {
  const std::unique_ptr<CURLU, UrlCloser> url(curl_url());
  if (!url) return Fail(ErrorCode::kResource, "out of memory");
  if (curl_url_set(url.get(), CURLUPART_URL, text.c_str(), 0) != CURLUE_OK) {
    return Fail(ErrorCode::kInvalidInput, "the base URL is not a URL; write https://host/v1");
  }
  const auto part = [&](CURLUPart which, unsigned flags) {
    char* value = nullptr;
    if (curl_url_get(url.get(), which, &value, flags) != CURLUE_OK) return std::string();
    std::string copy(value);
    curl_free(value);
    return copy;
  };
  // None of these messages quotes the URL: what it must not carry may be a key.
  if (!part(CURLUPART_USER, 0).empty() || !part(CURLUPART_PASSWORD, 0).empty()) {
    return Fail(ErrorCode::kInvalidInput,
                "the base URL carries a user or password; keys come from the environment");
  }
  if (!part(CURLUPART_QUERY, 0).empty() || !part(CURLUPART_FRAGMENT, 0).empty()) {
    return Fail(ErrorCode::kInvalidInput, "the base URL carries a query or fragment; leave it out");
  }
  const std::string scheme = part(CURLUPART_SCHEME, 0);
  if (scheme != "http" && scheme != "https") {
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("the base URL's scheme is {}; it must be http or https", scheme));
  }
  return fmt::format("{}://{}:{}", scheme, Lower(part(CURLUPART_HOST, 0)),
                     part(CURLUPART_PORT, CURLU_DEFAULT_PORT));
}

class Transport::Impl {
 public:
  Impl(TransportOptions options, const Clock& clock, Jitter jitter, Log log, CURLM* multi)
      : options_(std::move(options)),
        clock_(clock),
        jitter_(std::move(jitter)),
        log_(std::move(log)),
        multi_(multi) {
    thread_ = std::thread([this] { Run(); });
  }
  ~Impl() {
    {
      const std::lock_guard lock(mutex_);
      quit_ = true;
    }
    curl_multi_wakeup(multi_);
    thread_.join();
    curl_multi_cleanup(multi_);
    curl_global_cleanup();
  }

  void Start(HttpRequest request, ResponseReader& reader, std::stop_token stop, Done done) {
    auto call = std::make_unique<Call>(*this, std::move(request), reader, std::move(done));
    call->on_stop.emplace(std::move(stop), OnStop{call.get()});
    {
      const std::lock_guard lock(mutex_);
      arrived_.push_back(std::move(call));
    }
    curl_multi_wakeup(multi_);
  }

  const Clock& clock() const { return clock_; }

 private:
  struct Call;
  struct OnStop {
    Call* call;
    void operator()() const noexcept {
      call->cancelled = true;
      curl_multi_wakeup(call->impl.multi_);
    }
  };
  struct Call {
    Call(Impl& owner, HttpRequest asked, ResponseReader& to, Done then)
        : impl(owner), request(std::move(asked)), reader(to), done(std::move(then)) {}
    Impl& impl;
    HttpRequest request;
    ResponseReader& reader;
    Done done;
    Endpoint* endpoint = nullptr;
    std::atomic<bool> cancelled{false};

    int attempts = 0;  // begun
    std::optional<SteadyTime> deadline;
    SteadyTime not_before;
    std::optional<AttemptFailure> last;  // why the last attempt failed

    // The attempt under way.
    std::unique_ptr<CURL, EasyCloser> easy;
    std::unique_ptr<curl_slist, ListCloser> headers;
    char error_text[CURL_ERROR_SIZE] = {};
    SteadyTime begun;
    std::optional<SteadyTime> last_byte;
    std::optional<SteadyTime> enough;  // when the reader had all it wanted
    ResponseHead head;
    bool reading = false;  // the reader's Begin was called
    bool too_large = false;
    bool probe = false;
    std::size_t size = 0;
    std::string refusal;

    // Last member: its destructor waits for a callback under way on another thread.
    std::optional<std::stop_callback<OnStop>> on_stop;
  };
  using Calls = std::vector<std::unique_ptr<Call>>;

  void Run() {
    while (true) {
      bool quit = false;
      Calls fresh;
      {
        const std::lock_guard lock(mutex_);
        fresh.swap(arrived_);
        quit = quit_;
      }
      for (auto& call : fresh) Admit(std::move(call));
      if (quit) {
        for (auto& call : calls_) call->cancelled = true;
      }
      const SteadyTime now = clock_.Now();
      for (auto& call : calls_) Advance(*call, now);
      int running = 0;
      curl_multi_perform(multi_, &running);
      const bool ended = Reap();
      std::erase_if(calls_, [](const auto& call) { return !call->done; });
      if (quit && calls_.empty()) {
        const std::lock_guard lock(mutex_);
        if (arrived_.empty()) return;
      }
      if (ended) continue;  // another may take its place
      const int nap = calls_.empty() ? 60'000 : static_cast<int>(Nap().count());
      int awake = 0;
      curl_multi_poll(multi_, nullptr, 0, nap, &awake);
      if (awake == 0 && loses_wakeups_) Nudge();
    }
  }

  // Ending a pause makes libcurl read the connection whatever it believes about the socket.
  void Nudge() {
    for (const auto& call : calls_) {
      if (!call->easy) continue;
      curl_easy_pause(call->easy.get(), CURLPAUSE_SEND);
      curl_easy_pause(call->easy.get(), CURLPAUSE_CONT);
    }
  }

  void Admit(std::unique_ptr<Call> call) {
    auto name = EndpointOf(call->request.url);
    calls_.push_back(std::move(call));
    Call& added = *calls_.back();
    if (!name) {
      End(added, false, Fail(std::move(name.error())));
      return;
    }
    auto& endpoint = endpoints_[*name];
    if (!endpoint) endpoint = std::make_unique<Endpoint>(*name, options_);
    added.endpoint = endpoint.get();
  }

  // Time until something is due, at most kNap.
  milliseconds Nap() const {
    const SteadyTime now = clock_.Now();
    milliseconds nap = kNap;
    for (const auto& call : calls_) {
      const SteadyTime due = call->easy ? Due(*call) : call->not_before;
      // A waiting call whose time has come waits for another to end.
      if (!call->easy && due <= now) continue;
      nap = std::min(nap, std::max(milliseconds(1), std::chrono::ceil<milliseconds>(due - now)));
    }
    return nap;
  }

  // When the attempt under way is out of time.
  static SteadyTime Due(const Call& call) {
    const TimeLimits& limits = call.request.limits;
    if (call.enough) return *call.enough + kDrain;
    const SteadyTime next =
        call.last_byte ? *call.last_byte + limits.stall : call.begun + limits.first_byte;
    return std::min(next, *call.deadline);
  }

  void Advance(Call& call, SteadyTime now) {
    if (!call.done) return;
    if (call.cancelled) {
      if (call.probe) call.endpoint->breaker.Abandoned();
      End(call, WasSent(call), Fail(ErrorCode::kCancelled, "cancelled"));
      return;
    }
    if (!call.easy) {
      TryBegin(call, now);
      return;
    }
    if (now < Due(call)) return;
    if (call.enough) {
      Conclude(call, now);
      return;
    }
    const TimeLimits& limits = call.request.limits;
    AttemptFailure failure;
    failure.retry = now < *call.deadline;
    failure.endpoint = true;
    std::string what;
    if (!failure.retry) {
      what = fmt::format("no complete reply within {}", Spoken(limits.total));
    } else if (call.last_byte) {
      what = fmt::format("the reply stalled for {}", Spoken(limits.stall));
    } else {
      what = fmt::format("no reply began within {}", Spoken(limits.first_byte));
    }
    failure.error = {ErrorCode::kUnavailable, std::move(what)};
    Failed(call, std::move(failure), now);
  }

  void TryBegin(Call& call, SteadyTime now) {
    Endpoint& endpoint = *call.endpoint;
    if (call.deadline && now >= *call.deadline) {
      End(call, false, Fail(std::move(call.last->error), endpoint.name));
      return;
    }
    if (endpoint.breaker.open(now)) {
      End(call, false, Down(endpoint, now));
      return;
    }
    if (now < call.not_before || now < endpoint.hold_until || !endpoint.limit.Admits()) return;
    switch (endpoint.breaker.Ask(now)) {
      case CircuitBreaker::Gate::kGo:
        break;
      case CircuitBreaker::Gate::kWait:
        return;
      case CircuitBreaker::Gate::kDown:
        End(call, false, Down(endpoint, now));
        return;
    }
    call.probe = endpoint.breaker.probing();
    if (!call.deadline) call.deadline = now + call.request.limits.total;
    ++call.attempts;
    call.begun = now;
    call.last_byte.reset();
    call.enough.reset();
    call.head = {};
    call.reading = call.too_large = false;
    call.size = 0;
    call.refusal.clear();
    endpoint.limit.Begin();
    if (!Configure(call) || curl_multi_add_handle(multi_, call.easy.get()) != CURLM_OK) {
      endpoint.limit.End();
      call.easy.reset();
      if (call.probe) endpoint.breaker.Abandoned();
      End(call, false, Fail(ErrorCode::kInternal, "libcurl refused a request"));
    }
  }

  Failure Down(const Endpoint& endpoint, SteadyTime now) const {
    return Fail(
        ErrorCode::kUnavailable,
        fmt::format("{} is down ({} failures in a row, the last: {}); it is asked again in "
                    "{} at the earliest",
                    endpoint.name, endpoint.breaker.failures(), endpoint.breaker.why(),
                    Spoken(std::chrono::ceil<milliseconds>(endpoint.breaker.until() - now))));
  }

  bool Configure(Call& call) {
    call.easy.reset(curl_easy_init());
    CURL* easy = call.easy.get();
    if (easy == nullptr) return false;
    const HttpRequest& request = call.request;
    curl_slist* list = nullptr;
    const auto add = [&](const std::string& line) {
      if (curl_slist* longer = curl_slist_append(list, line.c_str())) list = longer;
    };
    add("Content-Type: application/json");
    add("Expect:");
    for (const std::string& line : request.headers) add(line);
    if (!request.key.empty()) add(request.key_header + request.key.Reveal());
    call.headers.reset(list);
    call.error_text[0] = '\0';
    curl_easy_setopt(easy, CURLOPT_URL, request.url.c_str());
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_QUICK_EXIT,
                     1L);  // a resolver thread never delays a cancellation
    curl_easy_setopt(easy, CURLOPT_POST, 1L);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE,
                     static_cast<curl_off_t>(request.body.size()));
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request.body.c_str());
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, list);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "kernelgrove");
    curl_easy_setopt(easy, CURLOPT_ACCEPT_ENCODING, "");
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_2TLS));
    curl_easy_setopt(easy, CURLOPT_PIPEWAIT, request.url.starts_with("https") ? 1L : 0L);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS,
                     static_cast<long>(request.limits.connect.count()));
    if (!options_.ca_bundle.empty()) {
      curl_easy_setopt(easy, CURLOPT_CAINFO, options_.ca_bundle.c_str());
    }
    if (!options_.ca_folder.empty()) {
      curl_easy_setopt(easy, CURLOPT_CAPATH, options_.ca_folder.c_str());
    }
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, call.error_text);
    curl_easy_setopt(easy, CURLOPT_PRIVATE, static_cast<void*>(&call));
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, &Impl::OnHeader);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, static_cast<void*>(&call));
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &Impl::OnBody);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, static_cast<void*>(&call));
    return true;
  }

  static std::size_t OnHeader(char* data, std::size_t, std::size_t size, void* user) {
    Call& call = *static_cast<Call*>(user);
    std::string_view line(data, size);
    while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.remove_suffix(1);
    if (line.starts_with("HTTP/")) {  // again after "100 Continue" or a proxy's own reply
      call.head = {};
      const std::size_t blank = line.find(' ');
      if (blank != std::string_view::npos) {
        const std::string_view digits = line.substr(blank + 1);
        std::from_chars(digits.data(), digits.data() + digits.size(), call.head.status);
      }
      return size;
    }
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos || call.head.headers.size() >= 256) return size;
    std::string_view value = line.substr(colon + 1);
    while (!value.empty() && value.front() == ' ') value.remove_prefix(1);
    std::string name = Lower(line.substr(0, colon));
    if (name == "content-length") {
      std::size_t length = 0;
      std::from_chars(value.data(), value.data() + value.size(), length);
      if (length > call.impl.options_.body_limit) {
        call.too_large = true;
        return 0;  // before a byte of it is read
      }
    }
    call.head.headers.emplace_back(std::move(name), value);
    return size;
  }

  static std::size_t OnBody(char* data, std::size_t, std::size_t size, void* user) {
    Call& call = *static_cast<Call*>(user);
    call.last_byte = call.impl.clock_.Now();
    call.size += size;
    if (call.size > call.impl.options_.body_limit) {
      call.too_large = true;
      return 0;
    }
    const std::string_view bytes(data, size);
    if (call.head.status < 200 || call.head.status > 299) {
      call.refusal += bytes.substr(0, kRefusalLimit - std::min(kRefusalLimit, call.refusal.size()));
      // What is kept suffices; an endless refusal is not read on.
      return call.refusal.size() < kRefusalLimit ? size : 0;
    }
    if (call.enough) return size;
    if (!call.reading) {
      call.reading = true;
      call.reader.Begin(call.head);
    }
    if (!call.reader.Read(bytes)) call.enough = call.last_byte;
    return size;
  }

  // Whether an attempt ended.
  bool Reap() {
    bool ended = false;
    int left = 0;
    while (CURLMsg* message = curl_multi_info_read(multi_, &left)) {
      if (message->msg != CURLMSG_DONE) continue;
      void* user = nullptr;
      curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &user);
      Call& call = *static_cast<Call*>(user);
      const CURLcode code = message->data.result;  // `message` dies with the handle
      const SteadyTime now = clock_.Now();
      if (call.too_large) {
        Failed(call, TooLarge(), now);
      } else if (call.enough || code == CURLE_OK || call.refusal.size() >= kRefusalLimit) {
        Conclude(call, now);
      } else {
        Failed(call, Broken(call, code), now);
      }
      ended = true;
    }
    return ended;
  }

  AttemptFailure TooLarge() const {
    AttemptFailure failure;
    failure.error = {
        ErrorCode::kInvalidInput,
        fmt::format("the reply exceeds {} MiB and was refused", options_.body_limit >> 20)};
    return failure;
  }

  AttemptFailure Broken(const Call& call, CURLcode code) const {
    AttemptFailure failure;
    const std::string text =
        call.error_text[0] != '\0' ? call.error_text : curl_easy_strerror(code);
    failure.error = {ErrorCode::kUnavailable, text};
    failure.retry = failure.endpoint = true;
    switch (code) {
      case CURLE_PEER_FAILED_VERIFICATION:
      case CURLE_SSL_CACERT_BADFILE:
      case CURLE_SSL_ISSUER_ERROR:
        failure.error.message += "; name the authority's file in SSL_CERT_FILE";
        failure.retry = failure.endpoint = false;
        break;
      case CURLE_OPERATION_TIMEDOUT:
        failure.error.message =
            fmt::format("no connection within {}", Spoken(call.request.limits.connect));
        break;
      case CURLE_OUT_OF_MEMORY:
        failure.error.code = ErrorCode::kResource;
        failure.retry = failure.endpoint = false;
        break;
      case CURLE_BAD_CONTENT_ENCODING:
        failure.endpoint = false;
        break;
      default:
        if (call.last_byte) failure.error.message = "the reply was cut off: " + text;
    }
    return failure;
  }

  // The reply was read, or as much of it as counts.
  void Conclude(Call& call, SteadyTime now) {
    if (call.head.status < 200 || call.head.status > 299) {
      // A key cut in two by the limit could no longer be masked.
      if (call.refusal.size() >= kRefusalLimit) {
        call.refusal.resize(kRefusalLimit -
                            std::min(kRefusalLimit, call.request.key.Reveal().size()));
      }
      AttemptFailure refused = call.reader.Refused(call.head, call.refusal);
      if (const auto wait = AskedWait(call.head.headers, clock_.WallTime())) refused.wait = wait;
      Failed(call, std::move(refused), now);
      return;
    }
    if (!call.reading) {
      call.reading = true;
      call.reader.Begin(call.head);
    }
    if (auto failure = call.reader.End()) {
      Failed(call, std::move(*failure), now);
      return;
    }
    Endpoint& endpoint = *call.endpoint;
    endpoint.breaker.Succeeded();
    endpoint.limit.Succeeded();
    // A limit that this request used up holds the next ones back instead of having them refused.
    if (const auto wait = AskedWait(call.head.headers, clock_.WallTime())) {
      endpoint.hold_until =
          std::max(endpoint.hold_until, now + std::min(*wait, options_.retry.longest_wait));
    }
    Finish(call, HttpOutcome{call.attempts, std::move(call.head.headers)});
  }

  void Failed(Call& call, AttemptFailure failure, SteadyTime now) {
    Endpoint& endpoint = *call.endpoint;
    failure.error.message = call.request.key.Mask(std::move(failure.error.message));
    const bool billed = WasSent(call) && !WasRefused(call.head.status);
    Detach(call);
    if (failure.endpoint) {
      endpoint.breaker.Failed(now, failure.error.message);
    } else {
      endpoint.breaker.Succeeded();  // it answered
    }
    if (failure.throttled) endpoint.limit.Throttled(now);
    const auto give_up = [&](std::string_view why) {
      Error error = std::move(failure.error);
      error.message += why;
      End(call, billed, Fail(std::move(error), endpoint.name));
    };
    if (!failure.retry) return give_up("");
    if (call.attempts >= options_.retry.attempts) {
      return give_up(call.attempts > 1 ? fmt::format(" ({} attempts)", call.attempts) : "");
    }
    milliseconds wait = Backoff(options_.retry, call.attempts, jitter_());
    if (failure.wait) {
      if (*failure.wait > options_.retry.longest_wait) {
        return give_up(fmt::format("; it asks to wait {}", Spoken(*failure.wait)));
      }
      wait = std::max(wait, *failure.wait);
      if (failure.throttled) {
        endpoint.hold_until = std::max(endpoint.hold_until, now + *failure.wait);
      }
    }
    if (now + wait >= *call.deadline) return give_up("; no time is left for another attempt");
    if (call.request.meter != nullptr && !call.request.meter->Again(billed)) {
      Error error = std::move(failure.error);
      error.message += "; nothing is left to pay for another attempt";
      Finish(call, Fail(std::move(error), endpoint.name));
      return;
    }
    if (log_) {
      log_(fmt::format("{}: {}; attempt {} of {} in {}", endpoint.name, failure.error.message,
                       call.attempts + 1, options_.retry.attempts, Spoken(wait)));
    }
    call.not_before = now + wait;
    call.last = std::move(failure);
  }

  // Whether any byte of the attempt under way reached the endpoint.
  static bool WasSent(const Call& call) {
    long bytes = 0;
    return call.easy &&
           curl_easy_getinfo(call.easy.get(), CURLINFO_REQUEST_SIZE, &bytes) == CURLE_OK &&
           bytes > 0;
  }
  // An endpoint that refuses a request has said that it does not serve it. What a gateway says for
  // another (500, 502, 504) tells nothing about what that one did.
  static bool WasRefused(int status) {
    return (status >= 300 && status < 500) || status == 501 || status == 503 || status == 529;
  }

  // Ends a request that failed.
  void End(Call& call, bool billed, Failure failure) {
    if (call.request.meter != nullptr) call.request.meter->Ended(billed);
    Finish(call, std::move(failure));
  }

  // Ends the attempt under way, if there is one.
  void Detach(Call& call) {
    if (!call.easy) return;
    curl_multi_remove_handle(multi_, call.easy.get());
    call.easy.reset();
    call.headers.reset();
    call.endpoint->limit.End();
    call.probe = false;
  }

  // Leaves the call without `done`, by which the loop knows that it is over.
  void Finish(Call& call, Result<HttpOutcome> result) {
    const Done done = std::exchange(call.done, nullptr);
    done(std::move(result));
    Detach(call);
  }

  const TransportOptions options_;
  const Clock& clock_;
  const Jitter jitter_;
  const Log log_;
  CURLM* const multi_;
  // Up to 8.1.1 libcurl may forget that it has read a part of an HTTP/2 connection already: replies
  // that are all there stay unread until something else happens on the connection, which on a quiet
  // one is never (found with 7.88.1 and twenty streams of 128 KiB).
  const bool loses_wakeups_ = curl_version_info(CURLVERSION_NOW)->version_num < 0x080102;
  std::mutex mutex_;
  Calls arrived_;      // guarded by mutex_
  bool quit_ = false;  // guarded by mutex_
  // The I/O thread's own.
  std::map<std::string, std::unique_ptr<Endpoint>> endpoints_;
  Calls calls_;
  std::thread thread_;
};

Result<std::shared_ptr<Transport>> Transport::Create(TransportOptions options, const Clock& clock,
                                                     Jitter jitter, Log log) {
  if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
    return Fail(ErrorCode::kInternal, "libcurl cannot be set up");
  }
  CURLM* multi = curl_multi_init();
  if (multi == nullptr) {
    curl_global_cleanup();
    return Fail(ErrorCode::kInternal, "libcurl cannot be set up");
  }
  if (!jitter) {
    jitter = [engine = std::make_shared<std::mt19937_64>(std::random_device{}())] {
      return std::uniform_real_distribution<double>(0, 1)(*engine);  // the I/O thread's alone
    };
  }
  auto impl =
      std::make_unique<Impl>(std::move(options), clock, std::move(jitter), std::move(log), multi);
  return std::shared_ptr<Transport>(new Transport(std::move(impl)));
}

Transport::Transport(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Transport::~Transport() = default;

void Transport::Start(HttpRequest request, ResponseReader& reader, std::stop_token stop,
                      Done done) {
  impl_->Start(std::move(request), reader, std::move(stop), std::move(done));
}

Result<HttpOutcome> Transport::Post(HttpRequest request, ResponseReader& reader,
                                    std::stop_token stop) {
  std::mutex mutex;
  std::condition_variable ended;
  std::optional<Result<HttpOutcome>> result;
  Start(std::move(request), reader, std::move(stop), [&](Result<HttpOutcome> outcome) {
    // Notified under the lock: the waiter destroys all three once it has the result.
    const std::lock_guard lock(mutex);
    result = std::move(outcome);
    ended.notify_one();
  });
  std::unique_lock lock(mutex);
  ended.wait(lock, [&] { return result.has_value(); });
  return std::move(*result);
}

const Clock& Transport::clock() const { return impl_->clock(); }

}  // namespace grove::llm
