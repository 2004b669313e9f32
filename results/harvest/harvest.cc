#include "results/harvest/harvest.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <set>

#include <fmt/format.h>
#include <zstd.h>

#include "base/files.h"
#include "base/process.h"
#include "results/format.h"
#include "results/harvest/card.h"
#include "results/harvest/records.h"

namespace grove::results {

// Embedded by CMake: scripts/to_parquet.py.
namespace asset {
extern const std::string_view kToParquet;
}

namespace {

constexpr int kZstdLevel = 10;

// A file of records, written line by line. Its bytes hang on the records alone.
class RecordFile {
 public:
  RecordFile(std::filesystem::path path, bool zstd) : path_(std::move(path)), zstd_(zstd) {}

  Status Add(const Json& json) {
    text_ += json.dump(-1, ' ', false, Json::error_handler_t::replace);
    text_ += '\n';
    ++records_;
    return {};
  }

  Result<HarvestedFile> Finish() {
    if (zstd_) {
      std::string packed(ZSTD_compressBound(text_.size()), '\0');
      const std::size_t size =
          ZSTD_compress(packed.data(), packed.size(), text_.data(), text_.size(), kZstdLevel);
      if (ZSTD_isError(size) != 0) {
        return Fail(ErrorCode::kResource,
                    fmt::format("compressing {}: {}", path_.string(), ZSTD_getErrorName(size)));
      }
      packed.resize(size);
      text_ = std::move(packed);
    }
    if (Status written = WriteFileAtomic(path_, text_); !written) return Fail(written.error());
    return HarvestedFile{path_.filename().string(), records_,
                         Bytes(static_cast<std::int64_t>(text_.size())), HashText(text_).Hex()};
  }

 private:
  std::filesystem::path path_;
  bool zstd_;
  std::string text_;
  std::int64_t records_ = 0;
};

Status CheckOptions(const HarvestOptions& options) {
  for (const std::string& kind : options.kinds) {
    const auto& known = RecordKinds();
    if (std::find(known.begin(), known.end(), kind) == known.end()) {
      return Fail(ErrorCode::kInvalidInput,
                  fmt::format("unknown kind of record '{}' (there are {})", Visible(kind),
                              fmt::join(known, ", ")));
    }
  }
  if (!options.precision.empty() && !seeds::PrecisionClassFromName(options.precision)) {
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("unknown precision class '{}' (fp64, fp32, tf32, fp16, bf16, fp8)",
                            Visible(options.precision)));
  }
  if (options.benchmark_words < 1 || options.benchmark_words > 1000) {
    return Fail(ErrorCode::kInvalidInput, "the length of word runs must be 1 to 1000");
  }
  std::error_code error;
  if (std::filesystem::exists(options.output, error) &&
      (!std::filesystem::is_directory(options.output, error) ||
       !std::filesystem::is_empty(options.output, error))) {
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("{} is there already and not an empty folder; name a new one",
                            options.output.string()));
  }
  return {};
}

Result<std::vector<std::unique_ptr<HarvestRun>>> OpenAll(
    const std::vector<std::filesystem::path>& folders, const HarvestOptions& options) {
  std::vector<std::unique_ptr<HarvestRun>> runs;
  for (const std::filesystem::path& folder : folders) {
    auto reader = Reader::Open(folder);
    if (!reader) return Fail(reader.error());
    auto data = (*reader)->Load();
    if (!data) return Fail(data.error(), folder.string());
    auto run = std::make_unique<HarvestRun>(*std::move(reader), *std::move(data));
    for (const EnvironmentRow& row : run->data.environment) run->environment[row.key] = row.value;
    const auto gpu = run->environment.find("gpu");
    const bool right =
        options.device.empty() ||
        (gpu != run->environment.end() && gpu->second.find(options.device) != std::string::npos);
    if (right) runs.push_back(std::move(run));
  }
  if (runs.empty()) {
    return Fail(ErrorCode::kNotFound,
                options.device.empty() ? std::string("no run to harvest")
                                       : fmt::format("none of the runs ran on a device named '{}'",
                                                     Visible(options.device)));
  }
  std::sort(runs.begin(), runs.end(), [](const auto& a, const auto& b) {
    return std::tuple(a->data.run.name, a->data.run.created) <
           std::tuple(b->data.run.name, b->data.run.created);
  });
  return runs;
}

bool Passes(const HarvestRun& run, const CandidateRow& c, const HarvestOptions& options) {
  const bool correct = ScoreOf(c).has_value();
  if (options.correct_only && !correct) return false;
  if (!options.precision.empty() &&
      (!c.evaluation || c.evaluation->precision != options.precision)) {
    return false;
  }
  if (options.minimal_gain && correct) {
    const CandidateRow* parent = run.index.ParentOf(c);
    const auto gain = parent != nullptr ? SpeedUp(*parent, c) : std::optional<double>(1);
    if (!gain || *gain < *options.minimal_gain) return false;
  }
  return true;
}

// Programs whose outcome differs are no near-duplicates, however alike they are: a constant changed
// that doubles the speed is what people harvest for. Outcomes are alike when the verdict is the
// same and the times fall into one step of a ladder of 5%.
std::string Outcome(const CandidateRow& c) {
  if (!c.evaluation) return "none";
  std::string out(eval::Name(c.evaluation->verdict.kind));
  if (const auto score = ScoreOf(c)) {
    out += fmt::format(" {} {}", Name(c.evaluation->score_kind),
                       std::floor(std::log(score->count()) / std::log(1.05)));
  }
  return out;
}

// Which candidates stay: filters first, then the first of each family of near-duplicates over all
// runs of a task. A duplicate by the search's own verdict never stays.
Status Choose(std::vector<std::unique_ptr<HarvestRun>>& runs, const HarvestOptions& options,
              HarvestReport& report) {
  struct Family {
    HarvestRun* run;
    CandidateId candidate;
  };
  struct TaskFamilies {
    NearDuplicates finder;
    std::vector<Family> firsts;
  };
  std::map<std::string, TaskFamilies> tasks;
  for (auto& run : runs) {
    for (const CandidateRow& c : run->data.candidates) {
      ++report.candidates;
      if (!Passes(*run, c, options)) {
        ++report.filtered;
        continue;
      }
      if (c.source && options.duplicate_threshold <= 1) {
        auto source = run->reader->Text(*c.source);
        if (!source) return Fail(source.error(), c.name);
        auto plan = c.plan ? run->reader->Text(*c.plan) : Result<std::string>(std::string());
        if (!plan) return Fail(plan.error(), c.name);
        auto& families =
            tasks
                .try_emplace(run->data.task.name + "\n" + Outcome(c),
                             TaskFamilies{NearDuplicates(options.duplicate_threshold), {}})
                .first->second;
        if (const auto first = families.finder.FindOrAdd(*source + "\n" + *plan)) {
          const Family& family = families.firsts[*first];
          ++family.run->stands_for[family.candidate];
          ++report.near_duplicates;
          continue;
        }
        families.firsts.push_back({run.get(), c.id});
      }
      run->kept.insert(c.id);
    }
  }
  return {};
}

// The first python3 of GROVE_PYTHON and PATH.
std::filesystem::path FindPython() {
  if (const char* named = std::getenv("GROVE_PYTHON"); named != nullptr && *named != '\0') {
    return named;
  }
  const char* path = std::getenv("PATH");
  std::string_view rest = path != nullptr ? path : "";
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    std::error_code error;
    auto file = std::filesystem::path(rest.substr(0, end)) / "python3";
    if (std::filesystem::is_regular_file(file, error)) return file;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return {};
}

Status ToParquet(const std::filesystem::path& folder) {
  const std::string how = fmt::format(
      "; the JSON lines are in {}: install pyarrow (python3 -m pip install pyarrow) "
      "and run scripts/to_parquet.py {}, or name a Python that has it in GROVE_PYTHON",
      folder.string(), folder.string());
  ProcessOptions process;
  process.program = FindPython();
  process.arguments = {"-c", std::string(asset::kToParquet), folder.string()};
  process.environment = SelectEnvironment({"PATH", "HOME", "LANG", "PYTHONPATH", "VIRTUAL_ENV"});
  process.channel = false;
  if (process.program.empty()) {
    return Fail(ErrorCode::kUnavailable, "no python3 for Parquet" + how);
  }
  auto child = Process::Start(process);
  if (!child) return Fail(ErrorCode::kUnavailable, child.error().message + how);
  const auto status = child->WaitFor(std::chrono::minutes(30));
  if (!status) {
    child->Kill();
    return Fail(ErrorCode::kUnavailable, "writing Parquet took more than 30 minutes" + how);
  }
  if (!status->ok()) {
    std::string why = child->ErrorText();
    while (!why.empty() && why.back() == '\n') why.pop_back();
    why = why.substr(why.rfind('\n') + 1);
    return Fail(ErrorCode::kUnavailable, fmt::format("writing Parquet failed ({}): {}{}",
                                                     status->Describe(), Visible(why), how));
  }
  return {};
}

// What lies in the folder now, for the manifest: the Parquet files in place of the JSON lines.
Result<std::vector<HarvestedFile>> Rehash(const std::filesystem::path& folder,
                                          std::vector<HarvestedFile> files) {
  for (HarvestedFile& file : files) {
    file.name = std::filesystem::path(file.name).stem().string() + ".parquet";
    auto bytes = ReadFile(folder / file.name);
    if (!bytes) return Fail(bytes.error());
    file.size = Bytes(static_cast<std::int64_t>(bytes->size()));
    file.xxh128 = HashText(*bytes).Hex();
  }
  return files;
}

}  // namespace

const std::vector<std::string>& RecordKinds() {
  static const std::vector<std::string> kinds = {"nodes",   "edges",     "preferences",
                                                 "repairs", "negatives", "conversations"};
  return kinds;
}

Result<HarvestReport> Harvest(const std::vector<std::filesystem::path>& folders,
                              const HarvestOptions& options) {
  if (Status valid = CheckOptions(options); !valid) return Fail(valid.error());
  std::optional<Benchmarks> benchmarks;
  if (options.benchmarks) {
    auto read = Benchmarks::Read(*options.benchmarks, options.benchmark_words);
    if (!read) return Fail(read.error());
    benchmarks = *std::move(read);
  }
  auto opened = OpenAll(folders, options);
  if (!opened) return Fail(opened.error());
  auto& runs = *opened;
  HarvestReport report;
  report.runs = static_cast<std::int64_t>(runs.size());
  if (Status chosen = Choose(runs, options, report); !chosen) return Fail(chosen.error());

  std::error_code error;
  std::filesystem::create_directories(options.output, error);
  if (error) {
    return Fail(ErrorCode::kResource,
                fmt::format("cannot make {}: {}", options.output.string(), error.message()));
  }
  CardFigures figures;
  for (const std::string& kind : RecordKinds()) {
    if (!options.kinds.empty() &&
        std::find(options.kinds.begin(), options.kinds.end(), kind) == options.kinds.end()) {
      continue;
    }
    const bool zstd = options.format == HarvestFormat::kJsonlZstd;
    RecordFile file(options.output / (kind + (zstd ? ".jsonl.zst" : ".jsonl")), zstd);
    for (auto& run : runs) {
      RecordMaker maker(*run, options, benchmarks ? &*benchmarks : nullptr);
      Status made = maker.Make(kind, [&](const Json& json) {
        ++figures.splits[kind][json["split"].get<std::string>()];
        if (json["contaminated"] == true) {
          ++report.flagged;
          ++figures.flagged[kind];
        }
        if (kind == "nodes") {
          ++figures.labels[json["label"].get<std::string>()];
          ++figures.tasks[json["task"].get<std::string>()];
        }
        return file.Add(json);
      });
      if (!made) return Fail(made.error(), run->data.run.name);
    }
    auto finished = file.Finish();
    if (!finished) return Fail(finished.error());
    report.files.push_back(*std::move(finished));
  }
  Status converted;
  HarvestOptions written = options;
  if (options.format == HarvestFormat::kParquet) {
    converted = ToParquet(options.output);
    if (converted) {
      auto files = Rehash(options.output, report.files);
      if (!files) return Fail(files.error());
      report.files = *std::move(files);
    } else {  // a whole harvest of JSON lines then
      written.format = HarvestFormat::kJsonl;
    }
  }
  std::vector<const RunData*> data;
  for (const auto& run : runs) data.push_back(&run->data);
  const std::string card = DatasetCard(data, written, report, figures);
  if (Status w = WriteFileAtomic(options.output / "README.md", card); !w) return Fail(w.error());
  std::vector<HarvestedFile> all = report.files;
  all.push_back(
      {"README.md", 0, Bytes(static_cast<std::int64_t>(card.size())), HashText(card).Hex()});
  if (Status w =
          WriteFileAtomic(options.output / "manifest.json", ManifestJson(data, written, all));
      !w) {
    return Fail(w.error());
  }
  std::string sums;
  for (const HarvestedFile& file : all) sums += fmt::format("{}  {}\n", file.xxh128, file.name);
  if (Status w = WriteFileAtomic(options.output / "manifest.xxh128", sums); !w) {
    return Fail(w.error());
  }
  if (!converted) return Fail(converted.error());
  return report;
}

}  // namespace grove::results
