// The one way from the search to a model: every question goes through here, so that what is asked
// is stored before it is sent, what was answered is never asked again, and nothing is sent that
// the ledger does not allow. Thread-safe.
#pragma once

#include <functional>
#include <stop_token>

#include "base/result.h"
#include "base/units.h"
#include "llm/client.h"
#include "results/rows.h"
#include "results/store.h"

namespace grove::search {

class ModelCalls {
 public:
  struct Answer {
    llm::Reply reply;
    CallId call;
  };

  // Borrows both, which must outlive it.
  ModelCalls(results::Store& store, llm::Client& client);

  // The reply to `request` under the natural key `key`: the stored one when the run has it, else
  // the model's. Blocks. Errors of llm::Client::Complete; kBudget when the request could overdraw a
  // limit (nothing was sent); kCancelled when `stop` was requested.
  Result<Answer> Ask(const results::CallKey& key, const llm::Request& request,
                     std::stop_token stop);

 private:
  results::Store& store_;
  llm::Client& client_;
};

}  // namespace grove::search
