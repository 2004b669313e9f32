#include "eval/baselines.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <system_error>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/process.h"

namespace grove::eval {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using seeds::CaseRole;

constexpr int kVersion = 1;
constexpr std::uintmax_t kLargestFile = std::uintmax_t{64} << 20;
constexpr std::size_t kMostSamples = 5000;

bool IsUuid(std::string_view uuid) {
  return uuid.starts_with("GPU-") && uuid.size() <= 64 &&
         uuid.find_first_not_of("0123456789abcdef-", 4) == std::string_view::npos &&
         uuid.size() > 4;
}

fs::path FileOf(const fs::path& cache, const std::string& uuid) {
  return cache / "baselines" / (uuid + ".json");
}

std::string Text(const Json& object, const char* key) {
  const auto at = object.find(key);
  return at != object.end() && at->is_string() ? at->get<std::string>() : std::string();
}

// A time in `unit` nanoseconds; nothing for what is no positive finite number.
std::optional<Nanoseconds> Time(const Json& object, const char* key, double unit) {
  const auto at = object.find(key);
  if (at == object.end() || !at->is_number()) return std::nullopt;
  const double value = at->get<double>() * unit;
  if (!std::isfinite(value) || value <= 0) return std::nullopt;
  return Nanoseconds(value);
}

std::vector<Nanoseconds> Times(const Json& object, const char* key, double unit) {
  std::vector<Nanoseconds> times;
  const auto at = object.find(key);
  if (at == object.end() || !at->is_array()) return times;
  for (const Json& sample : *at) {
    if (times.size() >= kMostSamples || !sample.is_number()) break;
    times.emplace_back(sample.get<double>() * unit);
  }
  return times;
}

Json ToJson(const StoredBaseline& b) {
  Json json;
  json["task"] = b.task;
  json["case"] = b.case_name;
  json["case_key"] = b.case_key.Hex();
  json["name"] = b.name;
  json["library"] = b.library;
  json["driver"] = b.driver;
  json["time_ns"] = b.time.count();
  if (b.low) json["low_ns"] = b.low->count();
  if (b.high) json["high_ns"] = b.high->count();
  json["samples_ns"] = Json::array();
  for (const Nanoseconds sample : b.samples) json["samples_ns"].push_back(sample.count());
  json["measured_us"] =
      std::chrono::duration_cast<std::chrono::microseconds>(b.measured.time_since_epoch()).count();
  return json;
}

// The entries of the GPU's file as JSON; an empty list for whatever is no such file.
Json ReadEntries(const fs::path& file, const std::string& uuid) {
  auto text = ReadFile(file, kLargestFile);
  if (!text) return Json::array();
  const Json json = Json::parse(*text, nullptr, false);
  if (!json.is_object() || Text(json, "uuid") != uuid) return Json::array();
  const auto version = json.find("version");
  if (version == json.end() || *version != kVersion) return Json::array();
  const auto entries = json.find("baselines");
  if (entries == json.end() || !entries->is_array()) return Json::array();
  Json good = Json::array();
  for (const Json& entry : *entries) {
    if (entry.is_object()) good.push_back(entry);
  }
  return good;
}

bool SameKey(const Json& entry, const StoredBaseline& b) {
  return Text(entry, "task") == b.task && Text(entry, "case_key") == b.case_key.Hex() &&
         Text(entry, "name") == b.name && Text(entry, "driver") == b.driver;
}

Json TensorJson(const seeds::Tensor& tensor) {
  Json json;
  json["name"] = tensor.name;
  json["role"] = tensor.role == seeds::TensorRole::kInput ? "input" : "output";
  json["dtype"] = Name(tensor.dtype);
  json["shape"] = tensor.shape;
  if (tensor.role == seeds::TensorRole::kInput) {
    json["distribution"] = {{"kind", seeds::Name(tensor.distribution.kind)},
                            {"a", tensor.distribution.a},
                            {"b", tensor.distribution.b}};
    if (!tensor.distribution.stored.key.empty()) {
      json["distribution"]["key"] = tensor.distribution.stored.key;
    }
  }
  return json;
}

Json CaseJson(const seeds::Task& task, const seeds::Case& c) {
  Json json;
  json["task"] = task.name;
  json["case"] = c.name;
  json["dims"] = Json::object();
  for (const seeds::Dim& dim : c.dims) json["dims"][dim.name] = dim.value;
  json["scalars"] = Json::object();
  for (const seeds::Scalar& scalar : c.scalars) json["scalars"][scalar.name] = scalar.value;
  json["allow_tf32"] = c.demanded.value_or(task.demanded) >= seeds::PrecisionClass::kTf32;
  json["tensors"] = Json::array();
  for (const seeds::Tensor& tensor : c.tensors) json["tensors"].push_back(TensorJson(tensor));
  return json;
}

}  // namespace

Hash CaseKey(const seeds::Task& task, const seeds::Case& c) {
  Json json = CaseJson(task, c);
  json.erase("case");  // a name is not part of what is computed
  return HashText(json.dump());
}

Status SaveBaselines(const fs::path& cache, const GpuIdentity& gpu,
                     const std::vector<StoredBaseline>& entries) {
  if (!IsUuid(gpu.uuid)) {
    return Fail(ErrorCode::kInvalidInput, "'" + gpu.uuid + "' is not the UUID of a GPU");
  }
  const fs::path file = FileOf(cache, gpu.uuid);
  std::error_code error;
  fs::create_directories(file.parent_path(), error);
  const fs::path lock_file = file.parent_path() / "lock";
  const FileDescriptor lock(open(lock_file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!lock || flock(lock.get(), LOCK_EX) != 0) {
    return Fail(ErrorCode::kResource, fmt::format("cannot lock {}: {}", lock_file.string(),
                                                  std::generic_category().message(errno)));
  }
  Json all = Json::array();
  for (Json& old : ReadEntries(file, gpu.uuid)) {
    const bool replaced = std::any_of(entries.begin(), entries.end(),
                                      [&](const auto& entry) { return SameKey(old, entry); });
    if (!replaced) all.push_back(std::move(old));
  }
  for (const StoredBaseline& entry : entries) all.push_back(ToJson(entry));
  Json json;
  json["version"] = kVersion;
  json["uuid"] = gpu.uuid;
  json["gpu"] = gpu.name;
  json["baselines"] = std::move(all);
  return WriteFileAtomic(file, json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
}

std::vector<StoredBaseline> FindBaselines(const fs::path& cache, const GpuIdentity& gpu,
                                          const seeds::Task& task, const PresentLibrary& present) {
  std::vector<StoredBaseline> found;
  if (!IsUuid(gpu.uuid)) return found;
  std::map<std::string, std::string> installed;  // by product
  const auto outdated = [&](const std::string& library) {
    if (!present || library.empty()) return false;
    const std::string product = library.substr(0, library.find(' '));
    auto at = installed.find(product);
    if (at == installed.end()) at = installed.emplace(product, present(product)).first;
    return !at->second.empty() && at->second != library;
  };
  const Json entries = ReadEntries(FileOf(cache, gpu.uuid), gpu.uuid);
  for (const seeds::Case& c : task.cases) {
    if (c.role != CaseRole::kScored) continue;
    const Hash key = CaseKey(task, c);
    const std::size_t first = found.size();
    for (const Json& entry : entries) {
      if (Text(entry, "task") != task.name || Text(entry, "case_key") != key.Hex() ||
          Text(entry, "driver") != gpu.driver) {
        continue;
      }
      const auto time = Time(entry, "time_ns", 1);
      const std::string name = Text(entry, "name");
      if (!time || name.empty() || outdated(Text(entry, "library"))) continue;
      StoredBaseline b;
      b.task = task.name;
      b.case_name = c.name;  // as it is called now
      b.case_key = key;
      b.name = name;
      b.library = Text(entry, "library");
      b.driver = gpu.driver;
      b.time = *time;
      b.low = Time(entry, "low_ns", 1);
      b.high = Time(entry, "high_ns", 1);
      b.samples = Times(entry, "samples_ns", 1);
      if (const auto at = entry.find("measured_us"); at != entry.end() && at->is_number_integer()) {
        b.measured = std::chrono::system_clock::time_point(
            std::chrono::duration_cast<std::chrono::system_clock::duration>(
                std::chrono::microseconds(at->get<std::int64_t>())));
      }
      found.push_back(std::move(b));
    }
    std::stable_sort(found.begin() + static_cast<std::ptrdiff_t>(first), found.end(),
                     [](const auto& a, const auto& b) { return a.time < b.time; });
  }
  return found;
}

std::string TorchRequest(const seeds::Task& task, const fs::path& folder) {
  Json json;
  json["modes"] = {"eager", "compile"};
  json["cases"] = Json::array();
  for (const seeds::Case& c : task.cases) {
    if (c.role != CaseRole::kScored) continue;
    Json one = CaseJson(task, c);
    if (!folder.empty()) one["folder"] = folder.string();
    json["cases"].push_back(std::move(one));
  }
  return json.dump();
}

Result<TorchResults> ParseTorchResults(std::string_view text, const seeds::Task& task) {
  const auto bad = [](const std::string& what) {
    return Fail(ErrorCode::kInvalidInput, "not what torch_baseline.py writes: " + what);
  };
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return bad("no JSON object");
  TorchResults results;
  results.gpu.uuid = Text(json, "uuid");
  results.gpu.name = Text(json, "device");
  if (!IsUuid(results.gpu.uuid)) {
    return bad(
        "it names no GPU (\"uuid\"); a baseline belongs to one physical GPU, and PyTorch "
        "2.4 or newer tells which");
  }
  const auto list = json.find("results");
  if (list == json.end() || !list->is_array()) return bad("no list \"results\"");
  const std::string library =
      fmt::format("torch {}, CUDA {}", Text(json, "torch"), Text(json, "cuda"));
  const auto now = std::chrono::system_clock::now();
  for (const Json& row : *list) {
    if (!row.is_object()) return bad("a result is no object");
    if (Text(row, "task") != task.name) continue;
    const std::string mode = Text(row, "mode");
    const std::string case_name = Text(row, "case");
    const seeds::Case* c = task.FindCase(case_name);
    if (mode != "eager" && mode != "compile") return bad("unknown mode '" + mode + "'");
    if (c == nullptr || c->role != CaseRole::kScored) {
      results.problems.push_back(
          fmt::format("torch_{} of case '{}': this task has no such scored case", mode, case_name));
      continue;
    }
    const auto time = Time(row, "median_us", 1e3);
    if (!time) {
      const std::string error = Text(row, "error");
      results.problems.push_back(fmt::format("torch_{} of case {}: {}", mode, case_name,
                                             error.empty() ? "no time" : error));
      continue;
    }
    StoredBaseline b;
    b.task = task.name;
    b.case_name = case_name;
    b.case_key = CaseKey(task, *c);
    b.name = "torch_" + mode;
    b.library = library;
    b.time = *time;
    b.low = Time(row, "min_us", 1e3);
    b.high = Time(row, "q3_us", 1e3);
    b.samples = Times(row, "samples_us", 1e3);
    b.measured = now;
    results.baselines.push_back(std::move(b));
  }
  if (results.baselines.empty() && results.problems.empty()) {
    return bad(fmt::format("it has no result for task {}", task.name));
  }
  return results;
}

}  // namespace grove::eval
