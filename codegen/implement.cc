#include "codegen/implement.h"

#include <algorithm>

#include <fmt/format.h>
#include <kainjow/mustache.hpp>

#include "base/files.h"
#include "base/text_diff.h"

namespace grove::codegen {
namespace {

namespace mustache = kainjow::mustache;

constexpr std::uintmax_t kMaxTemplate = 1 << 20;
// Of a compiler log in a repair prompt: the first errors matter, the rest is mostly their echo.
constexpr std::size_t kMaxMessage = 6000;
// Unchanged lines around each change, and the share of the parent's source up to which a change is
// shown instead of that source.
constexpr int kDiffContext = 3;
constexpr double kShortDiff = 0.75;

void SetLines(mustache::data& data, const std::string& name,
              const std::vector<std::string>& lines) {
  mustache::data list{mustache::data::type::list};
  for (const std::string& line : lines) list.push_back(mustache::data(ideas::Shield(line)));
  data.set(name, list);
  data.set("has_" + name, !lines.empty());
}

Result<std::string> ReadTemplate(const std::filesystem::path& prompts, const char* name) {
  auto text = ReadFile(prompts / name, kMaxTemplate);
  if (!text) return Fail(text.error(), "prompt template");
  return text;
}

Result<llm::Request> Build(const ImplementContext& context, mustache::data& data, llm::Role role,
                           const std::filesystem::path& prompts, const char* name) {
  const auto text = ReadTemplate(prompts, name);
  if (!text) return Fail(text.error());
  const auto rules = ReadTemplate(prompts, "rules.mustache");
  if (!rules) return Fail(rules.error());
  data.set("rules", mustache::data(mustache::partial([copy = *rules] { return copy; })));
  data.set("task", ideas::DescribeTaskLines(context.task));
  data.set("library", context.task.library);
  data.set("device", ideas::DescribeDevice(context.device));
  const ideas::PromptBudget room;
  ideas::KernelFacts parent = context.parent;
  parent.counters = ideas::FitText(parent.counters, room.counters);
  data.set("parent", ideas::DescribeKernel(parent));
  if (data.get("parent_source") == nullptr) {
    data.set("parent_source", ideas::Fenced("cuda", ideas::FitText(parent.source, room.source)));
  }
  data.set("parent_plan", ideas::Fenced("json", ideas::FitText(parent.plan, room.plan)));
  data.set("title", ideas::Shield(context.idea.title));
  data.set("category", std::string(ideas::Name(context.idea.category)));
  data.set("rationale", ideas::Shield(context.idea.rationale));
  data.set("gain", fmt::format("{:.2f}", context.idea.expected_gain));
  SetLines(data, "hints", context.hints);
  mustache::mustache page(*text);
  page.set_custom_escape([](const std::string& s) { return s; });
  const std::string prompt = page.is_valid() ? page.render(data) : std::string();
  if (!page.is_valid()) {
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("prompt template {}: {}", name, page.error_message()));
  }
  llm::Request request;
  request.role = role;
  request.model = context.model;
  request.seed = context.seed;
  request.messages.push_back({llm::Message::Author::kUser, prompt});
  return request;
}

}  // namespace

Result<llm::Request> BuildImplementRequest(const ImplementContext& context,
                                           const std::filesystem::path& prompts) {
  mustache::data data;
  return Build(context, data, llm::Role::kCode, prompts, "implement.mustache");
}

Result<llm::Request> BuildRepairRequest(const RepairContext& context,
                                        const std::filesystem::path& prompts) {
  mustache::data data;
  data.set("has_program", !context.source.empty());
  data.set("failed_source", ideas::Fenced("cuda", context.source));
  data.set("failed_plan", ideas::Fenced("json", context.plan));
  // A failed program that is mostly its parent: the difference says more than the parent once
  // again. What is longer than a prompt holds is not compared: it may be anything.
  const std::string& parent = context.implement.parent.source;
  const std::size_t room = ideas::PromptBudget().source;
  if (!context.source.empty() && std::max(parent.size(), context.source.size()) <= room) {
    const std::string change = DiffHunks(parent, context.source, kDiffContext);
    if (change.size() < kShortDiff * parent.size()) {
      data.set("parent_source",
               std::string("that of the failed program below, without its change"));
      data.set("has_change", true);
      data.set("change", ideas::Fenced("diff", change));
    }
  }
  data.set("verdict", ideas::Shield(context.verdict));
  data.set("case_name", ideas::Shield(context.case_name));
  data.set("has_case", !context.case_name.empty());
  data.set("message", ideas::Fenced("text", ideas::FitText(context.message, kMaxMessage)));
  SetLines(data, "earlier", context.earlier);
  data.set("has_report", !context.report.empty());
  data.set("report", ideas::Shield(context.report));
  return Build(context.implement, data, llm::Role::kRepair, prompts, "repair.mustache");
}

}  // namespace grove::codegen
