#include "results/tree.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "results/format.h"

namespace grove::results {
namespace {

constexpr int kLeastWidth = 20;

constexpr std::string_view kPlain = "";
constexpr std::string_view kBold = "1";
constexpr std::string_view kDim = "2";
constexpr std::string_view kRed = "31";
constexpr std::string_view kGreen = "32";
constexpr std::string_view kYellow = "33";

// A line made of pieces. What does not fit is handled in order: first the elastic piece (a title or
// message) shrinks, then pieces of the highest `drop` go, then the line is cut.
struct Piece {
  std::string text;  // visible already
  std::string_view style = kPlain;
  int drop = 0;  // 0 = stays; the highest goes first
  bool elastic = false;
};

class Lines {
 public:
  explicit Lines(const TreeOptions& options)
      : width_(std::max(options.width, kLeastWidth)), color_(options.color) {}

  // Pieces are joined by single blanks; `prefix` is drawn in front.
  void Add(const std::string& prefix, std::vector<Piece> pieces) {
    std::erase_if(pieces, [](const Piece& piece) { return piece.text.empty(); });
    const int room = width_ - DisplayWidth(prefix);
    constexpr int kReadable = 20;  // a title shorter than this costs other pieces their place
    const auto elastic = [&pieces] {
      return std::find_if(pieces.begin(), pieces.end(),
                          [](const Piece& piece) { return piece.elastic; });
    };
    const auto shrink = [&](int least) {
      const auto piece = elastic();
      if (piece == pieces.end()) return;
      const int have = DisplayWidth(piece->text);
      const int wanted = have - (Width(pieces) - room);
      if (wanted < have && wanted >= least) piece->text = Fit(piece->text, wanted);
    };
    shrink(kReadable);
    while (Width(pieces) > room) {
      const auto last =
          std::max_element(pieces.begin(), pieces.end(),
                           [](const Piece& a, const Piece& b) { return a.drop < b.drop; });
      if (last == pieces.end() || last->drop == 0) break;
      pieces.erase(last);
      shrink(kReadable);
    }
    shrink(1);
    int left = room;
    std::string line = Styled(Fit(prefix, width_), kDim);
    for (std::size_t i = 0; i < pieces.size() && left > 0; ++i) {
      if (i > 0) {
        if (left < 2) break;
        line += ' ';
        --left;
      }
      const std::string text = Fit(pieces[i].text, left);
      line += Styled(text, pieces[i].style);
      left -= DisplayWidth(text);
    }
    out_ += line + "\n";
  }

  std::string Take() { return std::move(out_); }

 private:
  static int Width(const std::vector<Piece>& pieces) {
    int width = pieces.empty() ? 0 : static_cast<int>(pieces.size()) - 1;
    for (const Piece& piece : pieces) width += DisplayWidth(piece.text);
    return width;
  }
  std::string Styled(const std::string& text, std::string_view style) const {
    if (!color_ || style.empty() || text.empty()) return text;
    return fmt::format("\x1b[{}m{}\x1b[0m", style, text);
  }

  const int width_;
  const bool color_;
  std::string out_;
};

class TreeWriter {
 public:
  TreeWriter(const RunData& data, const TreeOptions& options)
      : data_(data), options_(options), lines_(options), seed_(data.Seed()), best_(data.Best()) {
    for (const IdeaRow& idea : data.ideas) ideas_[idea.round].push_back(&idea);
    for (const CandidateRow& candidate : data.candidates) {
      candidates_[candidate.idea].push_back(&candidate);
    }
    for (const FrontierRow& row : data.frontier) frontier_[row.candidate].push_back(&row);
    for (auto& [round, list] : ideas_) {
      std::sort(list.begin(), list.end(),
                [](const IdeaRow* a, const IdeaRow* b) { return a->number < b->number; });
    }
    if (options.best_path) {
      // The parent links of a damaged file could go round in a circle.
      for (const CandidateRow* at = best_; at != nullptr && path_.insert(at->id).second;) {
        at = data.Find(at->parent);
      }
    }
  }

  std::string Write() {
    Header();
    if (seed_ != nullptr && OnPath(*seed_)) Candidate("", *seed_);
    bool any = false;
    for (const RoundRow& round : data_.rounds) {
      if (options_.round && *options_.round != round.index) continue;
      any |= Round(round);
    }
    if (!any) {
      lines_.Add("", {{options_.round ? fmt::format("no round {}", *options_.round)
                                      : std::string("no rounds yet"),
                       kDim}});
    }
    return lines_.Take();
  }

 private:
  bool OnPath(const CandidateRow& candidate) const {
    return !options_.best_path || path_.contains(candidate.id);
  }
  bool OnPath(const IdeaRow& idea) const {
    if (!options_.best_path) return true;
    const auto& siblings = Siblings(idea);
    return std::any_of(siblings.begin(), siblings.end(),
                       [&](const CandidateRow* c) { return path_.contains(c->id); });
  }
  const std::vector<const CandidateRow*>& Siblings(const IdeaRow& idea) const {
    static const std::vector<const CandidateRow*> kNone;
    const auto it = candidates_.find(idea.id);
    return it == candidates_.end() ? kNone : it->second;
  }

  void Header() {
    const RunStatus status = data_.run.effective_status();
    lines_.Add(
        "", {{"run"},
             {Visible(data_.run.name), kBold},
             {Visible(data_.task.name)},
             {std::string(Name(status)), status == RunStatus::kRunning ? kGreen : kYellow, 1},
             {fmt::format("{} rounds, {} ideas, {} candidates", data_.rounds.size(),
                          data_.ideas.size(), data_.candidates.size() - (seed_ != nullptr ? 1 : 0)),
              kDim, 2}});
    if (const std::string demand = DemandOf(data_); !demand.empty()) {
      lines_.Add("", {{Visible(demand), kYellow}});
    }
    if (best_ != nullptr) {
      lines_.Add("", {{"best"},
                      {Visible(best_->name), kBold},
                      {Score(*best_), kGreen},
                      {OverSeed(*best_), kPlain, 1}});
    }
    // One line for each case, the fastest baseline first.
    std::map<std::string, std::vector<std::string>> baselines;
    for (const BaselineRow& b : data_.baselines) {
      baselines[b.case_name].push_back(Visible(b.name) + " " + FormatTime(b.time));
    }
    for (const auto& [case_name, texts] : baselines) {
      lines_.Add("", {{"baselines"},
                      {Visible(case_name), kDim},
                      {fmt::format("{}", fmt::join(texts, ", ")), kPlain, 0, true}});
    }
  }

  bool Round(const RoundRow& round) {
    std::vector<const IdeaRow*> ideas;
    std::vector<const CandidateRow*> all;
    if (const auto it = ideas_.find(round.id); it != ideas_.end()) {
      for (const IdeaRow* idea : it->second) {
        const auto& siblings = Siblings(*idea);
        all.insert(all.end(), siblings.begin(), siblings.end());
        if (OnPath(*idea)) ideas.push_back(idea);
      }
    }
    if (options_.best_path && ideas.empty()) return false;
    const IdeaCredit credit = CreditOf(all);
    lines_.Add("", {{fmt::format("round {}", round.index), kBold},
                    {round.cut ? "cut by the budget" : std::string(Name(round.status)),
                     round.status == RoundStatus::kFinished ? kDim : kYellow, 3},
                    {fmt::format("{} candidates, {} compiled, {} correct{}", credit.candidates,
                                 credit.compiled, credit.correct, Apart(credit)),
                     kPlain, 2},
                    {BestOf(credit), kGreen, 1}});
    if (options_.depth < 2) return true;
    for (std::size_t i = 0; i < ideas.size(); ++i) Idea(*ideas[i], i + 1 == ideas.size());
    return true;
  }

  void Idea(const IdeaRow& idea, bool last) {
    const auto& siblings = Siblings(idea);
    const IdeaCredit credit = CreditOf(siblings);
    const int tries = credit.tries();
    const CandidateRow* parent = data_.Find(idea.parent);
    std::string from;
    if (parent != nullptr) from = "from " + Visible(parent->name);
    lines_.Add(last ? Corner() : Tee(),
               {{idea.name, kBold},
                {Visible(idea.title), kPlain, 0, true},
                {idea.category.empty() ? "" : "[" + Fit(Visible(idea.category), 24) + "]", kDim, 4},
                {from, kDim, 3},
                {tries == 0 && credit.candidates > 0
                     ? (credit.open() > 0       ? "nothing yet"
                        : credit.duplicates > 0 ? "nothing new"
                                                : "nothing tried") +
                           Apart(credit)
                     : fmt::format("{}/{} compiled, {}/{} correct{}", credit.compiled, tries,
                                   credit.correct, tries, Apart(credit)),
                 kPlain, 1},
                {BestOf(credit), kGreen, 2},
                {SpreadOf(credit), kDim, 3}});
    if (options_.depth < 3) return;
    std::vector<const CandidateRow*> shown;
    for (const CandidateRow* candidate : siblings) {
      if (OnPath(*candidate)) shown.push_back(candidate);
    }
    std::sort(shown.begin(), shown.end(),
              [](const CandidateRow* a, const CandidateRow* b) { return a->branch < b->branch; });
    for (std::size_t i = 0; i < shown.size(); ++i) {
      const std::string trunk = last ? Blank() : Bar();
      const bool end = i + 1 == shown.size();
      Candidate(trunk + (end ? Corner() : Tee()), *shown[i]);
      if (!options_.explain) continue;
      if (const std::string why = options_.explain(*shown[i]); !why.empty()) {
        lines_.Add(trunk + (end ? Blank() : Bar()) + "  ", {{Visible(why), kDim, 0, true}});
      }
    }
  }

  void Candidate(const std::string& prefix, const CandidateRow& candidate) {
    std::vector<Piece> pieces = {{Visible(candidate.name), &candidate == best_ ? kBold : kPlain}};
    if (!candidate.evaluation) {
      pieces.push_back({std::string(Name(candidate.status)), kDim});
    } else if (const eval::Verdict& verdict = candidate.evaluation->verdict; verdict.passed()) {
      pieces.push_back({"pass", kGreen, 1});
      pieces.push_back({Score(candidate)});
      if (&candidate != seed_) {
        pieces.push_back({OverSeed(candidate), kPlain, 3});
        const CandidateRow* parent = data_.Find(candidate.parent);
        // The parent is the seed: the same number twice says nothing.
        if (parent != nullptr && parent != seed_) {
          if (const auto gain = SpeedUp(*parent, candidate)) {
            pieces.push_back({FormatRatio(*gain) + " parent", kPlain, 4});
          }
        }
      }
    } else {
      pieces.push_back({std::string(eval::Name(verdict.kind)), kRed});
      std::string where(eval::Name(verdict.stage));
      if (!verdict.case_name.empty()) where += " " + Visible(verdict.case_name);
      pieces.push_back({"(" + Fit(where, 32) + ")", kDim, 2});
      pieces.push_back({Visible(verdict.message), kPlain, 3, true});
    }
    if (candidate.turn > 0) {
      pieces.push_back({fmt::format("repaired {}x", candidate.turn), kDim, 5});
    }
    if (const auto it = frontier_.find(candidate.id); it != frontier_.end()) {
      pieces.push_back({fmt::format("* {}", Name(it->second.back()->kind)), kYellow, 1});
    }
    lines_.Add(prefix, std::move(pieces));
  }

  static std::string Score(const CandidateRow& candidate) {
    const auto score = ScoreOf(candidate);
    return score ? FormatTime(*score, candidate.evaluation->score_kind) : std::string("not timed");
  }
  std::string OverSeed(const CandidateRow& candidate) const {
    if (seed_ == nullptr || &candidate == seed_) return {};
    const auto gain = SpeedUp(*seed_, candidate);
    return gain ? FormatRatio(*gain) + " seed" : std::string();
  }
  // The candidates that are not in the shares.
  static std::string Apart(const IdeaCredit& credit) {
    std::string text;
    if (credit.duplicates > 0) {
      text += fmt::format(", {} duplicate{}", credit.duplicates, credit.duplicates == 1 ? "" : "s");
    }
    if (credit.undecided > 0) text += fmt::format(", {} undecided", credit.undecided);
    if (credit.open() > 0) text += fmt::format(", {} open", credit.open());
    return text;
  }

  // What the implementation alone decides.
  static std::string SpreadOf(const IdeaCredit& credit) {
    if (credit.correct < 2 || !credit.median || !credit.worst) return "";
    return fmt::format("median {}, worst {}", FormatTime(*credit.median),
                       FormatTime(*credit.worst));
  }

  std::string BestOf(const IdeaCredit& credit) const {
    return credit.best == nullptr ? std::string() : "best " + Score(*credit.best);
  }

  const char* Tee() const { return options_.ascii ? "|-- " : "├─ "; }
  const char* Corner() const { return options_.ascii ? "`-- " : "└─ "; }
  std::string Bar() const { return options_.ascii ? "|   " : "│  "; }
  std::string Blank() const { return options_.ascii ? "    " : "   "; }

  const RunData& data_;
  const TreeOptions& options_;
  Lines lines_;
  const CandidateRow* seed_;
  const CandidateRow* best_;
  std::map<RoundId, std::vector<const IdeaRow*>> ideas_;
  std::unordered_map<IdeaId, std::vector<const CandidateRow*>> candidates_;
  std::unordered_map<CandidateId, std::vector<const FrontierRow*>> frontier_;
  std::set<CandidateId> path_;
};

}  // namespace

std::string RenderTree(const RunData& data, const TreeOptions& options) {
  return TreeWriter(data, options).Write();
}

}  // namespace grove::results
