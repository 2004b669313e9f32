// The texts of requests, of which the branches of an idea share one: what a request says is stored
// once, its random seed in the row of the call, and what many begin with is a text of its own.
// Internal to results/; not thread-safe.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <utility>

#include "base/hash.h"
#include "llm/client.h"
#include "results/sql.h"

namespace grove::results {

class RequestTexts {
 public:
  // Stores RequestJson(request), and what it refers to, when they are not there. Throws as PutText
  // does.
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

// The text of a request with what it shares in its place: as RequestJson, but whole. A text that is
// no such JSON comes back as it is. Throws as GetText does.
std::string WholeRequest(Connection& c, const Hash& hash);

}  // namespace grove::results
