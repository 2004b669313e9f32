#include "ideas/idea_prompt.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace grove::ideas {

PromptPage IdeaPage(const std::filesystem::path& prompts) { return {prompts, "idea"}; }

Result<llm::Request> BuildIdeaRequest(const IdeaContext& context) {
  return BuildIdeaRequest(context, IdeaPage());
}

Result<llm::Request> BuildIdeaRequest(const IdeaContext& context, const PromptPage& page) {
  PromptFields fields;
  fields.SetText("task", DescribeTaskLines(context.task));
  fields.SetShown("library", context.task.library);
  fields.SetText("device", DescribeDevice(context.device));
  const PromptBudget& room = context.budget;
  KernelFacts parent = context.parent;
  parent.counters = FitText(parent.counters, room.counters);
  fields.SetText("parent", DescribeKernel(parent));
  fields.SetText("source", Fenced("cuda", FitText(parent.source, room.source)));
  fields.SetText("plan", Fenced("json", FitText(parent.plan, room.plan)));
  fields.SetLines("lineage", FitLines(context.lineage, room.lineage, true, context.lineage_older));
  fields.SetLines("ties", FitChanges(context.ties, room.ties));
  fields.SetLines("changes", FitChanges(context.changes, room.changes));
  fields.SetLines("tried_here",
                  FitLines(context.tried_here, room.tried_here, true, context.tried_here_older));
  fields.SetLines("tried_elsewhere",
                  FitLines(context.tried_elsewhere, room.tried_elsewhere, false));
  fields.SetLines("playbook", FitLines(ShieldAll(context.playbook), room.playbook, false));
  fields.SetLines("hints", ShieldAll(context.hints));
  fields.SetLines("proposed", ShieldAll(context.proposed));
  fields.SetLines("refusals", ShieldAll(context.refusals));
  fields.SetText("goal", Shield(context.goal));
  fields.SetShown("has_goal", !context.goal.empty());
  fields.SetText("wanted", fmt::to_string(context.wanted));
  fields.SetShown("radical", context.radical);
  const std::size_t most = context.most_of_category;
  fields.SetShown("quota", most > 0 && most < context.wanted + context.proposed.size());
  fields.SetText("most_of_category", fmt::format("{} idea{}", most, most == 1 ? "" : "s"));
  std::vector<std::string> names;
  for (const Category category : kCategories) names.emplace_back(Name(category));
  fields.SetText("categories", fmt::format("{}", fmt::join(names, "; ")));

  llm::Request request;
  request.role = context.radical ? llm::Role::kAdviser : llm::Role::kIdea;
  request.model = context.model;
  request.seed = context.seed;
  auto prompt = page.Render(fields);
  if (!prompt) return Failure(std::move(prompt.error()));
  request.messages.push_back({llm::Message::Author::kUser, *std::move(prompt)});
  return request;
}

}  // namespace grove::ideas
