// How the store writes the ledger. Internal to results/; runs inside the store's transactions and
// under its mutex, and throws StoreException.
//
// Wall time is an account like the others, of kind `seconds`: per session of a process and scope
// one entry ("session 1764450000000000", "... r2", "... r2.i3"), brought up to date when the ledger
// is written: to a tenth of a second, and exactly where a limit bounds it. Its entries are separate
// per scope, not nested: a session's rounds overlap nothing but its ideas do.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "base/clock.h"
#include "results/rows.h"
#include "results/sql.h"
#include "results/store.h"

namespace grove::results {

// The ledger's key for one attempt of a call; check.cc builds the same in SQL.
std::string LedgerKey(const CallKey& key, int attempt);

class LedgerWriter {
 public:
  explicit LedgerWriter(const Clock& clock) : clock_(clock), opened_(clock.WallTime()) {}

  // false: an entry of `key` exists. Throws kBudget when a limit would be exceeded.
  bool Reserve(Connection& c, std::string_view key, std::span<const Amount> amounts,
               const LedgerScope& scope, std::span<const LedgerLimit> limits);
  // false: it was settled. Settling what was not reserved is recorded as both.
  bool Settle(Connection& c, std::string_view key, const Amount& amount,
              const LedgerScope& scope = {});
  // Settles what is named, and the rest of the key's reservations in full.
  void SettleAll(Connection& c, const std::string& key, std::span<const Amount> cost,
                 const LedgerScope& scope = {});
  // The same for the last attempt of a call, whose `cost_dollars` follows.
  void SettleCall(Connection& c, const CallRow& row, std::span<const Amount> cost);
  // Settles every open reservation in full; how many there were.
  int SettleOpen(Connection& c);
  LimitState StateOf(Connection& c, const LedgerLimit& limit, const LedgerScope& scope);

  // Books the time that has passed, for the run and for the scope's round and idea.
  void CountTime(Connection& c, const LedgerScope& scope) { CountTime(c, scope, true); }

 private:
  void CountTime(Connection& c, const LedgerScope& scope, bool exactly);
  void WriteTime(Connection& c, int round, int idea, bool exactly);
  // What the run has of a kind, so that asking costs the same however long it is.
  struct Sum {
    double settled = 0, reserved = 0;
    std::int64_t open = 0;  // reservations
  };
  Sum& SumOf(Connection& c, LedgerKind kind);
  // The sum when it is known and still holds; nullptr for one that SumOf will read.
  Sum* Known(Connection& c, LedgerKind kind);
  void Settled(Connection& c, LedgerKind kind, double reserved, double amount);

  const Clock& clock_;
  const WallTime opened_;
  struct Span {
    std::chrono::steady_clock::time_point from;  // the process first had to do with it
    std::optional<std::chrono::steady_clock::time_point> booked;  // to here
  };
  std::map<std::pair<int, int>, Span> since_;  // by round and idea
  std::map<LedgerKind, Sum> sums_;             // but for seconds
  std::uint64_t rollbacks_ = 0;                // of the connection, when the sums were made
};

}  // namespace grove::results
