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
#include <tuple>
#include <utility>
#include <vector>

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
  // Enters what nothing was reserved for. false: an entry of `key` exists.
  bool Book(Connection& c, std::string_view key, std::span<const Amount> amounts,
            const LedgerScope& scope);
  // The same under the first of "KEY #1", "KEY #2" that is free.
  void BookAgain(Connection& c, std::string_view key, std::span<const Amount> amounts,
                 const LedgerScope& scope);
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
  // What is spent and promised of a kind.
  struct Sum {
    double settled = 0, reserved = 0;
    std::int64_t open = 0;  // reservations
  };
  // An entry that is not settled.
  struct Open {
    LedgerKind kind = LedgerKind::kTokens;
    std::int64_t id = 0;
    double reserved = 0;
    int round = 0, idea = 0;
  };
  struct Accounts {
    // By kind, round and idea; kAll = of all. So that asking costs the same however long a run is.
    std::map<std::tuple<LedgerKind, int, int>, Sum> sums;        // but for seconds
    std::map<std::string, std::vector<Open>, std::less<>> open;  // by key

    // What `by` does to a sum is done to those of the idea, of its round and of the run.
    template <typename F>
    void Change(LedgerKind kind, int round, int idea, F by);
    void Settle(const Open& entry, double amount);
  };
  static constexpr int kAll = -1;
  // As the file is, what is not committed among it.
  Accounts& Books(Connection& c);
  void SettleEntry(Connection& c, const Open& entry, double amount);

  const Clock& clock_;
  const WallTime opened_;
  struct Span {
    std::chrono::steady_clock::time_point from;  // the process first had to do with it
    std::optional<std::chrono::steady_clock::time_point> booked;  // to here
  };
  std::map<std::pair<int, int>, Span> since_;  // by round and idea
  std::optional<Accounts> books_;
  std::uint64_t rollbacks_ = 0;  // of the connection, when the books were made
};

}  // namespace grove::results
