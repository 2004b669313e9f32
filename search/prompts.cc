#include "search/prompts.h"

#include <algorithm>
#include <cmath>

#include "codegen/implement.h"
#include "eval/model/cost_model.h"
#include "ideas/idea_prompt.h"

namespace grove::search {
namespace {

using ideas::KernelFacts;
using ideas::TriedIdea;
using results::CandidateRow;
using results::IdeaRow;
using results::RunData;

// A gain or loss within this share is a tie.
constexpr double kTie = 0.02;
// Ideas from elsewhere that a prompt lists, newest first.
constexpr std::size_t kElsewhere = 24;

ideas::DeviceFacts FactsOf(const eval::Device& device) {
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
  facts.shared_per_block = spec.shared_per_block;
  facts.modelled = device.name() == "emulator";
  return facts;
}

std::vector<const CandidateRow*> SiblingsOf(const RunData& data, IdeaId idea) {
  std::vector<const CandidateRow*> siblings;
  for (const CandidateRow& candidate : data.candidates) {
    if (candidate.idea == idea) siblings.push_back(&candidate);
  }
  return siblings;
}

// What came of an idea, from its candidates.
TriedIdea Outcome(const RunData& data, const IdeaRow& idea) {
  TriedIdea tried;
  tried.title = idea.title;
  tried.category = ideas::NearestCategory(idea.category);
  const auto siblings = SiblingsOf(data, idea.id);
  const results::IdeaCredit credit = results::CreditOf(siblings);
  const CandidateRow* parent = data.Find(idea.parent);
  if (credit.best != nullptr && parent != nullptr) {
    tried.gain = results::SpeedUp(*parent, *credit.best);
  }
  if (tried.gain) {
    tried.outcome = *tried.gain > 1 + kTie   ? TriedIdea::Outcome::kWin
                    : *tried.gain < 1 - kTie ? TriedIdea::Outcome::kLoss
                                             : TriedIdea::Outcome::kTie;
    return tried;
  }
  tried.outcome = TriedIdea::Outcome::kFailed;
  for (const CandidateRow* sibling : siblings) {
    if (sibling->evaluation) tried.note = eval::Name(sibling->evaluation->verdict.kind);
  }
  return tried;
}

}  // namespace

Prompts::Prompts(const seeds::Task& task, const eval::Device& device, const SearchConfig& config,
                 results::Store& store)
    : task_(task),
      device_(device),
      config_(config),
      store_(store),
      library_(ideas::Library::Load()) {}

Result<ideas::KernelFacts> Prompts::Describe(const CandidateRow& candidate) const {
  KernelFacts facts;
  facts.id = candidate.name;
  if (candidate.source) {
    auto text = store_.Text(*candidate.source);
    if (!text) return Failure(std::move(text.error()));
    facts.source = std::move(*text);
  }
  if (candidate.plan) {
    auto text = store_.Text(*candidate.plan);
    if (!text) return Failure(std::move(text.error()));
    facts.plan = std::move(*text);
  }
  if (!candidate.evaluation) return facts;
  const results::EvaluationRow& evaluation = *candidate.evaluation;
  facts.time = evaluation.score;
  facts.modelled = evaluation.score_kind == results::TimeKind::kModelled;
  facts.precision_class = evaluation.precision;
  double log_floor = 0;
  int timed = 0;
  for (const results::CaseTimeRow& row : evaluation.case_times) {
    if (row.mode != results::TimingMode::kCold) continue;
    ++timed;
    log_floor += std::log(row.class_floor.count());
    facts.bound = row.bound;
    facts.limiter = row.limiter;
    facts.occupancy = row.occupancy;
  }
  if (facts.time && timed > 0) {
    facts.floor = Nanoseconds(std::exp(log_floor / timed));
    facts.share_of_floor = *facts.floor / *facts.time;
  }
  for (const results::KernelRow& kernel : evaluation.kernels) {
    facts.registers = std::max(facts.registers.value_or(0), static_cast<int>(kernel.registers));
    facts.spill_bytes = facts.spill_bytes.value_or(0) + kernel.spill_stores.value;
    facts.shared_bytes = std::max(facts.shared_bytes.value_or(0),
                                  kernel.static_shared.value + kernel.dynamic_shared.value);
  }
  return facts;
}

Result<llm::Request> Prompts::ForIdeas(const RunData& data, const CandidateRow& parent,
                                       int round) const {
  ideas::IdeaContext context;
  context.task = ideas::DescribeTask(task_);
  context.device = FactsOf(device_);
  auto facts = Describe(parent);
  if (!facts) return Failure(std::move(facts.error()));
  context.parent = std::move(*facts);
  for (const CandidateRow* step = &parent; step->idea; step = data.Find(step->parent)) {
    TriedIdea tried = Outcome(data, *data.Find(step->idea));
    tried.gain = results::SpeedUp(*data.Find(step->parent), *step);
    context.lineage.push_back(std::move(tried));
  }
  std::reverse(context.lineage.begin(), context.lineage.end());
  for (auto idea = data.ideas.rbegin(); idea != data.ideas.rend(); ++idea) {
    // Ideas of this round are not known to it, whenever it is run: a resumed round asks the same.
    if (data.Find(idea->round)->index >= round) continue;
    if (idea->parent == parent.id) {
      context.tried_here.push_back(Outcome(data, *idea));
    } else if (context.tried_elsewhere.size() < kElsewhere) {
      context.tried_elsewhere.push_back(Outcome(data, *idea));
    }
  }
  if (!library_) return Failure(library_.error());
  context.playbook = library_->Excerpt(task_.family, device_.spec().arch, round);
  context.wanted = static_cast<std::size_t>(config_.ideas);
  context.model = config_.model;
  context.seed = config_.seed;
  return ideas::BuildIdeaRequest(context);
}

Result<codegen::ImplementContext> Prompts::Implementation(const CandidateRow& parent,
                                                          const IdeaRow& idea, int branch) const {
  codegen::ImplementContext context;
  context.task = ideas::DescribeTask(task_);
  context.device = FactsOf(device_);
  auto facts = Describe(parent);
  if (!facts) return Failure(std::move(facts.error()));
  context.parent = std::move(*facts);
  context.idea.title = idea.title;
  context.idea.category = ideas::NearestCategory(idea.category);
  context.idea.rationale = idea.rationale;
  if (idea.expected_gain) context.idea.expected_gain = *idea.expected_gain;
  context.model = config_.model;
  context.seed = config_.seed - 1 + static_cast<std::uint64_t>(branch - 1);
  return context;
}

Result<llm::Request> Prompts::ForImplementation(const CandidateRow& parent, const IdeaRow& idea,
                                                int branch) const {
  auto context = Implementation(parent, idea, branch);
  if (!context) return Failure(std::move(context.error()));
  return codegen::BuildImplementRequest(*context);
}

Result<llm::Request> Prompts::ForRepair(const CandidateRow& parent, const IdeaRow& idea, int branch,
                                        const results::ProgramDraft& failed,
                                        const eval::Verdict& verdict,
                                        const std::vector<std::string>& earlier) const {
  auto implement = Implementation(parent, idea, branch);
  if (!implement) return Failure(std::move(implement.error()));
  codegen::RepairContext context;
  context.implement = std::move(*implement);
  context.source = failed.source.value_or("");
  context.plan = failed.plan.value_or("");
  context.verdict = eval::Name(verdict.kind);
  context.case_name = verdict.case_name;
  context.message = verdict.message;
  context.earlier = earlier;
  return codegen::BuildRepairRequest(context);
}

}  // namespace grove::search
