#include "search/selection.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <span>

#include <fmt/format.h>

#include "eval/model/device_spec.h"
#include "ideas/idea.h"
#include "results/format.h"
#include "search/makeup.h"

namespace grove::search {
namespace {

using results::CandidateRow;
using results::CaseTimeRow;
using results::FrontierEntry;
using results::FrontierKind;
using results::FrontierRow;
using results::RunData;
using results::TimingMode;

double Score(const CandidateRow& kernel) { return results::ScoreOf(kernel)->count(); }

// Calls `visit` with each time that the score is made of.
template <typename F>
void ForEachScoredTime(const CandidateRow& kernel, F&& visit) {
  if (!kernel.evaluation) return;
  for (const CaseTimeRow& row : kernel.evaluation->case_times) {
    if (row.mode == TimingMode::kCold && row.kind == kernel.evaluation->score_kind &&
        row.time.count() > 0) {
      visit(row);
    }
  }
}

std::int64_t LaunchesOf(const CandidateRow& kernel) {
  std::int64_t launches = 0;
  ForEachScoredTime(kernel, [&](const CaseTimeRow& row) { launches += row.launches; });
  return launches;
}

// Bytes per nanosecond of the device that the run names; 0 = not known.
double CopyBandwidth(const RunData& data) {
  for (const results::EnvironmentRow& row : data.environment) {
    if (row.key != "gpu") continue;
    const eval::DeviceSpec* spec = eval::FindDevice(row.value);
    return spec != nullptr ? spec->copy_gbs : 0;
  }
  return 0;
}

// Own floor over time, geometric mean over the cases; 0 = not known.
double OwnFloor(const RunData& data, const CandidateRow& kernel) {
  const double bandwidth = CopyBandwidth(data);
  double sum = 0;
  int times = 0;
  bool known = true;
  ForEachScoredTime(kernel, [&](const CaseTimeRow& row) {
    double floor = std::max(row.class_floor.count(), row.floor.count());
    if (bandwidth > 0) floor = std::max(floor, row.dram_bytes / bandwidth);
    ++times;
    if (floor > 0) {
      sum += std::log(std::min(1.0, floor / row.time.count()));
    } else {
      known = false;
    }
  });
  return known && times > 0 ? Score(kernel) * std::exp(sum / times) : 0;
}

std::string CategoryOf(const RunData& data, const CandidateRow& kernel) {
  const results::IdeaRow* idea = data.Find(kernel.idea);
  return idea != nullptr ? idea->category : std::string();
}

bool Contains(const std::vector<FrontierEntry>& frontier, CandidateId id) {
  return std::any_of(frontier.begin(), frontier.end(),
                     [&](const FrontierEntry& entry) { return entry.candidate == id; });
}

bool HasMet(const RunData& data, CandidateId a, CandidateId b) {
  return std::any_of(data.promotions.begin(), data.promotions.end(), [&](const auto& contest) {
    return (contest.challenger == a && contest.incumbent == b) ||
           (contest.challenger == b && contest.incumbent == a);
  });
}

// What contests for the first place say of the kernel that challenged for it.
std::string ContestsOf(const RunData& data, const CandidateRow& kernel) {
  std::string text;
  for (const results::PromotionRow& contest : data.promotions) {
    const CandidateRow* incumbent = data.Find(contest.incumbent);
    if (contest.challenger != kernel.id || incumbent == nullptr) continue;
    text += fmt::format("; {} {} side by side: {}", contest.promoted ? "beat" : "did not beat",
                        incumbent->name, contest.why);
  }
  return text;
}

std::string TimeText(const CandidateRow& kernel) {
  return results::FormatTime(*results::ScoreOf(kernel), kernel.evaluation->score_kind);
}

// The round after which the holder of a reserve place got it, or its lineage last gained: the
// number of rounds in which the place has stood still since is what its patience is counted by.
int StandsSince(const RunData& data, CandidateId holder, int index) {
  int since = index;
  for (int round = index; round >= 1; --round) {
    const auto rows = FrontierAfter(data, round);
    const bool held = std::any_of(rows.begin(), rows.end(), [&](const FrontierRow* row) {
      return row->candidate == holder && row->kind == FrontierKind::kReserve;
    });
    if (!held) break;
    since = round;
  }
  return since;
}

int IndexOf(const RunData& data, RoundId id) {
  const results::RoundRow* round = data.Find(id);
  return round != nullptr ? round->index : 0;
}

// After rounds before `index`.
std::set<CandidateId> ReservesBefore(const RunData& data, int index) {
  std::set<CandidateId> ids;
  for (const FrontierRow& row : data.frontier) {
    if (row.kind != FrontierKind::kReserve || IndexOf(data, row.round) >= index) continue;
    ids.insert(row.candidate);
  }
  return ids;
}

// Of the rounds up to `index`.
const CandidateRow* BestUntil(const RunData& data, int index) {
  const CandidateRow* seed = data.Seed();
  const CandidateRow* best = nullptr;
  double least = std::numeric_limits<double>::infinity();
  for (const CandidateRow& candidate : CandidatesUntil(data, index)) {
    const auto score = results::ScoreOf(candidate);
    if (!score || score->count() >= least) continue;
    if (seed != nullptr && !results::SpeedUp(*seed, candidate)) continue;
    best = &candidate;
    least = score->count();
  }
  return best;
}

}  // namespace

double NoiseOf(const CandidateRow& candidate) {
  double sum = 0;
  int times = 0;
  ForEachScoredTime(candidate, [&](const CaseTimeRow& row) {
    ++times;
    if (row.kind != results::TimeKind::kMeasured || !row.low || !row.high) return;
    const double half = std::max(0.0, (*row.high - *row.low) / row.time / 2);
    sum += half * half;
  });
  return times == 0 ? 0 : std::sqrt(sum) / times;
}

bool IsTie(const CandidateRow& a, const CandidateRow& b) {
  const double noise = std::hypot(NoiseOf(a), NoiseOf(b));
  return std::abs(std::log(Score(a) / Score(b))) <= noise;
}

bool IsSimpler(const CandidateRow& a, const CandidateRow& b, const SourceSize& size) {
  const std::int64_t launches_a = LaunchesOf(a), launches_b = LaunchesOf(b);
  if (launches_a > 0 && launches_b > 0 && launches_a != launches_b) return launches_a < launches_b;
  if (size) {
    const std::int64_t size_a = size(a), size_b = size(b);
    if (size_a > 0 && size_b > 0 && size_a != size_b) return size_a < size_b;
  }
  return a.id < b.id;
}

int RoundOf(const RunData& data, const CandidateRow& kernel) {
  return kernel.round ? IndexOf(data, kernel.round) : 0;
}

std::vector<const FrontierRow*> FrontierAfter(const RunData& data, int index) {
  // They rise with the rounds.
  const auto begin = std::partition_point(
      data.frontier.begin(), data.frontier.end(),
      [&](const FrontierRow& row) { return IndexOf(data, row.round) < index; });
  std::vector<const FrontierRow*> rows;
  for (auto row = begin; row != data.frontier.end() && IndexOf(data, row->round) == index; ++row) {
    rows.push_back(&*row);
  }
  std::sort(rows.begin(), rows.end(),
            [](const FrontierRow* a, const FrontierRow* b) { return a->place < b->place; });
  return rows;
}

std::span<const CandidateRow> CandidatesUntil(const RunData& data, int index) {
  const auto end =
      std::partition_point(data.candidates.begin(), data.candidates.end(),
                           [&](const CandidateRow& row) { return RoundOf(data, row) <= index; });
  return {data.candidates.begin(), end};
}

std::span<const CandidateRow> CandidatesOf(const RunData& data, int index) {
  return CandidatesUntil(data, index).subspan(CandidatesUntil(data, index - 1).size());
}

Kernels PoolOf(const RunData& data, int index) {
  Kernels pool;
  for (const FrontierRow* row : FrontierAfter(data, index - 1)) {
    if (const CandidateRow* kernel = data.Find(row->candidate)) pool.push_back(kernel);
  }
  if (pool.empty() && data.Seed() != nullptr) pool.push_back(data.Seed());
  for (const CandidateRow& candidate : CandidatesOf(data, index)) {
    if (candidate.round) pool.push_back(&candidate);
  }
  return pool;
}

Kernels InOrder(const RunData& data, Kernels kernels, const SourceSize& size) {
  const CandidateRow* seed = data.Seed();
  std::erase_if(kernels, [&](const CandidateRow* kernel) {
    return !results::ScoreOf(*kernel) ||
           (seed != nullptr && seed->evaluation &&
            kernel->evaluation->score_kind != seed->evaluation->score_kind);
  });
  std::sort(kernels.begin(), kernels.end(), [](const CandidateRow* a, const CandidateRow* b) {
    return Score(*a) != Score(*b) ? Score(*a) < Score(*b) : a->id < b->id;
  });
  kernels.erase(std::unique(kernels.begin(), kernels.end()), kernels.end());
  // Of those that tie with the fastest left, the simplest first. A tie is not transitive, so it is
  // the fastest that decides who is in it.
  for (auto first = kernels.begin(); first != kernels.end(); ++first) {
    auto end = std::next(first);
    while (end != kernels.end() && IsTie(**first, **end)) ++end;
    const auto simplest =
        std::min_element(first, end, [&](const CandidateRow* a, const CandidateRow* b) {
          return a != b && IsSimpler(*a, *b, size);
        });
    std::rotate(first, simplest, std::next(simplest));
  }
  // What was measured side by side counts more than what was measured apart.
  for (const results::PromotionRow& contest : data.promotions) {
    const CandidateId loser_id = results::LoserOf(contest);
    const CandidateId winner_id =
        loser_id == contest.challenger ? contest.incumbent : contest.challenger;
    const auto place = [&](CandidateId id) {
      return std::find_if(kernels.begin(), kernels.end(),
                          [&](const CandidateRow* kernel) { return kernel->id == id; });
    };
    const auto loser = place(loser_id);
    const auto winner = place(winner_id);
    if (winner == kernels.end() || loser >= winner) continue;
    std::rotate(loser, std::next(loser), std::next(winner));
  }
  // Nor is a simpler kernel that never met the one that won the first place known to tie with it.
  const CandidateRow* best = data.promotions.empty() ? nullptr : data.Best();
  const bool won =
      best != nullptr && std::any_of(data.promotions.begin(), data.promotions.end(),
                                     [&](const results::PromotionRow& contest) {
                                       return contest.promoted && contest.challenger == best->id;
                                     });
  const auto at = won ? std::find(kernels.begin(), kernels.end(), best) : kernels.end();
  if (at != kernels.end()) std::rotate(kernels.begin(), at, std::next(at));
  return kernels;
}

Kernels LineageOf(const RunData& data, const CandidateRow& kernel) {
  Kernels lineage = {&kernel};
  for (const CandidateRow* at = data.Find(kernel.parent);
       at != nullptr && at->id < lineage.back()->id; at = data.Find(at->parent)) {
    lineage.push_back(at);
  }
  return lineage;
}

bool DescendsFrom(const RunData& data, const CandidateRow& kernel, const CandidateRow& forebear) {
  const CandidateRow* at = &kernel;
  while (at->id > forebear.id) {
    const CandidateRow* parent = data.Find(at->parent);
    if (parent == nullptr || parent->id >= at->id) return false;
    at = parent;
  }
  return at->id == forebear.id;
}

std::string Promise::Describe() const {
  return fmt::format(
      "promise {:.2f}: headroom {:.2f}, gain {:.2f}, rarity {:.2f}, {} the best's time", value(),
      headroom, gain, rarity, results::FormatRatio(std::exp(slowness)));
}

CategoryShares SharesOf(const RunData& data, const Kernels& frontier) {
  CategoryShares shares;
  int ideas = 0;
  for (const CandidateRow* kernel : frontier) {
    for (const CandidateRow* at : LineageOf(data, *kernel)) {
      if (!at->idea) continue;
      ++ideas;
      shares[CategoryOf(data, *at)] += 1;
    }
  }
  for (auto& [category, share] : shares) share /= ideas;
  return shares;
}

Promise PromiseOf(const RunData& data, const CandidateRow& kernel, const CandidateRow& best,
                  const CategoryShares& frontier) {
  Promise promise;
  promise.slowness = std::max(0.0, std::log(Score(kernel) / Score(best)));
  if (const double floor = OwnFloor(data, kernel); floor > 0) {
    promise.headroom = std::clamp(std::log(Score(best) / floor), 0.0, 2.0);
  }
  // Its last two steps.
  const CandidateRow* from = &kernel;
  int steps = 0;
  for (; steps < 2; ++steps) {
    const CandidateRow* parent = data.Find(from->parent);
    if (parent == nullptr) break;
    from = parent;
  }
  if (steps > 0) {
    if (const auto total = results::SpeedUp(*from, kernel)) {
      promise.gain = std::clamp(std::log(*total) / steps, -1.0, 1.0);
    }
  }
  const auto share = frontier.find(CategoryOf(data, kernel));
  promise.rarity = frontier.empty() ? 0 : share == frontier.end() ? 1 : 1 - share->second;
  return promise;
}

void TakeFastest(const RunData& data, const Kernels& ordered, int places, Choice& choice,
                 const SourceSize& size) {
  Makeups makeup_of(data);
  std::vector<Makeup> makeups;
  std::set<Hash> programs;
  int taken = 0;
  const auto take = [&](const CandidateRow& kernel) {
    if (taken == places || Contains(choice.frontier, kernel.id)) return;
    if (kernel.identity && !programs.insert(*kernel.identity).second) return;
    FrontierEntry entry;
    entry.candidate = kernel.id;
    ++taken;
    entry.why = fmt::format("number {} by time: {}", taken, TimeText(kernel));
    const auto at = std::find(ordered.begin(), ordered.end(), &kernel);
    const auto rival = std::find_if(std::next(at), ordered.end(), [&](const CandidateRow* other) {
      return Score(*other) < Score(kernel) ||
             (IsTie(*other, kernel) && IsSimpler(kernel, *other, size));
    });
    if (rival != ordered.end() && !HasMet(data, (*rival)->id, kernel.id)) {
      entry.why +=
          fmt::format("; a tie with {} ({}), and simpler", (*rival)->name, TimeText(**rival));
    }
    entry.why += ContestsOf(data, kernel);
    choice.frontier.push_back(std::move(entry));
  };
  for (const CandidateRow* kernel : ordered) {
    const Makeup& makeup = makeup_of.Of(*kernel);
    if (std::find(makeups.begin(), makeups.end(), makeup) != makeups.end()) continue;
    makeups.push_back(makeup);
    take(*kernel);
  }
  for (const CandidateRow* kernel : ordered) take(*kernel);
}

void FillReserve(const RunData& data, int index, int places, const Kernels& pool, Choice& choice) {
  const Kernels ordered = InOrder(data, pool);
  Kernels fast;
  for (const FrontierEntry& entry : choice.frontier) fast.push_back(data.Find(entry.candidate));
  const CandidateRow* best = BestUntil(data, index);
  if (best == nullptr || ordered.empty()) return;
  Makeups makeup_of(data);
  std::vector<Makeup> makeups;
  for (const CandidateRow* kernel : fast) makeups.push_back(makeup_of.Of(*kernel));
  const std::size_t end = choice.frontier.size() + static_cast<std::size_t>(places);
  const auto keep = [&](const CandidateRow& kernel, std::string why) {
    FrontierEntry entry;
    entry.candidate = kernel.id;
    entry.kind = FrontierKind::kReserve;
    entry.why = std::move(why);
    choice.frontier.push_back(std::move(entry));
    makeups.push_back(makeup_of.Of(kernel));
  };

  // Those who hold a place, or their children that beat them.
  for (const FrontierRow* row : FrontierAfter(data, index - 1)) {
    if (row->kind != FrontierKind::kReserve || choice.frontier.size() == end) continue;
    const CandidateRow* holder = data.Find(row->candidate);
    if (holder == nullptr || Contains(choice.frontier, holder->id)) continue;
    const CandidateRow* heir = nullptr;
    bool child_is_fast = false;
    for (const CandidateRow* kernel : ordered) {
      if (kernel->parent != holder->id || RoundOf(data, *kernel) != index) continue;
      if (Contains(choice.frontier, kernel->id)) child_is_fast = true;
      if (heir == nullptr && Score(*kernel) < Score(*holder) && !IsTie(*kernel, *holder)) {
        heir = kernel;
      }
    }
    if (child_is_fast) continue;  // it has done what it was kept for
    if (heir != nullptr) {
      keep(*heir, fmt::format("reserve: takes the place of {}, {} faster", holder->name,
                              results::FormatRatio(*results::SpeedUp(*holder, *heir))));
      continue;
    }
    const int held = index - StandsSince(data, holder->id, index - 1);
    if (held < kReserveRounds) {
      keep(*holder, fmt::format("reserve: round {} of {} of its place", held + 1, kReserveRounds));
    }
  }

  // New ones by promise.
  struct Ranked {
    const CandidateRow* kernel;
    Promise promise;
  };
  std::vector<Ranked> ranked;
  const std::set<CandidateId> reserves = ReservesBefore(data, index);
  const CategoryShares shares = SharesOf(data, fast);
  for (const CandidateRow* kernel : ordered) {
    if (Contains(choice.frontier, kernel->id) || reserves.contains(kernel->id)) continue;
    if (Score(*kernel) > kReserveReach * Score(*best) || !kernel->idea) continue;
    ranked.push_back({kernel, PromiseOf(data, *kernel, *best, shares)});
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](const Ranked& a, const Ranked& b) {
    return a.promise.value() > b.promise.value();
  });
  for (const Ranked& entry : ranked) {
    if (choice.frontier.size() >= end) break;
    const Makeup& makeup = makeup_of.Of(*entry.kernel);
    if (std::find(makeups.begin(), makeups.end(), makeup) != makeups.end()) continue;
    keep(*entry.kernel, "reserve: " + entry.promise.Describe());
  }

  // Why the others were not kept.
  std::map<CandidateId, const Ranked*> promises;
  for (const Ranked& entry : ranked) promises[entry.kernel->id] = &entry;
  Kernels kept;
  for (const FrontierEntry& entry : choice.frontier) kept.push_back(data.Find(entry.candidate));
  for (const CandidateRow* kernel : ordered) {
    if (Contains(choice.frontier, kernel->id)) continue;
    const Makeup& makeup = makeup_of.Of(*kernel);
    const auto same = std::find_if(kept.begin(), kept.end(), [&](const CandidateRow* other) {
      return other != nullptr && makeup_of.Of(*other) == makeup;
    });
    const CandidateRow* alike = same != kept.end() ? *same : nullptr;
    std::string why;
    if (alike != nullptr) {
      why = fmt::format("{} is made of the same ideas and {}", alike->name,
                        IsTie(*alike, *kernel) ? "ties" : "is faster");
    } else if (reserves.contains(kernel->id)) {
      why = fmt::format("held a reserve place for {} rounds without a gain", kReserveRounds);
    } else {
      const CandidateRow* last = fast.empty() ? best : fast.back();
      why = fmt::format("{} the time of {}", results::FormatRatio(Score(*kernel) / Score(*last)),
                        last->name);
      if (const auto it = promises.find(kernel->id); it != promises.end()) {
        why += "; " + it->second->promise.Describe();
      }
    }
    choice.pruned.push_back({kernel->id, why + ContestsOf(data, *kernel)});
  }
  std::sort(choice.pruned.begin(), choice.pruned.end(),
            [](const Pruned& a, const Pruned& b) { return a.candidate < b.candidate; });
}

}  // namespace grove::search
