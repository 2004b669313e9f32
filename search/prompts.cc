#include "search/prompts.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "codegen/implement.h"
#include "eval/check.h"
#include "eval/model/cost_model.h"
#include "ideas/idea_prompt.h"
#include "results/tree.h"
#include "search/changes.h"
#include "search/convert.h"
#include "search/describe.h"
#include "search/selection.h"
#include "search/stagnation.h"

namespace grove::search {
namespace {

using ideas::KernelFacts;
using ideas::TriedIdea;
using results::CandidateRow;
using results::IdeaRow;

// Ideas from elsewhere that a prompt lists, newest first.
constexpr std::size_t kElsewhere = 24;
// Implementations of one idea that a prompt lists.
constexpr std::size_t kImplementations = 5;

ideas::DeviceFacts FactsOf(const eval::Device& device, const SearchConfig& config) {
  const eval::DeviceSpec& spec = device.spec();
  ideas::DeviceFacts facts;
  facts.name = spec.name;
  facts.arch = spec.arch;
  facts.sm_count = spec.sm_count;
  facts.memory_gbs = spec.copy_gbs;
  facts.l2_mb = spec.l2_bytes / 1e6;
  facts.fp32_tflops = spec.fp32_tflops;
  facts.tf32_tflops = spec.tf32_tflops;
  facts.fp16_tflops = spec.fp16_tflops;
  facts.fp8_tflops = spec.fp8_tflops;
  facts.mma_efficiency = spec.mma_efficiency;
  facts.clock_ghz = spec.clock_ghz;
  facts.shared_per_sm = spec.shared_per_sm;
  facts.registers_per_sm = spec.registers_per_sm;
  facts.threads_per_sm = spec.threads_per_sm;
  facts.blocks_per_sm = spec.blocks_per_sm;
  facts.shared_per_block = spec.shared_per_block;
  facts.modelled = device.name() == "emulator" && config.until.empty();
  return facts;
}

TriedIdea::Outcome OutcomeOf(double gain) {
  return gain > 1 + kNoise   ? TriedIdea::Outcome::kWin
         : gain < 1 - kNoise ? TriedIdea::Outcome::kLoss
                             : TriedIdea::Outcome::kTie;
}

// What the model with the shortest replies may say: which of them will answer is not known yet.
Tokens LongestReply(const SearchConfig& config) {
  Tokens longest = llm::Request().max_tokens;
  for (const ModelSpec& model : config.models) {
    if (model.max_tokens == 0) continue;
    if (!model.Takes(llm::Role::kCode) && !model.Takes(llm::Role::kRepair)) continue;
    longest = std::min(longest, Tokens(model.max_tokens));
  }
  return longest;
}

// The task with what each case's outputs may err; where a checker decides, the contract says it.
ideas::TaskFacts TaskFactsOf(const seeds::Task& task) {
  ideas::TaskFacts facts = ideas::DescribeTask(task);
  if (task.checker != seeds::Checker::kReference) return facts;
  for (ideas::TaskFacts::Case& shown : facts.cases) {
    for (std::size_t i = 0; i < task.cases.size(); ++i) {
      if (task.cases[i].name != shown.name) continue;
      for (const seeds::Tensor& tensor : task.cases[i].tensors) {
        if (tensor.role != seeds::TensorRole::kOutput) continue;
        shown.allowed = fmt::format("relative L2 error of a row {:.2g}",
                                    eval::ToleranceFor(task, i, tensor).row_l2);
        break;
      }
    }
  }
  return facts;
}

}  // namespace

TriedIdea OutcomeOf(const RunTree& tree, const IdeaRow& idea) {
  TriedIdea tried;
  tried.title = idea.title;
  tried.category = ideas::NearestCategory(idea.category);
  const auto siblings = tree.SiblingsOf(idea.id);
  const results::IdeaCredit credit = results::CreditOf(siblings);
  const CandidateRow* parent = tree.data().Find(idea.parent);
  tried.tries = credit.tries();
  tried.compiled = credit.compiled;
  tried.correct = credit.correct;
  if (credit.best != nullptr && parent != nullptr) {
    tried.gain = results::SpeedUp(*parent, *credit.best);
    const auto time = results::ScoreOf(*parent);
    if (tried.gain && time && credit.median) tried.median_gain = *time / *credit.median;
  }
  // Each with what came of it: what the implementation alone decides. The fastest first, then
  // those that failed.
  std::vector<const CandidateRow*> listed(siblings.begin(), siblings.end());
  std::stable_sort(listed.begin(), listed.end(), [](const CandidateRow* a, const CandidateRow* b) {
    const auto time_a = results::ScoreOf(*a), time_b = results::ScoreOf(*b);
    return time_a && (!time_b || *time_a < *time_b);
  });
  for (const CandidateRow* sibling : listed) {
    if (tried.implementations.size() == kImplementations) break;
    std::string line = DescribeImplementation(*sibling, parent);
    if (!line.empty()) tried.implementations.push_back(std::move(line));
  }
  if (!tried.gain) {
    tried.outcome = credit.duplicates > 0 && tried.tries == 0 ? TriedIdea::Outcome::kDuplicate
                                                              : TriedIdea::Outcome::kFailed;
    return tried;
  }
  tried.best = DescribeBest(*credit.best);
  tried.outcome = OutcomeOf(*tried.gain);
  if (tried.outcome == TriedIdea::Outcome::kLoss && credit.best->evaluation) {
    if (const std::string where = WhereTheTimeIs(*credit.best->evaluation); !where.empty()) {
      tried.note += (tried.note.empty() ? "" : "; ") + where;
    }
  }
  return tried;
}

Prompts::Prompts(const seeds::Task& task, const eval::Device& device, const SearchConfig& config,
                 ideas::Library library)
    : config_(config),
      task_(TaskFactsOf(task)),
      device_(FactsOf(device, config)),
      library_(std::move(library)),
      idea_page_(ideas::IdeaPage()) {}

namespace {

Result<KernelFacts> FactsOf(const RunTree& tree, const CandidateRow& candidate) {
  KernelFacts facts;
  facts.id = candidate.name;
  if (candidate.source) {
    auto text = tree.Text(*candidate.source);
    if (!text) return Failure(std::move(text.error()));
    facts.source = std::move(*text);
  }
  if (candidate.plan) {
    auto text = tree.Text(*candidate.plan);
    if (!text) return Failure(std::move(text.error()));
    facts.plan = std::move(*text);
  }
  facts.counters = candidate.profile;
  if (!candidate.evaluation) return facts;
  AddEvaluation(facts, *candidate.evaluation);
  return facts;
}

}  // namespace

Result<ParentFacts> Prompts::Describe(const RunTree& tree, const CandidateRow& parent) const {
  ParentFacts facts;
  facts.id = parent.id;
  facts.name = parent.name;
  auto kernel = FactsOf(tree, parent);
  if (!kernel) return Failure(std::move(kernel.error()));
  facts.kernel = std::move(*kernel);
  facts.kernel.what_counts = WhatCounts(parent);
  const results::RunData& data = tree.data();
  std::size_t size = 0;
  for (const CandidateRow* step = &parent; step->idea; step = data.Find(step->parent)) {
    if (size > ideas::PromptBudget().lineage) {
      ++facts.lineage_older;
      continue;
    }
    const IdeaRow& idea = *data.Find(step->idea);
    // Of this very step, not of the best of its siblings: what became of those does not matter any
    // more.
    TriedIdea tried;
    tried.title = idea.title;
    tried.category = ideas::NearestCategory(idea.category);
    tried.gain = results::SpeedUp(*data.Find(step->parent), *step);
    tried.outcome = tried.gain ? OutcomeOf(*tried.gain) : TriedIdea::Outcome::kFailed;
    tried.note = DescribeBest(*step);
    facts.lineage.push_back(ideas::DescribeTried(tried));
    size += facts.lineage.back().size();
  }
  std::reverse(facts.lineage.begin(), facts.lineage.end());
  auto briefing = codegen::BuildBriefing(ContextOf(facts), pages_);
  if (!briefing) return Failure(std::move(briefing.error()));
  facts.briefing = *std::move(briefing);
  return facts;
}

Result<llm::Request> Prompts::ForIdeas(const RunTree& tree, const ParentFacts& parent,
                                       const IdeaQuestion& question) const {
  ideas::IdeaContext context;
  context.task = task_;
  context.device = device_;
  context.parent = parent.kernel;
  context.lineage = parent.lineage;
  context.lineage_older = parent.lineage_older;
  const results::RunData& data = tree.data();
  // Ideas of this round are not known to it, whenever it is run: a resumed round asks the same.
  const auto before = [&](const IdeaRow& idea) {
    return data.Find(idea.round)->index < question.round;
  };
  const auto ideas_here = tree.IdeasFrom(parent.id);
  std::size_t size = 0;
  for (auto idea = ideas_here.rbegin(); idea != ideas_here.rend(); ++idea) {
    if (!before(**idea) || !tree.WasTried(**idea)) continue;
    if (size > context.budget.tried_here) {
      ++context.tried_here_older;
      continue;
    }
    context.tried_here.push_back(ideas::DescribeTried(OutcomeOf(tree, **idea)));
    size += context.tried_here.back().size();
  }
  std::reverse(context.tried_here.begin(), context.tried_here.end());
  const CandidateRow& kernel = *data.Find(parent.id);
  const auto in_lineage = [&](const std::vector<const CandidateRow*>& siblings) {
    return std::any_of(siblings.begin(), siblings.end(), [&](const CandidateRow* sibling) {
      return DescendsFrom(data, kernel, *sibling);
    });
  };
  for (auto idea = data.ideas.rbegin(); idea != data.ideas.rend(); ++idea) {
    if (context.tried_elsewhere.size() == kElsewhere) break;
    if (idea->parent == parent.id || !before(*idea) || !tree.WasTried(*idea)) continue;
    const auto siblings = tree.SiblingsOf(idea->id);
    if (in_lineage(siblings)) continue;  // shown already
    TriedIdea tried = OutcomeOf(tree, *idea);
    if (const CandidateRow* from = data.Find(idea->parent)) tried.from = NameAndTime(*from);
    const CandidateRow* best = results::CreditOf(siblings).best;
    const std::string beside = best != nullptr ? BesideParent(*best, kernel) : std::string();
    if (!beside.empty()) tried.from += "; " + beside;
    context.tried_elsewhere.push_back(ideas::DescribeTried(tried));
  }
  auto changes = ChangesBeside(tree, kernel, question.round);
  if (!changes) return Failure(std::move(changes.error()));
  context.ties = std::move(changes->ties);
  context.changes = std::move(changes->others);
  context.playbook = library_.Excerpt(task_.family, device_.arch, question.round);
  context.hints = question.hints;
  context.goal = question.goal;
  context.proposed = question.proposed;
  context.refusals = question.refusals;
  context.wanted = question.wanted;
  context.most_of_category = question.most_of_category;
  context.model = config_.model;
  context.seed = config_.seed + static_cast<std::uint64_t>(question.turn);
  context.radical = question.radical;
  return ideas::BuildIdeaRequest(context, idea_page_);
}

codegen::ImplementContext Prompts::ContextOf(const ParentFacts& parent) const {
  codegen::ImplementContext context;
  context.task = task_;
  context.device = device_;
  context.parent = parent.kernel;
  context.lineage = parent.lineage;
  context.lineage_older = parent.lineage_older;
  context.model = config_.model;
  context.longest_reply = LongestReply(config_);
  return context;
}

codegen::ImplementContext Prompts::Implementation(const ParentFacts& parent, const IdeaRow& idea,
                                                  const std::vector<ideas::Change>& named,
                                                  int branch,
                                                  const std::vector<std::string>& hints) const {
  codegen::ImplementContext context = ContextOf(parent);
  context.idea = IdeaOf(idea);
  context.named = named;
  context.hints = hints;
  context.seed = SeedOf(branch);
  return context;
}

std::uint64_t Prompts::SeedOf(int branch) const {
  return config_.seed - 1 + static_cast<std::uint64_t>(branch - 1);
}

Result<llm::Request> Prompts::ForImplementation(const ParentFacts& parent, const IdeaRow& idea,
                                                const std::vector<ideas::Change>& named, int branch,
                                                const std::vector<std::string>& hints) const {
  auto request = codegen::BuildImplementRequest(Implementation(parent, idea, named, branch, hints),
                                                pages_, parent.briefing);
  // A prefix that nobody repeats would cost more, not less.
  if (request && config_.ideas * config_.branches == 1) request->messages.back().shared = 0;
  return request;
}

Result<llm::Request> Prompts::ForRepair(const ParentFacts& parent, const IdeaRow& idea,
                                        const std::vector<ideas::Change>& named, int branch,
                                        const std::vector<std::string>& hints,
                                        const results::ProgramDraft& failed,
                                        const eval::Verdict& verdict, const std::string& report,
                                        const std::vector<std::string>& earlier) const {
  codegen::RepairContext context;
  context.implement = Implementation(parent, idea, named, branch, hints);
  context.source = failed.source.value_or("");
  context.plan = failed.plan.value_or("");
  context.verdict = eval::Name(verdict.kind);
  context.case_name = verdict.case_name;
  context.message = verdict.message;
  context.report = report;
  context.earlier = earlier;
  return codegen::BuildRepairRequest(context, pages_);
}

}  // namespace grove::search
