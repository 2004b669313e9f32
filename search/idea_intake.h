// Which of a reply's ideas a round takes: new ones only, and not all of one category. A pure
// function of the ideas in their order, so that ideas may be taken while the reply still comes in
// and a replay takes the same. One intake per parent and round; thread-compatible.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ideas/idea.h"
#include "ideas/novelty.h"

namespace grove::search {

class IdeaIntake {
 public:
  // Why an idea would make what another kernel is or becomes, to go behind its title in a refusal;
  // empty = it would not.
  using Same = std::function<std::string(const ideas::Idea&)>;
  // `tried`: from this parent in earlier rounds; borrowed. `wanted`: to take in all. `most`: of one
  // category.
  IdeaIntake(std::vector<const ideas::Gist*> tried, std::size_t wanted, std::size_t most,
             Same same = {});

  enum class Decision {
    kTaken,
    kSeen,      // this intake has decided about it before
    kFull,      // there are enough
    kClash,     // near to one that was tried, or taken; or makes what is there by another way
    kCategory,  // its category has its share
  };
  Decision Offer(const ideas::Idea& idea);
  // The stored idea that stands at the place just taken, when a resumed round finds another there.
  void Replace(const ideas::Idea& stored);

  bool full() const { return taken_.size() >= wanted_; }
  std::size_t missing() const { return full() ? 0 : wanted_ - taken_.size(); }
  const std::vector<ideas::Idea>& taken() const { return taken_; }
  // One line for each idea that was refused: what it clashed with.
  const std::vector<std::string>& refusals() const { return refusals_; }

 private:
  std::size_t wanted_, most_;
  Same same_;
  const std::vector<const ideas::Gist*> tried_;
  std::vector<ideas::Idea> taken_;
  std::vector<ideas::Gist> gists_;    // of those taken
  std::vector<std::string> decided_;  // normalised titles
  std::map<ideas::Category, std::size_t> counts_;
  std::vector<std::string> refusals_;
};

// At most half of a round's ideas are of one category. Of an odd number for each parent, parents
// take turns in giving the larger half.
std::size_t MostOfCategory(std::size_t wanted, int place);

// The ideas of a reply that is still coming in, as far as they are whole. Empty unless the reply is
// JSON from its first character (or fence) on: prose before it may hold drafts.
std::vector<ideas::Idea> WholeIdeas(std::string_view so_far, std::size_t most);

}  // namespace grove::search
