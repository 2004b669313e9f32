#include "search/changes.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "eval/promotion.h"
#include "results/tree.h"
#include "search/describe.h"
#include "search/prompts.h"
#include "search/selection.h"
#include "search/stagnation.h"

namespace grove::search {
namespace {

using ideas::Change;
using results::CandidateRow;
using results::IdeaRow;
using results::RunData;

// Candidates that are looked through for ties, the newest; a prompt costs the same in a long run.
constexpr std::size_t kLookBack = 1000;
constexpr std::size_t kMostTies = 8, kMostOthers = 10, kMostNamed = 4;
// Ideas that tried something from this parent, and from elsewhere, the newest.
constexpr std::size_t kIdeasLookedAt = 24;
// Ties are there to be combined, so they are cut last.
constexpr ideas::ChangeLimits kTieLimits{2, 120, 7000, 0.7};
// A kernel that an idea builds on is shown in full, as far as a prompt holds it.
constexpr ideas::ChangeLimits kNamedLimits{3, 400, 15000, 0.7};

Result<seeds::ProgramText> TextOf(const RunTree& tree, const CandidateRow& kernel) {
  seeds::ProgramText program;
  for (const auto& [hash, text] :
       {std::pair(kernel.source, &program.source), std::pair(kernel.plan, &program.plan)}) {
    if (!hash) continue;
    auto stored = tree.Text(*hash);
    if (!stored) return Failure(std::move(stored.error()));
    *text = std::move(*stored);
  }
  return program;
}

std::set<CandidateId> IdsOf(const Kernels& kernels) {
  std::set<CandidateId> ids;
  for (const CandidateRow* kernel : kernels) ids.insert(kernel->id);
  return ids;
}

// The newest contest of the two, of a round before `round`.
const results::PromotionRow* ContestOf(const RunData& data, const CandidateRow& a,
                                       const CandidateRow& b, int round) {
  for (auto row = data.promotions.rbegin(); row != data.promotions.rend(); ++row) {
    const bool both = (row->challenger == a.id && row->incumbent == b.id) ||
                      (row->challenger == b.id && row->incumbent == a.id);
    if (!both) continue;
    const CandidateRow* challenger = data.Find(row->challenger);
    if (challenger != nullptr && RoundOf(data, *challenger) < round) return &*row;
  }
  return nullptr;
}

// What `kernel` changed: of the parent where it comes from it, also in several steps, else of its
// own parent. None when there is nothing to compare it with.
Result<Change> ChangeOf(const RunTree& tree, const CandidateRow& kernel, const CandidateRow& parent,
                        int round, const ideas::ChangeLimits& limits) {
  const RunData& data = tree.data();
  const bool descends = DescendsFrom(data, kernel, parent);
  const CandidateRow* base = descends ? &parent : data.Find(kernel.parent);
  Change change;
  change.heading = NameAndTime(kernel);
  if (const IdeaRow* idea = data.Find(kernel.idea)) {
    change.heading += fmt::format(", {} [{}]", idea->title, idea->category);
  }
  if (base == nullptr) return change;
  const auto gain = results::SpeedUp(*base, kernel);
  change.heading += fmt::format(": {}from {}", gain ? ideas::DescribeGain(*gain) + " " : "",
                                descends ? base->name : NameAndTime(*base));
  if (const std::string beside = BesideParent(kernel, parent); !descends && !beside.empty()) {
    change.heading += "; " + beside;
  }
  if (const auto* contest = ContestOf(data, kernel, parent, round)) {
    const bool turned = contest->challenger == parent.id;
    const double ratio = turned ? 1 / contest->ratio : contest->ratio;
    change.heading +=
        fmt::format("; side by side {:.4f} of the time of {}{}", ratio, parent.name,
                    contest->low <= 1 && contest->high >= 1 ? ", within the noise" : "");
  }
  auto before = TextOf(tree, *base);
  if (!before) return Failure(std::move(before.error()));
  auto after = TextOf(tree, kernel);
  if (!after) return Failure(std::move(after.error()));
  ideas::ChangeFocus focus;
  if (kernel.evaluation) focus.kernels = LaunchedKernels(*kernel.evaluation);
  seeds::ProgramText shown;
  if (!descends) {
    auto text = TextOf(tree, parent);
    if (!text) return Failure(std::move(text.error()));
    shown = std::move(*text);
    focus.shown = &shown;
  }
  change.difference = ideas::ChangeBetween(base->name, *before, kernel.name, *after, focus, limits);
  return change;
}

bool Ties(const RunData& data, const CandidateRow& kernel, const CandidateRow& parent, int round) {
  const auto gain = results::SpeedUp(parent, kernel);
  // Far beyond any noise: most are told apart by this.
  if (!gain || std::abs(*gain - 1) > 0.25) return false;
  if (const auto* contest = ContestOf(data, kernel, parent, round)) {
    return contest->outcome == eval::Contest::kTie;
  }
  return IsTie(kernel, parent);
}

double Score(const CandidateRow& kernel) { return results::ScoreOf(kernel)->count(); }

bool IsFaster(const CandidateRow* a, const CandidateRow* b) {
  return Score(*a) != Score(*b) ? Score(*a) < Score(*b) : a->id < b->id;
}

Kernels TiesWith(const RunData& data, const CandidateRow& parent, int round) {
  if (!results::ScoreOf(parent)) return {};
  std::map<IdeaId, const CandidateRow*> best;
  const auto before = CandidatesUntil(data, round - 1);
  for (const CandidateRow& row : before.last(std::min(before.size(), kLookBack))) {
    if (!row.idea || !Ties(data, row, parent, round) || DescendsFrom(data, parent, row)) continue;
    const CandidateRow*& of_idea = best[row.idea];
    if (of_idea == nullptr || IsFaster(&row, of_idea)) of_idea = &row;
  }
  Kernels ties;
  for (const auto& [idea, kernel] : best) ties.push_back(kernel);
  std::sort(ties.begin(), ties.end(), IsFaster);
  if (ties.size() > kMostTies) ties.resize(kMostTies);
  return ties;
}

// How much is to be learnt from a kernel's change: what is far from its own parent says more than
// what is within the noise, and of old parents what came of it in the end says more than how far.
struct Lesson {
  const CandidateRow* kernel = nullptr;
  int group = 0;        // 0 of this parent, 1 of one about as fast, 2 of others, 3 near ties
  double distance = 0;  // |log| of the gain over its own parent
};
bool TeachesMore(const Lesson& a, const Lesson& b) {
  if (a.group != b.group) return a.group < b.group;
  if (a.group < 2 && a.distance != b.distance) return a.distance > b.distance;
  return IsFaster(a.kernel, b.kernel);
}

// The best of each idea of rounds before `round` that has a time and is neither `shown` nor of the
// parent's lineage, those that teach most first.
Kernels OthersThan(const RunTree& tree, const std::set<CandidateId>& shown,
                   const CandidateRow& parent, int round) {
  constexpr double kAboutAsFast = 1.15;
  const RunData& data = tree.data();
  std::vector<Lesson> lessons;
  // Whether the idea has a kernel to show.
  const auto add = [&](const IdeaRow& idea) {
    if (data.Find(idea.round)->index >= round) return false;
    const CandidateRow* best = results::CreditOf(tree.SiblingsOf(idea.id)).best;
    if (best == nullptr || shown.contains(best->id)) return false;
    if (DescendsFrom(data, parent, *best)) return false;  // the lineage says it
    if (!results::SpeedUp(parent, *best)) return false;
    const bool here = idea.parent == parent.id;
    const CandidateRow* from = data.Find(idea.parent);
    const auto gain = from != nullptr ? results::SpeedUp(*from, *best) : std::nullopt;
    const auto apart = from != nullptr ? results::SpeedUp(*from, parent) : std::nullopt;
    Lesson lesson;
    lesson.kernel = best;
    lesson.distance = gain ? std::abs(std::log(*gain)) : 0;
    lesson.group = lesson.distance <= std::log(1 + kNoise) ? 3
                   : here                                  ? 0
                   : apart && *apart < kAboutAsFast        ? 1
                                                           : 2;
    lessons.push_back(lesson);
    return true;
  };
  std::size_t from_here = 0;
  const auto ideas_here = tree.IdeasFrom(parent.id);
  for (auto idea = ideas_here.rbegin(); idea != ideas_here.rend(); ++idea) {
    if (from_here == kIdeasLookedAt) break;
    if (add(**idea)) ++from_here;
  }
  std::size_t seen = 0;
  for (auto idea = data.ideas.rbegin(); idea != data.ideas.rend(); ++idea) {
    if (idea->parent == parent.id) continue;
    if (++seen > kIdeasLookedAt) break;
    add(*idea);
  }
  std::sort(lessons.begin(), lessons.end(), TeachesMore);
  Kernels others;
  for (const Lesson& lesson : lessons) others.push_back(lesson.kernel);
  return others;
}

// The words "r2.i1.b1" of a text, each once.
std::vector<std::string> NamesIn(std::string_view text) {
  std::vector<std::string> names;
  const auto digits = [&](std::size_t& at) {
    const std::size_t begin = at;
    while (at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])) != 0) ++at;
    return at > begin;
  };
  for (std::size_t begin = 0; begin < text.size(); ++begin) {
    if (text[begin] != 'r') continue;
    if (begin > 0 && std::isalnum(static_cast<unsigned char>(text[begin - 1])) != 0) continue;
    std::size_t at = begin + 1;
    bool named = digits(at);
    for (const std::string_view part : {".i", ".b"}) {
      if (!named || text.substr(at, 2) != part) {
        named = false;
        break;
      }
      at += 2;
      named = digits(at);
    }
    if (!named) continue;
    std::string name(text.substr(begin, at - begin));
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      names.push_back(std::move(name));
    }
  }
  return names;
}

}  // namespace

std::string WhatCounts(const CandidateRow& kernel) {
  if (!results::ScoreOf(kernel)) return {};
  if (kernel.evaluation->score_kind == results::TimeKind::kModelled) {
    return fmt::format(
        "modelled times have no noise; what is tried is called a win or a loss from "
        "{:.0f}% on",
        100 * kNoise);
  }
  std::string text;
  if (const double noise = NoiseOf(kernel); noise > 0) {
    text = fmt::format(
        "a kernel whose samples spread as this one's (by {:.1f}% of the time) must differ by more "
        "than {:.1f}% or ties with it; ",
        100 * noise, 100 * std::hypot(noise, noise));
  }
  return text + fmt::format(
                    "what is tried is called a win or a loss from {:.0f}% on; for the first place "
                    "a kernel is measured again, in turns with the best one, and must be faster by "
                    "more than {:.1f}% and by two standard errors",
                    100 * kNoise, 100 * eval::kLeastGain);
}

Result<ChangesInPrompt> ChangesBeside(const RunTree& tree, const CandidateRow& parent, int round) {
  const RunData& data = tree.data();
  ChangesInPrompt changes;
  const Kernels ties = TiesWith(data, parent, round);
  for (const CandidateRow* kernel : ties) {
    auto change = ChangeOf(tree, *kernel, parent, round, kTieLimits);
    if (!change) return Failure(std::move(change.error()));
    changes.ties.push_back(std::move(*change));
  }
  const std::set<CandidateId> shown = IdsOf(ties);
  std::size_t looked_at = 0;
  for (const CandidateRow* kernel : OthersThan(tree, shown, parent, round)) {
    if (++looked_at > kIdeasLookedAt || changes.others.size() == kMostOthers) break;
    auto change = ChangeOf(tree, *kernel, parent, round, {});
    if (!change) return Failure(std::move(change.error()));
    if (!change->difference.hunks.empty()) changes.others.push_back(std::move(*change));
  }
  return changes;
}

Result<std::vector<Change>> ChangesNamedBy(const RunTree& tree, const CandidateRow& parent,
                                           const IdeaRow& idea, int round) {
  std::vector<Change> named;
  const std::vector<std::string> names = NamesIn(idea.title + "\n" + idea.rationale);
  if (names.empty()) return named;
  const RunData& data = tree.data();
  for (const std::string& name : names) {
    if (named.size() == kMostNamed) break;
    const CandidateRow* kernel = data.FindCandidate(name);
    if (kernel == nullptr || !kernel->source || DescendsFrom(data, parent, *kernel)) continue;
    if (RoundOf(data, *kernel) >= round) continue;
    auto change = ChangeOf(tree, *kernel, parent, round, kNamedLimits);
    if (!change) return Failure(std::move(change.error()));
    named.push_back(std::move(*change));
  }
  return named;
}

}  // namespace grove::search
