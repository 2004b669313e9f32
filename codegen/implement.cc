#include "codegen/implement.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/text_diff.h"

namespace grove::codegen {
namespace {

// Of a compiler log in a repair prompt: the first errors matter, the rest is mostly their echo.
constexpr std::size_t kMaxMessage = 6000;
// Unchanged lines around each change, and the share of the parent's source up to which a change is
// shown instead of that source.
constexpr int kDiffContext = 3;
constexpr double kShortDiff = 0.75;

// "1.80", "1.025": two decimals, and a third where it says something.
std::string DescribeExpected(double gain) {
  std::string text = fmt::format("{:.3f}", gain);
  if (text.ends_with('0')) text.pop_back();
  return text;
}

// Says that only edits fit where a whole program like `source` would be cut.
void SetReplyForm(ideas::PromptFields& fields, const ImplementContext& context,
                  const std::string& source, const std::string& plan) {
  // Beside the program: the sentences in front of it.
  constexpr std::int64_t kWords = 500;
  const std::int64_t program =
      llm::EstimateTokens(source).value + llm::EstimateTokens(plan).value + kWords;
  fields.SetShown("only_edits", program > context.longest_reply.value);
  fields.SetText("longest_reply", fmt::to_string(context.longest_reply.value));
  fields.SetText("program_tokens", fmt::to_string(program / 100 * 100));
}

// What does not depend on the idea.
void SetParent(ideas::PromptFields& fields, const ImplementContext& context) {
  fields.SetText("task", ideas::DescribeTaskLines(context.task));
  fields.SetShown("library", context.task.library);
  fields.SetText("device", ideas::DescribeDevice(context.device));
  const ideas::PromptBudget room;
  ideas::KernelFacts parent = context.parent;
  parent.counters = ideas::FitText(parent.counters, room.counters);
  parent.what_counts.clear();  // it changes nothing about how a program is written
  fields.SetText("parent", ideas::DescribeKernel(parent));
  fields.SetText("parent_source",
                 ideas::Fenced("cuda", ideas::FitText(parent.source, room.source)));
  fields.SetText("parent_plan", ideas::Fenced("json", ideas::FitText(parent.plan, room.plan)));
  fields.SetLines("lineage",
                  ideas::FitLines(context.lineage, room.steps, true, context.lineage_older));
}

void SetIdea(ideas::PromptFields& fields, const ImplementContext& context) {
  fields.SetText("title", ideas::Shield(context.idea.title));
  fields.SetText("category", std::string(ideas::Name(context.idea.category)));
  fields.SetText("rationale", ideas::Shield(context.idea.rationale));
  fields.SetText("gain", DescribeExpected(context.idea.expected_gain));
  fields.SetLines("named", ideas::FitChanges(context.named, ideas::PromptBudget().named));
  fields.SetLines("hints", ideas::ShieldAll(context.hints));
}

llm::Request RequestOf(llm::Role role, const ImplementContext& context, std::string prompt,
                       std::size_t shared) {
  llm::Request request;
  request.role = role;
  request.model = context.model;
  request.seed = context.seed;
  request.messages.push_back({llm::Message::Author::kUser, std::move(prompt), shared});
  return request;
}

}  // namespace

ProgramPages::ProgramPages(const std::filesystem::path& prompts)
    : briefing(prompts, "briefing", {"rules"}),
      implement(prompts, "implement"),
      repair(prompts, "repair", {"briefing", "rules"}) {}

Result<std::string> BuildBriefing(const ImplementContext& context, const ProgramPages& pages) {
  ideas::PromptFields fields;
  SetParent(fields, context);
  return pages.briefing.Render(fields);
}

Result<llm::Request> BuildImplementRequest(const ImplementContext& context) {
  const ProgramPages pages;
  const auto briefing = BuildBriefing(context, pages);
  if (!briefing) return Failure(briefing.error());
  return BuildImplementRequest(context, pages, *briefing);
}

Result<llm::Request> BuildImplementRequest(const ImplementContext& context,
                                           const ProgramPages& pages, std::string_view briefing) {
  ideas::PromptFields fields;
  SetIdea(fields, context);
  SetReplyForm(fields, context, context.parent.source, context.parent.plan);
  auto task = pages.implement.Render(fields);
  if (!task) return Failure(std::move(task.error()));
  return RequestOf(llm::Role::kCode, context, std::string(briefing) + *task, briefing.size());
}

Result<llm::Request> BuildRepairRequest(const RepairContext& context) {
  return BuildRepairRequest(context, ProgramPages());
}

Result<llm::Request> BuildRepairRequest(const RepairContext& context, const ProgramPages& pages) {
  ideas::PromptFields fields;
  SetParent(fields, context.implement);
  SetIdea(fields, context.implement);
  fields.SetShown("has_program", !context.source.empty());
  SetReplyForm(fields, context.implement, context.source, context.plan);
  fields.SetText("failed_source", ideas::Fenced("cuda", context.source));
  fields.SetText("failed_plan", ideas::Fenced("json", context.plan));
  // A failed program that is mostly its parent: the difference says more than the parent once
  // again. What is longer than a prompt holds is not compared: it may be anything.
  const std::string& parent = context.implement.parent.source;
  const std::size_t room = ideas::PromptBudget().source;
  if (!context.source.empty() && std::max(parent.size(), context.source.size()) <= room) {
    const std::string change = DiffHunks(parent, context.source, kDiffContext);
    if (change.size() < kShortDiff * parent.size()) {
      fields.SetText("parent_source",
                     std::string("that of the failed program below, without its change"));
      fields.SetShown("has_change", true);
      fields.SetText("change", ideas::Fenced("diff", change));
    }
  }
  fields.SetText("verdict", ideas::Shield(context.verdict));
  fields.SetText("case_name", ideas::Shield(context.case_name));
  fields.SetShown("has_case", !context.case_name.empty());
  fields.SetText("message", ideas::Fenced("text", ideas::FitText(context.message, kMaxMessage)));
  fields.SetLines("earlier", ideas::ShieldAll(context.earlier));
  fields.SetShown("has_report", !context.report.empty());
  fields.SetText("report", ideas::Shield(context.report));
  auto prompt = pages.repair.Render(fields);
  if (!prompt) return Failure(std::move(prompt.error()));
  return RequestOf(llm::Role::kRepair, context.implement, *std::move(prompt), 0);
}

}  // namespace grove::codegen
