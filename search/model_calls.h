// The one way from the search to a model: every question goes through here, so that what is asked
// is stored before it is sent, what was answered is never asked again, and nothing is sent that
// the ledger does not allow. Thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "base/result.h"
#include "base/units.h"
#include "llm/client.h"
#include "llm/ensemble.h"
#include "results/rows.h"
#include "results/store.h"
#include "search/config.h"
#include "search/ledger.h"
#include "search/replay.h"

namespace grove::search {

// Attempts of one call that may be billed, of one session: as many as the transport makes by itself
// (llm/retry.h), also when it begins anew.
inline constexpr int kMostPaid = 5;

class ModelCalls {
 public:
  struct Answer {
    llm::Reply reply;
    CallId call;
  };

  // Borrows store and client, which must outlive it. `config` says which models there are, what
  // they may spend and whether a recorded run answers; `ensemble` (borrowed) which of the models
  // answers a call, without one their weights do. `client` takes requests by ModelLabels(config).
  ModelCalls(results::Store& store, llm::Client& client, const SearchConfig& config = {},
             llm::Ensemble* ensemble = nullptr);

  // The reply to `request` under the natural key `key`: the stored one when the run has it, else
  // the model's. Blocks. Errors of llm::Client::Complete, of which kUnavailable means that the
  // endpoint is down: the run pauses, resumable. kBudget as search/ledger.h says: a limit, or a
  // replayed run that has no such call; ask exhausted() whether the run is over or this branch
  // only. kCancelled when `stop` was requested.
  Result<Answer> Ask(const results::CallKey& key, llm::Request request, std::stop_token stop);

  // How an answered call turned out, for ensembles that learn.
  void Told(const results::CallKey& key, std::string_view model, const llm::Outcome& outcome);

  Ledger& ledger() { return ledger_; }
  // A limit of the run or task is reached; reason() says which.
  bool exhausted() const { return ledger_.exhausted(); }
  std::string reason() const { return ledger_.reason(); }

 private:
  Result<Answer> Stored(const results::CallKey& key, CallId call);
  Result<Answer> AskModel(const results::CallKey& key, llm::Request request, std::stop_token stop);
  Result<Answer> Replayed(const results::CallKey& key, llm::Request request,
                          const std::stop_token& stop);

  results::Store& store_;
  llm::Client& client_;
  const std::vector<ModelSpec> models_;
  Ledger ledger_;
  std::unique_ptr<llm::Ensemble> weights_;
  llm::Ensemble* ensemble_;  // ours or the caller's; none = the request's own model
  std::unique_ptr<Recording> recording_;
  bool resumed_ = false;  // the store held replies before
  Status ready_;
};

// How each of ModelsOf(config) is called in requests and in the store: its name, with "#2" and so
// on behind it when it is configured more than once.
std::vector<std::string> ModelLabels(const std::vector<ModelSpec>& models);

// The models as members of an ensemble, with their labels, roles and weights.
std::vector<llm::EnsembleMember> MembersOf(const std::vector<ModelSpec>& models);

// Prices of the models that have none of their own, from the table; what is unknown stays so.
void FillPrices(std::vector<ModelSpec>& models, const llm::PriceTable& table);

}  // namespace grove::search
