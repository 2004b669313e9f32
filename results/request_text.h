// The texts of requests, of which the branches of an idea share one: what a request says is stored
// once, its random seed in the row of the call. Internal to results/; not thread-safe.
#pragma once

#include <array>
#include <optional>
#include <utility>

#include "base/hash.h"
#include "llm/client.h"
#include "results/sql.h"

namespace grove::results {

class RequestTexts {
 public:
  // Stores RequestJson(request) when it is not there. Throws as PutText does.
  Hash Put(Connection& c, const llm::Request& request);

 private:
  // The last ones, so that siblings are compared and not written again.
  struct Known {
    llm::Request request;
    Hash said;  // of its messages: prompts of one parent are equal for most of their length
    Hash text;  // of RequestJson(request)
  };
  std::array<std::optional<Known>, 16> last_;
  std::size_t next_ = 0;
};

}  // namespace grove::results
