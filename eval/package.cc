#include "eval/package.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <type_traits>

#include <fmt/format.h>
#include <simdjson.h>
#include <zstd.h>
#include <nlohmann/json.hpp>

#include "codegen/program.h"

namespace grove::eval {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;
constexpr std::string_view kPackage = "package";
constexpr std::string_view kResult = "result";
// Of the JSON text. A result of 1000 candidates with all samples of twelve cases is below 200 MB.
constexpr std::size_t kLargest = std::size_t{1} << 30;
constexpr std::size_t kHashDigits = 32;
constexpr std::string_view kHex = "0123456789abcdef";

// --- the fields, named once for both directions -------------------------------------------------

// Archive A has operator()(key, value&) for every field.
template <typename A>
void Fields(A& a, Verdict& v) {
  a("kind", v.kind);
  a("stage", v.stage);
  a("case", v.case_name);
  a("message", v.message);
  a("seed", v.seed);
  a("tensor", v.tensor);
  a("element", v.element);
  a("expected", v.expected);
  a("got", v.got);
  a("error", v.error);
  a("tolerance", v.tolerance);
}
template <typename A>
void Fields(A& a, StageRecord& s) {
  a("stage", s.stage);
  a("case", s.case_name);
  a("passed", s.passed);
  a("duration_ms", s.duration);
  a("error", s.error);
  a("tolerance", s.tolerance);
  a("undecided", s.undecided);
}
template <typename A>
void Fields(A& a, Occupancy& o) {
  a("blocks_per_sm", o.blocks_per_sm);
  a("warps_share", o.warps_share);
  a("limiter", o.limiter);
}
template <typename A>
void Fields(A& a, LaunchReport& l) {
  a("kernel", l.kernel);
  a("time_ns", l.time);
  a("occupancy", l.occupancy);
  a("bound", l.bound);
  a("dram_bytes", l.dram_bytes);
}
template <typename A>
void Fields(A& a, ModeTime& m) {
  a("mode", m.mode);
  a("samples_ns", m.samples);
  a("min_ns", m.min);
  a("median_ns", m.median);
  a("q3_ns", m.q3);
  a("relative_stderr", m.relative_stderr);
  a("stopped", m.stopped);
  a("note", m.note);
}
template <typename A>
void Fields(A& a, CaseTime& t) {
  a("case", t.case_name);
  a("time_ns", t.time);
  a("modelled", t.modelled);
  a("impossible_floor_ns", t.impossible_floor);
  a("class_floor_ns", t.class_floor);
  a("checked_share", t.checked_share);
  a("note", t.note);
  a("launches", t.launches);
  a("min_ns", t.min);
  a("q3_ns", t.q3);
  a("samples_ns", t.samples);
  a("modes", t.modes);
  a("throttled", t.throttled);
  a("mean_clock_ghz", t.mean_clock_ghz);
  a("empty_kernel_ns", t.empty_kernel);
  a("gpu_uuid", t.gpu_uuid);
}
template <typename A>
void Fields(A& a, Gate& g) {
  a("name", g.name);
  a("value", g.value);
  a("limit", g.limit);
  a("decides", g.decides);
  a("matrix", g.matrix);
  a("column", g.column);
}
template <typename A>
void Fields(A& a, GateRecord& g) {
  a("case", g.case_name);
  a("gate", g.gate);
}
template <typename A>
void Fields(A& a, codegen::EntryPoint& e) {
  a("name", e.name);
  a("registers", e.registers);
  a("spill_stores", e.spill_stores);
  a("spill_loads", e.spill_loads);
  a("stack_bytes", e.stack_bytes);
  a("static_shared", e.static_shared);
  a("max_threads", e.max_threads);
}
template <typename A>
void Fields(A& a, KernelRecord& k) {
  a("case", k.case_name);
  a("entry", k.entry);
  a.Later("dynamic_shared", k.dynamic_shared);
}
template <typename A>
void Fields(A& a, Evaluation& e) {
  a("verdict", e.verdict);
  a("stages", e.stages);
  a("times", e.times);
  a("kernels", e.kernels);
  a("gates", e.gates);
  a("measured_class", e.measured_class);
  a("worst_error", e.worst_error);
  a("score_ns", e.score);
  a("modelled", e.modelled);
}
template <typename A>
void Fields(A& a, ExecutionFault& f) {
  a("kind", f.kind);
  a("message", f.message);
}
template <typename A>
void Fields(A& a, PairOutcome& p) {
  a("fault", p.fault);
  a("base_ns", p.base);
  a("challenger_ns", p.challenger);
  a("ratio", p.ratio);
  a.Later("median_delta", p.median_delta, "mean_delta");  // the contest of older versions
  a("delta_stderr", p.delta_stderr);
  a("result", p.result);
  a("gpu_uuid", p.gpu_uuid);
}
template <typename A>
void Fields(A& a, CasePair& p) {
  a("case", p.case_name);
  a("outcome", p.outcome);
}
template <typename A>
void Fields(A& a, GpuIdentity& g) {
  a("uuid", g.uuid);
  a("name", g.name);
  a("driver", g.driver);
  a("ordinal", g.ordinal);
}
template <typename A>
void Fields(A& a, StoredBaseline& b) {
  a("task", b.task);
  a("case", b.case_name);
  a("case_key", b.case_key);
  a("name", b.name);
  a("library", b.library);
  a("driver", b.driver);
  a("time_ns", b.time);
  a("low_ns", b.low);
  a("high_ns", b.high);
  a("samples_ns", b.samples);
  a("measured_us", b.measured);
}
template <typename A>
void Fields(A& a, PackagedProgram& p) {
  a("name", p.name);
  a("identity", p.identity);
  a("source", p.source);
  a("plan", p.plan);
}
template <typename A>
void Fields(A& a, std::pair<std::string, std::string>& p) {
  a("name", p.first);
  a("content", p.second);
}
template <typename A>
void Fields(A& a, PackageResult::Item& i) {
  a("identity", i.identity);
  a("evaluation", i.evaluation);
}
template <typename A>
void Fields(A& a, PackageResult::Contest& c) {
  a("incumbent", c.incumbent);
  a("challenger", c.challenger);
  a("pairs", c.pairs);
}
template <typename A>
void Fields(A& a, PackageResult::Profile& p) {
  a("identity", p.identity);
  a("summary", p.summary);
  a("report", p.report);
}
template <typename A>
void Fields(A& a, EvaluationPackage& p) {
  a("run", p.run);
  a("run_key", p.run_key);
  a("number", p.number);
  a("version", p.version);
  a("task", p.task);
  a("suite", p.suite);
  a("cases", p.cases);
  a.Later("class", p.demanded);
  a("gpu", p.gpu);
  a("seed", p.seed);
  a("programs", p.programs);
  a("incumbents", p.incumbents);
  a("files", p.files);
}
template <typename A>
void Fields(A& a, PackageResult& r) {
  a("run", r.run);
  a("run_key", r.run_key);
  a("number", r.number);
  a("package", r.package);
  a("version", r.version);
  a("complete", r.complete);
  a("gpus", r.gpus);
  a("environment", r.environment);
  a("evaluations", r.evaluations);
  a("contests", r.contests);
  a("baselines", r.baselines);
  a.Later("profiles", r.profiles);
}

// --- words
// ----------------------------------------------------------------------------------------

constexpr Stage kStages[] = {Stage::kParse,   Stage::kCompile,   Stage::kSmoke,
                             Stage::kSweep,   Stage::kStability, Stage::kDeterminism,
                             Stage::kEdge,    Stage::kIntegrity, Stage::kTiming,
                             Stage::kRecheck, Stage::kScreen};

std::string_view Word(VerdictKind kind) { return Name(kind); }
std::string_view Word(Stage stage) { return Name(stage); }
std::string_view Word(seeds::PrecisionClass c) { return seeds::Name(c); }
std::string_view Word(PairOutcome::Result result) {
  switch (result) {
    case PairOutcome::Result::kFaster:
      return "faster";
    case PairOutcome::Result::kSlower:
      return "slower";
    case PairOutcome::Result::kTie:
      break;
  }
  return "tie";
}
bool FromWord(std::string_view word, VerdictKind& kind) {
  const auto found = VerdictKindFromName(word);
  if (found) kind = *found;
  return found.has_value();
}
bool FromWord(std::string_view word, Stage& stage) {
  for (const Stage s : kStages) {
    if (Name(s) != word) continue;
    stage = s;
    return true;
  }
  return false;
}
bool FromWord(std::string_view word, seeds::PrecisionClass& c) {
  const auto found = seeds::PrecisionClassFromName(word);
  if (found) c = *found;
  return found.has_value();
}
bool FromWord(std::string_view word, PairOutcome::Result& result) {
  for (const auto r :
       {PairOutcome::Result::kFaster, PairOutcome::Result::kSlower, PairOutcome::Result::kTie}) {
    if (Word(r) != word) continue;
    result = r;
    return true;
  }
  return false;
}

// Files with tensors are not; JSON takes nothing else.
bool IsUtf8(const std::string& text) { return simdjson::validate_utf8(text); }

// --- writing ------------------------------------------------------------------------------------

class Writer {
 public:
  template <typename T>
  void operator()(const char* key, T& value) {
    json_[key] = Value(value);
  }
  template <typename T>
  void Later(const char* key, T& value, const char* = nullptr) {
    (*this)(key, value);
  }
  Json Take() { return std::move(json_); }

 private:
  // By reference: else the template below would fit better.
  static Json Value(std::string& text) {
    if (IsUtf8(text)) return text;
    std::string digits;
    digits.reserve(2 * text.size());
    for (const unsigned char byte : text) {
      digits += kHex[byte >> 4];
      digits += kHex[byte & 15];
    }
    return Json{{"hex", std::move(digits)}};
  }
  static Json Value(bool& value) { return value; }
  static Json Value(double& value) { return Number(value); }
  // JSON has no such numbers, and a kernel's output may be one.
  static Json Number(double value) {
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
    return value;
  }
  static Json Value(Hash& hash) { return hash.Hex(); }
  static Json Value(std::chrono::system_clock::time_point& time) {
    return std::chrono::duration_cast<std::chrono::microseconds>(time.time_since_epoch()).count();
  }
  template <typename P>
  static Json Value(std::chrono::duration<double, P>& time) {
    return Number(time.count());
  }
  template <typename T>
  static Json Value(std::optional<T>& value) {
    return value ? Value(*value) : Json(nullptr);
  }
  template <typename T>
  static Json Value(std::vector<T>& values) {
    Json list = Json::array();
    for (T& value : values) list.push_back(Value(value));
    return list;
  }
  template <typename T>
  static Json Value(T& value) {
    if constexpr (std::is_enum_v<T>) {
      return Word(value);
    } else if constexpr (std::is_integral_v<T>) {
      return value;
    } else {
      Writer inner;
      Fields(inner, value);
      return inner.Take();
    }
  }

  Json json_ = Json::object();
};

// --- reading
// --------------------------------------------------------------------------------------

// Notes the first field that does not fit; the rest keeps what it has.
class JsonReader {
 public:
  JsonReader(const Json& json, std::string path, std::string& problem)
      : json_(json), path_(std::move(path)), problem_(problem) {
    if (!json.is_object()) Bad(path_, "an object");
  }

  template <typename T>
  void operator()(const char* key, T& value) {
    if (!problem_.empty()) return;
    const auto at = json_.find(key);
    const std::string where = path_.empty() ? key : path_ + "." + key;
    if (at == json_.end()) return Bad(where, "to be there");
    Get(*at, where, value);
  }
  // A field that files of older versions lack, or have as `older`: a run keeps its results for
  // good.
  template <typename T>
  void Later(const char* key, T& value, const char* older = nullptr) {
    if (json_.contains(key)) return (*this)(key, value);
    if (older != nullptr && json_.contains(older)) (*this)(older, value);
  }

 private:
  void Bad(const std::string& where, std::string_view expected) {
    if (problem_.empty()) problem_ = fmt::format("{}: expected {}", where, expected);
  }
  void Get(const Json& json, const std::string& where, std::string& text) {
    if (json.is_string()) {
      text = json.get<std::string>();
      return;
    }
    const auto hex = json.is_object() ? json.find("hex") : json.end();
    if (hex == json.end() || !hex->is_string()) return Bad(where, "a text");
    const std::string& digits = hex->get_ref<const std::string&>();
    if (digits.size() % 2 != 0 || digits.find_first_not_of(kHex) != std::string::npos) {
      return Bad(where, "pairs of hex digits");
    }
    const auto nibble = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
    text.clear();
    text.reserve(digits.size() / 2);
    for (std::size_t i = 0; i < digits.size(); i += 2) {
      text += static_cast<char>(nibble(digits[i]) << 4 | nibble(digits[i + 1]));
    }
  }
  void Get(const Json& json, const std::string& where, bool& value) {
    if (!json.is_boolean()) return Bad(where, "true or false");
    value = json.get<bool>();
  }
  void Get(const Json& json, const std::string& where, double& value) {
    if (json.is_number()) {
      value = json.get<double>();
    } else if (json == "nan") {
      value = std::numeric_limits<double>::quiet_NaN();
    } else if (json == "inf" || json == "-inf") {
      value = json == "inf" ? std::numeric_limits<double>::infinity()
                            : -std::numeric_limits<double>::infinity();
    } else {
      Bad(where, "a number");
    }
  }
  void Get(const Json& json, const std::string& where, Hash& hash) {
    const std::string text = json.is_string() ? json.get<std::string>() : std::string();
    if (text.size() != kHashDigits ||
        text.find_first_not_of("0123456789abcdef") != std::string::npos) {
      return Bad(where, "32 hex digits");
    }
    hash.high = std::stoull(text.substr(0, 16), nullptr, 16);
    hash.low = std::stoull(text.substr(16), nullptr, 16);
  }
  void Get(const Json& json, const std::string& where,
           std::chrono::system_clock::time_point& time) {
    std::int64_t us = 0;
    Get(json, where, us);
    time = std::chrono::system_clock::time_point(std::chrono::microseconds(us));
  }
  template <typename P>
  void Get(const Json& json, const std::string& where, std::chrono::duration<double, P>& time) {
    double count = 0;
    Get(json, where, count);
    if (!(count >= 0) || std::isinf(count)) return Bad(where, "a time");
    time = std::chrono::duration<double, P>(count);
  }
  template <typename T>
  void Get(const Json& json, const std::string& where, std::optional<T>& value) {
    value.reset();
    if (json.is_null()) return;
    T inner{};
    Get(json, where, inner);
    value = std::move(inner);
  }
  template <typename T>
  void Get(const Json& json, const std::string& where, std::vector<T>& values) {
    if (!json.is_array()) return Bad(where, "a list");
    values.clear();
    for (const Json& element : json) {
      if (!problem_.empty()) return;
      Get(element, fmt::format("{}[{}]", where, values.size()), values.emplace_back());
    }
  }
  template <typename T>
  void Get(const Json& json, const std::string& where, T& value) {
    if constexpr (std::is_enum_v<T>) {
      if (!json.is_string() || !FromWord(json.get<std::string>(), value)) {
        Bad(where, "a word that this version knows");
      }
    } else if constexpr (std::is_integral_v<T>) {
      const bool fits = json.is_number_unsigned()
                            ? json.get<std::uint64_t>() <=
                                  static_cast<std::uint64_t>(std::numeric_limits<T>::max())
                            : json.is_number_integer() && std::is_signed_v<T> &&
                                  json.get<std::int64_t>() >=
                                      static_cast<std::int64_t>(std::numeric_limits<T>::min());
      if (!fits) return Bad(where, "a whole number in range");
      value = json.get<T>();
    } else {
      JsonReader inner(json, where, problem_);
      if (problem_.empty()) Fields(inner, value);
    }
  }

  const Json& json_;
  const std::string path_;
  std::string& problem_;
};

// --- the file
// -------------------------------------------------------------------------------------

template <typename T>
std::string EncodeAs(std::string_view what, const T& value) {
  Writer writer;
  Fields(writer, const_cast<T&>(value));  // one list of fields serves both directions
  const std::string text = writer.Take().dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  const std::size_t size = ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), 9);
  packed.resize(ZSTD_isError(size) != 0 ? 0 : size);
  return fmt::format("grove {} {}\n{}\n{}", what, kVersion, HashText(packed).Hex(), packed);
}

Failure NoFile(std::string_view what, std::string_view why) {
  return Fail(ErrorCode::kInvalidInput, fmt::format("no {} of grove: {}", what, why));
}

template <typename T>
Result<T> DecodeAs(std::string_view what, std::string_view file) {
  const auto line = file.substr(0, std::min<std::size_t>(file.find('\n'), 64));
  const std::string prefix = fmt::format("grove {} ", what);
  if (!line.starts_with(prefix)) {
    return NoFile(what, line.starts_with("grove ") ? fmt::format("it begins with '{}'", line)
                                                   : "its first line is another");
  }
  if (line.substr(prefix.size()) != fmt::to_string(kVersion)) {
    return NoFile(what,
                  fmt::format("it has version {}, this program reads version {}; use the same "
                              "grove on both machines",
                              line.substr(prefix.size()), kVersion));
  }
  const std::string_view rest = file.substr(std::min(line.size() + 1, file.size()));
  if (rest.size() < kHashDigits + 1 || rest[kHashDigits] != '\n') return NoFile(what, "cut off");
  const std::string_view packed = rest.substr(kHashDigits + 1);
  if (HashText(packed).Hex() != rest.substr(0, kHashDigits)) {
    return NoFile(what,
                  "it is damaged or cut off (its content does not have its hash); copy it again");
  }
  const unsigned long long size = ZSTD_getFrameContentSize(packed.data(), packed.size());
  if (size == ZSTD_CONTENTSIZE_ERROR || size == ZSTD_CONTENTSIZE_UNKNOWN || size > kLargest) {
    return NoFile(what, fmt::format("its size is not known or above {} bytes", kLargest));
  }
  std::string text(static_cast<std::size_t>(size), '\0');
  const std::size_t n = ZSTD_decompress(text.data(), text.size(), packed.data(), packed.size());
  if (ZSTD_isError(n) != 0 || n != text.size()) return NoFile(what, "its compression is damaged");
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) return NoFile(what, "it holds no JSON");
  T value;
  std::string problem;
  JsonReader reader(json, "", problem);
  if (problem.empty()) Fields(reader, value);
  if (!problem.empty()) return NoFile(what, problem);
  return value;
}

// A name that stays a plain file of one folder.
bool PlainName(std::string_view name) {
  return !name.empty() && name.size() <= 100 && name.front() != '.' &&
         name.find_first_not_of(
             "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") ==
             std::string_view::npos;
}

// The identity is recomputed: it is what the run finds the evaluation by.
Status CheckProgram(const PackagedProgram& p) {
  const auto program = codegen::MakeProgram(p.source, p.plan);
  if (!program)
    return NoFile(kPackage, fmt::format("program {}: {}", p.name, program.error().message));
  if (program->identity() != p.identity) {
    return NoFile(kPackage,
                  fmt::format("program {} is not the one its identity names; use the same "
                              "grove on both machines",
                              p.name));
  }
  return {};
}

}  // namespace

std::vector<const PackagedProgram*> WorthProfiling(const EvaluationPackage& package,
                                                   const PackageResult& result, std::size_t most) {
  std::vector<std::pair<Nanoseconds, const PackagedProgram*>> passed;
  for (const PackageResult::Item& item : result.evaluations) {
    if (!item.evaluation.verdict.passed() || !item.evaluation.score) continue;
    for (const PackagedProgram& program : package.programs) {
      if (program.identity != item.identity) continue;
      passed.emplace_back(*item.evaluation.score, &program);
      break;
    }
  }
  std::stable_sort(passed.begin(), passed.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  if (passed.size() > most) passed.resize(most);
  std::vector<const PackagedProgram*> worth;
  for (const auto& [time, program] : passed) worth.push_back(program);
  if (most > 0 && !package.incumbents.empty() &&
      std::none_of(worth.begin(), worth.end(), [&](const PackagedProgram* program) {
        return program->identity == package.incumbents.front().identity;
      })) {
    worth.push_back(&package.incumbents.front());
  }
  return worth;
}

std::string Encode(const EvaluationPackage& package) { return EncodeAs(kPackage, package); }
std::string Encode(const PackageResult& result) { return EncodeAs(kResult, result); }

Result<EvaluationPackage> DecodePackage(std::string_view file) {
  auto package = DecodeAs<EvaluationPackage>(kPackage, file);
  if (!package) return package;
  if (!PlainName(package->task)) return NoFile(kPackage, "its task has no usable name");
  for (const auto& [name, content] : package->files) {
    if (!PlainName(name)) return NoFile(kPackage, "a file of its task has no plain name");
  }
  for (const auto* programs : {&package->programs, &package->incumbents}) {
    for (const PackagedProgram& program : *programs) {
      if (auto good = CheckProgram(program); !good) return Failure(std::move(good.error()));
    }
  }
  return package;
}

Result<PackageResult> DecodeResult(std::string_view file) {
  auto result = DecodeAs<PackageResult>(kResult, file);
  if (!result) return result;
  if (result->gpus.empty()) return NoFile(kResult, "it names no GPU");
  for (const PackageResult::Item& item : result->evaluations) {
    const Evaluation& e = item.evaluation;
    if (e.verdict.passed() != e.score.has_value() && e.verdict.kind != VerdictKind::kLowerClass) {
      return NoFile(kResult, "a verdict and its score contradict each other");
    }
    if (e.stages.empty()) return NoFile(kResult, "an evaluation has no stages");
  }
  for (const PackageResult::Profile& profile : result->profiles) {
    if (profile.summary.size() > kLongestSummary || profile.report.size() > kLongestReport) {
      return NoFile(kResult, "a profile is too long");
    }
  }
  return result;
}

}  // namespace grove::eval
