// HTTP POST with replies read as they arrive: libcurl's multi interface in one I/O thread, however
// many requests are in flight. Retries, time-outs, the number of requests at a time and the circuit
// breaker live here; what the bytes mean is the reader's.
//
// HTTP/2 over TLS where the endpoint has it, gzip and what else libcurl can decompress. Proxies
// come from the environment (http_proxy, https_proxy, all_proxy, no_proxy), certificates too (see
// TransportOptions::FromEnvironment). Redirects are never followed: a key goes to the endpoint that
// it was meant for. Thread-safe.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "llm/meter.h"
#include "llm/retry.h"
#include "llm/secret.h"

namespace grove::llm {

struct TimeLimits {
  std::chrono::milliseconds connect{10'000};
  std::chrono::milliseconds first_byte{300'000};  // from the start to the first byte of the body
  std::chrono::milliseconds stall{180'000};       // between two bytes
  std::chrono::milliseconds total{1'800'000};     // from the first start, retries included
};

struct TransportOptions {
  RetryPolicy retry;
  ConcurrencyOptions concurrency;                  // per endpoint (scheme, host, port)
  BreakerOptions breaker;                          // per endpoint
  std::size_t body_limit = std::size_t{64} << 20;  // bytes of one reply, decompressed
  std::string ca_bundle;                           // PEM file; empty = libcurl's own
  std::string ca_folder;

  // ca_bundle from CURL_CA_BUNDLE, else SSL_CERT_FILE; ca_folder from SSL_CERT_DIR.
  static TransportOptions FromEnvironment();
};

struct HttpRequest {
  std::string url;                   // http or https
  std::vector<std::string> headers;  // "Name: value", without the key
  std::string key_header;            // what stands before the key: "Authorization: Bearer "
  Secret key;                        // empty = the header is not sent
  std::string body;
  TimeLimits limits;
  Meter* meter = nullptr;  // told of failed attempts; must live until the end of the request
};

struct ResponseHead {
  int status = 0;
  Headers headers;
};

// Why one attempt failed, and what the transport does about it.
struct AttemptFailure {
  Error error;
  bool retry = false;      // another attempt may succeed
  bool throttled = false;  // the endpoint asks for fewer requests
  bool endpoint = false;   // speaks against the endpoint: the circuit breaker counts it
  std::optional<std::chrono::milliseconds> wait;  // asked for by the endpoint
};

// What reads one reply. Called on the I/O thread, never by two threads at once; must not block.
class ResponseReader {
 public:
  virtual ~ResponseReader() = default;
  // A 2xx reply begins, perhaps after an attempt that failed midway: forget what was read.
  virtual void Begin(const ResponseHead& head) = 0;
  // The next bytes. False: the reply is complete or hopeless, which End then tells.
  virtual bool Read(std::string_view bytes) = 0;
  // The body ended, or Read said false. Nothing when the reply is good.
  virtual std::optional<AttemptFailure> End() = 0;
  // The endpoint refused with a status outside 2xx; `body` holds its first 64 KiB.
  virtual AttemptFailure Refused(const ResponseHead& head, std::string_view body) = 0;
};

struct HttpOutcome {
  int attempts = 1;
  Headers headers;
};

class Transport {
 public:
  using Done = std::function<void(Result<HttpOutcome>)>;
  using Jitter = std::function<double()>;             // in [0, 1); I/O thread
  using Log = std::function<void(std::string_view)>;  // one line; I/O thread; keys are masked

  // `clock` must outlive the transport. Without `jitter`, random. kInternal when libcurl cannot be
  // set up.
  static Result<std::shared_ptr<Transport>> Create(TransportOptions options, const Clock& clock,
                                                   Jitter jitter = {}, Log log = {});
  // Requests in flight end with kCancelled. Not on the I/O thread (in a Done).
  ~Transport();
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  // Sends `request`; `done` is called once, on the I/O thread, and `reader` must live until then.
  // Errors: the reader's; kUnavailable when the endpoint cannot be reached, is throttling beyond
  // the attempts, or is held for down; kInvalidInput for a URL that is none or a reply above the
  // body limit; kCancelled within 100 ms of `stop`. The key is masked in every message.
  void Start(HttpRequest request, ResponseReader& reader, std::stop_token stop, Done done);
  // The same, waiting for the end. Not on the I/O thread.
  Result<HttpOutcome> Post(HttpRequest request, ResponseReader& reader, std::stop_token stop);

  const Clock& clock() const;

 private:
  class Impl;
  explicit Transport(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// "https://api.openai.com:443" of a URL: what limits and breakers belong to. kInvalidInput for what
// is no http or https URL, or carries a user, a query or a fragment (a key could hide there).
Result<std::string> EndpointOf(const std::string& url);

}  // namespace grove::llm
