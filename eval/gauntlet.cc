#include "eval/gauntlet.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <mutex>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tbb/parallel_for.h>

#include "base/files.h"
#include "base/share.h"
#include "base/suggest.h"
#include "base/toml.h"
#include "codegen/program.h"

namespace grove::eval {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kMaxFile = std::uintmax_t{8} << 20;
constexpr std::int64_t kMaxPad = std::int64_t{256} << 20;
const std::vector<std::string> kDeviceKinds = {"emulator", "cuda"};

Failure Bad(const fs::path& file, std::string_view message) {
  return Fail(ErrorCode::kInvalidInput, fmt::format("{}: {}", file.string(), message));
}

Result<toml::table> ReadToml(const fs::path& file) {
  auto text = ReadFile(file, kMaxFile);
  if (!text) return Failure(std::move(text.error()));
  toml::parse_result parsed = toml::parse(*text);
  if (parsed.failed()) {
    const toml::parse_error& error = parsed.error();
    return Bad(file, fmt::format("line {}: {}", error.source().begin.line, error.description()));
  }
  return std::move(parsed).table();
}

// A string or a list of strings.
std::vector<std::string> Strings(const toml::table& table, std::string_view key) {
  std::vector<std::string> list;
  if (auto one = table[key].value<std::string>()) list.push_back(*one);
  if (const toml::array* many = table[key].as_array()) {
    for (const toml::node& node : *many) {
      if (auto text = node.value<std::string>()) list.push_back(*text);
    }
  }
  return list;
}

std::optional<Stage> StageFromName(std::string_view name) {
  for (int i = 0; i <= static_cast<int>(Stage::kRecheck); ++i) {
    if (Name(static_cast<Stage>(i)) == name) return static_cast<Stage>(i);
  }
  return std::nullopt;
}

Status CheckKeys(const fs::path& file, const toml::table& table,
                 const std::vector<std::string>& valid) {
  for (const auto& [key, node] : table) {
    if (std::find(valid.begin(), valid.end(), std::string(key.str())) == valid.end()) {
      return Bad(file, UnknownName("key", key.str(), valid));
    }
  }
  return {};
}

// Overwrites what the table says of an expectation.
Status ReadExpectation(const fs::path& file, const toml::table& table,
                       GauntletExpectation& expected) {
  if (const auto names = Strings(table, "verdict"); !names.empty()) {
    expected.verdicts.clear();
    for (const std::string& name : names) {
      const auto kind = VerdictKindFromName(name);
      if (!kind) return Bad(file, fmt::format("unknown verdict '{}'", name));
      expected.verdicts.push_back(*kind);
    }
  }
  if (const auto name = table["stage"].value<std::string>()) {
    expected.stage = StageFromName(*name);
    if (!expected.stage) return Bad(file, fmt::format("unknown stage '{}'", *name));
  }
  if (const auto name = table["class"].value<std::string>()) {
    expected.measured_class = seeds::PrecisionClassFromName(*name);
    if (!expected.measured_class) return Bad(file, fmt::format("unknown class '{}'", *name));
  }
  return {};
}

Result<std::string> FromHex(const fs::path& file, const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    char* end = nullptr;
    const std::string pair = hex.substr(i, 2);
    const unsigned long value = std::strtoul(pair.c_str(), &end, 16);
    if (end != pair.c_str() + 2) return Bad(file, "append_hex needs pairs of hex digits");
    bytes += static_cast<char>(value);
  }
  return bytes;
}

Result<GauntletEntry> LoadEntry(const fs::path& folder) {
  const fs::path file = folder / "expect.toml";
  auto table = ReadToml(file);
  if (!table) return Failure(std::move(table.error()));
  if (auto ok = CheckKeys(file, *table,
                          {"task", "why", "catalogue", "verdict", "stage", "class", "devices",
                           "emulator", "cuda", "screen", "append_hex", "pad_bytes"});
      !ok) {
    return Failure(std::move(ok.error()));
  }
  GauntletEntry entry;
  entry.name = folder.filename().string();
  entry.task = (*table)["task"].value_or(std::string());
  entry.why = (*table)["why"].value_or(std::string());
  if (entry.why.empty()) return Bad(file, "why is missing: one line that says what it proves");
  if (const toml::array* items = (*table)["catalogue"].as_array()) {
    for (const toml::node& node : *items) entry.catalogue.push_back(node.value_or(0));
  }
  if (auto ok = ReadExpectation(file, *table, entry.expected); !ok) {
    return Failure(std::move(ok.error()));
  }
  if (entry.expected.verdicts.empty()) return Bad(file, "verdict is missing");
  entry.devices = Strings(*table, "devices");
  if (entry.devices.empty()) entry.devices = kDeviceKinds;
  for (const std::string& kind : kDeviceKinds) {
    const toml::table* own = (*table)[kind].as_table();
    if (own == nullptr) continue;
    if (auto ok = CheckKeys(file, *own, {"verdict", "stage", "class"}); !ok) {
      return Failure(std::move(ok.error()));
    }
    GauntletExpectation expected = entry.expected;
    if (auto ok = ReadExpectation(file, *own, expected); !ok) {
      return Failure(std::move(ok.error()));
    }
    entry.on.emplace(kind, std::move(expected));
  }

  std::error_code ignored;
  if (fs::exists(folder / "reply.txt", ignored)) {
    auto reply = ReadFile(folder / "reply.txt", kMaxFile);
    if (!reply) return Failure(std::move(reply.error()));
    entry.reply = std::move(*reply);
  } else {
    auto source = ReadFile(folder / "source.cu", kMaxFile);
    if (!source) return Failure(std::move(source.error()));
    entry.source = std::move(*source);
    if (fs::exists(folder / "plan.json", ignored)) {
      auto plan = ReadFile(folder / "plan.json", kMaxFile);
      if (!plan) return Failure(std::move(plan.error()));
      entry.plan = std::move(*plan);
    }
  }
  entry.screen = (*table)["screen"].value_or(false);
  std::string& text = entry.reply ? *entry.reply : entry.source;
  auto bytes = FromHex(file, (*table)["append_hex"].value_or(std::string()));
  if (!bytes) return Failure(std::move(bytes.error()));
  text += *bytes;
  const std::int64_t pad = (*table)["pad_bytes"].value_or(std::int64_t{0});
  if (pad < 0 || pad > kMaxPad) return Bad(file, "pad_bytes is out of range");
  text.append(static_cast<std::size_t>(pad), ' ');
  return entry;
}

Result<std::vector<GauntletTask>> LoadTasks(const fs::path& file) {
  auto table = ReadToml(file);
  if (!table) return Failure(std::move(table.error()));
  std::vector<GauntletTask> tasks;
  for (const auto& [id, node] : *table) {
    const toml::table* own = node.as_table();
    if (own == nullptr) return Bad(file, fmt::format("'{}' is no table", id.str()));
    if (auto ok = CheckKeys(file, *own, {"of", "suite", "checks", "scored", "nondeterministic"});
        !ok) {
      return Failure(std::move(ok.error()));
    }
    GauntletTask task;
    task.id = id.str();
    task.of = (*own)["of"].value_or(task.id);
    task.suite = (*own)["suite"].value_or(std::string());
    task.checks = Strings(*own, "checks");
    task.scored = (*own)["scored"].value_or(std::string());
    task.nondeterministic = (*own)["nondeterministic"].value_or(false);
    if (task.checks.empty() || task.scored.empty()) {
      return Bad(file, fmt::format("[{}] needs checks and scored", task.id));
    }
    tasks.push_back(std::move(task));
  }
  return tasks;
}

bool Glob(std::string_view pattern, std::string_view text) {
  if (pattern.empty()) return text.empty();
  if (pattern[0] == '*') {
    return Glob(pattern.substr(1), text) || (!text.empty() && Glob(pattern, text.substr(1)));
  }
  if (text.empty() || (pattern[0] != '?' && pattern[0] != text[0])) return false;
  return Glob(pattern.substr(1), text.substr(1));
}

// The part of a task that the gauntlet is run on, its own case scored.
Result<seeds::Task> Shorten(const GauntletTask& wanted, const fs::path& tasks) {
  auto whole = seeds::LoadTask(tasks, wanted.of);
  if (!whole) return Failure(std::move(whole.error()));
  seeds::Task task = *whole;
  task.cases.clear();
  task.reduction.clear();
  task.reference_elements_per_block.clear();
  task.allow_nondeterminism = wanted.nondeterministic;
  std::vector<std::string> names = wanted.checks;
  names.push_back(wanted.scored);
  for (std::size_t n = 0; n < names.size(); ++n) {
    bool found = false;
    for (std::size_t i = 0; i < whole->cases.size() && !found; ++i) {
      const seeds::Case& c = whole->cases[i];
      const bool in_suite = wanted.suite.empty() || std::find(c.suites.begin(), c.suites.end(),
                                                              wanted.suite) != c.suites.end();
      if (c.name != names[n] || !in_suite) continue;
      found = true;
      task.cases.push_back(c);
      if (n + 1 == names.size()) {
        task.cases.back().role = seeds::CaseRole::kScored;
        task.demanded = c.demanded.value_or(whole->demanded);
      }
      task.reduction.push_back(whole->reduction[i]);
      task.reference_elements_per_block.push_back(whole->reference_elements_per_block[i]);
    }
    if (!found) {
      return Fail(ErrorCode::kNotFound,
                  fmt::format("gauntlet task {}: task {} has no case '{}'{}", wanted.id, wanted.of,
                              names[n], wanted.suite.empty() ? "" : " in suite " + wanted.suite));
    }
  }
  return task;
}

std::string Words(const GauntletExpectation& expected) {
  std::vector<std::string_view> names;
  for (const VerdictKind kind : expected.verdicts) names.push_back(Name(kind));
  std::string words = fmt::format("{}", fmt::join(names, " or "));
  if (expected.stage) words += fmt::format(" at {}", Name(*expected.stage));
  if (expected.measured_class) words += fmt::format(" ({})", seeds::Name(*expected.measured_class));
  return words;
}

std::string KindOf(const Device& device) {
  return device.name().substr(0, device.name().find(':'));
}

GauntletStatus Compare(const GauntletExpectation& expected, const Evaluation& evaluation) {
  const Verdict& got = evaluation.verdict;
  const bool among = std::find(expected.verdicts.begin(), expected.verdicts.end(), got.kind) !=
                     expected.verdicts.end();
  if (got.passed() && !among) return GauntletStatus::kFalseAccept;
  if (expected.honest() && !got.passed()) return GauntletStatus::kFalseReject;
  // The screening finds what a later stage would.
  const bool same =
      among && (!expected.stage || got.stage == *expected.stage || got.stage == Stage::kScreen) &&
      (!expected.measured_class || evaluation.measured_class == expected.measured_class);
  return same ? GauntletStatus::kAsExpected : GauntletStatus::kOtherVerdict;
}

}  // namespace

bool GauntletEntry::runs_on(std::string_view kind) const {
  return std::find(devices.begin(), devices.end(), kind) != devices.end();
}

const GauntletExpectation& GauntletEntry::expected_on(std::string_view kind) const {
  const auto own = on.find(std::string(kind));
  return own == on.end() ? expected : own->second;
}

fs::path DefaultGauntletFolder() { return ShareFolder("gauntlet"); }

Result<Gauntlet> LoadGauntlet(const fs::path& folder, std::string_view only) {
  Gauntlet gauntlet;
  auto tasks = LoadTasks(folder / "tasks.toml");
  if (!tasks) return Failure(std::move(tasks.error()));
  gauntlet.tasks = std::move(*tasks);
  std::vector<fs::path> folders;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::error_code ignored;
    if (!fs::is_regular_file(at->path() / "expect.toml", ignored)) continue;
    if (!only.empty() && !Glob(only, at->path().filename().string())) continue;
    folders.push_back(at->path());
  }
  if (error)
    return Fail(ErrorCode::kNotFound, fmt::format("{}: {}", folder.string(), error.message()));
  if (folders.empty()) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("no program in {} matches '{}'", folder.string(), only));
  }
  std::sort(folders.begin(), folders.end());
  for (const fs::path& each : folders) {
    auto entry = LoadEntry(each);
    if (!entry) return Failure(std::move(entry.error()));
    const auto known = std::any_of(gauntlet.tasks.begin(), gauntlet.tasks.end(),
                                   [&](const GauntletTask& t) { return t.id == entry->task; });
    if (!known) return Bad(each / "expect.toml", fmt::format("unknown task '{}'", entry->task));
    gauntlet.entries.push_back(std::move(*entry));
  }
  return gauntlet;
}

std::string_view Name(GauntletStatus status) {
  switch (status) {
    case GauntletStatus::kAsExpected:
      return "ok";
    case GauntletStatus::kFalseAccept:
      return "FALSE ACCEPT";
    case GauntletStatus::kFalseReject:
      return "FALSE REJECT";
    case GauntletStatus::kOtherVerdict:
      return "OTHER VERDICT";
    case GauntletStatus::kSkipped:
      return "skipped";
  }
  return "unknown";
}

GauntletTotals Total(const std::vector<GauntletOutcome>& outcomes) {
  GauntletTotals totals;
  for (const GauntletOutcome& outcome : outcomes) {
    if (outcome.status == GauntletStatus::kSkipped) {
      ++totals.skipped;
      continue;
    }
    ++(outcome.expected.rfind("pass", 0) == 0 ? totals.honest : totals.hostile);
    if (outcome.status == GauntletStatus::kFalseAccept) ++totals.false_accepts;
    if (outcome.status == GauntletStatus::kFalseReject) ++totals.false_rejects;
    if (outcome.status == GauntletStatus::kOtherVerdict) ++totals.other_verdicts;
  }
  return totals;
}

Result<std::vector<GauntletOutcome>> RunGauntlet(const Gauntlet& gauntlet,
                                                 codegen::Compiler& compiler, Device& device,
                                                 const GauntletOptions& options) {
  const std::string kind = KindOf(device);
  struct Ready {
    seeds::Task task;
    std::unique_ptr<Evaluator> plain, screened;
  };
  std::map<std::string, Ready> ready;
  for (const GauntletTask& wanted : gauntlet.tasks) {
    bool plain = false;
    bool screened = false;
    for (const GauntletEntry& entry : gauntlet.entries) {
      if (entry.task != wanted.id || !entry.runs_on(kind)) continue;
      (entry.screen ? screened : plain) = true;
    }
    if (!plain && !screened) continue;
    auto task = Shorten(wanted, options.tasks);
    if (!task) return Failure(std::move(task.error()));
    Ready& place = ready[wanted.id];
    place.task = std::move(*task);
    // Names apart from the task's own and from each other: a device keeps inputs by this name.
    place.task.name = wanted.id;
    for (const bool screen : {false, true}) {
      if (!(screen ? screened : plain)) continue;
      EvaluatorOptions evaluation = options.evaluation;
      if (!screen) evaluation.screen = nullptr;
      auto evaluator = Evaluator::Create(place.task, compiler, device, evaluation);
      if (!evaluator) return Failure(std::move(evaluator.error()));
      (screen ? place.screened : place.plain) = std::move(*evaluator);
    }
  }

  if (options.ready) options.ready();
  std::vector<GauntletOutcome> outcomes(gauntlet.entries.size());
  std::mutex mutex;
  std::optional<Error> first_error;
  tbb::parallel_for(std::size_t{0}, outcomes.size(), [&](std::size_t i) {
    const GauntletEntry& entry = gauntlet.entries[i];
    const GauntletExpectation& expected = entry.expected_on(kind);
    GauntletOutcome& outcome = outcomes[i];
    outcome.name = entry.name;
    outcome.task = entry.task;
    outcome.expected = Words(expected);
    if (entry.runs_on(kind)) {
      const auto begin = std::chrono::steady_clock::now();
      const auto program = entry.reply ? codegen::ParseReply(*entry.reply)
                                       : codegen::MakeProgram(entry.source, entry.plan);
      Result<Evaluation> evaluation =
          program ? (entry.screen ? ready.at(entry.task).screened : ready.at(entry.task).plain)
                        ->Evaluate(*program)
                  : Result<Evaluation>(Evaluator::ParseFailure(program.error()));
      outcome.time = std::chrono::steady_clock::now() - begin;
      if (!evaluation) {
        const std::scoped_lock lock(mutex);
        if (!first_error) {
          first_error = std::move(evaluation.error());
          first_error->message = fmt::format("gauntlet {}: {}", entry.name, first_error->message);
        }
        return;
      }
      outcome.status = Compare(expected, *evaluation);
      outcome.got = std::move(evaluation->verdict);
      outcome.measured_class = evaluation->measured_class;
      outcome.stages = std::move(evaluation->stages);
    }
    if (options.done) {
      const std::scoped_lock lock(mutex);
      options.done(outcome);
    }
  });
  if (first_error) return Failure(std::move(*first_error));
  return outcomes;
}

namespace {

// The task's smallest check cases, by the bytes of their tensors.
std::vector<std::string> SmallestChecks(const seeds::Task& task, std::size_t most) {
  std::vector<std::pair<std::int64_t, std::string>> checks;
  for (const seeds::Case& c : task.cases) {
    if (c.role == seeds::CaseRole::kScored || c.role == seeds::CaseRole::kExtra) continue;
    std::int64_t bytes = 0;
    for (const seeds::Tensor& tensor : c.tensors) bytes += tensor.bytes().value;
    checks.emplace_back(bytes, c.name);
  }
  std::sort(checks.begin(), checks.end());
  if (checks.size() > most) checks.resize(most);
  std::vector<std::string> names;
  for (auto& [bytes, name] : checks) names.push_back(std::move(name));
  return names;
}

}  // namespace

Status VisitHonest(const Gauntlet& gauntlet, codegen::Compiler& compiler, Device& device,
                   const GauntletOptions& options, std::size_t cases,
                   const std::function<void(const GauntletEntry&, std::vector<Specimen>)>& visit) {
  const std::string kind = KindOf(device);
  struct Ready {
    seeds::Task task;
    std::unique_ptr<Evaluator> evaluator;
  };
  std::map<std::string, Ready> ready;
  std::vector<const GauntletEntry*> honest;
  for (const GauntletEntry& entry : gauntlet.entries) {
    if (entry.runs_on(kind) && entry.expected_on(kind).honest()) honest.push_back(&entry);
  }
  for (const GauntletTask& wanted : gauntlet.tasks) {
    const bool used = std::any_of(honest.begin(), honest.end(), [&](const GauntletEntry* entry) {
      return entry->task == wanted.id;
    });
    if (!used) continue;
    auto task = Shorten(wanted, options.tasks);
    if (!task) return Failure(std::move(task.error()));
    Ready& place = ready[wanted.id];
    place.task = std::move(*task);
    place.task.name = wanted.id;
    EvaluatorOptions evaluation = options.evaluation;
    evaluation.screen = nullptr;
    auto evaluator = Evaluator::Create(place.task, compiler, device, evaluation);
    if (!evaluator) return Failure(std::move(evaluator.error()));
    place.evaluator = std::move(*evaluator);
  }
  std::mutex mutex;
  std::optional<Error> first_error;
  tbb::parallel_for(std::size_t{0}, honest.size(), [&](std::size_t i) {
    const GauntletEntry& entry = *honest[i];
    const Ready& place = ready.at(entry.task);
    const auto program = entry.reply ? codegen::ParseReply(*entry.reply)
                                     : codegen::MakeProgram(entry.source, entry.plan);
    std::optional<Error> error;
    if (!program) error = program.error();
    std::vector<Specimen> specimens;
    for (const std::string& name : SmallestChecks(place.task, cases)) {
      if (error) break;
      const CaseContext* context = place.evaluator->FindContext(name);
      auto prepared = place.evaluator->PrepareFor(*program, *context);
      if (prepared) {
        specimens.push_back({context, std::move(*prepared), options.evaluation.seed});
      } else {
        error = std::move(prepared.error());
      }
    }
    if (!error) return visit(entry, std::move(specimens));
    const std::scoped_lock lock(mutex);
    if (first_error) return;
    first_error = Error{error->code, fmt::format("gauntlet {}: {}", entry.name, error->message)};
  });
  if (first_error) return Failure(std::move(*first_error));
  return {};
}

}  // namespace grove::eval
