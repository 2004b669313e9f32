#include "search/early.h"

#include <utility>

#include "search/goals.h"

namespace grove::search {

Result<std::map<CandidateId, EarlyQuestion>> EarlyQuestions(const RunTree& tree,
                                                            const Policy& policy,
                                                            const Prompts& prompts,
                                                            const SearchConfig& config, int index,
                                                            RoundId round, CandidateId last) {
  std::map<CandidateId, EarlyQuestion> questions;
  const std::unique_ptr<RunTree> view = tree.Until(round, last);
  int place = 0;
  for (const results::FrontierEntry& entry : policy.Select(view->data(), index)) {
    const auto parent = prompts.Describe(*view, *view->data().Find(entry.candidate));
    if (!parent) return Failure(parent.error());
    IdeaQuestion question;
    question.round = index + 1;
    question.wanted = static_cast<std::size_t>(config.ideas);
    question.goal = GoalText(config.goals, view->data(), index + 1);
    auto request = prompts.ForIdeas(*view, *parent, question);
    if (!request) return Failure(std::move(request.error()));
    EarlyQuestion early;
    early.key.role = request->role;
    early.key.round = index + 1;
    early.key.parent = ++place;
    early.key.branch = 1;  // tells it from the question of a round that is over
    early.request = std::move(*request);
    questions.emplace(entry.candidate, std::move(early));
  }
  return questions;
}

CandidateId EndOfShare(const std::vector<CandidateId>& sorted, int percent) {
  const std::size_t n = sorted.size();
  const std::size_t share = (n * static_cast<std::size_t>(percent) + 99) / 100;
  return sorted[share == 0 ? 0 : share - 1];
}

void EarlyCalls::Start(const EarlyQuestion& question) {
  auto promise = std::make_shared<std::promise<Result<ModelCalls::Answer>>>();
  {
    const std::scoped_lock lock(mutex_);
    if (!started_.emplace(question.key, promise->get_future().share()).second) return;
  }
  pool_.Post([this, promise, question] {
    promise->set_value(calls_.Ask(question.key, question.request, stop_));
  });
}

Result<ModelCalls::Answer> EarlyCalls::Get(const EarlyQuestion& question) {
  std::shared_future<Result<ModelCalls::Answer>> started;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = started_.find(question.key);
    if (found != started_.end()) started = found->second;
  }
  if (started.valid()) return started.get();
  return calls_.Ask(question.key, question.request, stop_);
}

}  // namespace grove::search
