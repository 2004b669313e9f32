#include "ideas/idea_prompt.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <kainjow/mustache.hpp>

#include "base/files.h"

namespace grove::ideas {
namespace {

namespace mustache = kainjow::mustache;

constexpr std::uintmax_t kMaxTemplate = 1 << 20;

// A list for {{#name}}{{.}}{{/name}}, with has_name for the frame around it.
void SetLines(mustache::data& data, const std::string& name,
              const std::vector<std::string>& lines) {
  mustache::data list{mustache::data::type::list};
  for (const std::string& line : lines) list.push_back(mustache::data(line));
  data.set(name, list);
  data.set("has_" + name, !lines.empty());
}

std::vector<std::string> DescribeAll(const std::vector<TriedIdea>& tried) {
  std::vector<std::string> lines;
  for (const TriedIdea& t : tried) lines.push_back(DescribeTried(t));
  return lines;
}

std::vector<std::string> ShieldAll(const std::vector<std::string>& texts) {
  std::vector<std::string> lines;
  for (const std::string& text : texts) lines.push_back(Shield(text));
  return lines;
}

}  // namespace

Result<llm::Request> BuildIdeaRequest(const IdeaContext& context,
                                      const std::filesystem::path& prompts) {
  const auto text = ReadFile(prompts / "idea.mustache", kMaxTemplate);
  if (!text) return Fail(text.error(), "prompt template");
  mustache::mustache page(*text);
  page.set_custom_escape([](const std::string& s) { return s; });
  mustache::data data;
  data.set("task", DescribeTaskLines(context.task));
  data.set("library", context.task.library);
  data.set("device", DescribeDevice(context.device));
  const PromptBudget& room = context.budget;
  KernelFacts parent = context.parent;
  parent.counters = FitText(parent.counters, room.counters);
  data.set("parent", DescribeKernel(parent));
  data.set("source", Fenced("cuda", FitText(parent.source, room.source)));
  data.set("plan", Fenced("json", FitText(parent.plan, room.plan)));
  SetLines(data, "lineage", FitLines(DescribeAll(context.lineage), room.lineage, true));
  SetLines(data, "tried_here", FitLines(DescribeAll(context.tried_here), room.tried_here, true));
  SetLines(data, "tried_elsewhere",
           FitLines(DescribeAll(context.tried_elsewhere), room.tried_elsewhere, false));
  SetLines(data, "playbook", FitLines(ShieldAll(context.playbook), room.playbook, false));
  SetLines(data, "hints", ShieldAll(context.hints));
  SetLines(data, "proposed", ShieldAll(context.proposed));
  SetLines(data, "refusals", ShieldAll(context.refusals));
  data.set("goal", Shield(context.goal));
  data.set("has_goal", !context.goal.empty());
  data.set("wanted", fmt::to_string(context.wanted));
  data.set("radical", context.radical);
  std::vector<std::string> names;
  for (const Category category : kCategories) names.emplace_back(Name(category));
  data.set("categories", fmt::format("{}", fmt::join(names, "; ")));

  llm::Request request;
  request.role = context.radical ? llm::Role::kAdviser : llm::Role::kIdea;
  request.model = context.model;
  request.seed = context.seed;
  const std::string prompt = page.is_valid() ? page.render(data) : std::string();
  if (!page.is_valid()) {
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("prompt template idea.mustache: {}", page.error_message()));
  }
  request.messages.push_back({llm::Message::Author::kUser, prompt});
  return request;
}

}  // namespace grove::ideas
