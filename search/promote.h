// Who has the first place after a round, on a device that measures. Two times that were taken at
// different moments differ by more than a small gain, so a kernel of the round that looks faster
// than the best before it (or that another machine found faster beside it) is measured beside it,
// interleaved, on the same inputs and the same GPU (eval/promotion.h), before it takes its place: a
// gain inside the noise is a tie, and a tie goes to the simpler of the two. The contest and its
// samples are rows of the run (results::PromotionRow); who lost stands behind its winner wherever
// the best is looked for (RunData::Best, InOrder), and its round did not gain. Modelled times have
// no noise and no contests.
#pragma once

#include <functional>
#include <optional>
#include <stop_token>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "eval/promotion.h"
#include "results/rows.h"
#include "search/ledger.h"
#include "search/observer.h"
#include "search/run_tree.h"

namespace grove::search {

// A round has so many contests at most: its fastest, and those that tie with it by their scores.
inline constexpr int kMostContests = 3;

// Whom the winners of `round` challenge: the best measured of all other rounds, those that lost a
// contest apart; nullptr where there is none. Not always in the frontier: a kernel that ties with
// it and is simpler may stand there in its place.
const results::CandidateRow* ChampionBefore(const results::RunData& data, RoundId round);

struct PromoteParts {
  RunTree& tree;
  eval::ComparePrograms compare;
  Ledger& ledger;
  Observer& observer;
  bool on_gpu = false;  // its seconds are counted
  // What another machine measured of the two side by side, none where it did not; empty where
  // there is no other machine. Who was faster there challenges whatever the two scores say: they
  // may be of different GPUs.
  std::function<std::optional<std::vector<eval::CasePair>>(const Hash& incumbent,
                                                           const Hash& challenger)>
      beside = {};
};

// Holds the contests of a round whose candidates all have their verdicts. Called again after a kill
// it does those that are left. When the budget refuses one, the challenger keeps the place that its
// score gives it, and an event of the run ("contest") says that nobody looked twice; the same when
// `compare` is kUnavailable (another machine did not measure the two). Other errors of the
// device leave the run resumable; kCancelled on a stop. REQUIRES: nothing else writes to the tree.
Status PromoteWinners(const PromoteParts& parts, RoundId round, const std::stop_token& stop);

}  // namespace grove::search
