#include "search/ledger.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

namespace grove::search {

using results::Amount;
using results::LedgerKind;
using results::LedgerSpan;
using results::LimitState;

namespace {

constexpr std::int64_t kPerMessage = 32;
constexpr std::int64_t kPerRequest = 64;
constexpr Seconds kFirstEvaluation{30};

double Spent(const LimitState& state, bool settled_only) {
  return settled_only ? state.settled : state.settled + state.reserved;
}

bool Bounds(const LimitState& state, const results::LedgerScope& scope) {
  if (state.limit.span == LedgerSpan::kRound) return scope.round != 0;
  if (state.limit.span == LedgerSpan::kIdea) return scope.idea != 0;
  return true;
}

std::string Number(double amount) {
  if (amount == std::floor(amount)) return fmt::format("{}", static_cast<std::int64_t>(amount));
  return fmt::format("{:.4g}", amount);
}

}  // namespace

Tokens PromptBound(const llm::Request& request) {
  std::int64_t tokens = kPerRequest;
  for (const llm::Message& message : request.messages) {
    tokens += static_cast<std::int64_t>(message.text.size()) + kPerMessage;
  }
  return Tokens(tokens);
}

Tokens Least(llm::Role role, Tokens asked) {
  const bool code = role == llm::Role::kCode || role == llm::Role::kRepair;
  return std::min(asked, Tokens(code ? 1024 : 512));
}

// What something needs of each kind, as a function of a size that may shrink: tokens of a reply.
struct Ledger::Need {
  std::string what;
  std::int64_t most = 0;   // of the size
  std::int64_t least = 0;  // below which it is not worth it
  std::function<std::vector<Amount>(std::int64_t size)> amounts;
};

Ledger::Ledger(results::Store& store, std::vector<results::LedgerLimit> limits, PriceOf price,
               const Unbilled& unbilled)
    : store_(store), limits_(std::move(limits)), price_(std::move(price)) {
  if (unbilled) {
    auto data = store_.Load();
    if (!data) {
      ready_ = Failure(std::move(data.error()));
      return;
    }
    for (const results::CallRow& call : data->calls) {
      if (call.status != results::CallStatus::kPending || !unbilled(call.model)) continue;
      const Amount nothing[] = {{LedgerKind::kTokens, 0},
                                {LedgerKind::kTokensIn, 0},
                                {LedgerKind::kTokensOut, 0},
                                {LedgerKind::kDollars, 0}};
      if (auto done = store_.FailCall(call.id, "the program ended", nothing); !done) {
        ready_ = Failure(std::move(done.error()));
        return;
      }
    }
  }
  if (auto open = store_.SettleOpen(); !open) ready_ = Failure(std::move(open.error()));
}

bool Ledger::exhausted() const {
  const std::lock_guard lock(mutex_);
  return !reason_.empty();
}

std::string Ledger::reason() const {
  const std::lock_guard lock(mutex_);
  return reason_;
}

void Ledger::Entered() {
  const std::lock_guard lock(mutex_);
  ++in_flight_;
}

void Ledger::Left() {
  {
    const std::lock_guard lock(mutex_);
    --in_flight_;
    ++settlements_;
  }
  settled_.notify_all();
}

Failure Ledger::Refuse(const LimitState& state, const std::string& what) {
  const std::string text =
      fmt::format("the {}'s limit of {} {} is reached: {} spent, and {}", Name(state.limit.span),
                  Number(state.limit.most), Name(state.limit.kind), Number(state.settled), what);
  if (state.limit.span == LedgerSpan::kRun || state.limit.span == LedgerSpan::kTask) {
    const std::lock_guard lock(mutex_);
    if (reason_.empty()) reason_ = text;
  }
  return grove::Fail(ErrorCode::kBudget, text);
}

// The largest size that may be reserved now. It is only advice: the store checks again in the
// transaction that reserves, and another thread may have been faster.
Result<std::int64_t> Ledger::Admit(const Need& need, const results::LedgerScope& scope,
                                   const std::stop_token& stop) {
  // The largest size from `low` to `high` that `state` has room for; none when `low` does not fit.
  const auto fit = [&](const LimitState& state, bool settled_only, std::int64_t low,
                       std::int64_t high) -> std::optional<std::int64_t> {
    const auto fits = [&](std::int64_t size) {
      double asked = 0;
      for (const Amount& amount : need.amounts(size)) {
        if (amount.kind == state.limit.kind) asked += amount.amount;
      }
      return asked == 0 || Spent(state, settled_only) + asked <= state.limit.most;
    };
    if (!fits(low)) return std::nullopt;
    while (low < high) {
      const std::int64_t middle = low + (high - low + 1) / 2;
      if (fits(middle)) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    return low;
  };
  while (true) {
    std::uint64_t seen = 0;
    {
      const std::lock_guard lock(mutex_);
      seen = settlements_;
    }
    auto states = store_.LimitStates(scope, limits_);
    if (!states) return Failure(std::move(states.error()));
    std::int64_t target = need.most;
    for (const LimitState& state : *states) {
      if (!Bounds(state, scope)) continue;
      if (state.limit.kind == LedgerKind::kSeconds) {
        if (state.settled >= state.limit.most) return Refuse(state, "time does not come back");
        continue;
      }
      const auto size = fit(state, true, need.least, target);
      if (!size) {
        double asked = 0;
        for (const Amount& amount : need.amounts(need.least)) {
          if (amount.kind == state.limit.kind) asked += amount.amount;
        }
        return Refuse(state, fmt::format("{} may take {}", need.what, Number(asked)));
      }
      target = *size;
    }
    const bool now = std::all_of(states->begin(), states->end(), [&](const LimitState& state) {
      return !Bounds(state, scope) || state.limit.kind == LedgerKind::kSeconds ||
             fit(state, false, target, target);
    });
    if (now) return target;
    std::unique_lock lock(mutex_);
    if (in_flight_ == 0 && seen == settlements_) {
      // Nothing of ours is reserved: what stands in the way never settles.
      lock.unlock();
      return grove::Fail(ErrorCode::kInternal,
                         "the ledger holds a reservation that belongs to nothing");
    }
    settled_.wait(lock, stop, [&] { return settlements_ != seen; });
    if (stop.stop_requested()) return grove::Fail(ErrorCode::kCancelled, "interrupted");
  }
}

Result<Ledger::Begun> Ledger::Begin(const results::CallKey& key, llm::Request& request,
                                    const std::stop_token& stop) {
  if (!ready_) return Failure(ready_.error());
  const Tokens prompt = PromptBound(request);
  const auto price = price_ ? price_(request.model) : std::nullopt;
  Need need;
  need.what = results::ToString(key);
  need.most = request.max_tokens.value;
  need.least = Least(request.role, request.max_tokens).value;
  need.amounts = [&](std::int64_t reply) {
    std::vector<Amount> amounts = {{LedgerKind::kTokens, static_cast<double>(prompt.value + reply)},
                                   {LedgerKind::kTokensIn, static_cast<double>(prompt.value)},
                                   {LedgerKind::kTokensOut, static_cast<double>(reply)}};
    if (price) amounts.push_back({LedgerKind::kDollars, price->Most(prompt, Tokens(reply))});
    return amounts;
  };
  // All of it, first: the store looks at the limits itself.
  for (std::int64_t size = need.most;;) {
    const Tokens asked = std::exchange(request.max_tokens, Tokens(size));
    Begun begun;
    begun.reserved = need.amounts(size);
    // Before the reservation, so that nobody takes it for one that belongs to nothing.
    Entered();
    auto row = store_.BeginCall(key, request, begun.reserved, limits_);
    if (!row || row->status == results::CallStatus::kAnswered) {
      Left();
      request.max_tokens = asked;
    }
    if (!row && row.error().code == ErrorCode::kBudget) {
      // Too much, or another was faster.
      auto less = Admit(need, {key.round, key.idea, {}}, stop);
      if (!less) return Failure(std::move(less.error()));
      size = *less;
      continue;
    }
    if (!row) return Failure(std::move(row.error()));
    begun.row = std::move(*row);
    if (begun.answered()) begun.reserved.clear();
    return begun;
  }
}

Status Ledger::Renew(Begun& call) {
  auto row = store_.RenewCall(call.row.id, call.reserved, limits_);
  if (!row) return Failure(std::move(row.error()));
  call.row = std::move(*row);
  // Not Left: this call is still in flight, though its last attempt is settled.
  const std::lock_guard lock(mutex_);
  ++settlements_;
  return {};
}

Status Ledger::Answer(const Begun& call, std::string_view model, const llm::Reply& reply) {
  llm::Usage usage = reply.usage;
  if (usage.estimated) {
    // Our own count of what nobody bills, as of a person's long reply in a mailbox, breaks no
    // limit.
    for (const Amount& amount : call.reserved) {
      const auto most = Tokens(static_cast<std::int64_t>(amount.amount));
      if (amount.kind == LedgerKind::kTokensIn) usage.prompt = std::min(usage.prompt, most);
      if (amount.kind == LedgerKind::kTokensOut)
        usage.completion = std::min(usage.completion, most);
    }
    usage.cached = std::min(usage.cached, usage.prompt);
    usage.reasoning = std::min(usage.reasoning, usage.completion);
  }
  std::vector<Amount> cost = {
      {LedgerKind::kTokens, static_cast<double>(usage.total().value)},
      {LedgerKind::kTokensIn, static_cast<double>(usage.prompt.value)},
      {LedgerKind::kTokensOut, static_cast<double>(usage.completion.value)}};
  if (const auto price = price_ ? price_(model) : std::nullopt) {
    cost.push_back({LedgerKind::kDollars, price->Cost(usage)});
  }
  // The call says what the ledger does.
  std::optional<llm::Reply> bounded;
  if (usage.total().value != reply.usage.total().value) {
    bounded = reply;
    bounded->usage = usage;
  }
  auto done = store_.AnswerCall(call.row.id, bounded ? *bounded : reply, cost);
  Left();
  if (!done) return Failure(std::move(done.error()));
  const bool over = std::any_of(cost.begin(), cost.end(), [&](const Amount& paid) {
    return std::any_of(call.reserved.begin(), call.reserved.end(), [&](const Amount& reserved) {
      return reserved.kind == paid.kind && paid.amount > reserved.amount;
    });
  });
  if (!over) return {};
  // It asked for no more than max_tokens: the provider does not keep to it, or counts wrong.
  return store_.AddEvent(
      "ledger",
      fmt::format("{}: {} reports {} prompt and {} reply tokens, more than it was allowed; "
                  "they are booked as reported",
                  results::ToString(call.row.key), model, usage.prompt.value,
                  usage.completion.value));
}

Status Ledger::Fail(const Begun& call, std::string_view error, bool billed) {
  std::vector<Amount> cost;
  if (!billed) {
    for (const Amount& amount : call.reserved) cost.push_back({amount.kind, 0});
  }
  auto done = store_.FailCall(call.row.id, error, cost);
  Left();
  return done;
}

Seconds Ledger::MostOfDevice() const {
  const std::lock_guard lock(mutex_);
  return std::max(kFirstEvaluation, 3 * longest_);
}

Result<EvaluationHold> Ledger::ReserveDevice(const std::string& key, std::vector<Amount> amounts,
                                             const results::LedgerScope& scope,
                                             const std::stop_token& stop) {
  if (!ready_) return Failure(ready_.error());
  // What no limit bounds is booked when it ends: a kill before loses nothing but the count.
  const bool bounded =
      std::any_of(limits_.begin(), limits_.end(), [&](const results::LedgerLimit& limit) {
        return limit.kind == LedgerKind::kSeconds ||
               std::any_of(amounts.begin(), amounts.end(),
                           [&](const Amount& amount) { return amount.kind == limit.kind; });
      });
  if (!bounded) return EvaluationHold(*this, key, std::move(amounts), scope);
  Need need;
  need.what = key;
  need.amounts = [&](std::int64_t) { return amounts; };
  for (int n = 1;;) {
    if (auto size = Admit(need, scope, stop); !size) return Failure(std::move(size.error()));
    std::string numbered = results::NumberedKey(key, n);
    Entered();
    auto fresh = store_.Reserve(numbered, amounts, scope, limits_);
    if (fresh && *fresh) {
      return EvaluationHold(*this, std::move(numbered), std::move(amounts), std::nullopt);
    }
    Left();
    if (fresh) {
      ++n;  // done before: a repair turn, or a resumed run
    } else if (fresh.error().code != ErrorCode::kBudget) {
      return Failure(std::move(fresh.error()));
    }
  }
}

Status Ledger::BookEvaluation(std::string_view candidate, const results::LedgerScope& scope,
                              std::span<const Amount> cost) {
  // A repair turn and a resumed run evaluate a candidate again.
  return store_.BookAgain(results::EvaluationKey(candidate), cost, scope);
}

Status Ledger::BookGpu(std::string_view candidate, const results::LedgerScope& scope, Seconds gpu) {
  if (gpu.count() <= 0) return {};
  const std::string key = fmt::format("evaluation {} elsewhere", candidate);
  const Amount amount{LedgerKind::kGpuSeconds, gpu.count()};
  auto fresh = store_.Book(key, std::span(&amount, 1), scope);
  if (!fresh) return Failure(std::move(fresh.error()));
  return {};
}

Result<EvaluationHold> Ledger::ReserveEvaluation(std::string_view candidate,
                                                 const results::LedgerScope& scope, bool on_gpu,
                                                 const std::stop_token& stop,
                                                 std::optional<Seconds> most) {
  std::vector<Amount> amounts = {{LedgerKind::kEvaluations, 1}};
  if (on_gpu) {
    amounts.push_back({LedgerKind::kGpuSeconds, (most ? *most : MostOfDevice()).count()});
  }
  return ReserveDevice(results::EvaluationKey(candidate), std::move(amounts), scope, stop);
}

Result<EvaluationHold> Ledger::ReserveGpu(const std::string& what,
                                          const results::LedgerScope& scope, bool on_gpu,
                                          const std::stop_token& stop) {
  std::vector<Amount> amounts;
  if (on_gpu) amounts.push_back({LedgerKind::kGpuSeconds, MostOfDevice().count()});
  return ReserveDevice(what, std::move(amounts), scope, stop);
}

Result<std::optional<Seconds>> Ledger::TimeLeft(const results::LedgerScope& scope) {
  std::vector<results::LedgerLimit> times;
  for (const auto& limit : limits_) {
    if (limit.kind == LedgerKind::kSeconds) times.push_back(limit);
  }
  std::optional<Seconds> left;
  if (times.empty()) return left;
  auto states = store_.LimitStates(scope, times);
  if (!states) return Failure(std::move(states.error()));
  for (const LimitState& state : *states) {
    if (!Bounds(state, scope)) continue;
    const Seconds rest(state.limit.most - state.settled);
    if (rest.count() <= 0) return Refuse(state, "time does not come back");
    left = left ? std::min(*left, rest) : rest;
  }
  return left;
}

EvaluationHold::EvaluationHold(EvaluationHold&& other) noexcept
    : ledger_(std::exchange(other.ledger_, nullptr)),
      key_(std::move(other.key_)),
      reserved_(std::move(other.reserved_)),
      unbounded_(other.unbounded_) {}

EvaluationHold::~EvaluationHold() {
  if (ledger_ == nullptr) return;
  // The store says by itself when it cannot be written; the next process settles what is open.
  static_cast<void>(
      Pay(unbounded_ ? std::span<const Amount>(reserved_) : std::span<const Amount>()));
}

Status EvaluationHold::Pay(std::span<const Amount> cost) {
  Ledger& ledger = *std::exchange(ledger_, nullptr);
  if (!unbounded_) {
    auto done = ledger.store_.SettleAll(key_, cost);
    ledger.Left();
    return done;
  }
  return ledger.store_.BookAgain(key_, cost, *unbounded_);
}

std::vector<Amount> EvaluationHold::Cost(Seconds gpu) {
  std::vector<Amount> cost = reserved_;
  for (Amount& amount : cost) {
    if (amount.kind != LedgerKind::kGpuSeconds) continue;
    amount.amount = gpu.count();
    const std::lock_guard lock(ledger_->mutex_);
    ledger_->longest_ = std::max(ledger_->longest_, gpu);
  }
  return cost;
}

Status EvaluationHold::Settle(Seconds gpu) {
  if (ledger_ == nullptr) return {};
  return Pay(Cost(gpu));
}

Result<std::vector<Amount>> EvaluationHold::SettleReserved(Seconds gpu) {
  std::vector<Amount> cost;
  if (ledger_ == nullptr) return cost;
  cost = Cost(gpu);
  if (unbounded_) {
    ledger_ = nullptr;
    return cost;
  }
  if (auto paid = Pay(cost); !paid) return Failure(std::move(paid.error()));
  cost.clear();
  return cost;
}

}  // namespace grove::search
