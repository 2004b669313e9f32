#include "results/ledger.h"

#include <algorithm>

#include <fmt/format.h>

namespace grove::results {
namespace {

constexpr std::chrono::milliseconds kTimeGrain{100};

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

void LedgerWriter::WriteTime(Connection& c, int round, int idea, bool exactly) {
  const auto now = clock_.Now();
  Span& span = since_.try_emplace({round, idea}, Span{now, std::nullopt}).first->second;
  if (!exactly && span.booked && now - *span.booked < kTimeGrain) return;
  span.booked = now;
  const double seconds = Seconds(now - span.from).count();
  std::string key = fmt::format(
      "session {}",
      std::chrono::duration_cast<std::chrono::microseconds>(opened_.time_since_epoch()).count());
  if (round != 0) key += fmt::format(" r{}", round);
  if (idea != 0) key += fmt::format(".i{}", idea);
  Query(c,
        "INSERT INTO ledger (kind, key, reserved, settled, time_us, round_number, idea_number) "
        "VALUES ('seconds', ?1, ?2, ?2, ?3, ?4, ?5) "
        "ON CONFLICT (key, kind) DO UPDATE SET reserved = ?2, settled = ?2",
        key, seconds, clock_.WallTime(), round, idea)
      .Run();
}

void LedgerWriter::CountTime(Connection& c, const LedgerScope& scope, bool exactly) {
  WriteTime(c, 0, 0, exactly);
  if (scope.round != 0) WriteTime(c, scope.round, 0, exactly);
  if (scope.round != 0 && scope.idea != 0) WriteTime(c, scope.round, scope.idea, exactly);
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
  const Sum& sum = SumOf(c, limit.kind);
  return {limit, sum.settled, sum.reserved};
}

LedgerWriter::Sum* LedgerWriter::Known(Connection& c, LedgerKind kind) {
  // What was taken back is in the sums, and not in the file.
  if (rollbacks_ != c.rollbacks()) sums_.clear();
  rollbacks_ = c.rollbacks();
  const auto found = sums_.find(kind);
  return found == sums_.end() ? nullptr : &found->second;
}

LedgerWriter::Sum& LedgerWriter::SumOf(Connection& c, LedgerKind kind) {
  if (Sum* known = Known(c, kind)) return *known;
  Query row(c,
            "SELECT total(settled), total(CASE WHEN settled IS NULL THEN reserved END), "
            "count(*) - count(settled) FROM ledger WHERE kind = ?",
            kind);
  row.Step();
  return sums_[kind] = {row.Real(0), row.Real(1), row.Int(2)};
}

void LedgerWriter::Settled(Connection& c, LedgerKind kind, double reserved, double amount) {
  Sum* const sum = Known(c, kind);
  if (sum == nullptr) return;
  sum->settled += amount;
  --sum->open;
  // Fractions of a dollar do not add up to nothing.
  sum->reserved = sum->open == 0 ? 0 : sum->reserved - reserved;
}

bool LedgerWriter::Reserve(Connection& c, std::string_view key, std::span<const Amount> amounts,
                           const LedgerScope& scope, std::span<const LedgerLimit> limits) {
  CountTime(c, scope, std::any_of(limits.begin(), limits.end(), [](const LedgerLimit& limit) {
              return limit.kind == LedgerKind::kSeconds;
            }));
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
    const bool fresh =
        Query(c,
              "INSERT INTO ledger (kind, key, reserved, time_us, round_number, idea_number, "
              "call) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key, kind) DO NOTHING",
              amount.kind, key, amount.amount, clock_.WallTime(), scope.round, scope.idea,
              scope.call)
            .Run() > 0;
    all = all && fresh;
    if (Sum* const sum = fresh ? Known(c, amount.kind) : nullptr) {
      sum->reserved += amount.amount;
      ++sum->open;
    }
  }
  return all;
}

bool LedgerWriter::Settle(Connection& c, std::string_view key, const Amount& amount,
                          const LedgerScope& scope) {
  {
    Query reserved(c,
                   "UPDATE ledger SET settled = ? WHERE key = ? AND kind = ? AND settled IS NULL "
                   "RETURNING reserved",
                   amount.amount, key, amount.kind);
    if (reserved.Step()) {
      Settled(c, amount.kind, reserved.Real(0), amount.amount);
      return true;
    }
  }
  const bool fresh =
      Query(c,
            "INSERT INTO ledger (kind, key, reserved, settled, time_us, "
            "round_number, idea_number, call) VALUES (?1, ?2, ?3, ?3, ?4, ?5, ?6, "
            "?7) ON CONFLICT (key, kind) DO NOTHING",
            amount.kind, key, amount.amount, clock_.WallTime(), scope.round, scope.idea, scope.call)
          .Run() > 0;
  if (Sum* const sum = fresh ? Known(c, amount.kind) : nullptr) sum->settled += amount.amount;
  return fresh;
}

void LedgerWriter::SettleAll(Connection& c, const std::string& key, std::span<const Amount> cost,
                             const LedgerScope& scope) {
  for (const Amount& amount : cost) Settle(c, key, amount, scope);
  Query rest(c,
             "UPDATE ledger SET settled = reserved WHERE key = ? AND settled IS NULL "
             "RETURNING kind, reserved",
             key);
  while (rest.Step()) Settled(c, rest.Enum<LedgerKind>(0), rest.Real(1), rest.Real(1));
}

int LedgerWriter::SettleOpen(Connection& c) {
  sums_.clear();
  return Query(c, "UPDATE ledger SET settled = reserved WHERE settled IS NULL").Run();
}

void LedgerWriter::SettleCall(Connection& c, const CallRow& row, std::span<const Amount> cost) {
  const LedgerScope scope{row.key.round, row.key.idea, row.id};
  CountTime(c, scope, false);
  SettleAll(c, LedgerKey(row.key, row.attempts), cost, scope);
  Query(c,
        "UPDATE calls SET cost_dollars = (SELECT sum(settled) FROM ledger WHERE call = ?1 AND "
        "kind = 'dollars') WHERE id = ?1",
        row.id)
      .Run();
}

}  // namespace grove::results
