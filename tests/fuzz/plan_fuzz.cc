// Any text either parses or is refused as invalid input; what parses has a canonical form that is a
// fixed point, and resolves within its limits or is refused.
#include <cstdint>
#include <cstdlib>

#include "codegen/plan.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace grove::codegen;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const grove::Result<LaunchPlan> plan = ParsePlan(text);
  if (!plan) {
    if (plan.error().code != grove::ErrorCode::kInvalidInput) std::abort();
    return 0;
  }
  const std::string canonical = CanonicalJson(*plan);
  const grove::Result<LaunchPlan> again = ParsePlan(canonical);
  if (!again || CanonicalJson(*again) != canonical) std::abort();
  grove::seeds::Case sample;
  sample.dims = {{"M", 64}, {"N", 1000}};
  sample.scalars = {{"eps", grove::DType::kF32, 1e-5}};
  sample.tensors.resize(2);
  sample.tensors[0].name = "x";
  sample.tensors[1].name = "y";
  sample.tensors[0].shape = sample.tensors[1].shape = {64, 1000};
  DeviceLimits limits;
  limits.max_launches = 1000;
  const grove::Result<ResolvedPlan> resolved = ResolvePlan(*plan, sample, limits);
  if (resolved && resolved->launches.size() > 1000) std::abort();
  return 0;
}
