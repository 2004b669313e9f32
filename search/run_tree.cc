#include "search/run_tree.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "ideas/idea.h"
#include "search/convert.h"

namespace grove::search {

using results::AttemptRow;
using results::CandidateRow;
using results::CandidateStatus;
using results::IdeaRow;
using results::ProgramDraft;

namespace {

constexpr std::size_t kKeptTexts = 128;  // of some tens of kB

// Keeps rows sorted by id. New rows belong near the end: to the round that runs.
template <typename Row>
Row& Insert(std::vector<Row>& rows, Row row) {
  auto at = rows.end();
  while (at != rows.begin() && row.id < std::prev(at)->id) --at;
  return *rows.insert(at, std::move(row));
}

template <typename Id>
void InsertId(std::vector<Id>& ids, Id id) {
  ids.insert(std::upper_bound(ids.begin(), ids.end(), id), id);
}

void SetProgram(CandidateRow& row, const ProgramDraft& program) {
  const auto hash = [](const std::optional<std::string>& text) {
    return text ? std::optional(HashText(*text)) : std::nullopt;
  };
  row.source = hash(program.source);
  row.plan = hash(program.plan);
  row.identity = program.identity;
}

}  // namespace

Result<std::unique_ptr<RunTree>> RunTree::Open(results::Store& store) {
  auto data = store.Load();
  if (!data) return Failure(std::move(data.error()));
  return From(store, std::move(*data));
}

std::unique_ptr<RunTree> RunTree::Until(RoundId round, CandidateId last) const {
  results::RunData data = data_;
  const int index = data_.Find(round)->index;
  const auto later = [&](RoundId id) { return id && data_.Find(id)->index > index; };
  std::erase_if(data.candidates, [&](const CandidateRow& row) {
    return later(row.round) || (row.round == round && last < row.id);
  });
  IdeaId newest;
  for (const CandidateRow& row : data.candidates) {
    if (row.round == round && newest < row.idea) newest = row.idea;
  }
  std::erase_if(data.ideas, [&](const IdeaRow& row) {
    return later(row.round) || (row.round == round && newest < row.id);
  });
  // Its own frontier is not chosen yet.
  std::erase_if(data.frontier, [&](const results::FrontierRow& row) {
    return row.round == round || later(row.round);
  });
  std::erase_if(data.promotions, [&](const results::PromotionRow& row) {
    const CandidateRow* challenger = data_.Find(row.challenger);
    return challenger->round == round || later(challenger->round);
  });
  std::erase_if(data.rounds, [&](const results::RoundRow& row) { return row.index > index; });
  return From(store_, std::move(data));
}

std::unique_ptr<RunTree> RunTree::From(results::Store& store, results::RunData data) {
  std::unique_ptr<RunTree> tree(new RunTree(store));
  tree->data_ = std::move(data);
  for (const IdeaRow& idea : tree->data_.ideas) {
    tree->ideas_[idea.parent.value].push_back(idea.id);
    tree->AddMakeup(idea);
  }
  for (const CandidateRow& row : tree->data_.candidates) {
    tree->Index(row);
    tree->Make(row);
  }
  for (const AttemptRow& row : tree->data_.attempts) {
    tree->attempts_[row.candidate.value].push_back(row);
  }
  if (const CandidateRow* best = tree->data_.Best()) tree->best_ = best->id;
  return tree;
}

void RunTree::Index(const CandidateRow& row) {
  if (row.idea) {
    auto& siblings = siblings_[row.idea.value];
    if (std::find(siblings.begin(), siblings.end(), row.id) == siblings.end()) {
      InsertId(siblings, row.id);
    }
  }
  if (row.identity) {
    auto& same = programs_[row.identity->low];
    if (std::find(same.begin(), same.end(), row.id) == same.end()) InsertId(same, row.id);
  }
}

void RunTree::Rank(const CandidateRow& row) {
  const auto score = results::ScoreOf(row);
  if (!score) return;
  const CandidateRow* seed = data_.Seed();
  if (seed != nullptr && results::ScoreOf(*seed) &&
      row.evaluation->score_kind != seed->evaluation->score_kind) {
    return;
  }
  const CandidateRow* best = Best();
  const auto known = best != nullptr ? results::ScoreOf(*best) : std::nullopt;
  if (!known || *score < *known || (*score == *known && row.id < best->id)) best_ = row.id;
}

const Makeup& RunTree::MakeupOf(const CandidateRow& kernel) const {
  static const Makeup kNothing;
  const auto found = makeups_.find(kernel.idea.value);
  return found != makeups_.end() ? found->second : kNothing;
}

// REQUIRES: the parent's idea has one.
void RunTree::AddMakeup(const IdeaRow& idea) {
  const CandidateRow* parent = data_.Find(idea.parent);
  Makeup makeup = parent != nullptr ? MakeupOf(*parent) : Makeup();
  Add(makeup, ideas::TitleKey(idea.title));
  makeups_[idea.id.value] = std::move(makeup);
}

void RunTree::Make(const CandidateRow& row) {
  if (!results::ScoreOf(row)) return;
  auto& same = made_[MakeupOf(row)];
  if (std::find(same.begin(), same.end(), row.id) == same.end()) InsertId(same, row.id);
}

const CandidateRow* RunTree::MadeOf(CandidateId parent, std::string_view title) const {
  Makeup makeup = MakeupOf(*data_.Find(parent));
  if (!Add(makeup, ideas::TitleKey(title))) return nullptr;
  const auto found = made_.find(makeup);
  if (found == made_.end() || found->second.empty()) return nullptr;
  return data_.Find(found->second.front());
}

CandidateRow& RunTree::Row(CandidateId id) { return const_cast<CandidateRow&>(*data_.Find(id)); }

std::vector<const CandidateRow*> RunTree::SiblingsOf(IdeaId idea) const {
  std::vector<const CandidateRow*> rows;
  if (const auto found = siblings_.find(idea.value); found != siblings_.end()) {
    for (const CandidateId id : found->second) rows.push_back(data_.Find(id));
  }
  return rows;
}

std::vector<const IdeaRow*> RunTree::IdeasFrom(CandidateId parent) const {
  std::vector<const IdeaRow*> rows;
  if (const auto found = ideas_.find(parent.value); found != ideas_.end()) {
    for (const IdeaId id : found->second) rows.push_back(data_.Find(id));
  }
  return rows;
}

bool RunTree::WasTried(const IdeaRow& idea) const {
  const auto siblings = SiblingsOf(idea.id);
  return std::any_of(siblings.begin(), siblings.end(), [](const CandidateRow* row) {
    return row->evaluation && row->evaluation->verdict.kind != eval::VerdictKind::kInfrastructure;
  });
}

std::vector<const ideas::Gist*> RunTree::GistsFrom(CandidateId parent, RoundId except) const {
  std::vector<const ideas::Gist*> gists;
  for (const IdeaRow* row : IdeasFrom(parent)) {
    if (row->round == except || !WasTried(*row)) continue;
    auto at = gists_.find(row->id.value);
    if (at == gists_.end()) at = gists_.emplace(row->id.value, ideas::GistOf(IdeaOf(*row))).first;
    gists.push_back(&at->second);
  }
  return gists;
}

Result<std::string> RunTree::Text(const Hash& hash) const {
  {
    const std::scoped_lock lock(texts_mutex_);
    for (const auto& [known, text] : texts_) {
      if (known == hash) return text;
    }
  }
  auto text = store_.Text(hash);
  if (!text) return text;
  const std::scoped_lock lock(texts_mutex_);
  texts_.emplace_front(hash, *text);
  if (texts_.size() > kKeptTexts) texts_.pop_back();
  return text;
}

const CandidateRow* RunTree::Best() const { return best_ ? data_.Find(*best_) : nullptr; }

const CandidateRow* RunTree::WithProgram(const Hash& identity, RoundId except) const {
  const auto found = programs_.find(identity.low);
  if (found == programs_.end()) return nullptr;
  for (const CandidateId id : found->second) {
    const CandidateRow* row = data_.Find(id);
    if (row->identity == identity && row->round != except && row->evaluation &&
        row->evaluation->verdict.kind != eval::VerdictKind::kDuplicate) {
      return row;
    }
  }
  return nullptr;
}

std::vector<const AttemptRow*> RunTree::AttemptsOf(CandidateId candidate) const {
  std::vector<const AttemptRow*> rows;
  if (const auto found = attempts_.find(candidate.value); found != attempts_.end()) {
    for (const AttemptRow& row : found->second) rows.push_back(&row);
  }
  return rows;
}

Result<CandidateId> RunTree::RecordSeed(const ProgramDraft& program) {
  const auto lock = Lock();
  auto id = store_.RecordSeed(program);
  if (!id) return Failure(std::move(id.error()));
  if (data_.Find(*id) == nullptr) {
    CandidateRow row;
    row.id = *id;
    row.name = "seed";
    row.status = CandidateStatus::kReceived;
    SetProgram(row, program);
    Index(Insert(data_.candidates, std::move(row)));
  }
  return id;
}

Result<RoundId> RunTree::BeginRound(int index) {
  const auto lock = Lock();
  auto id = store_.BeginRound(index);
  if (!id) return Failure(std::move(id.error()));
  if (data_.Find(*id) == nullptr) {
    results::RoundRow row;
    row.id = *id;
    row.index = index;
    Insert(data_.rounds, std::move(row));
  }
  return id;
}

Status RunTree::TakeHints(RoundId round) {
  auto taken = store_.TakeHints(round);
  if (!taken) return Failure(std::move(taken.error()));
  const std::scoped_lock lock(mutex_);
  for (results::HintRow& hint : *taken) {
    const auto known = std::find_if(data_.hints.begin(), data_.hints.end(),
                                    [&](const auto& row) { return row.id >= hint.id; });
    if (known != data_.hints.end() && known->id == hint.id) {
      *known = std::move(hint);
    } else {
      data_.hints.insert(known, std::move(hint));
    }
  }
  return {};
}

Status RunTree::FinishRound(RoundId round, const std::vector<results::FrontierEntry>& frontier,
                            bool cut) {
  const auto lock = Lock();
  if (auto done = store_.FinishRound(round, frontier, cut); !done) return done;
  auto& row = const_cast<results::RoundRow&>(*data_.Find(round));
  if (row.status == results::RoundStatus::kFinished) return {};
  row.status = results::RoundStatus::kFinished;
  row.cut = cut;
  int place = 0;
  for (const results::FrontierEntry& entry : frontier) {
    data_.frontier.push_back({round, entry.candidate, ++place, entry.kind, entry.why});
  }
  return {};
}

Result<bool> RunTree::ReopenRound(RoundId round) {
  const auto lock = Lock();
  auto opened = store_.ReopenRound(round);
  if (!opened) return Failure(std::move(opened.error()));
  if (!*opened) return false;
  auto& row = const_cast<results::RoundRow&>(*data_.Find(round));
  row.status = results::RoundStatus::kRunning;
  row.finished.reset();
  row.cut = false;
  std::erase_if(data_.frontier, [&](const auto& place) { return place.round == round; });
  return true;
}

Result<IdeaRow> RunTree::AddIdea(RoundId round, CandidateId parent,
                                 const results::IdeaDraft& draft) {
  auto ids = store_.RecordIdeas(round, parent, CallId(), {&draft, 1});
  if (!ids) return Failure(std::move(ids.error()));
  const auto lock = Lock();
  if (const IdeaRow* known = data_.Find(ids->front())) return *known;
  IdeaRow row;
  row.id = ids->front();
  row.round = round;
  row.parent = parent;
  row.ordinal = draft.ordinal;
  row.number = draft.number;
  row.name = fmt::format("r{}.i{}", data_.Find(round)->index, draft.number);
  row.title = draft.title;
  row.category = draft.category;
  row.rationale = draft.rationale;
  row.expected_gain = draft.expected_gain;
  InsertId(ideas_[parent.value], row.id);
  AddMakeup(row);
  return Insert(data_.ideas, std::move(row));
}

Status RunTree::Link(std::span<const IdeaId> ideas, CallId call) {
  if (ideas.empty()) return {};
  if (auto linked = store_.LinkIdeas(ideas, call); !linked) return linked;
  const auto lock = Lock();
  for (const IdeaId id : ideas) {
    auto& row = const_cast<IdeaRow&>(*data_.Find(id));
    if (!row.call) row.call = call;
  }
  return {};
}

Result<std::vector<CandidateRow>> RunTree::Request(const IdeaRow& idea, int branches) {
  auto ids = store_.RequestCandidates(idea.id, 1, branches);
  if (!ids) return Failure(std::move(ids.error()));
  std::vector<CandidateRow> rows;
  const auto lock = Lock();
  for (const CandidateId id : *ids) {
    const int branch = static_cast<int>(rows.size()) + 1;
    if (const CandidateRow* known = data_.Find(id)) {
      rows.push_back(*known);
      continue;
    }
    CandidateRow row;
    row.id = id;
    row.name = fmt::format("{}.b{}", idea.name, branch);
    row.round = idea.round;
    row.idea = idea.id;
    row.parent = idea.parent;
    row.branch = branch;
    rows.push_back(row);
    Index(Insert(data_.candidates, std::move(row)));
  }
  return rows;
}

Status RunTree::Receive(CandidateId candidate, const ProgramDraft& program) {
  auto changed = store_.ReceiveProgram(candidate, program);
  if (!changed) return Failure(std::move(changed.error()));
  if (!*changed) return {};
  const auto lock = Lock();
  CandidateRow& row = Row(candidate);
  if (row.identity) std::erase(programs_[row.identity->low], row.id);
  row.status = CandidateStatus::kReceived;
  row.turn = program.turn;
  SetProgram(row, program);
  Index(row);
  return {};
}

Status RunTree::Attempt(CandidateId candidate, const ProgramDraft& program,
                        const eval::Verdict& verdict, const std::string& report) {
  auto added = store_.RecordAttempt(candidate, program, verdict, report);
  if (!added) return Failure(std::move(added.error()));
  if (!*added) return {};
  CandidateRow texts;
  SetProgram(texts, program);
  AttemptRow row{candidate, program.turn, texts.source, texts.plan, verdict, report};
  const auto lock = Lock();
  attempts_[candidate.value].push_back(row);
  data_.attempts.push_back(std::move(row));
  return {};
}

Status RunTree::Conclude(CandidateId candidate, const results::EvaluationRow& evaluation,
                         std::span<const results::Amount> cost, const results::LedgerScope& scope) {
  auto recorded = store_.RecordVerdict(candidate, evaluation, cost, scope);
  if (!recorded) return Failure(std::move(recorded.error()));
  if (!*recorded) return {};
  const auto lock = Lock();
  CandidateRow& row = Row(candidate);
  row.status = CandidateStatus::kEvaluated;
  row.evaluation = evaluation;
  row.evaluation->samples.clear();
  Rank(row);
  Make(row);
  return {};
}

Status RunTree::Move(CandidateId from, CandidateId to) {
  const auto lock = Lock();
  auto moved = store_.MoveVerdict(from, to);
  if (!moved) return Failure(std::move(moved.error()));
  if (!*moved) return {};
  CandidateRow& winner = Row(to);
  CandidateRow& loser = Row(from);
  winner.status = CandidateStatus::kEvaluated;
  winner.evaluation = std::move(loser.evaluation);
  results::EvaluationRow duplicate;
  duplicate.verdict.kind = eval::VerdictKind::kDuplicate;
  duplicate.verdict.message = results::DuplicateMessage(winner.name);
  duplicate.stages.push_back({eval::Stage::kParse, "", duplicate.verdict.kind, Milliseconds(0)});
  loser.evaluation = duplicate;
  for (const CandidateId id : programs_[winner.identity->low]) {
    CandidateRow& row = Row(id);
    if (row.round == winner.round && row.identity == winner.identity && row.evaluation &&
        row.evaluation->verdict.kind == eval::VerdictKind::kDuplicate) {
      row.evaluation->verdict.message = duplicate.verdict.message;
    }
  }
  if (best_ == from) best_ = to;
  Rank(winner);
  std::erase(made_[MakeupOf(loser)], from);
  Make(winner);
  return {};
}

Status RunTree::SetProfile(CandidateId candidate, const std::string& summary,
                           const std::string& report) {
  const auto lock = Lock();
  if (auto kept = store_.RecordProfile(candidate, summary, report); !kept) return kept;
  CandidateRow& row = Row(candidate);
  row.profile = summary;
  row.profile_report = HashText(report);
  return {};
}

Status RunTree::RecordContest(const results::PromotionRow& contest) {
  const auto lock = Lock();
  auto recorded = store_.RecordPromotion(contest);
  if (!recorded) return Failure(std::move(recorded.error()));
  if (!*recorded) return {};
  results::PromotionRow row = contest;
  for (results::PromotionCaseRow& one : row.cases) {
    one.incumbent_samples.clear();
    one.challenger_samples.clear();
  }
  data_.promotions.push_back(std::move(row));
  if (const CandidateRow* best = data_.Best()) best_ = best->id;
  return {};
}

}  // namespace grove::search
