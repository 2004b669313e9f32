#include "search/model_calls.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "llm/meter.h"

namespace grove::search {
namespace {

// How often a call begins anew after its attempts have used up their reservations.
constexpr int kTurns = 3;

std::optional<llm::Price> PriceOf(const ModelSpec& model) {
  if (!model.price_in || !model.price_out) return std::nullopt;
  llm::Price price;
  price.in = price.write = *model.price_in;
  price.cached = model.price_cached.value_or(price.in);
  price.out = *model.price_out;
  return price;
}

Ledger::PriceOf Prices(const std::vector<ModelSpec>& models, bool free) {
  return [models, labels = ModelLabels(models),
          free](std::string_view label) -> std::optional<llm::Price> {
    if (free) return llm::Price();
    for (std::size_t i = 0; i < models.size(); ++i) {
      if (labels[i] == label) return PriceOf(models[i]);
    }
    return std::nullopt;
  };
}

// The labels of models that answer without a provider.
Ledger::Unbilled Unbilled(const std::vector<ModelSpec>& models) {
  std::vector<std::string> free;
  const std::vector<std::string> labels = ModelLabels(models);
  for (std::size_t i = 0; i < models.size(); ++i) {
    if (models[i].name == "mailbox" || models[i].name == "playbook") free.push_back(labels[i]);
  }
  if (free.empty()) return {};
  return [free](std::string_view label) {
    return std::find(free.begin(), free.end(), label) != free.end();
  };
}

// Reserves before every attempt of a request. `paid` counts reservations that may be billed, the
// first one included.
class CallMeter final : public llm::Meter {
 public:
  CallMeter(Ledger& ledger, Ledger::Begun& call, int& paid)
      : ledger_(ledger), call_(call), paid_(paid) {}

  bool Again(bool billed) override {
    if (!billed) return true;
    if (paid_ < kMostPaid && ledger_.Renew(call_)) {
      ++paid_;
      return true;
    }
    refused_ = true;
    return false;
  }
  void Ended(bool billed) override { billed_ = billed; }

  // Whether the last attempt may have been billed; a client that says nothing may have.
  bool billed() const { return refused_ || billed_; }
  bool refused() const { return refused_; }

 private:
  Ledger& ledger_;
  Ledger::Begun& call_;
  int& paid_;
  bool billed_ = true;
  bool refused_ = false;
};

// A stop token that stops with another, and at a time.
class Deadline {
 public:
  Deadline(const std::stop_token& outer, std::optional<Seconds> left)
      : forward_(outer, [this] { source_.request_stop(); }) {
    if (!left) return;
    timer_ = std::jthread([this, left = *left](const std::stop_token& over) {
      std::unique_lock lock(mutex_);
      const auto wait =
          std::chrono::duration_cast<std::chrono::milliseconds>(std::min(left, Seconds(1e8)));
      if (!wake_.wait_for(lock, over, wait, [&] { return over.stop_requested(); })) {
        passed_ = true;
        source_.request_stop();
      }
    });
  }
  std::stop_token token() const { return source_.get_token(); }
  bool passed() {
    const std::lock_guard lock(mutex_);
    return passed_;
  }

 private:
  std::stop_source source_;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  bool passed_ = false;
  std::stop_callback<std::function<void()>> forward_;
  std::jthread timer_;
};

}  // namespace

std::vector<std::string> ModelLabels(const std::vector<ModelSpec>& models) {
  std::vector<std::string> labels;
  for (std::size_t i = 0; i < models.size(); ++i) {
    const auto before = std::count_if(models.begin(), models.begin() + static_cast<long>(i),
                                      [&](const auto& m) { return m.name == models[i].name; });
    labels.push_back(before == 0 ? models[i].name
                                 : fmt::format("{}#{}", models[i].name, before + 1));
  }
  return labels;
}

std::vector<llm::EnsembleMember> MembersOf(const std::vector<ModelSpec>& models) {
  const std::vector<std::string> labels = ModelLabels(models);
  std::vector<llm::EnsembleMember> members;
  for (std::size_t i = 0; i < models.size(); ++i) {
    llm::EnsembleMember member{labels[i], {}, models[i].weight};
    for (const llm::Role role :
         {llm::Role::kIdea, llm::Role::kCode, llm::Role::kRepair, llm::Role::kAdviser}) {
      if (models[i].Takes(role)) member.roles.push_back(role);
    }
    members.push_back(std::move(member));
  }
  return members;
}

void FillPrices(std::vector<ModelSpec>& models, const llm::PriceTable& table) {
  for (ModelSpec& model : models) {
    if (model.price_in && model.price_out) {
      if (model.price_source.empty()) model.price_source = "configuration";
      continue;
    }
    // A server of one's own under a provider's name has prices of its own.
    if (!model.endpoint.empty() && model.provider() == "openai") {
      const bool known = model.endpoint.find("://api.openai.com") != std::string::npos ||
                         model.endpoint.find(".googleapis.com") != std::string::npos;
      if (!known) continue;
    }
    const auto price = table.Find(model.name);
    if (!price) continue;
    model.price_in = std::max(price->in, price->write);
    model.price_cached = price->cached;
    model.price_out = price->out;
    model.price_source = fmt::format("{} ({})", price->source, price->date);
  }
}

ModelCalls::ModelCalls(results::Store& store, llm::Client& client, const SearchConfig& config,
                       llm::Ensemble* ensemble)
    : store_(store),
      client_(client),
      models_(ModelsOf(config)),
      // A replayed run pays nothing and is bound by nothing.
      ledger_(store, config.replay.empty() ? config.limits : std::vector<results::LedgerLimit>(),
              Prices(models_, !config.replay.empty()), Unbilled(models_)),
      ensemble_(ensemble) {
  if (ensemble_ == nullptr) {
    auto weights = llm::MakeWeightedEnsemble(MembersOf(models_), config.seed);
    if (weights) {
      weights_ = std::move(*weights);
      ensemble_ = weights_.get();
    } else {
      ready_ = Failure(std::move(weights.error()));
    }
  }
  auto replies = store_.HasReplies();
  if (!replies) {
    ready_ = Failure(std::move(replies.error()));
    return;
  }
  resumed_ = *replies;
  if (config.replay.empty()) return;
  bool same_policy = false;
  if (auto reader = results::Reader::Open(config.replay)) {
    if (auto data = (*reader)->Load()) {
      const auto recorded = ConfigFromJson(data->run.config);
      same_policy = recorded && recorded->policy == config.policy;
    }
  }
  auto recording = Recording::Open(config.replay, same_policy);
  if (recording) {
    recording_ = std::move(*recording);
  } else {
    ready_ = Failure(std::move(recording.error()));
  }
}

Result<ModelCalls::Answer> ModelCalls::Ask(const results::CallKey& key, llm::Request request,
                                           std::stop_token stop) {
  if (!ready_) return Failure(ready_.error());
  if (resumed_) {  // what is answered costs nothing, whatever the limits
    auto stored = store_.FindReply(key);
    if (!stored) return Failure(std::move(stored.error()));
    if (*stored) {
      auto row = store_.BeginCall(key, request);  // answered: changes nothing
      if (!row) return Failure(std::move(row.error()));
      return Answer{std::move(**stored), row->id};
    }
  }
  request.model = ensemble_->Choose(key.role, results::ToString(key));
  const std::vector<std::string> labels = ModelLabels(models_);
  for (std::size_t i = 0; i < models_.size(); ++i) {
    if (labels[i] != request.model || models_[i].max_tokens == 0) continue;
    request.max_tokens = std::min(request.max_tokens, Tokens(models_[i].max_tokens));
  }
  if (recording_) return Replayed(key, std::move(request), stop);
  return AskModel(key, std::move(request), std::move(stop));
}

Result<ModelCalls::Answer> ModelCalls::Stored(const results::CallKey& key, CallId call) {
  auto reply = store_.FindReply(key);
  if (!reply) return Failure(std::move(reply.error()));
  if (!*reply) return Fail(ErrorCode::kInternal, results::ToString(key) + " has lost its answer");
  return Answer{std::move(**reply), call};
}

void ModelCalls::Told(const results::CallKey& key, std::string_view model,
                      const llm::Outcome& outcome) {
  ensemble_->Told(model, key.role, results::ToString(key), outcome);
}

Result<ModelCalls::Answer> ModelCalls::Replayed(const results::CallKey& key, llm::Request request,
                                                const std::stop_token& stop) {
  if (stop.stop_requested()) return Fail(ErrorCode::kCancelled, "interrupted");
  auto reply = recording_->Find(key, request);
  if (!reply) return Failure(std::move(reply.error()));
  if (!*reply) {
    const std::string name = results::ToString(key);
    if (auto noted = store_.AddEvent("replay", name + ": not recorded"); !noted) {
      return Failure(std::move(noted.error()));
    }
    return Fail(ErrorCode::kBudget,
                fmt::format("not recorded: the replayed run never asked {}", name));
  }
  auto begun = ledger_.Begin(key, request, stop);
  if (!begun) return Failure(std::move(begun.error()));
  if (begun->answered()) return Stored(key, begun->row.id);
  if (auto done = ledger_.Answer(*begun, request.model, **reply); !done) {
    return Failure(std::move(done.error()));
  }
  return Answer{std::move(**reply), begun->row.id};
}

Result<ModelCalls::Answer> ModelCalls::AskModel(const results::CallKey& key, llm::Request request,
                                                std::stop_token stop) {
  const Tokens most = request.max_tokens;
  int paid = 0;
  for (int turn = 1;; ++turn) {
    request.max_tokens = most;
    request.meter = nullptr;
    auto begun = ledger_.Begin(key, request, stop);
    if (!begun) return Failure(std::move(begun.error()));
    if (begun->answered()) return Stored(key, begun->row.id);
    ++paid;
    auto left = ledger_.TimeLeft({key.round, key.idea, {}});
    if (!left) {
      if (auto failed = ledger_.Fail(*begun, left.error().message, false); !failed)
        return Failure(std::move(failed.error()));
      return Failure(std::move(left.error()));
    }
    CallMeter meter(ledger_, *begun, paid);
    request.meter = &meter;
    Result<llm::Reply> reply = Fail(ErrorCode::kInternal, "not asked");
    bool late = false;
    {
      Deadline deadline(stop, *left);
      reply = client_.Complete(request, deadline.token());
      late = deadline.passed();
    }
    if (reply) {
      if (auto done = ledger_.Answer(*begun, request.model, *reply); !done) {
        return Failure(std::move(done.error()));
      }
      return Answer{std::move(*reply), begun->row.id};
    }
    if (auto failed = ledger_.Fail(*begun, reply.error().message, meter.billed()); !failed) {
      return Failure(std::move(failed.error()));
    }
    if (late && !stop.stop_requested()) {
      if (auto over = ledger_.TimeLeft({key.round, key.idea, {}}); !over) {
        return Failure(std::move(over.error()));
      }
      return Fail(ErrorCode::kBudget, "the time is over");
    }
    // No attempt could be reserved beside those of others: begin anew, which waits for them.
    if (meter.refused() && paid < kMostPaid && turn < kTurns && !stop.stop_requested()) continue;
    return Fail(std::move(reply.error()), fmt::format("model {}", request.model));
  }
}

}  // namespace grove::search
