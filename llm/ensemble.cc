#include "llm/ensemble.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "base/hash.h"

namespace grove::llm {
namespace {

class WeightedEnsemble final : public Ensemble {
 public:
  WeightedEnsemble(std::vector<EnsembleMember> members, std::uint64_t seed)
      : members_(std::move(members)), seed_(std::to_string(seed)) {}

  std::string Choose(Role role, std::string_view key) override {
    std::vector<const EnsembleMember*> takers;
    double sum = 0;
    for (const EnsembleMember& member : members_) {
      if (!member.roles.empty() &&
          std::find(member.roles.begin(), member.roles.end(), role) == member.roles.end()) {
        continue;
      }
      takers.push_back(&member);
      sum += member.weight;
    }
    // A role that no member takes falls to all: better an answer than none.
    if (takers.empty()) {
      for (const EnsembleMember& member : members_) {
        takers.push_back(&member);
        sum += member.weight;
      }
    }
    const std::array<std::string_view, 3> texts = {seed_, Name(role), key};
    const std::uint64_t bits = HashTexts(texts).high >> 11U;
    double at = static_cast<double>(bits) * 0x1p-53 * sum;
    for (const EnsembleMember* member : takers) {
      if (at < member->weight) return member->label;
      at -= member->weight;
    }
    return takers.back()->label;
  }

  void Told(std::string_view, Role, std::string_view, const Outcome&) override {}

 private:
  const std::vector<EnsembleMember> members_;
  const std::string seed_;
};

class LabelledClients final : public Client {
 public:
  explicit LabelledClients(std::vector<LabelledClient> clients) : clients_(std::move(clients)) {}

  std::string_view name() const override {
    return clients_.size() == 1 ? clients_.front().client->name() : "ensemble";
  }

  Result<Reply> Complete(const Request& request, std::stop_token stop) override {
    for (const LabelledClient& entry : clients_) {
      if (entry.label == request.model) return entry.client->Complete(request, std::move(stop));
    }
    return Fail(ErrorCode::kNotFound,
                fmt::format("the configuration has no model '{}'", request.model));
  }

 private:
  const std::vector<LabelledClient> clients_;
};

}  // namespace

Result<std::unique_ptr<Ensemble>> MakeWeightedEnsemble(std::vector<EnsembleMember> members,
                                                       std::uint64_t seed) {
  if (members.empty()) return Fail(ErrorCode::kInvalidInput, "no model is configured");
  for (const EnsembleMember& member : members) {
    if (!std::isfinite(member.weight) || member.weight <= 0) {
      return Fail(ErrorCode::kInvalidInput,
                  fmt::format("the weight of {} must be above 0", member.label));
    }
  }
  return std::make_unique<WeightedEnsemble>(std::move(members), seed);
}

std::unique_ptr<Client> MakeLabelledClients(std::vector<LabelledClient> clients) {
  return std::make_unique<LabelledClients>(std::move(clients));
}

}  // namespace grove::llm
