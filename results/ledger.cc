#include "results/ledger.h"

#include <fmt/format.h>

namespace grove::results {
namespace {

// "7,000,000 tokens"; "0.25 dollars".
std::string Spoken(double amount, LedgerKind kind) {
  std::string text = fmt::format("{:.6g}", amount);
  if (amount == static_cast<double>(static_cast<std::int64_t>(amount))) {
    text = std::to_string(static_cast<std::int64_t>(amount));
    for (auto at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > 0; at -= 3) {
      text.insert(static_cast<std::size_t>(at), ",");
    }
  }
  return fmt::format("{} {}", text, Name(kind));
}

}  // namespace

std::string_view Name(LedgerSpan span) {
  switch (span) {
    case LedgerSpan::kRun:
      return "run";
    case LedgerSpan::kTask:
      return "task";
    case LedgerSpan::kRound:
      return "round";
    case LedgerSpan::kIdea:
      return "idea";
  }
  return "unknown";
}

std::string LedgerKey(const CallKey& key, int attempt) {
  return fmt::format("{} #{}", ToString(key), attempt);
}

void LedgerWriter::WriteTime(Connection& c, int round, int idea) {
  const auto now = clock_.Now();
  const auto since = since_.try_emplace({round, idea}, now).first->second;
  const double seconds = Seconds(now - since).count();
  std::string key = fmt::format(
      "session {}",
      std::chrono::duration_cast<std::chrono::microseconds>(opened_.time_since_epoch()).count());
  if (round != 0) key += fmt::format(" r{}", round);
  if (idea != 0) key += fmt::format(".i{}", idea);
  Query(c,
        "INSERT INTO ledger (kind, key, reserved, settled, time_us, round_number, idea_number) "
        "VALUES ('seconds', ?1, ?2, ?2, ?3, ?4, ?5) "
        "ON CONFLICT (kind, key) DO UPDATE SET reserved = ?2, settled = ?2",
        key, seconds, clock_.WallTime(), round, idea)
      .Run();
}

void LedgerWriter::CountTime(Connection& c, const LedgerScope& scope) {
  WriteTime(c, 0, 0);
  if (scope.round != 0) WriteTime(c, scope.round, 0);
  if (scope.round != 0 && scope.idea != 0) WriteTime(c, scope.round, scope.idea);
}

LimitState LedgerWriter::StateOf(Connection& c, const LedgerLimit& limit,
                                 const LedgerScope& scope) {
  const bool by_round = limit.span == LedgerSpan::kRound || limit.span == LedgerSpan::kIdea;
  const bool by_idea = limit.span == LedgerSpan::kIdea;
  const int round = by_round ? scope.round : 0;
  const int idea = by_idea ? scope.idea : 0;
  // Time is kept per scope; everything else belongs to its idea and counts for all above.
  const bool exact = limit.kind == LedgerKind::kSeconds;
  constexpr const char* kSum =
      "SELECT total(settled), total(CASE WHEN settled IS NULL THEN reserved END) FROM ledger "
      "WHERE kind = ?";
  std::string sql = kSum;
  if (by_round || exact) sql += " AND round_number = ?";
  if (by_idea || exact) sql += " AND idea_number = ?";
  const auto read = [&](Query&& row) {
    row.Step();
    return LimitState{limit, row.Real(0), row.Real(1)};
  };
  if (by_idea || exact) return read(Query(c, sql, limit.kind, round, idea));
  if (by_round) return read(Query(c, sql, limit.kind, round));
  return read(Query(c, sql, limit.kind));
}

bool LedgerWriter::Reserve(Connection& c, std::string_view key, std::span<const Amount> amounts,
                           const LedgerScope& scope, std::span<const LedgerLimit> limits) {
  CountTime(c, scope);
  for (const LedgerLimit& limit : limits) {
    // What belongs to no idea is bounded by no idea's limit.
    if (limit.span == LedgerSpan::kRound && scope.round == 0) continue;
    if (limit.span == LedgerSpan::kIdea && scope.idea == 0) continue;
    double asked = 0;
    bool named = limit.kind == LedgerKind::kSeconds;
    for (const Amount& amount : amounts) {
      if (amount.kind != limit.kind) continue;
      asked += amount.amount;
      named = true;
    }
    if (!named) continue;
    const LimitState state = StateOf(c, limit, scope);
    const double used = state.settled + state.reserved;
    const bool over =
        limit.kind == LedgerKind::kSeconds ? used >= limit.most : used + asked > limit.most;
    if (!over) continue;
    Throw(ErrorCode::kBudget,
          fmt::format("the {}'s limit of {} is reached: {} spent, {} in flight, {} could take {} "
                      "more",
                      Name(limit.span), Spoken(limit.most, limit.kind),
                      Spoken(state.settled, limit.kind), Spoken(state.reserved, limit.kind), key,
                      Spoken(asked, limit.kind)));
  }
  bool all = true;
  for (const Amount& amount : amounts) {
    all = Query(c,
                "INSERT INTO ledger (kind, key, reserved, time_us, round_number, idea_number, "
                "call) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (kind, key) DO NOTHING",
                amount.kind, key, amount.amount, clock_.WallTime(), scope.round, scope.idea,
                scope.call)
                  .Run() > 0 &&
          all;
  }
  return all;
}

bool LedgerWriter::Settle(Connection& c, std::string_view key, const Amount& amount,
                          const LedgerScope& scope) {
  return Query(c,
               "INSERT INTO ledger (kind, key, reserved, settled, time_us, round_number, "
               "idea_number, call) VALUES (?1, ?2, ?3, ?3, ?4, ?5, ?6, ?7) "
               "ON CONFLICT (kind, key) DO UPDATE SET settled = ?3 WHERE settled IS NULL",
               amount.kind, key, amount.amount, clock_.WallTime(), scope.round, scope.idea,
               scope.call)
             .Run() > 0;
}

void LedgerWriter::SettleAll(Connection& c, const std::string& key, std::span<const Amount> cost,
                             const LedgerScope& scope) {
  for (const Amount& amount : cost) Settle(c, key, amount, scope);
  Query(c, "UPDATE ledger SET settled = reserved WHERE key = ? AND settled IS NULL", key).Run();
}

void LedgerWriter::SettleCall(Connection& c, const CallRow& row, std::span<const Amount> cost) {
  const LedgerScope scope{row.key.round, row.key.idea, row.id};
  CountTime(c, scope);
  SettleAll(c, LedgerKey(row.key, row.attempts), cost, scope);
  Query(c,
        "UPDATE calls SET cost_dollars = (SELECT sum(settled) FROM ledger WHERE call = ?1 AND "
        "kind = 'dollars') WHERE id = ?1",
        row.id)
      .Run();
}

}  // namespace grove::results
