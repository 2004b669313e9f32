#include "search/idea_intake.h"

#include <algorithm>

#include <fmt/format.h>

namespace grove::search {

IdeaIntake::IdeaIntake(std::vector<const ideas::Gist*> tried, std::size_t wanted, std::size_t most,
                       Same same)
    : wanted_(wanted), most_(most), same_(std::move(same)), tried_(std::move(tried)) {}

IdeaIntake::Decision IdeaIntake::Offer(const ideas::Idea& idea) {
  const std::string normalised = ideas::NormalisedTitle(idea.title);
  if (std::find(decided_.begin(), decided_.end(), normalised) != decided_.end()) {
    return Decision::kSeen;
  }
  if (full()) return Decision::kFull;
  decided_.push_back(normalised);
  ideas::Gist gist = ideas::GistOf(idea);
  const auto clash = [&](const ideas::Gist& with, std::string_view which) {
    refusals_.push_back(fmt::format("\"{}\" is nearly the same as \"{}\", which {}", idea.title,
                                    with.title, which));
    return Decision::kClash;
  };
  for (const ideas::Gist* other : tried_) {
    if (ideas::NearDuplicate(gist, *other)) return clash(*other, "was tried from this kernel");
  }
  for (const ideas::Gist& other : gists_) {
    if (ideas::NearDuplicate(gist, other)) {
      return clash(other, "is already among the ideas of this round");
    }
  }
  if (same_) {
    if (const std::string why = same_(idea); !why.empty()) {
      refusals_.push_back(fmt::format("\"{}\" {}", idea.title, why));
      return Decision::kClash;
    }
  }
  if (counts_[idea.category] >= most_) {
    refusals_.push_back(fmt::format(
        "\"{}\": this round has its share of ideas of the category {}; give another category",
        idea.title, ideas::Name(idea.category)));
    return Decision::kCategory;
  }
  ++counts_[idea.category];
  taken_.push_back(idea);
  gists_.push_back(std::move(gist));
  return Decision::kTaken;
}

void IdeaIntake::Replace(const ideas::Idea& stored) {
  if (ideas::SameIdea(stored, taken_.back())) return;
  --counts_[taken_.back().category];
  ++counts_[stored.category];
  taken_.back() = stored;
  gists_.back() = ideas::GistOf(stored);
  decided_.push_back(gists_.back().normalised);
}

std::size_t MostOfCategory(std::size_t wanted, int place) {
  const std::size_t half = place % 2 == 1 ? wanted / 2 : (wanted + 1) / 2;
  return std::max<std::size_t>(1, half);
}

std::vector<ideas::Idea> WholeIdeas(std::string_view so_far, std::size_t most) {
  std::string_view start = so_far;
  const auto skip_blanks = [&] {
    while (!start.empty() && (start[0] == ' ' || start[0] == '\n' || start[0] == '\r')) {
      start.remove_prefix(1);
    }
  };
  skip_blanks();
  if (start.starts_with("```json")) {
    start.remove_prefix(7);
    skip_blanks();
  }
  if (start.empty() || (start[0] != '{' && start[0] != '[')) return {};
  auto parsed = ideas::ParseIdeas(so_far, most);
  if (!parsed) return {};
  return std::move(parsed->ideas);
}

}  // namespace grove::search
