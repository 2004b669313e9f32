// A few killable worker processes and the requests in flight in them. Knows nothing of GPUs: it
// starts workers, hands requests out, and decides who is to blame when one dies.
//
// Blame. Requests run together in the shared workers. When a shared worker dies (crash, hang past
// the deadline, sticky error it reported itself), every request that was in flight in it is run
// again, one by one, alone in the solo worker. One that dies there too is the culprit; the others
// get the answer they would have got anyway. Nothing is lost, and nothing is blamed for its
// neighbour.
//
// Starting. A worker that fails to start `start_attempts` times in a row makes the pool unusable:
// the worker's own message is returned, once and the same, to every caller from then on.
//
// Thread-safe: Execute blocks its caller; call it from as many threads as there are requests.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/process.h"
#include "base/result.h"

namespace grove::cuda {

struct PoolOptions {
  ProcessOptions process;  // what to start; channel is always on
  int workers = 3;         // shared ones; the solo worker comes on top, when it is needed
  int in_flight = 4;       // requests at a time in one shared worker
  int start_attempts = 3;
  // Talks to a fresh worker over its channel until it is ready; an Error is its reason for failing.
  std::function<Status(int channel)> handshake;
  // Added to a request's own deadline before the pool kills the worker: a worker that watches its
  // requests itself, as ours does, is more precise and speaks first.
  std::chrono::milliseconds grace{5000};
};

// How a request ended.
struct Answer {
  bool died = false;
  std::string payload;    // the reply, its id taken off; of kFatal when `reported`
  bool reported = false;  // died: the worker said why before it ended (payload)
  bool hung = false;      // died: killed by the pool at the deadline
  std::string death;      // died: "killed by SIGSEGV", "no answer within 5000 ms"
};

struct PoolCounters {
  std::int64_t started = 0;  // worker processes
  std::int64_t died = 0;     // unexpectedly
  std::int64_t rerun = 0;    // requests run again alone
  std::int64_t blamed = 0;   // of these, died again
};

class WorkerPool {
 public:
  // Starts the first worker and waits for its handshake; its failure is the result.
  static Result<std::unique_ptr<WorkerPool>> Start(PoolOptions options);
  ~WorkerPool();  // kills all; REQUIRES that no Execute is running
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  enum class Where {
    kShared,  // with others, then alone if its worker died
    kSolo,    // alone from the start: for timing, and whatever needs the whole memory
  };
  // Sends one request and waits for its answer. `type` is the frame type; the payload gets an id in
  // front, and so must the reply. `deadline` covers the execution, not the wait for a free place.
  // An Error means that no worker can be had.
  Result<Answer> Execute(std::uint16_t type, std::string_view payload,
                         std::chrono::milliseconds deadline, Where where);
  // Sends a message that has no answer to every running worker. Failures show later.
  void Broadcast(std::uint16_t type, std::string_view payload);

  PoolCounters counters() const;

 private:
  class Worker;
  struct Impl;
  explicit WorkerPool(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace grove::cuda
