#include "seeds/importers/problem_import.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/process.h"
#include "seeds/importers/task_folder.h"
#include "seeds/importers/torch_python.h"

namespace grove::importers {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::size_t kMaxAnswer = std::size_t{1} << 20;  // bytes of import.json
constexpr std::size_t kMaxText = 600;                     // of one foreign sentence
constexpr std::chrono::seconds kStart{120};               // loading torch on a slow disk
constexpr std::size_t kMaxFiles = 10000;

// As torch/import_problem.py knows them.
const char* KindOf(ProblemFormat format) {
  switch (format) {
    case ProblemFormat::kKernelBench:
      return "kernelbench";
    case ProblemFormat::kGpuMode:
      return "gpumode";
    case ProblemFormat::kFlashInfer:
      return "flashinfer";
  }
  return "unknown";
}

// Foreign text as one printable line.
std::string Line(std::string_view text) {
  std::string line;
  for (const char c : text) {
    if (line.size() == kMaxText) {
      line += "...";
      break;
    }
    const auto u = static_cast<unsigned char>(c);
    line += u < 0x20 || u == 0x7f ? ' ' : c;
  }
  return line;
}

std::vector<std::string> Lines(const Json& json, const char* key) {
  std::vector<std::string> lines;
  const auto found = json.find(key);
  if (found == json.end() || !found->is_array()) return lines;
  for (const Json& entry : *found) {
    if (entry.is_string() && lines.size() < 100) lines.push_back(Line(entry.get<std::string>()));
  }
  return lines;
}

// What import.json says; broken when it says nothing that we understand.
void ReadAnswer(const fs::path& folder, ImportOutcome& outcome) {
  auto text = ReadFile(folder / "import.json", kMaxAnswer);
  const Json json = text ? Json::parse(*text, nullptr, false) : Json();
  outcome.status = ImportStatus::kBroken;
  if (!json.is_object() || !json.contains("status") || !json["status"].is_string()) {
    outcome.reason = "its process ended without a word";
    return;
  }
  const std::string status = json["status"].get<std::string>();
  if (status == "ok") outcome.status = ImportStatus::kImported;
  if (status == "refused") outcome.status = ImportStatus::kRefused;
  if (status == "unsupported") outcome.status = ImportStatus::kUnsupported;
  if (json.contains("reason") && json["reason"].is_string()) {
    outcome.reason = Line(json["reason"].get<std::string>());
  }
  outcome.notes = Lines(json, "notes");
  outcome.cases = Lines(json, "cases");
}

Status RunHelper(const fs::path& python, const fs::path& jobs, const ProblemImport& options) {
  auto script = TorchScript("import_problem.py");
  if (!script) return Failure(std::move(script.error()));
  ProcessOptions process;
  process.program = python;
  process.arguments = {script->string(), jobs.string()};
  process.environment = TorchEnvironment("");
  process.folder = jobs.parent_path();
  process.limits.address_space = options.memory.value > 0 ? options.memory : TorchMemory();
  process.channel = false;
  auto started = Process::Start(process);
  if (!started) return Failure(std::move(started.error()));
  const auto rounds = static_cast<std::int64_t>(options.files.size()) / std::max(1, options.jobs);
  const auto status = started->WaitFor(kStart + options.deadline * (rounds + 1));
  if (!status) {
    started->Kill();
    return Fail(ErrorCode::kUnavailable,
                "the importer's helper ran past all deadlines; it is killed");
  }
  if (status->ok()) return {};
  std::string said = Line(started->ErrorText());
  if (said.size() > 300) said = said.substr(said.size() - 300);
  return Fail(ErrorCode::kUnavailable, fmt::format("{} {}: {}: {}", python.string(),
                                                   script->string(), status->Describe(), said));
}

}  // namespace

std::string_view Name(ImportStatus status) {
  switch (status) {
    case ImportStatus::kImported:
      return "imported";
    case ImportStatus::kRefused:
      return "refused";
    case ImportStatus::kUnsupported:
      return "unsupported";
    case ImportStatus::kBroken:
      return "broken";
  }
  return "unknown";
}

Result<std::vector<fs::path>> ProblemFiles(const fs::path& path) {
  std::error_code error;
  if (fs::is_regular_file(path, error)) return std::vector<fs::path>{path};
  if (!fs::is_directory(path, error)) {
    return Fail(ErrorCode::kNotFound, fmt::format("{}: no such file or folder", path.string()));
  }
  std::vector<fs::path> files;
  for (fs::recursive_directory_iterator at(path, error), end; !error && at != end;
       at.increment(error)) {
    if (at->path().extension() != ".py" || !at->is_regular_file(error)) continue;
    files.push_back(at->path());
    if (files.size() > kMaxFiles) {
      return Fail(ErrorCode::kInvalidInput,
                  fmt::format("{}: more than {} problem files", path.string(), kMaxFiles));
    }
  }
  if (files.empty()) {
    return Fail(ErrorCode::kNotFound, fmt::format("{}: no .py file is in it", path.string()));
  }
  std::sort(files.begin(), files.end());
  return files;
}

Result<std::vector<ImportOutcome>> ImportProblems(const ProblemImport& options) {
  auto python = FindTorchPython(options.python);
  if (!python) return Failure(std::move(python.error()));

  std::vector<ImportOutcome> outcomes(options.files.size());
  std::vector<std::optional<TaskFolder>> folders(options.files.size());
  std::set<std::string> names;
  Json jobs = {{"deadline", options.deadline.count()},
               {"jobs", std::max(1, options.jobs)},
               {"problems", Json::array()}};
  fs::path work;
  for (std::size_t i = 0; i < options.files.size(); ++i) {
    const fs::path& file = options.files[i];
    outcomes[i].file = file;
    const fs::path last = file.has_filename() ? file.filename() : file.parent_path().filename();
    outcomes[i].name = TaskNameOf(options.name.empty() ? last.stem().string() : options.name);
    if (!names.insert(outcomes[i].name).second) {
      outcomes[i].reason = fmt::format("another file makes the task {} too", outcomes[i].name);
      continue;
    }
    auto folder = TaskFolder::Make(options.tasks, outcomes[i].name, options.replace);
    if (!folder) {
      if (folder.error().code != ErrorCode::kInvalidInput) return Failure(folder.error());
      outcomes[i].reason = folder.error().message;
      continue;
    }
    std::error_code error;
    const fs::path home = fs::absolute(folder->path(), error);
    if (work.empty()) work = home.parent_path();
    Json problem = {{"problem", fs::absolute(file, error).lexically_normal().string()},
                    {"folder", home.string()},
                    {"name", outcomes[i].name},
                    {"scale", options.scale},
                    {"live", options.live},
                    {"kind", KindOf(options.format)}};
    if (!options.workloads.empty()) {
      problem["workloads"] = fs::absolute(options.workloads, error).string();
    }
    jobs["problems"].push_back(std::move(problem));
    folders[i].emplace(std::move(*folder));
  }
  if (work.empty()) return outcomes;
  const auto text = jobs.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (auto written = WriteFileAtomic(work / "jobs.json", text); !written) {
    return Failure(std::move(written.error()));
  }
  if (auto ran = RunHelper(*python, work / "jobs.json", options); !ran) {
    return Failure(std::move(ran.error()));
  }
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    if (!folders[i]) continue;
    ReadAnswer(folders[i]->path(), outcomes[i]);
    if (outcomes[i].status != ImportStatus::kImported) continue;
    std::error_code ignored;
    fs::remove(folders[i]->path() / "import.json", ignored);
    if (auto placed = folders[i]->Place(); !placed) {
      if (placed.error().code != ErrorCode::kInvalidInput) return Failure(placed.error());
      outcomes[i].status = ImportStatus::kUnsupported;
      outcomes[i].reason = placed.error().message;
      continue;
    }
    outcomes[i].folder = folders[i]->destination();
  }
  return outcomes;
}

}  // namespace grove::importers
