// `grove models`, `grove mailbox`, `grove ledger` and `grove init`.
#include <cstdio>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/files.h"
#include "cli/clients.h"
#include "cli/commands.h"
#include "cli/complain.h"
#include "cli/exit_code.h"
#include "cli/find_run.h"
#include "cli/settings.h"
#include "cli/spending.h"
#include "codegen/program.h"
#include "ideas/idea.h"
#include "llm/mailbox_client.h"
#include "llm/playbook/prompt_view.h"
#include "llm/pricing.h"
#include "results/store.h"
#include "search/model_calls.h"

namespace grove::cli {
namespace {

using nlohmann::ordered_json;

// "1234.reply.md" belongs to "1234.prompt.md".
std::string StemOf(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  return name.substr(0, name.find('.'));
}

Status CheckMailboxReply(const std::filesystem::path& folder, std::filesystem::path file) {
  // A bare name is one of the mailbox's, unless a file here has it.
  std::error_code error;
  if (!file.has_parent_path() && !std::filesystem::exists(file, error)) file = folder / file;
  auto waiting = llm::ListWaiting(folder);
  if (!waiting) return Failure(std::move(waiting.error()));
  const std::filesystem::path prompt = folder / (StemOf(file) + ".prompt.md");
  auto text = ReadFile(prompt);
  if (!text) {
    return Fail(
        ErrorCode::kNotFound,
        fmt::format("{} is named after no prompt of {}; a reply to 0001.prompt.md is called "
                    "0001.reply.md",
                    file.filename().string(), folder.string()));
  }
  const auto entry = llm::ReadMailboxEntry(prompt);
  if (!entry) return Failure(entry.error());
  auto role = llm::RoleFrom(entry->role);
  if (!role) return Fail(std::move(role.error()), prompt.string());
  if (auto good = llm::CheckReply(*role, entry->end, file); !good) return good;
  auto reply = ReadFile(file);
  if (!reply) return Failure(std::move(reply.error()));
  const std::string body = llm::CompleteReply(*reply, entry->end).value_or("");
  // As the search will read it.
  if (*role == llm::Role::kIdea || *role == llm::Role::kAdviser) {
    if (auto parsed = ideas::ParseIdeas(body, 64); !parsed)
      return Failure(std::move(parsed.error()));
    return {};
  }
  // Edits are of the program that the prompt shows.
  const auto view = llm::playbook::PromptView::Read(*text);
  const bool repair = !view.failed_source.empty();
  const seeds::ProgramText base = {
      repair ? view.failed_source : view.parent_source,
      std::string(llm::playbook::FencedBlock(
          llm::playbook::Section(*text, repair ? "failed" : "parent"), "json"))};
  if (auto program = codegen::ParseReply(body, &base); !program)
    return Failure(std::move(program.error()));
  return {};
}

}  // namespace

int MailboxCommand(const MailboxOptions& options, const Common& common) {
  auto name = FindRun(common.runs, options.run);
  if (!name) return Complain(name.error());
  const std::filesystem::path folder = common.runs / *name / "mailbox";
  if (!options.check.empty()) {
    if (auto good = CheckMailboxReply(folder, options.check); !good) {
      fmt::print(stderr, "grove: {}\n", good.error().message);
      // That it would not be taken is what was asked.
      return good.error().code == ErrorCode::kInvalidInput ? kExitFailed : ExitCodeOf(good.error());
    }
    if (common.json) {
      fmt::print("{}\n", ordered_json{{"file", options.check.string()}, {"good", true}}.dump(2));
    } else {
      fmt::print("{}: good\n", options.check.string());
    }
    return kExitDone;
  }
  auto waiting = llm::ListWaiting(folder);
  if (!waiting) return Complain(waiting.error());
  ordered_json list = ordered_json::array();
  for (const llm::MailboxEntry& entry : *waiting) {
    if (common.json) {
      list.push_back({{"number", entry.number},
                      {"role", entry.role},
                      {"prompt", entry.prompt.string()},
                      {"reply", entry.reply.string()},
                      {"started", entry.started},
                      {"withdrawn", entry.withdrawn}});
    } else {
      fmt::print("{:<8} {}  ->  {}{}\n", entry.role, entry.prompt.string(), entry.reply.string(),
                 entry.withdrawn ? "  (withdrawn: the run has stopped; a resume asks again)"
                 : entry.started ? "  (begun, its end mark is missing)"
                                 : "");
    }
  }
  if (common.json) fmt::print("{}\n", list.dump(2));
  if (!common.json && waiting->empty()) fmt::print("nothing waits in {}\n", folder.string());
  return kExitDone;
}

int LedgerCommand(const std::string& run, const Common& common) {
  auto name = FindRun(common.runs, run);
  if (!name) return Complain(name.error());
  auto reader = results::Reader::Open(common.runs / *name);
  if (!reader) return Complain(reader.error());
  auto data = (*reader)->Load();
  if (!data) return Complain(data.error());
  auto config = search::ConfigFromJson(data->run.config);
  if (!config) return Complain(config.error());
  if (common.json) {
    fmt::print("{}\n", LedgerJson(*data, *config).dump(2));
  } else {
    fmt::print("{}", LedgerText(*data, *config));
  }
  return kExitDone;
}

int ModelsCommand(const ModelsOptions& options, const Common& common) {
  search::SearchConfig config;
  if (auto set = ApplySettings(options.settings, config); !set) return Complain(set.error());
  if (auto valid = search::Validate(config); !valid) return Complain(valid.error());
  auto prices = llm::LoadPrices();
  if (!prices) return Complain(prices.error());
  std::vector<search::ModelSpec> models = search::ModelsOf(config);
  search::FillPrices(models, *prices);
  const SystemClock clock;
  bool all_good = true;
  ordered_json list = ordered_json::array();
  for (const search::ModelSpec& model : models) {
    const bool served = model.name != "playbook" && model.name != "mailbox";
    std::string state = model.name == "playbook" ? "built in" : "files in the run's folder";
    bool good = true;
    if (served && options.ping) {
      search::SearchConfig one;
      one.models = {model};
      auto client = MakeClients(one, {}, clock);
      llm::Request request;
      request.model = model.name;
      request.messages = {{llm::Message::Author::kUser, "Say yes."}};
      request.max_tokens = Tokens(1);
      Result<llm::Reply> reply =
          client ? (*client)->Complete(request, common.stop) : Fail(client.error());
      // A reply of one token may be empty: it is cut where the limit says.
      good = reply.has_value();
      state = good ? fmt::format("answers as {} in {:.0f} ms, {} + {} tokens",
                                 reply->model.empty() ? "?" : reply->model, reply->latency.count(),
                                 reply->usage.prompt.value, reply->usage.completion.value)
                   : reply.error().message;
    } else if (served) {
      state = HasKey(model) ? "key set" : "no key";
    }
    all_good = all_good && good;
    const std::string variable = KeyVariable(model);
    const std::string price =
        model.price_in && model.price_out
            ? fmt::format("${:g} in, ${:g} out per million ({})", *model.price_in, *model.price_out,
                          model.price_source)
            : "price unknown";
    if (common.json) {
      ordered_json row;
      row["name"] = model.name;
      row["roles"] = model.roles;
      row["weight"] = model.weight;
      row["endpoint"] = model.endpoint;
      row["key_variable"] = variable;
      row["key_set"] = HasKey(model);
      if (model.price_in) row["price_in"] = *model.price_in;
      if (model.price_out) row["price_out"] = *model.price_out;
      row["price_source"] = model.price_source;
      row["good"] = good;
      row["state"] = state;
      list.push_back(std::move(row));
      continue;
    }
    std::string roles;
    for (const std::string& role : model.roles) roles += (roles.empty() ? "" : ",") + role;
    fmt::print("{:<30} {:<18} weight {:g}  {}\n", model.name, roles.empty() ? "all roles" : roles,
               model.weight, price);
    if (served) {
      fmt::print("    {}, key from {} ({})\n",
                 model.endpoint.empty() ? "the provider's endpoint" : model.endpoint, variable,
                 HasKey(model) ? "set" : "not set");
    }
    fmt::print("    {}\n", state);
  }
  if (common.json) fmt::print("{}\n", list.dump(2));
  return all_good ? kExitDone : kExitFailed;
}

int InitCommand(const std::filesystem::path& file, const Common&) {
  std::error_code error;
  if (std::filesystem::exists(file, error)) {
    return Complain({ErrorCode::kInvalidInput,
                     fmt::format("{} exists; remove it first, or name another", file.string())});
  }
  if (auto written = WriteFileAtomic(file, ConfigTemplate()); !written) {
    return Complain(written.error());
  }
  fmt::print("wrote {}\n", file.string());
  return kExitDone;
}

}  // namespace grove::cli
