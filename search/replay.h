// The calls of a recorded run, to answer those of another: a search is executed again offline, with
// the same configuration or with another policy. Thread-safe.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>

#include "base/hash.h"
#include "base/result.h"
#include "llm/client.h"
#include "results/store.h"

namespace grove::search {

class Recording {
 public:
  // `run` is the recorded run's folder. `keys_count`: whether the same place in the search asks the
  // same question there, because both choose alike. kNotFound when there is no such run.
  static Result<std::unique_ptr<Recording>> Open(const std::filesystem::path& run, bool keys_count);

  // The recorded reply to `request`: to exactly this question (its limit on the reply apart, which
  // a budget may have shrunk) under this key, else under the first key of the same branch and turn,
  // else under the first that asked it; else, when keys count, what was answered under this key,
  // since measured times differ from run to run and stand in the prompts. None when it was not
  // recorded.
  Result<std::optional<llm::Reply>> Find(const results::CallKey& key, const llm::Request& request);

 private:
  Recording() = default;

  std::unique_ptr<results::Reader> reader_;
  bool keys_count_ = false;
  std::map<Hash, std::vector<results::CallKey>> asked_;  // answered calls by question, oldest first
};

}  // namespace grove::search
