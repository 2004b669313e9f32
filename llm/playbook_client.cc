#include "llm/playbook_client.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "llm/playbook/catalogue.h"
#include "llm/playbook/prompt_view.h"

namespace grove::llm {
namespace {

using playbook::Catalogue;
using playbook::Entry;
using playbook::Facts;
using playbook::Op;
using playbook::PromptView;
using playbook::Traits;

// Letters and digits in lower case, everything else one blank: what titles are compared by.
std::string Normalised(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const unsigned char u = static_cast<unsigned char>(c);
    if (std::isalnum(u) != 0) {
      out += static_cast<char>(std::tolower(u));
    } else if (!out.empty() && out.back() != ' ') {
      out += ' ';
    }
  }
  while (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

std::set<std::string> Words(std::string_view text) {
  std::set<std::string> words;
  const std::string plain = Normalised(text);
  for (std::size_t at = 0; at < plain.size();) {
    const std::size_t end = std::min(plain.find(' ', at), plain.size());
    if (end - at > 2) words.insert(plain.substr(at, end - at));  // not "a", "of", "to"
    at = end + 1;
  }
  return words;
}

std::int64_t Product(const playbook::CaseView& c, const std::vector<std::string>& dims) {
  std::int64_t product = 1;
  for (const std::string& name : dims) {
    if (__builtin_mul_overflow(product, c.dim(name).value_or(0), &product)) return 0;
  }
  return product;
}

// Whether the op's templates can serve the case: the same tensors, of types it is written for, and
// every dim it needs.
bool Serves(const Op& op, const playbook::CaseView& c) {
  if (c.tensors.size() != op.tensors.size()) return false;
  std::string common;  // the type of all tensors whose type the op leaves open
  for (std::size_t i = 0; i < op.tensors.size(); ++i) {
    const auto& [name, type] = c.tensors[i];
    if (name != op.tensors[i].name) return false;
    if (!op.tensors[i].type.empty()) {
      if (type != op.tensors[i].type) return false;
      continue;
    }
    if (common.empty()) common = type;
    if (type != common) return false;
  }
  return std::find(op.types.begin(), op.types.end(), common) != op.types.end() &&
         Product(c, op.rows) > 0 && Product(c, op.row) > 0;
}

// The op that serves the prompt's task: its name begins the task's (the longest that does), and it
// serves every case.
const Op* FindOp(const Catalogue& catalogue, const PromptView& view) {
  const Op* found = nullptr;
  for (const Op& op : catalogue.ops()) {
    if (view.task != op.name && !view.task.starts_with(op.name + "_")) continue;
    if (found != nullptr && found->name.size() > op.name.size()) continue;
    const bool fits = !view.cases.empty() &&
                      std::all_of(view.cases.begin(), view.cases.end(),
                                  [&](const playbook::CaseView& c) { return Serves(op, c); });
    if (fits) found = &op;
  }
  return found;
}

// Bits of the mantissas of a class of accuracy; those of fp32 when none is demanded.
std::int64_t ClassBits(std::string_view demanded) {
  if (demanded == "fp64") return 53;
  if (demanded == "tf32" || demanded == "fp16") return 11;
  if (demanded == "bf16") return 8;
  return demanded == "fp8" ? 4 : 24;
}

// Every dim in lower case (of the first scored case), rows, row and row_kb, and bits, the size of
// an element of the first tensor; row_max and rows_max are the largest of any case. hopper is 1
// when the programs run on a GPU with TMA and wgmma, else 0: an emulator executes neither.
// class_bits: ClassBits of the class that the task demands.
Facts FactsOf(const Op& op, const PromptView& view) {
  const auto scored = std::find_if(view.cases.begin(), view.cases.end(),
                                   [](const playbook::CaseView& c) { return c.scored; });
  const playbook::CaseView& main = scored == view.cases.end() ? view.cases.front() : *scored;
  Facts facts;
  for (const auto& [name, value] : main.dims) {
    std::string key = name;
    std::transform(key.begin(), key.end(), key.begin(), [](char c) {
      return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    });
    facts[key] = value;
  }
  facts["rows"] = Product(main, op.rows);
  facts["row"] = Product(main, op.row);
  const std::string& type = main.tensors.front().second;
  facts["bits"] = type == "f64" ? 64 : type == "f16" || type == "bf16" ? 16 : 32;
  facts["hopper"] = view.measured && view.arch.starts_with("sm_90") ? 1 : 0;
  facts["class_bits"] = ClassBits(view.demanded);
  facts["row_kb"] = std::max<std::int64_t>(1, facts["row"] * facts["bits"] / 8192);
  for (const playbook::CaseView& c : view.cases) {
    facts["rows_max"] = std::max(facts["rows_max"], Product(c, op.rows));
    facts["row_max"] = std::max(facts["row_max"], Product(c, op.row));
  }
  return facts;
}

// A number in [0, 1) from texts, the same everywhere.
double Unit(std::string_view text, std::uint64_t seed) {
  const Hash hash = HashText(fmt::format("{} {}", seed, text));
  return static_cast<double>(hash.low >> 11) * 0x1.0p-53;
}

class PlaybookClient : public Client {
 public:
  explicit PlaybookClient(Catalogue catalogue) : catalogue_(std::move(catalogue)) {}

  std::string_view name() const override { return "playbook"; }

  Result<Reply> Complete(const Request& request, std::stop_token stop) override {
    if (stop.stop_requested()) return Fail(ErrorCode::kCancelled, "playbook: stopped");
    std::string prompt;
    for (const Message& message : request.messages) {
      prompt += message.text;
      prompt += '\n';
    }
    const PromptView view = PromptView::Read(prompt);
    const Op* op = FindOp(catalogue_, view);
    if (op == nullptr) return Fail(ErrorCode::kInvalidInput, Unknown(view));
    const Facts facts = FactsOf(*op, view);
    Traits traits = playbook::TraitsOf(view.parent_source, view.family);
    traits["op"] = op->name;
    Result<std::string> text;
    switch (request.role) {
      case Role::kIdea:
      case Role::kAdviser:
        text = Ideas(view, traits, facts, request.seed);
        break;
      case Role::kCode:
        text = Implementation(view, traits, facts, request.seed);
        break;
      case Role::kRepair:
        text = Repair(view, traits, facts, request.seed);
        break;
    }
    if (!text) return Fail(text.error(), "playbook");
    Reply reply;
    reply.text = std::move(*text);
    // By our estimate a token has at least three bytes.
    const std::size_t limit =
        static_cast<std::size_t>(std::max<std::int64_t>(0, request.max_tokens.value)) * 3;
    if (EstimateTokens(reply.text) > request.max_tokens) {
      reply.text.resize(std::min(reply.text.size(), limit));
      reply.finish = FinishReason::kLength;
    }
    reply.usage.prompt = EstimateTokens(prompt);
    reply.usage.completion = std::min(EstimateTokens(reply.text), request.max_tokens);
    reply.usage.estimated = true;
    reply.model = "playbook";
    return reply;
  }

 private:
  std::string Unknown(const PromptView& view) const {
    std::vector<std::string> names;
    for (const Op& op : catalogue_.ops()) names.push_back(op.name);
    if (view.task.empty()) return "playbook: the prompt has no <task> section with a name";
    return fmt::format(
        "playbook: the catalogue has nothing for task \"{}\"; it knows tasks named {} with the "
        "tensors and element types of those tasks. Another model client can work on it",
        view.task, fmt::join(names, ", "));
  }

  Result<std::string> Ideas(const PromptView& view, const Traits& traits, const Facts& facts,
                            std::uint64_t seed) const {
    std::set<std::string> tried, failed;
    for (const std::string& title : view.tried_here) tried.insert(Normalised(title));
    for (const std::string& title : view.failed_titles) failed.insert(Normalised(title));
    struct Option {
      const Entry* entry;
      double worth;
    };
    std::vector<Option> options;
    for (const Entry& entry : catalogue_.entries()) {
      const std::string title = Normalised(entry.title);
      if (tried.contains(title) || !catalogue_.Applies(entry, traits, facts)) continue;
      double worth = std::log(entry.expected_gain);
      if (failed.contains(title)) worth *= 0.2;
      // Near ties fall differently with another seed.
      options.push_back({&entry, worth * (0.9 + 0.2 * Unit(entry.id, seed))});
    }
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    std::map<std::string, int> used;  // ideas per category so far
    while (!options.empty() && list.size() < view.wanted) {
      const auto value = [&](const Option& o) {
        const auto found = used.find(o.entry->category);
        return o.worth * std::pow(0.5, found == used.end() ? 0 : found->second);
      };
      const auto best =
          std::max_element(options.begin(), options.end(),
                           [&](const Option& a, const Option& b) { return value(a) < value(b); });
      const Entry& entry = *best->entry;
      list.push_back({{"title", entry.title},
                      {"category", entry.category},
                      {"rationale", catalogue_.Rationale(entry, facts)},
                      {"expected_gain", entry.expected_gain}});
      ++used[entry.category];
      options.erase(best);
    }
    nlohmann::ordered_json reply;
    reply["ideas"] = std::move(list);
    return reply.dump(2);
  }

  // The catalogue's entry for an idea: by title, else the applicable one that shares most words
  // with the title, with the category as the last word.
  const Entry* Recognise(const PromptView& view, const Traits& traits, const Facts& facts) const {
    const std::string title = Normalised(view.idea_title);
    for (const Entry& entry : catalogue_.entries()) {
      if (Normalised(entry.title) == title && catalogue_.Applies(entry, traits, facts))
        return &entry;
    }
    const std::set<std::string> words = Words(view.idea_title);
    const Entry* best = nullptr;
    double best_score = 0;
    for (const Entry& entry : catalogue_.entries()) {
      if (!catalogue_.Applies(entry, traits, facts)) continue;
      double score = Normalised(entry.category) == Normalised(view.idea_category) ? 0.5 : 0.0;
      for (const std::string& word : Words(entry.title)) score += words.contains(word) ? 1 : 0;
      if (score > best_score) best = &entry, best_score = score;
    }
    return best;
  }

  Result<std::string> Implementation(const PromptView& view, const Traits& traits,
                                     const Facts& facts, std::uint64_t seed) const {
    const Entry* entry = Recognise(view, traits, facts);
    if (entry == nullptr) {
      return fmt::format("Nothing in the playbook fits the idea \"{}\" and this kernel.\n",
                         view.idea_title);
    }
    const std::vector<Traits> choices = catalogue_.Apply(*entry, traits, facts);
    return Write(*entry, choices[seed % choices.size()], traits, facts);
  }

  Result<std::string> Repair(const PromptView& view, const Traits& traits, const Facts& facts,
                             std::uint64_t seed) const {
    const Entry* entry = Recognise(view, traits, facts);
    if (entry == nullptr) {
      return fmt::format("Nothing in the playbook fits the idea \"{}\" and this kernel.\n",
                         view.idea_title);
    }
    const std::vector<Traits> choices = catalogue_.Apply(*entry, traits, facts);
    Traits failed = playbook::TraitsOf(view.failed_source, view.family);
    failed["op"] = traits.at("op");
    const auto at = std::find(choices.begin(), choices.end(), failed);
    // After the failed one, round the list; from the seed's own place when it is none of them.
    const std::size_t next =
        at == choices.end() ? seed % choices.size()
                            : static_cast<std::size_t>(at - choices.begin() + 1) % choices.size();
    if (choices[next] == failed) {
      return fmt::format(
          "The program failed ({}) and the idea has no other choice of parameters.\n",
          view.verdict);
    }
    auto text = Write(*entry, choices[next], traits, facts);
    if (!text) return text;
    return fmt::format("The program failed ({}); this is the next choice of parameters.\n\n{}",
                       view.verdict, *text);
  }

  Result<std::string> Write(const Entry& entry, const Traits& traits, const Traits& parent,
                            const Facts& facts) const {
    const auto program = catalogue_.Render(traits, facts);
    if (!program) return Fail(program.error());
    std::vector<std::string> changes;
    for (const auto& [name, value] : traits) {
      const auto before = parent.find(name);
      if (before == parent.end()) {
        changes.push_back(fmt::format("{}={}", name, value));
      } else if (before->second != value) {
        changes.push_back(fmt::format("{} from {} to {}", name, before->second, value));
      }
    }
    return fmt::format(
        "{}. {}\n\nChanged against the parent: {}.\n\n```cuda\n{}```\n\n```json\n{}```\n",
        entry.title, catalogue_.Rationale(entry, facts), fmt::join(changes, ", "), program->source,
        program->plan);
  }

  const Catalogue catalogue_;
};

}  // namespace

Result<std::unique_ptr<Client>> MakePlaybookClient(const std::filesystem::path& folder) {
  auto catalogue = Catalogue::Load(folder);
  if (!catalogue) return Fail(catalogue.error());
  return std::make_unique<PlaybookClient>(std::move(*catalogue));
}

Status CheckPlaybookKnows(const seeds::Task& task, const std::filesystem::path& folder) {
  const auto catalogue = Catalogue::Load(folder);
  if (!catalogue) return Failure(catalogue.error());
  PromptView view;
  view.task = task.name;
  view.family = task.family;
  for (const seeds::Case& c : task.cases) {
    playbook::CaseView& seen = view.cases.emplace_back();
    for (const seeds::Dim& dim : c.dims) seen.dims.emplace_back(dim.name, dim.value);
    for (const seeds::Tensor& tensor : c.tensors) {
      seen.tensors.emplace_back(tensor.name, Name(tensor.dtype));
    }
  }
  if (FindOp(*catalogue, view) != nullptr) return {};
  std::vector<std::string> names;
  for (const Op& op : catalogue->ops()) names.push_back(op.name);
  const std::string suite = task.suites.empty() ? "" : ", suite " + task.suites.front();
  return Fail(ErrorCode::kInvalidInput,
              fmt::format("the playbook (the built-in model) has no transformations for task {}{}; "
                          "it knows {}. Use a language model (--model), or evaluate kernels "
                          "by hand with grove eval",
                          task.name, suite, fmt::join(names, ", ")));
}

Result<std::vector<PlaybookTip>> LoadPlaybookTips(const std::filesystem::path& folder) {
  const auto catalogue = Catalogue::Load(folder);
  if (!catalogue) return Fail(catalogue.error());
  std::vector<PlaybookTip> tips;
  for (const Entry& entry : catalogue->entries()) {
    PlaybookTip tip{entry.id, {}, entry.title, entry.category, {}, entry.expected_gain};
    for (const Op& op : catalogue->ops()) {
      if (op.name == entry.ops.front()) tip.family = op.family;
    }
    // Without a task the shapes stand for themselves.
    tip.rationale = catalogue->GeneralRationale(entry);
    tips.push_back(std::move(tip));
  }
  return tips;
}

}  // namespace grove::llm
