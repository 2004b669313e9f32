#include "seeds/task.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include "base/files.h"
#include "base/suggest.h"
#include "seeds/live.h"
#include "seeds/safetensors.h"
#include "seeds/task_text.h"

namespace grove::seeds {
namespace {

constexpr std::array<std::string_view, 6> kClassNames = {"fp64", "fp32", "tf32",
                                                         "fp16", "bf16", "fp8"};

// Finds every tensor that the task keeps in its data file.
Status FindStored(Task& task, const std::filesystem::path& home) {
  const std::filesystem::path file = home / "data.safetensors";
  std::optional<SafetensorsHeader> header;
  const auto find = [&](Stored& stored, const Tensor& tensor, DType dtype,
                        const Case& of) -> Status {
    if (!header) {
      auto read = ReadSafetensorsHeader(file);
      if (!read) {
        return Fail(ErrorCode::kInvalidInput,
                    fmt::format("task {}: {}", task.name, read.error().message));
      }
      header = std::move(*read);
    }
    const StoredTensor* found = header->Find(stored.key);
    const auto bytes = tensor.elements() * static_cast<std::int64_t>(SizeOf(dtype));
    if (found == nullptr || found->dtype != dtype || found->bytes != bytes) {
      return Fail(
          ErrorCode::kInvalidInput,
          fmt::format("{}: {} '{}' of {} elements in {}, which case {} of task {} needs for "
                      "{}",
                      file.string(), found == nullptr ? "has no tensor" : "differs in", stored.key,
                      tensor.elements(), Name(dtype), of.name, task.name, tensor.name));
    }
    stored.file = file.string();
    stored.offset = found->offset;
    return {};
  };
  for (Case& c : task.cases) {
    const bool live = IsLive(c);
    std::error_code error;
    if (live && !std::filesystem::is_regular_file(home / "problem.json", error)) {
      return Fail(
          ErrorCode::kInvalidInput,
          fmt::format(
              "task {}: reference = \"live\" asks the module that `grove import` keeps, and "
              "there is no {}; import it again, or take the line out of task.toml",
              task.name, (home / "problem.json").string()));
    }
    for (Stored& output : c.golden) output.file = live ? home.string() : "";
    std::size_t output = 0;
    for (Tensor& tensor : c.tensors) {
      Status done;
      if (tensor.role == TensorRole::kInput) {
        if (tensor.distribution.kind != Distribution::Kind::kFile) continue;
        done = find(tensor.distribution.stored, tensor, tensor.dtype, c);
      } else if (!c.golden.empty() && !live) {
        done = find(c.golden[output++], tensor, DType::kF64, c);
      }
      if (!done) return done;
    }
  }
  return {};
}

Result<std::string> ReadTaskFile(const std::filesystem::path& path) {
  auto text = ReadFile(path, kMaxTaskBytes);
  if (!text && text.error().code == ErrorCode::kNotFound) {
    return Fail(ErrorCode::kInvalidInput, fmt::format("missing file {}", path.string()));
  }
  return text;
}

}  // namespace

std::string_view Name(Distribution::Kind kind) {
  switch (kind) {
    case Distribution::Kind::kNormal:
      return "normal";
    case Distribution::Kind::kUniform:
      return "uniform";
    case Distribution::Kind::kConstant:
      return "constant";
    case Distribution::Kind::kMixed:
      return "mixed";
    case Distribution::Kind::kTail:
      return "tail";
    case Distribution::Kind::kMatrix:
      return "matrix";
    case Distribution::Kind::kFile:
      return "file";
  }
  return "unknown";
}

std::string_view Name(Distribution::Structure structure) {
  static constexpr std::array<std::string_view, kStructureCount> kNames = {
      "dense", "upper",    "rankdef",       "nearrank", "clustered",
      "band",  "rowscale", "nearcollinear", "mixed",    "diagonal"};
  return kNames[static_cast<std::size_t>(structure)];
}

std::string_view Name(Checker checker) {
  return checker == Checker::kHouseholderQr ? "householder_qr" : "reference";
}

std::string_view Name(CheckerProfile profile) {
  return profile == CheckerProfile::kCompetition ? "competition" : "strict";
}

std::string_view Name(CaseRole role) {
  switch (role) {
    case CaseRole::kSmoke:
      return "smoke";
    case CaseRole::kSweep:
      return "sweep";
    case CaseRole::kStability:
      return "stability";
    case CaseRole::kEdge:
      return "edge";
    case CaseRole::kScored:
      return "scored";
    case CaseRole::kExtra:
      return "extra";
  }
  return "unknown";
}

std::string_view Name(PrecisionClass c) { return kClassNames[static_cast<std::size_t>(c)]; }

PrecisionClass ClassOf(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return PrecisionClass::kFp64;
    case DType::kF16:
      return PrecisionClass::kFp16;
    case DType::kBF16:
      return PrecisionClass::kBf16;
    default:
      return PrecisionClass::kFp32;
  }
}

std::optional<PrecisionClass> PrecisionClassFromName(std::string_view name) {
  const auto found = std::find(kClassNames.begin(), kClassNames.end(), name);
  if (found == kClassNames.end()) return std::nullopt;
  return static_cast<PrecisionClass>(found - kClassNames.begin());
}

std::int64_t Tensor::elements() const {
  std::int64_t product = 1;
  for (const std::int64_t extent : shape) product *= extent;
  return product;
}

Bytes Tensor::bytes() const { return Bytes(elements() * static_cast<std::int64_t>(SizeOf(dtype))); }

std::optional<std::int64_t> Case::dim(std::string_view wanted) const {
  for (const Dim& d : dims) {
    if (d.name == wanted) return d.value;
  }
  return std::nullopt;
}

const Tensor* Case::tensor(std::string_view wanted) const {
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [&](const Tensor& t) { return t.name == wanted; });
  return found == tensors.end() ? nullptr : &*found;
}

const Case* Task::FindCase(std::string_view wanted) const {
  const auto found =
      std::find_if(cases.begin(), cases.end(), [&](const Case& c) { return c.name == wanted; });
  return found == cases.end() ? nullptr : &*found;
}

namespace {

bool Contains(const std::vector<std::string>& list, std::string_view wanted) {
  return std::find(list.begin(), list.end(), wanted) != list.end();
}

bool IsTimed(const Case& c) { return c.role == CaseRole::kScored || c.role == CaseRole::kExtra; }

// The first suite that has all the cases; the first of all when none has.
std::string SuiteOf(const Task& task, const std::vector<std::string>& cases) {
  for (const std::string& suite : task.suites) {
    const bool all = std::all_of(cases.begin(), cases.end(), [&](const std::string& name) {
      const Case* c = task.FindCase(name);
      return c != nullptr && IsTimed(*c) && Contains(c->suites, suite);
    });
    if (all) return suite;
  }
  return task.suites.empty() ? std::string() : task.suites.front();
}

}  // namespace

Result<Task> SelectCases(const Task& task, std::string_view suite,
                         const std::vector<std::string>& cases) {
  if (!suite.empty() && !Contains(task.suites, suite)) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("task {}: {}", task.name, UnknownName("suite", suite, task.suites)));
  }
  const std::string chosen = suite.empty() ? SuiteOf(task, cases) : std::string(suite);
  std::vector<std::string> timed;
  const auto in_suite = [&](const Case& c) { return chosen.empty() || Contains(c.suites, chosen); };
  for (const Case& c : task.cases) {
    if (IsTimed(c) && in_suite(c)) timed.push_back(c.name);
  }
  for (const std::string& name : cases) {
    if (Contains(timed, name)) continue;
    const std::string of = chosen.empty() ? task.name : task.name + ", suite " + chosen;
    return Fail(ErrorCode::kNotFound,
                fmt::format("task {}: {}", of, UnknownName("scored or extra case", name, timed)));
  }
  Task part = task;
  part.cases.clear();
  part.reduction.clear();
  part.reference_elements_per_block.clear();
  if (!chosen.empty()) part.suites = {chosen};
  std::optional<PrecisionClass> demanded;
  for (std::size_t i = 0; i < task.cases.size(); ++i) {
    Case c = task.cases[i];
    if (!in_suite(c)) continue;
    if (IsTimed(c)) {
      const bool wanted = cases.empty() ? c.role == CaseRole::kScored : Contains(cases, c.name);
      if (!wanted) continue;
      c.role = CaseRole::kScored;
      const PrecisionClass own = c.demanded.value_or(task.demanded);
      demanded = std::max(demanded.value_or(own), own);
    }
    part.cases.push_back(std::move(c));
    part.reduction.push_back(task.reduction[i]);
    part.reference_elements_per_block.push_back(task.reference_elements_per_block[i]);
  }
  part.demanded = demanded.value_or(task.demanded);
  return part;
}

Result<Task> DemandClass(Task task, std::string_view name) {
  if (name.empty()) return task;
  const auto wanted = PrecisionClassFromName(name);
  if (!wanted) {
    const std::vector<std::string> classes = {"fp64", "fp32", "tf32", "fp16", "bf16", "fp8"};
    return Fail(ErrorCode::kNotFound, UnknownName("class", name, classes));
  }
  if (*wanted == task.demanded) return task;
  if (task.checker != Checker::kReference) {
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("task {} is judged by the gates of its checker, not by a class of "
                            "accuracy; --profile says how strict they are",
                            task.name));
  }
  task.instead_of = task.demanded;
  task.demanded = *wanted;
  for (Case& c : task.cases) {
    PrecisionClass own = *wanted;
    for (const Tensor& tensor : c.tensors) {
      if (tensor.role == TensorRole::kOutput) own = std::max(own, ClassOf(tensor.dtype));
    }
    c.demanded = own;
    if (c.role == CaseRole::kScored) task.demanded = std::max(task.demanded, own);
  }
  if (task.demanded == *task.instead_of) task.instead_of.reset();
  return task;
}

std::string DescribeDemand(const Task& task) {
  if (!task.instead_of) return {};
  return fmt::format("class {} is demanded, not the task's {}", Name(task.demanded),
                     Name(*task.instead_of));
}

std::filesystem::path DefaultTasksFolder() {
  // An empty variable is what `GROVE_TASKS= grove ...` leaves: treated as not set.
  if (const char* set = std::getenv("GROVE_TASKS"); set != nullptr && *set != '\0') return set;
  std::error_code error;
  for (const char* relative : {"share/grove/tasks", "../share/grove/tasks"}) {
    const auto folder = ExecutableFolder() / relative;
    if (std::filesystem::is_directory(folder, error)) return folder.lexically_normal();
  }
  return std::filesystem::path(GROVE_SOURCE_DIR) / "seeds" / "tasks";
}

Result<std::vector<std::string>> ListTasks(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::directory_iterator entries(folder, error);
  if (error) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("cannot list tasks in {}: {}", folder.string(), error.message()));
  }
  std::vector<std::string> names;
  for (const std::filesystem::directory_iterator end; entries != end; entries.increment(error)) {
    if (error) break;
    std::error_code ignored;
    if (std::filesystem::is_regular_file(entries->path() / "task.toml", ignored)) {
      names.push_back(entries->path().filename().string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

Result<Task> ParseTask(std::string_view toml, std::string_view file) {
  auto text = ParseTaskText(toml, file);
  if (!text) return Fail(std::move(text).error());
  return ResolveTask(*text, file);
}

Result<Task> LoadTask(const std::filesystem::path& folder, std::string_view name) {
  auto names = ListTasks(folder);
  if (!names) return Fail(std::move(names).error());
  // Only a listed name is ever joined to the folder, so "../x" cannot leave it.
  if (std::find(names->begin(), names->end(), name) == names->end()) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("{} in {}", UnknownName("task", name, *names), folder.string()));
  }
  const std::filesystem::path home = folder / name;
  const std::string file = (home / "task.toml").string();
  auto toml = ReadTaskFile(home / "task.toml");
  if (!toml) return Fail(std::move(toml).error());
  auto task = ParseTask(*toml, file);
  if (!task) return task;
  if (task->name != name) {
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("{}: name is '{}', but the folder is '{}'; make them equal", file,
                            task->name, name));
  }
  const std::pair<const char*, std::string*> programs[] = {
      {"reference.cu", &task->reference.source},
      {"reference.json", &task->reference.plan},
      {"seed.cu", &task->seed.source},
      {"seed.json", &task->seed.plan},
  };
  for (const auto& [program, target] : programs) {
    const bool of_reference = target == &task->reference.source || target == &task->reference.plan;
    if (of_reference && task->checker != Checker::kReference) continue;
    auto text = ReadTaskFile(home / program);
    if (!text) return Fail(std::move(text).error(), fmt::format("task {}", name));
    *target = std::move(*text);
  }
  // Absolute: GPU workers read it from a folder of their own.
  std::error_code error;
  std::filesystem::path whole = std::filesystem::absolute(home, error).lexically_normal();
  if (error) whole = home;
  if (auto found = FindStored(*task, whole); !found) return Fail(std::move(found).error());
  return task;
}

}  // namespace grove::seeds
