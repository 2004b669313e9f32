#include "cli/gallery_command.h"

#include <algorithm>
#include <cstdio>
#include <system_error>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/share.h"
#include "base/suggest.h"
#include "cli/complain.h"
#include "cli/exit_code.h"
#include "cli/find_run.h"
#include "codegen/program.h"
#include "results/format.h"
#include "results/run_index.h"
#include "results/store.h"
#include "search/config.h"

namespace grove::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::uintmax_t kLargestFile = std::uintmax_t{16} << 20;

struct Entry {
  std::string name;
  std::string source, plan;
  std::string task, suite;
  std::vector<std::string> cases;
  std::string demanded;  // class of accuracy that the user demanded; empty = the task's own
  std::string gpu;       // "H200"
  std::string title;
  Nanoseconds score{0};
};

fs::path FolderOf(const GalleryOptions& options) {
  return options.folder.empty() ? ShareFolder("gallery") : options.folder;
}

Result<Entry> ReadEntry(const fs::path& folder) {
  Entry entry;
  entry.name = folder.filename().string();
  auto source = ReadFile(folder / "program.cu", kLargestFile);
  if (!source) return Failure(std::move(source.error()));
  auto plan = ReadFile(folder / "plan.json", kLargestFile);
  if (!plan) return Failure(std::move(plan.error()));
  auto text = ReadFile(folder / "result.json", kLargestFile);
  if (!text) return Failure(std::move(text.error()));
  entry.source = std::move(*source);
  entry.plan = std::move(*plan);
  const Json json = Json::parse(*text, nullptr, false);
  const auto bad = [&](std::string_view what) {
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("{}: expected {}", (folder / "result.json").string(), what));
  };
  if (!json.is_object()) return bad("one JSON object");
  const auto word = [&](const char* key, std::string& to) {
    const auto at = json.find(key);
    if (at == json.end() || !at->is_string()) return false;
    to = at->get<std::string>();
    return true;
  };
  if (!word("task", entry.task) || !word("suite", entry.suite) || !word("gpu", entry.gpu) ||
      !word("title", entry.title)) {
    return bad("the texts task, title, suite and gpu");
  }
  if (json.contains("demanded_instead") && !word("demanded_instead", entry.demanded)) {
    return bad("a text demanded_instead");
  }
  const auto score = json.find("score_ns");
  if (score == json.end() || !score->is_number() || score->get<double>() <= 0) {
    return bad("a positive number score_ns");
  }
  entry.score = Nanoseconds(score->get<double>());
  const auto cases = json.find("selected_cases");
  if (cases == json.end() || !cases->is_array()) return bad("a list selected_cases");
  for (const Json& one : *cases) {
    if (!one.is_string()) return bad("case names in selected_cases");
    entry.cases.push_back(one.get<std::string>());
  }
  return entry;
}

// Those of `options.names`, or all, by name.
Result<std::vector<Entry>> Entries(const GalleryOptions& options) {
  const fs::path folder = FolderOf(options);
  std::vector<std::string> there;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (at->is_directory()) there.push_back(at->path().filename().string());
  }
  if (error) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("no gallery at {}: {}", folder.string(), error.message()));
  }
  std::sort(there.begin(), there.end());
  for (const std::string& name : options.names) {
    if (std::find(there.begin(), there.end(), name) != there.end()) continue;
    return Fail(ErrorCode::kNotFound, UnknownName("gallery kernel", name, there));
  }
  std::vector<Entry> entries;
  for (const std::string& name : options.names.empty() ? there : options.names) {
    auto entry = ReadEntry(folder / name);
    if (!entry) return Failure(std::move(entry.error()));
    entries.push_back(std::move(*entry));
  }
  return entries;
}

// How the kernel came about, oldest first, each with what it gained over its parent.
Json LineageJson(const results::RunData& data, const results::CandidateRow& best) {
  Json lineage = Json::array();
  for (const results::CandidateRow* row = &best; row != nullptr; row = data.Find(row->parent)) {
    Json step;
    step["kernel"] = row->name;
    if (const results::IdeaRow* idea = data.Find(row->idea)) {
      step["idea"] = idea->title;
      step["category"] = idea->category;
      step["rationale"] = idea->rationale;
    }
    if (const auto score = results::ScoreOf(*row)) step["score_ns"] = score->count();
    if (const results::CandidateRow* parent = data.Find(row->parent)) {
      if (const auto gain = results::SpeedUp(*parent, *row)) step["over_parent"] = *gain;
    }
    lineage.insert(lineage.begin(), std::move(step));
  }
  return lineage;
}

Json ResultJson(const results::RunData& data, const results::CandidateRow& row,
                const search::SearchConfig& config) {
  Json json;
  json["task"] = data.task.name;
  json["title"] = data.task.title;
  json["suite"] = config.suite;
  json["selected_cases"] = config.cases;
  json["demanded"] = data.task.demanded;
  if (!config.demanded.empty()) json["demanded_instead"] = config.demanded;
  json["class"] = row.evaluation->precision;
  json["run"] = data.run.name;
  json["kernel"] = row.name;
  json["grove"] = data.run.program_version;
  json["score_ns"] = results::ScoreOf(row)->count();
  json["time_kind"] = results::Name(row.evaluation->score_kind);
  json["gpu"] = config.gpu;
  for (const results::EnvironmentRow& one : data.environment) {
    if (one.key == "gpu") json["gpu"] = one.value;
    json["environment"][one.key] = one.value;
  }
  json["cases"] = Json::array();
  for (const results::CaseTimeRow& time : row.evaluation->case_times) {
    Json one;
    one["case"] = time.case_name;
    one["mode"] = results::Name(time.mode);
    one["time_ns"] = time.time.count();
    if (time.low) one["low_ns"] = time.low->count();
    if (time.high) one["high_ns"] = time.high->count();
    one["floor_ns"] = time.floor.count();
    one["class_floor_ns"] = time.class_floor.count();
    json["cases"].push_back(std::move(one));
  }
  json["baselines"] = Json::array();
  for (const results::BaselineRow& baseline : data.baselines) {
    json["baselines"].push_back({{"case", baseline.case_name},
                                 {"name", baseline.name},
                                 {"time_ns", baseline.time.count()},
                                 {"version", baseline.version}});
  }
  json["lineage"] = LineageJson(data, row);
  return json;
}

}  // namespace

int GalleryListCommand(const GalleryOptions& options, const Common& common) {
  auto entries = Entries(options);
  if (!entries) return Complain(entries.error());
  Json list = Json::array();
  for (const Entry& entry : *entries) {
    if (common.json) {
      list.push_back({{"name", entry.name},
                      {"task", entry.task},
                      {"score_ns", entry.score.count()},
                      {"gpu", entry.gpu}});
    } else {
      fmt::print("{:<28} {:>10}  {:<6} {}\n", entry.name, results::FormatTime(entry.score),
                 entry.gpu, results::Visible(entry.title));
    }
  }
  if (common.json) fmt::print("{}\n", list.dump(2));
  return kExitDone;
}

int GalleryVerifyCommand(const GalleryOptions& options, const Common& common) {
  auto entries = Entries(options);
  if (!entries) return Complain(entries.error());
  Json list = Json::array();
  int failed = 0;
  for (const Entry& entry : *entries) {
    if (common.stop.stop_requested()) return kExitInterrupted;
    WorkbenchOptions bench_options = common.bench;
    bench_options.suite = entry.suite;
    bench_options.cases = entry.cases;
    bench_options.demanded = entry.demanded;
    auto program = codegen::MakeProgram(entry.source, entry.plan);
    if (!program) return Complain(Error(std::move(program.error()).Context(entry.name)));
    auto bench = MakeWorkbench(entry.task, bench_options);
    if (!bench) return Complain(Error(std::move(bench.error()).Context(entry.name)));
    auto evaluation = (*bench)->evaluator->Evaluate(*program);
    if (!evaluation) return Complain(evaluation.error());
    const bool passed = evaluation->verdict.passed();
    const bool same =
        !(*bench)->device->gpus().empty() && (*bench)->device->spec().name == entry.gpu;
    double ratio = 0;  // the time now over the time then
    if (passed && evaluation->score) ratio = *evaluation->score / entry.score;
    const bool slower = same && ratio > 1 + options.tolerance;
    if (!passed || slower) ++failed;
    if (common.json) {
      Json one = {{"name", entry.name},
                  {"verdict", eval::Name(evaluation->verdict.kind)},
                  {"then_ns", entry.score.count()},
                  {"compared", same},
                  {"ok", passed && !slower}};
      if (evaluation->score) one["now_ns"] = evaluation->score->count();
      list.push_back(std::move(one));
      continue;
    }
    std::string line =
        fmt::format("{:<28} {:<14}", entry.name, eval::Name(evaluation->verdict.kind));
    if (evaluation->score) {
      line += fmt::format(" {:>10}{}, was {} on {}", results::FormatTime(*evaluation->score),
                          evaluation->modelled ? " modelled" : "", results::FormatTime(entry.score),
                          entry.gpu);
      line += same ? fmt::format(": {:+.1f}%{}", 100 * (ratio - 1), slower ? "  SLOWER" : "")
                   : ", another device: not compared";
    } else {
      line += " " + results::Visible(evaluation->verdict.message);
    }
    fmt::print("{}\n", line);
    std::fflush(stdout);
  }
  if (common.json) {
    fmt::print("{}\n", list.dump(2));
  } else {
    fmt::print("{} of {} kernels are as they were\n",
               entries->size() - static_cast<std::size_t>(failed), entries->size());
  }
  return failed == 0 ? kExitDone : kExitFailed;
}

int GalleryAddCommand(const GalleryOptions& options, const Common& common) {
  const auto slash = options.kernel.find('/');
  const std::string run =
      slash == std::string::npos ? std::string() : options.kernel.substr(0, slash);
  auto opened = OpenRun(common.runs, run);
  if (!opened) return Complain(opened.error());
  auto row = FindKernel(
      opened->data, slash == std::string::npos ? options.kernel : options.kernel.substr(slash + 1));
  if (!row) return Complain(row.error());
  if (!results::ScoreOf(**row) || !(*row)->source || !(*row)->plan) {
    return Complain({ErrorCode::kInvalidInput, fmt::format("{} has not passed", (*row)->name)});
  }
  auto config = search::ConfigFromJson(opened->data.run.config);
  if (!config) return Complain(config.error());
  auto source = opened->reader->Text(*(*row)->source);
  if (!source) return Complain(source.error());
  auto plan = opened->reader->Text(*(*row)->plan);
  if (!plan) return Complain(plan.error());
  std::string name = opened->data.task.name;
  if (!options.names.empty()) name = options.names.front();
  if (auto valid = results::CheckRunName(name); !valid) return Complain(valid.error());
  const fs::path folder = FolderOf(options) / name;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    return Complain({ErrorCode::kResource,
                     fmt::format("cannot make {}: {}", folder.string(), error.message())});
  }
  const std::string result =
      ResultJson(opened->data, **row, *config).dump(2, ' ', false, Json::error_handler_t::replace) +
      "\n";
  for (const auto& [file, text] :
       {std::pair<const char*, const std::string&>("program.cu", *source),
        std::pair<const char*, const std::string&>("plan.json", *plan),
        std::pair<const char*, const std::string&>("result.json", result)}) {
    if (auto written = WriteFileAtomic(folder / file, text); !written) {
      return Complain(written.error());
    }
  }
  fmt::print("{}\n", folder.string());
  return kExitDone;
}

GalleryApp::GalleryApp(CLI::App& app) {
  gallery_ = app.add_subcommand("gallery", "kernels that searches have found, with their numbers");
  gallery_->add_option("--folder", options_.folder, "of the gallery (default: the program's own)");
  verify_ = gallery_->add_subcommand("verify", "evaluate them again and compare");
  verify_->add_option("names", options_.names, "kernels of the gallery (default: all)");
  verify_->add_option("--tolerance", options_.tolerance, "share by which a time may be longer")
      ->check(CLI::Range(0.0, 10.0))
      ->capture_default_str();
  verify_->add_option("--device", options_.device, "auto, emulator, cuda or cuda:N [auto]");
  add_ = gallery_->add_subcommand("add", "put a kernel of a run into it");
  add_->add_option("kernel", options_.kernel, "r2.i3.b1 or best, with RUN/ in front if need be")
      ->required();
  add_->add_option("--name", options_.names, "of its folder (default: the task's)")->expected(1);
}

std::optional<int> GalleryApp::Run(const Common& common) const {
  if (!*gallery_) return std::nullopt;
  if (*add_) return GalleryAddCommand(options_, common);
  if (*verify_) {
    Common with = common;
    if (!options_.device.empty()) with.bench.device = options_.device;
    return GalleryVerifyCommand(options_, with);
  }
  return GalleryListCommand(options_, common);
}

}  // namespace grove::cli
