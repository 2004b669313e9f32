#include "llm/playbook/catalogue.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <kainjow/mustache.hpp>

#include "base/files.h"
#include "base/suggest.h"
#include "base/toml.h"

namespace grove::llm::playbook {
namespace {

namespace mustache = kainjow::mustache;

constexpr std::uintmax_t kMaxFile = 1 << 20;

// Names of the six categories; ideas/idea.h has the same list as an enum, above this folder.
constexpr std::array<std::string_view, 6> kCategories = {
    "memory access",
    "asynchrony and latency hiding",
    "data type and precision",
    "instructions and arithmetic",
    "parallelism and occupancy",
    "control flow and indexing",
};

// Reads one table field by field and remembers the first thing that is wrong with it.
class TableReader {
 public:
  TableReader(const toml::table& table, std::string place)
      : table_(table), place_(std::move(place)) {}

  std::string Text(std::string_view key) {
    known_.emplace(key);
    if (const auto value = table_[key].value<std::string>()) return *value;
    Complain(fmt::format("field \"{}\" must be a string", key));
    return {};
  }

  double Number(std::string_view key) {
    known_.emplace(key);
    if (const auto value = table_[key].value<double>()) return *value;
    Complain(fmt::format("field \"{}\" must be a number", key));
    return 0;
  }

  std::vector<std::string> Texts(std::string_view key, bool required) {
    known_.emplace(key);
    std::vector<std::string> values;
    const toml::array* array = table_[key].as_array();
    if (array == nullptr) {
      if (required || table_.contains(key)) {
        Complain(fmt::format("field \"{}\" must be a list of strings", key));
      }
      return values;
    }
    for (const toml::node& node : *array) {
      if (const auto value = node.value<std::string>()) {
        values.push_back(*value);
      } else {
        Complain(fmt::format("field \"{}\" must hold strings only", key));
      }
    }
    return values;
  }

  std::vector<Condition> Conditions(std::string_view key) {
    std::vector<Condition> conditions;
    for (const std::string& text : Texts(key, false)) {
      auto condition = Condition::Parse(text);
      if (condition) {
        conditions.push_back(std::move(*condition));
      } else {
        Complain(condition.error().message);
      }
    }
    return conditions;
  }

  Traits TraitTable(std::string_view key) {
    known_.emplace(key);
    Traits traits;
    const toml::table* table = table_[key].as_table();
    if (table == nullptr) {
      if (table_.contains(key)) Complain(fmt::format("field \"{}\" must be a table", key));
      return traits;
    }
    ReadTraits(*table, traits, {});
    return traits;
  }

  std::vector<Choice> Choices(std::string_view key) {
    known_.emplace(key);
    std::vector<Choice> choices;
    if (const toml::array* array = table_[key].as_array()) {
      for (const toml::node& node : *array) {
        const toml::table* table = node.as_table();
        if (table == nullptr) {
          Complain(fmt::format("field \"{}\" must be a list of tables", key));
          continue;
        }
        Choice choice;
        TableReader inner(*table, place_);
        choice.when = inner.Conditions("when");
        if (inner.problem_) Complain(*inner.problem_);
        ReadTraits(*table, choice.sets, "when");
        choices.push_back(std::move(choice));
      }
    }
    if (choices.empty()) Complain(fmt::format("field \"{}\" must list at least one table", key));
    return choices;
  }

  // The first problem, or an unknown field.
  Status Finish() {
    for (const auto& [key, node] : table_) {
      if (!known_.contains(std::string(key.str()))) {
        Complain(UnknownName("field", key.str(),
                             std::vector<std::string>(known_.begin(), known_.end())));
      }
    }
    if (problem_) return Fail(ErrorCode::kInvalidInput, fmt::format("{}: {}", place_, *problem_));
    return {};
  }

 private:
  void Complain(std::string problem) {
    if (!problem_) problem_ = std::move(problem);
  }

  void ReadTraits(const toml::table& table, Traits& traits, std::string_view skip) {
    for (const auto& [key, node] : table) {
      if (key.str() == skip) continue;
      if (const auto text = node.value_exact<std::string>()) {
        traits.emplace(key.str(), *text);
      } else if (const auto number = node.value_exact<std::int64_t>()) {
        traits.emplace(key.str(), fmt::to_string(*number));
      } else {
        Complain(fmt::format("trait \"{}\" must be a string or a whole number", key.str()));
      }
    }
  }

  const toml::table& table_;
  std::string place_;
  std::set<std::string> known_;
  std::optional<std::string> problem_;
};

std::string Get(const Traits& traits, const std::string& name) {
  const auto found = traits.find(name);
  return found == traits.end() ? std::string() : found->second;
}

void Overlay(Traits& traits, const Traits& over) {
  for (const auto& [name, value] : over) traits[name] = value;
}

bool Contains(const std::vector<std::string>& list, const std::string& text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

std::string Fill(const std::string& text, const Traits& words) {
  mustache::data data;
  for (const auto& [name, value] : words) data.set(name, value);
  mustache::mustache page(text);
  page.set_custom_escape([](const std::string& s) { return s; });
  return page.is_valid() ? page.render(data) : text;
}

}  // namespace

Status Catalogue::ReadToml(const std::filesystem::path& file) {
  const auto text = ReadFile(file, kMaxFile);
  if (!text) return Fail(text.error());
  const std::string name = file.filename().string();
  const toml::parse_result parsed = toml::parse(*text);
  if (!parsed) {
    const toml::source_position at = parsed.error().source().begin;
    return Fail(ErrorCode::kInvalidInput, fmt::format("{}: line {}, column {}: {}", name, at.line,
                                                      at.column, parsed.error().description()));
  }
  for (const auto& [key, node] : parsed.table()) {
    const toml::array* list = node.as_array();
    if (list == nullptr) {
      return Fail(
          ErrorCode::kInvalidInput,
          fmt::format("{}: \"{}\" is none of [[op]], [[template]], [[entry]]", name, key.str()));
    }
    for (const toml::node& item : *list) {
      const std::string place =
          fmt::format("{}: {} at line {}", name, key.str(), item.source().begin.line);
      const toml::table* table = item.as_table();
      if (table == nullptr) return Fail(ErrorCode::kInvalidInput, place + ": expected a table");
      TableReader reader(*table, place);
      if (key == "op") {
        Op op;
        op.name = reader.Text("name");
        op.family = reader.Text("family");
        for (const std::string& tensor : reader.Texts("tensors", true)) {
          const std::size_t colon = tensor.find(':');
          op.tensors.push_back({tensor.substr(0, colon),
                                colon == std::string::npos ? "" : tensor.substr(colon + 1)});
        }
        op.types = reader.Texts("types", false);
        if (op.types.empty()) op.types = {"f32"};
        op.rows = reader.Texts("rows", true);
        op.row = reader.Texts("row", true);
        ops_.push_back(std::move(op));
      } else if (key == "template") {
        Template made;
        made.op = reader.Text("op");
        made.strategy = reader.Text("strategy");
        made.defaults = reader.TraitTable("traits");
        made.defaults["op"] = made.op;
        made.defaults["strategy"] = made.strategy;
        for (const std::string& condition : reader.Texts("fits", false)) {
          auto fits = Expr::Parse(condition);
          if (!fits) return Fail(fits.error(), place + ": fits");
          made.fits.push_back(std::move(*fits));
        }
        const std::string base = reader.Text("file");
        auto source = ReadFile(file.parent_path() / (base + ".cu.mustache"), kMaxFile);
        if (!source) return Fail(source.error(), place);
        auto plan = ReadFile(file.parent_path() / (base + ".json.mustache"), kMaxFile);
        if (!plan) return Fail(plan.error(), place);
        made.source = std::move(*source);
        made.plan = std::move(*plan);
        templates_.push_back(std::move(made));
      } else if (key == "entry") {
        Entry entry;
        entry.id = reader.Text("id");
        entry.ops = reader.Texts("ops", true);
        entry.title = reader.Text("title");
        entry.category = reader.Text("category");
        entry.rationale = reader.Text("rationale");
        entry.expected_gain = reader.Number("expected_gain");
        entry.needs = reader.Conditions("needs");
        entry.forbids = reader.Conditions("forbids");
        entry.sets = reader.TraitTable("sets");
        entry.naive = reader.TraitTable("naive");
        entry.choices = reader.Choices("choices");
        entries_.push_back(std::move(entry));
      } else {
        return Fail(
            ErrorCode::kInvalidInput,
            fmt::format("{}: \"{}\" is none of [[op]], [[template]], [[entry]]", name, key.str()));
      }
      if (auto status = reader.Finish(); !status) return status;
    }
  }
  return {};
}

Status Catalogue::Check() const {
  const auto wrong = [](const std::string& id, std::string what) {
    return Fail(ErrorCode::kInvalidInput, fmt::format("entry {}: {}", id, what));
  };
  std::set<std::string> op_names, ids, titles;
  for (const Op& op : ops_) op_names.insert(op.name);
  for (const Template& t : templates_) {
    if (!op_names.contains(t.op)) {
      return Fail(ErrorCode::kInvalidInput, fmt::format("template of unknown op \"{}\"", t.op));
    }
  }
  for (const Entry& entry : entries_) {
    if (!ids.insert(entry.id).second) return wrong(entry.id, "the id is used twice");
    if (!titles.insert(entry.title).second) return wrong(entry.id, "the title is used twice");
    if (std::find(kCategories.begin(), kCategories.end(), entry.category) == kCategories.end()) {
      return wrong(entry.id, fmt::format("unknown category \"{}\"; valid: {}", entry.category,
                                         fmt::join(kCategories, ", ")));
    }
    if (!(entry.expected_gain > 1)) return wrong(entry.id, "expected_gain must be above 1");
    for (const std::string& op : entry.ops) {
      if (!op_names.contains(op)) return wrong(entry.id, fmt::format("unknown op \"{}\"", op));
    }
    // A trait that no template of any of its ops knows would be dropped in silence.
    Traits all = entry.sets;
    Overlay(all, entry.naive);
    for (const Choice& choice : entry.choices) Overlay(all, choice.sets);
    for (const auto& [name, value] : all) {
      const bool known =
          std::any_of(templates_.begin(), templates_.end(), [&, &key = name](const Template& t) {
            return Contains(entry.ops, t.op) && t.defaults.contains(key);
          });
      if (!known) return wrong(entry.id, fmt::format("no template knows the trait \"{}\"", name));
    }
  }
  return {};
}

Result<Catalogue> Catalogue::Load(const std::filesystem::path& folder) {
  std::error_code error;
  std::vector<std::filesystem::path> tomls, partials;
  for (const auto& item : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = item.path().filename().string();
    if (name.ends_with(".toml")) tomls.push_back(item.path());
    if (name.starts_with("_") && name.ends_with(".cu.mustache")) partials.push_back(item.path());
  }
  if (error) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("no playbook in {}: {}", folder.string(), error.message()));
  }
  if (tomls.empty()) {
    return Fail(ErrorCode::kNotFound, fmt::format("no playbook in {}: no *.toml", folder.string()));
  }
  std::sort(tomls.begin(), tomls.end());
  Catalogue catalogue;
  for (const auto& path : partials) {
    auto text = ReadFile(path, kMaxFile);
    if (!text) return Fail(text.error());
    // A partial's last newline would come on top of that of the line that names it.
    if (text->ends_with('\n')) text->pop_back();
    catalogue.partials_.emplace(path.stem().stem().string(), std::move(*text));
  }
  for (const auto& path : tomls) {
    if (auto status = catalogue.ReadToml(path); !status) return Fail(status.error(), "playbook");
  }
  if (auto status = catalogue.Check(); !status) return Fail(status.error(), "playbook");
  return catalogue;
}

const Template* Catalogue::Find(const Traits& traits) const {
  const std::string op = Get(traits, "op"), strategy = Get(traits, "strategy");
  for (const Template& t : templates_) {
    if (t.op == op && t.strategy == strategy) return &t;
  }
  return nullptr;
}

Result<Traits> Catalogue::Complete(const Traits& traits) const {
  const Template* found = Find(traits);
  if (found == nullptr) {
    return Fail(ErrorCode::kNotFound, fmt::format("no template for op \"{}\", strategy \"{}\"",
                                                  Get(traits, "op"), Get(traits, "strategy")));
  }
  Traits complete = found->defaults;
  for (auto& [name, value] : complete) {
    if (const auto given = traits.find(name); given != traits.end()) value = given->second;
  }
  return complete;
}

bool Catalogue::Fits(const Traits& complete, const Facts& facts) const {
  const Template* found = Find(complete);
  if (found == nullptr) return false;
  const Lookup lookup = [&](std::string_view name) -> std::optional<std::int64_t> {
    const std::string key(name);
    if (const auto fact = facts.find(key); fact != facts.end()) return fact->second;
    const std::string value = Get(complete, key);
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc() || end != value.data() + value.size()) return std::nullopt;
    return number;
  };
  return std::all_of(found->fits.begin(), found->fits.end(), [&](const Expr& fits) {
    const auto value = fits.Evaluate(lookup);
    return value && *value != 0;
  });
}

bool Catalogue::Applies(const Entry& entry, const Traits& traits, const Facts& facts) const {
  if (!Contains(entry.ops, Get(traits, "op"))) return false;
  const auto holds = [&](const Condition& c) { return c.Holds(traits, facts); };
  return std::all_of(entry.needs.begin(), entry.needs.end(), holds) &&
         std::none_of(entry.forbids.begin(), entry.forbids.end(), holds) &&
         !Apply(entry, traits, facts).empty();
}

std::vector<Traits> Catalogue::Apply(const Entry& entry, const Traits& traits,
                                     const Facts& facts) const {
  const auto parent = Complete(traits);  // absent for a naive kernel
  std::vector<Traits> results;
  for (const Choice& choice : entry.choices) {
    const auto holds = [&](const Condition& c) { return c.Holds(traits, facts); };
    if (!std::all_of(choice.when.begin(), choice.when.end(), holds)) continue;
    Traits next = traits;
    if (Get(traits, "strategy") == "naive") Overlay(next, entry.naive);
    Overlay(next, entry.sets);
    Overlay(next, choice.sets);
    auto complete = Complete(next);
    if (!complete || (parent && *complete == *parent) || !Fits(*complete, facts)) continue;
    if (std::find(results.begin(), results.end(), *complete) == results.end()) {
      results.push_back(std::move(*complete));
    }
  }
  return results;
}

Result<Program> Catalogue::Render(const Traits& traits, const Facts& facts) const {
  const Template* found = Find(traits);
  const auto complete = Complete(traits);
  if (!complete) return Fail(complete.error());
  mustache::data data;
  for (const auto& [name, value] : facts) data.set(name, fmt::to_string(value));
  for (const auto& [name, value] : *complete) {
    data.set(name, value);
    data.set(fmt::format("is_{}_{}", name, value), true);
  }
  data.set("traits", TraitsLine(*complete));
  data.set("stream_bool", Get(*complete, "stream") == "1" ? "true" : "false");
  // Elements per pack, as the source derives it from the length of a row (_pack.cu.mustache): of
  // fp32 and of 16-bit types.
  for (const Op& op : ops_) {
    if (op.name != Get(*complete, "op")) continue;
    const std::string row = fmt::format("({})", fmt::join(op.row, " * "));
    const bool packs = Get(*complete, "vec") == "4";
    const std::string narrow = fmt::format("({0} % 4 == 0 ? 4 : {0} % 2 == 0 ? 2 : 1)", row);
    data.set("width", packs ? narrow : "1");
    data.set("width16", packs ? fmt::format("({} % 8 == 0 ? 8 : {})", row, narrow) : "1");
    if (!op.tensors.empty()) data.set("element", "tensor::" + op.tensors.front().name);
  }
  for (const auto& [name, text] : partials_) {
    data.set(name, mustache::data(mustache::partial([copy = text] { return copy; })));
  }
  const auto render = [&](const std::string& text) -> Result<std::string> {
    mustache::mustache page(text);
    page.set_custom_escape([](const std::string& s) { return s; });
    std::string out = page.is_valid() ? page.render(data) : std::string();
    if (!page.is_valid()) {
      return Fail(ErrorCode::kInternal, fmt::format("playbook template of {} {}: {}", found->op,
                                                    found->strategy, page.error_message()));
    }
    return out;
  };
  auto source = render(found->source);
  if (!source) return Fail(source.error());
  auto plan = render(found->plan);
  if (!plan) return Fail(plan.error());
  return Program{std::move(*source), std::move(*plan)};
}

std::string Catalogue::Rationale(const Entry& entry, const Facts& facts) const {
  Traits words;
  for (const auto& [name, value] : facts) words.emplace(name, fmt::to_string(value));
  return Fill(entry.rationale, words);
}

std::string Catalogue::GeneralRationale(const Entry& entry) const {
  return Fill(entry.rationale, {{"rows", "R"}, {"row", "N"}, {"row_kb", "N / 256"}, {"k", "K"}});
}

}  // namespace grove::llm::playbook
