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

std::string EvaluationKey(std::string_view candidate) {
  return fmt::format("evaluation {}", candidate);
}

std::string NumberedKey(std::string_view key, int n) { return fmt::format("{} #{}", key, n); }

std::string LedgerKey(const CallKey& key, int attempt) {
  return NumberedKey(ToString(key), attempt);
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
  // Time is kept per scope; everything else belongs to its idea and counts for all above.
  if (limit.kind == LedgerKind::kSeconds) {
    Query row(c,
              "SELECT total(settled), total(CASE WHEN settled IS NULL THEN reserved END) FROM "
              "ledger WHERE kind = 'seconds' AND round_number = ? AND idea_number = ?",
              by_round ? scope.round : 0, by_idea ? scope.idea : 0);
    row.Step();
    return {limit, row.Real(0), row.Real(1)};
  }
  const auto& sums = Books(c).sums;
  const auto found =
      sums.find({limit.kind, by_round ? scope.round : kAll, by_idea ? scope.idea : kAll});
  if (found == sums.end()) return {limit, 0, 0};
  return {limit, found->second.settled, found->second.reserved};
}

template <typename F>
void LedgerWriter::Accounts::Change(LedgerKind kind, int round, int idea, F by) {
  by(sums[{kind, kAll, kAll}]);
  by(sums[{kind, round, kAll}]);
  by(sums[{kind, round, idea}]);
}

void LedgerWriter::Accounts::Settle(const Open& entry, double amount) {
  Change(entry.kind, entry.round, entry.idea, [&](Sum& sum) {
    sum.settled += amount;
    --sum.open;
    // Fractions of a dollar do not add up to nothing.
    sum.reserved = sum.open == 0 ? 0 : sum.reserved - entry.reserved;
  });
}

LedgerWriter::Accounts& LedgerWriter::Books(Connection& c) {
  // What was taken back is in the books, and not in the file.
  if (rollbacks_ != c.rollbacks()) books_.reset();
  rollbacks_ = c.rollbacks();
  if (books_) return *books_;
  Accounts books;
  {
    Query rows(c,
               "SELECT kind, round_number, idea_number, total(settled), "
               "total(CASE WHEN settled IS NULL THEN reserved END), count(*) - count(settled) "
               "FROM ledger WHERE kind <> 'seconds' GROUP BY kind, round_number, idea_number");
    while (rows.Step()) {
      books.Change(rows.Enum<LedgerKind>(0), rows.Small(1), rows.Small(2), [&](Sum& sum) {
        sum.settled += rows.Real(3);
        sum.reserved += rows.Real(4);
        sum.open += rows.Int(5);
      });
    }
  }
  Query rows(c,
             "SELECT key, kind, id, reserved, round_number, idea_number FROM ledger "
             "WHERE settled IS NULL ORDER BY id");
  while (rows.Step()) {
    books.open[rows.Text(0)].push_back(
        {rows.Enum<LedgerKind>(1), rows.Int(2), rows.Real(3), rows.Small(4), rows.Small(5)});
  }
  return books_.emplace(std::move(books));
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
  Accounts& books = Books(c);
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
    if (!fresh) continue;
    auto at = books.open.find(key);
    if (at == books.open.end())
      at = books.open.emplace(std::string(key), std::vector<Open>()).first;
    at->second.push_back(
        {amount.kind, c.database().getLastInsertRowid(), amount.amount, scope.round, scope.idea});
    books.Change(amount.kind, scope.round, scope.idea, [&](Sum& sum) {
      sum.reserved += amount.amount;
      ++sum.open;
    });
  }
  return all;
}

// REQUIRES: the entry is taken out of the open ones.
void LedgerWriter::SettleEntry(Connection& c, const Open& entry, double amount) {
  Query(c, "UPDATE ledger SET settled = ? WHERE id = ?", amount, entry.id).Run();
  books_->Settle(entry, amount);
}

bool LedgerWriter::Settle(Connection& c, std::string_view key, const Amount& amount,
                          const LedgerScope& scope) {
  Accounts& books = Books(c);
  if (const auto open = books.open.find(key); open != books.open.end()) {
    std::vector<Open>& entries = open->second;
    const auto entry = std::find_if(entries.begin(), entries.end(),
                                    [&](const Open& one) { return one.kind == amount.kind; });
    if (entry != entries.end()) {
      const Open settled = *entry;
      entries.erase(entry);
      if (entries.empty()) books.open.erase(open);
      SettleEntry(c, settled, amount.amount);
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
  if (fresh && amount.kind != LedgerKind::kSeconds) {
    books.Change(amount.kind, scope.round, scope.idea,
                 [&](Sum& sum) { sum.settled += amount.amount; });
  }
  return fresh;
}

bool LedgerWriter::Book(Connection& c, std::string_view key, std::span<const Amount> amounts,
                        const LedgerScope& scope) {
  CountTime(c, scope, false);
  bool all = true;
  for (const Amount& amount : amounts) all = Settle(c, key, amount, scope) && all;
  return all;
}

void LedgerWriter::BookAgain(Connection& c, std::string_view key, std::span<const Amount> amounts,
                             const LedgerScope& scope) {
  if (amounts.empty()) return;
  for (int n = 1; !Book(c, NumberedKey(key, n), amounts, scope);) ++n;
}

void LedgerWriter::SettleAll(Connection& c, const std::string& key, std::span<const Amount> cost,
                             const LedgerScope& scope) {
  for (const Amount& amount : cost) Settle(c, key, amount, scope);
  Accounts& books = Books(c);
  const auto open = books.open.find(key);
  if (open == books.open.end()) return;
  const std::vector<Open> rest = std::move(open->second);
  books.open.erase(open);
  for (const Open& entry : rest) SettleEntry(c, entry, entry.reserved);
}

int LedgerWriter::SettleOpen(Connection& c) {
  books_.reset();
  return Query(c, "UPDATE ledger SET settled = reserved WHERE settled IS NULL").Run();
}

void LedgerWriter::SettleCall(Connection& c, const CallRow& row, std::span<const Amount> cost) {
  const LedgerScope scope{row.key.round, row.key.idea, row.id};
  CountTime(c, scope, false);
  SettleAll(c, LedgerKey(row.key, row.attempts), cost, scope);
  if (!Books(c).sums.contains({LedgerKind::kDollars, kAll, kAll})) return;
  std::optional<double> dollars;
  for (int attempt = 1; attempt <= row.attempts; ++attempt) {
    Query paid(c, "SELECT settled FROM ledger WHERE key = ? AND kind = 'dollars'",
               LedgerKey(row.key, attempt));
    if (paid.Step()) dollars = dollars.value_or(0) + paid.OptionalReal(0).value_or(0);
  }
  Query(c, "UPDATE calls SET cost_dollars = ? WHERE id = ?", dollars, row.id).Run();
}

}  // namespace grove::results
