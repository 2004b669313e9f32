#include "search/makeup.h"

#include <algorithm>
#include <utility>

#include "ideas/idea.h"

namespace grove::search {

using results::CandidateRow;
using results::IdeaRow;

bool Add(Makeup& makeup, std::uint64_t title) {
  const auto place = std::lower_bound(makeup.begin(), makeup.end(), title);
  if (place != makeup.end() && *place == title) return false;
  makeup.insert(place, title);
  return true;
}

const Makeup& Makeups::Of(const CandidateRow& kernel) {
  static const Makeup kNothing;
  // Up to an idea whose makeup is known, and down again. A parent is older than its child; where
  // the links of a damaged file say otherwise the way ends.
  std::vector<const IdeaRow*> steps;
  const Makeup* makeup = &kNothing;
  for (const CandidateRow* at = &kernel; at != nullptr;) {
    if (const IdeaRow* idea = data_.Find(at->idea)) {
      if (const auto found = known_.find(idea->id); found != known_.end()) {
        makeup = &found->second;
        break;
      }
      steps.push_back(idea);
    }
    at = at->parent < at->id ? data_.Find(at->parent) : nullptr;
  }
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    Makeup with = *makeup;
    Add(with, ideas::TitleKey((*step)->title));
    makeup = &known_.emplace((*step)->id, std::move(with)).first->second;
  }
  return *makeup;
}

Makeup MakeupOf(const results::RunData& data, const CandidateRow& kernel) {
  return Makeups(data).Of(kernel);
}

}  // namespace grove::search
