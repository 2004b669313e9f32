#include "cli/gallery_command.h"

#include <algorithm>
#include <cstdio>
#include <system_error>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "cli/complain.h"
#include "cli/exit_code.h"
#include "cli/find_run.h"
#include "cli/gallery.h"
#include "codegen/program.h"
#include "results/format.h"
#include "results/run_index.h"
#include "results/store.h"
#include "search/config.h"

namespace grove::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

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
  auto entries = ReadGallery(options.folder, options.names);
  if (!entries) return Complain(entries.error());
  Json list = Json::array();
  for (const GalleryEntry& entry : *entries) {
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
  auto entries = ReadGallery(options.folder, options.names);
  if (!entries) return Complain(entries.error());
  Json list = Json::array();
  int failed = 0;
  for (const GalleryEntry& entry : *entries) {
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
  const fs::path folder = GalleryFolder(options.folder) / name;
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
