#include "llm/replay_client.h"

#include <fmt/format.h>

namespace grove::llm {
namespace {

class ReplayClient final : public Client {
 public:
  explicit ReplayClient(Lookup lookup) : lookup_(std::move(lookup)) {}

  std::string_view name() const override { return "replay"; }

  Result<Reply> Complete(const Request& request, std::stop_token stop) override {
    if (stop.stop_requested()) return Fail(ErrorCode::kCancelled, "cancelled");
    auto found = lookup_(request);
    if (!found) return Fail(std::move(found.error()), "replay");
    if (!*found) {
      return Fail(ErrorCode::kNotFound, fmt::format("not recorded: a {} request with seed {}",
                                                    Name(request.role), request.seed));
    }
    return std::move(**found);
  }

 private:
  const Lookup lookup_;
};

}  // namespace

std::unique_ptr<Client> MakeReplayClient(Lookup lookup) {
  return std::make_unique<ReplayClient>(std::move(lookup));
}

}  // namespace grove::llm
