// The ledger: what a run may spend, and that it never spends more. Every request to a model and
// every evaluation is reserved here at the most that it can cost before it begins, in one
// transaction of the store with the check of all limits, and settled when it ends:
//
//   a reply         at the usage that the provider reports (or our estimate, labelled)
//   a refusal       at nothing: the endpoint said that it does not serve it
//   anything else   at the full reservation: cut off, timed out, killed; it may have been billed
//
// A prompt is reserved at one token per byte and 32 per message, which no byte-level tokenizer
// exceeds; what it took less is given back with the reply. When a limit comes near, requests wait
// for those in flight to be settled, then shrink their replies to what is left (not below Least),
// and then end with kBudget. Thread-safe.
//
// kBudget, for the search: what was asked is not sent and nothing was spent. When exhausted() is
// true a limit of the run or the task is reached: start nothing new, finish what is in flight,
// choose the frontier, end. When it is false only this round's or this idea's share is used up (or
// a replayed run has no such call): this branch ends, the run goes on.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "llm/client.h"
#include "llm/pricing.h"
#include "results/store.h"

namespace grove::search {

// The most tokens that the messages of `request` can be.
Tokens PromptBound(const llm::Request& request);
// The shortest reply worth asking for: 512 tokens of ideas, 1024 of code; never more than `asked`.
Tokens Least(llm::Role role, Tokens asked);

// An evaluation that is reserved. Move-only; destroyed unsettled, it is settled in full.
class EvaluationHold;

class Ledger {
 public:
  // What a model's tokens cost, by its label; none = unknown: dollars are then not counted.
  using PriceOf = std::function<std::optional<llm::Price>(std::string_view)>;

  // Whether nobody bills what is asked of a model, by its label: a wait for a person's answer.
  using Unbilled = std::function<bool(std::string_view)>;

  // Borrows the store, which must outlive it. Settles what an earlier process left open: in full,
  // at nothing where nobody bills it.
  Ledger(results::Store& store, std::vector<results::LedgerLimit> limits, PriceOf price,
         const Unbilled& unbilled = {});
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  // A request whose reservation is stored.
  struct Begun {
    results::CallRow row;
    std::vector<results::Amount> reserved;
    // Nothing was reserved and nothing is to be sent: the store has the reply.
    bool answered() const { return row.status == results::CallStatus::kAnswered; }
  };
  // Stores `request` as pending with its reservation. Waits while only the reservations of others
  // stand in the way; shrinks `request.max_tokens` when less is left. kBudget as above; kCancelled;
  // errors of the store.
  Result<Begun> Begin(const results::CallKey& key, llm::Request& request,
                      const std::stop_token& stop);
  // The reservation again, for another attempt after one that may have been billed. kBudget: there
  // is none to be had now.
  Status Renew(Begun& call);
  Status Answer(const Begun& call, std::string_view model, const llm::Reply& reply);
  Status Fail(const Begun& call, std::string_view error, bool billed);

  // Reserves one evaluation of `candidate`, and GPU seconds when it runs on a GPU: `most` of them,
  // or three times the longest so far (at least 30 s). What no limit bounds is booked when it is
  // settled, and not at all when the process dies before. Call right before Evaluate and settle
  // right after; do not hold it while asking a model. Waits and fails as Begin.
  Result<EvaluationHold> ReserveEvaluation(std::string_view candidate,
                                           const results::LedgerScope& scope, bool on_gpu,
                                           const std::stop_token& stop,
                                           std::optional<Seconds> most = std::nullopt);

  // Reserves GPU seconds, when it runs on a GPU, for what is no evaluation of its own: a contest of
  // two kernels (search/promote.h), a profile. `what` is unique in the run or tells the same thing
  // done again. Otherwise as ReserveEvaluation.
  Result<EvaluationHold> ReserveGpu(const std::string& what, const results::LedgerScope& scope,
                                    bool on_gpu, const std::stop_token& stop);

  // Until the nearest limit on wall time; none = no such limit. kBudget when it is over.
  Result<std::optional<Seconds>> TimeLeft(const results::LedgerScope& scope);

  // A limit of the run or the task refused something; reason() says which, in one line.
  bool exhausted() const;
  std::string reason() const;

  // Enters an evaluation that nothing was reserved for.
  Status BookEvaluation(std::string_view candidate, const results::LedgerScope& scope,
                        std::span<const results::Amount> cost);
  // Seconds of a GPU on another machine, known when they are over: booked once per candidate,
  // whatever the limits say. Nothing for none.
  Status BookGpu(std::string_view candidate, const results::LedgerScope& scope, Seconds gpu);

 private:
  friend class EvaluationHold;
  struct Need;
  Result<std::int64_t> Admit(const Need& need, const results::LedgerScope& scope,
                             const std::stop_token& stop);
  Result<EvaluationHold> ReserveDevice(const std::string& key, std::vector<results::Amount> amounts,
                                       const results::LedgerScope& scope,
                                       const std::stop_token& stop);
  Seconds MostOfDevice() const;
  void Entered();
  void Left();
  Failure Refuse(const results::LimitState& state, const std::string& what);

  results::Store& store_;
  const std::vector<results::LedgerLimit> limits_;
  const PriceOf price_;
  Status ready_;
  mutable std::mutex mutex_;
  std::condition_variable_any settled_;
  // Guarded by mutex_.
  int in_flight_ = 0;
  std::uint64_t settlements_ = 0;
  std::string reason_;  // of the exhaustion; empty = none
  Seconds longest_{0};
};

class EvaluationHold {
 public:
  EvaluationHold(EvaluationHold&& other) noexcept;
  EvaluationHold& operator=(EvaluationHold&&) = delete;
  EvaluationHold(const EvaluationHold&) = delete;
  ~EvaluationHold();
  // It took `gpu` seconds of a GPU (0 in the emulator). Once.
  Status Settle(Seconds gpu);
  // The same, but what nothing was reserved for is not booked: the caller does, with the verdict.
  Result<std::vector<results::Amount>> SettleReserved(Seconds gpu);

 private:
  friend class Ledger;
  EvaluationHold(Ledger& ledger, std::string key, std::vector<results::Amount> reserved,
                 std::optional<results::LedgerScope> unbounded)
      : ledger_(&ledger),
        key_(std::move(key)),
        reserved_(std::move(reserved)),
        unbounded_(unbounded) {}
  std::vector<results::Amount> Cost(Seconds gpu);
  Status Pay(std::span<const results::Amount> cost);

  Ledger* ledger_;  // null once settled or moved from
  std::string key_;
  std::vector<results::Amount> reserved_;
  std::optional<results::LedgerScope> unbounded_;  // nothing is reserved, and it is booked here
};

}  // namespace grove::search
