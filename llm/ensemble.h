// Several models for one role: which of them answers a call. The choice is made before the call is
// stored and is stored with it, so a resumed or replayed run never asks it again.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "llm/client.h"

namespace grove::llm {

// What became of a call, for choosers that learn.
struct Outcome {
  bool answered = false;  // a reply came
  bool useful = false;    // it parsed, and for code: the candidate passed
  double gain = 0;        // of a candidate over its parent, 1.3 = 30% faster; 0 = none
  Usage usage;
};

// Thread-safe.
class Ensemble {
 public:
  virtual ~Ensemble() = default;
  // The label of the model that answers the call named `key`, one among those that take `role`.
  virtual std::string Choose(Role role, std::string_view key) = 0;
  // How the call that Choose answered with `label` ended. The weighted ensemble learns nothing.
  virtual void Told(std::string_view label, Role role, std::string_view key,
                    const Outcome& outcome) = 0;
};

struct EnsembleMember {
  std::string label;
  std::vector<Role> roles;  // none = all
  double weight = 1;        // above 0
};
// Chooses by weight from a hash of (seed, role, key): the same key gives the same model in every
// run with this seed, in any order and from any thread. kInvalidInput when there is no member, or
// a weight that is not above 0.
Result<std::unique_ptr<Ensemble>> MakeWeightedEnsemble(std::vector<EnsembleMember> members,
                                                       std::uint64_t seed);

// One client over many: a request goes to the client whose label is its `model`. Thread-safe as
// they are. kNotFound for a label that none has.
struct LabelledClient {
  std::string label;
  std::unique_ptr<Client> client;
};
std::unique_ptr<Client> MakeLabelledClients(std::vector<LabelledClient> clients);

}  // namespace grove::llm
