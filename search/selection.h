// What policies are made of: order by time with ties, likeness, promise. Pure functions of the
// stored rows; thread-safe.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "results/rows.h"
#include "results/store.h"
#include "search/policy.h"

namespace grove::search {

using Kernels = std::vector<const results::CandidateRow*>;

// Half the interval of the score as a share of it, from the intervals of the cases' cold times
// (independent errors of a geometric mean). 0 for modelled times, which have no noise.
double NoiseOf(const results::CandidateRow& candidate);
// The scores differ by no more than their noise together. REQUIRES: both have a score.
bool IsTie(const results::CandidateRow& a, const results::CandidateRow& b);

// Less to launch (launches over all cases), then less to read (characters of the normalised source
// and plan), then older. What is not known (0, or no `size`) is not compared.
bool IsSimpler(const results::CandidateRow& a, const results::CandidateRow& b,
               const SourceSize& size = {});

// Best first: by score; among those that tie with the fastest left, the simplest comes first; who
// lost a contest for the first place (data.promotions) comes behind its winner, and who won it
// (RunData::Best) before those that were only measured apart.
// Kernels without a score, of another kind of time than the seed's, or listed twice are dropped.
Kernels InOrder(const results::RunData& data, Kernels kernels, const SourceSize& size = {});

// From the kernel up to the seed, both included. A parent is older than its child; where the links
// of a damaged file say otherwise the lineage ends.
Kernels LineageOf(const results::RunData& data, const results::CandidateRow& kernel);
// Whether `kernel` is `forebear` or descends from it. As many steps as lie between the two.
bool DescendsFrom(const results::RunData& data, const results::CandidateRow& kernel,
                  const results::CandidateRow& forebear);

// How promising a kernel is that is slower than `best`, in units of a natural logarithm of time:
//
//   headroom + 0.5 gain + 0.25 rarity - 0.5 slowness
//
// headroom: ln(best / own floor), 0 to 2: how far below the best time the kernel's own bottleneck
//   would let it go. The own floor is the traffic that it causes at the device's copy bandwidth,
//   and no less than the class floor: a kernel that moves each byte once may become faster than the
//   best, one that moves each byte three times may not, however well it is tuned. Where neither is
//   known: 0.
// gain: mean ln(parent / kernel) over its last two steps, -1 to 1: it is on its way.
// rarity: 1 - share of its idea's category among the ideas of the frontier's lineages.
// slowness: ln(kernel / best), at least 0.
struct Promise {
  double headroom = 0, gain = 0, rarity = 0, slowness = 0;
  double value() const { return headroom + 0.5 * gain + 0.25 * rarity - 0.5 * slowness; }
  std::string Describe() const;  // "promise 0.41: headroom 0.52, gain 0.10, rarity 0.67, 1.62x ..."
};
// By category: its share of the ideas of these kernels' lineages.
using CategoryShares = std::map<std::string, double>;
CategoryShares SharesOf(const results::RunData& data, const Kernels& frontier);
// `frontier`: SharesOf it.
Promise PromiseOf(const results::RunData& data, const results::CandidateRow& kernel,
                  const results::CandidateRow& best, const CategoryShares& frontier);

// The rounds that a place in the reserve lasts at least, and from then on for as long as its
// lineage gains.
inline constexpr int kReserveRounds = 3;
// A kernel slower than this many times the best is never a reserve.
inline constexpr double kReserveReach = 8;

// Fills the reserve behind `choice.frontier` (which holds the fast places) after round `index`, and
// explains every other kernel of `pool`. A place passes to the fastest child that beats its holder,
// and its time begins anew; a holder that is among the fast frees it; one that bore nothing in
// kReserveRounds gives it up and does not come back.
void FillReserve(const results::RunData& data, int index, int places, const Kernels& pool,
                 Choice& choice);

// The round's passed kernels and the frontier before it (the seed for round 1).
Kernels PoolOf(const results::RunData& data, int index);
// Of the rounds up to `index`, the seed among them: ids rise with the rounds.
std::span<const results::CandidateRow> CandidatesUntil(const results::RunData& data, int index);
// All candidates of round `index`.
std::span<const results::CandidateRow> CandidatesOf(const results::RunData& data, int index);
// Index of the round that a kernel is of; 0 for the seed.
int RoundOf(const results::RunData& data, const results::CandidateRow& kernel);
// The frontier after round `index`, in order of place.
std::vector<const results::FrontierRow*> FrontierAfter(const results::RunData& data, int index);

// Appends up to `places` of `ordered` (best first), near-identical ones passed over, and then, when
// places are left, those as well but for equal programs.
void TakeFastest(const results::RunData& data, const Kernels& ordered, int places, Choice& choice,
                 const SourceSize& size = {});

}  // namespace grove::search
