#include "cli/inspect_app.h"

#include <CLI/CLI.hpp>

#include "results/exports/kernel_export.h"

namespace grove::cli {

struct InspectApp::Impl {
  ReportOptions report;
  CLI::App* report_app = nullptr;
  DiffCommandOptions diff;
  CLI::App* diff_app = nullptr;
  LogCommandOptions log;
  CLI::App* log_app = nullptr;
  CompareCommandOptions compare;
  CLI::App* compare_app = nullptr;
  HarvestCommandOptions harvest;
  CLI::App* harvest_app = nullptr;
  ExportOptions exports;
  CLI::App* export_app = nullptr;
  ServeOptions serve;
  CLI::App* serve_app = nullptr;
};

InspectApp::InspectApp(CLI::App& app) : impl_(std::make_unique<Impl>()) {
  Impl& i = *impl_;
  i.report_app = app.add_subcommand("report", "one HTML file of a run, for any browser, offline");
  i.report_app->add_option("run", i.report.run, "the run (default: the last one)");
  i.report_app->add_option("-o,--output", i.report.output, "the file (default: RUN.html)");
  i.report_app->add_option("--baselines", i.report.baselines,
                           "times to draw as lines: output of grove baseline TASK --json");
  i.report_app->add_flag("--no-conversations", i.report.without_conversations,
                         "leave out prompts and replies, which are most of its size");

  i.diff_app =
      app.add_subcommand("diff", "what changed between two kernels: source, plan, numbers");
  i.diff_app
      ->add_option("kernel", i.diff.before, "this kernel against its parent, or from this one")
      ->required();
  i.diff_app->add_option("to", i.diff.after, "to this one; RUN/KERNEL for one of another run");
  i.diff_app->add_option("--run", i.diff.run, "the run (default: the last one)");
  i.diff_app->add_option("-U,--context", i.diff.context, "equal lines around a change")
      ->check(CLI::Range(0, 100000))
      ->capture_default_str();

  i.log_app = app.add_subcommand("log", "the events of a run");
  i.log_app->add_option("run", i.log.run, "the run (default: the last one)");
  i.log_app->add_option("--kind", i.log.kind, "of this kind only");
  i.log_app->add_option("-n,--last", i.log.last, "so many of the newest")
      ->check(CLI::NonNegativeNumber);

  i.compare_app = app.add_subcommand("compare", "runs beside each other: best per case, tokens");
  i.compare_app->add_option("runs", i.compare.runs, "the runs")->required();
  i.compare_app
      ->add_option("--target", i.compare.target,
                   "speed-up over the seed to count tokens to (default: what all reached)")
      ->check(CLI::PositiveNumber);

  HarvestCommandOptions& h = i.harvest;
  i.harvest_app = app.add_subcommand("harvest", "runs as training data");
  i.harvest_app->add_option("runs", h.runs, "the runs (default: the last one)");
  i.harvest_app->add_option("-o,--output", h.output, "a new folder")->capture_default_str();
  i.harvest_app->add_option("--format", h.format, "jsonl, jsonl.zst or parquet (needs pyarrow)")
      ->check(CLI::IsMember({"jsonl", "jsonl.zst", "parquet"}))
      ->capture_default_str();
  i.harvest_app
      ->add_option("--kinds", h.kinds,
                   "nodes, edges, preferences, repairs, negatives, conversations (default: all)")
      ->delimiter(',');
  i.harvest_app->add_flag("--correct-only", h.correct_only, "only what passed");
  i.harvest_app->add_option("--min-gain", h.minimal_gain, "least speed-up over the parent")
      ->check(CLI::PositiveNumber);
  i.harvest_app->add_option("--class", h.precision, "precision class reached: fp32, tf32, ...");
  i.harvest_app->add_option("--on", h.device, "runs on GPUs of this name only");
  i.harvest_app
      ->add_option("--similarity", h.duplicate_threshold,
                   "from which programs count as near-duplicates")
      ->check(CLI::Range(0.1, 1.0))
      ->capture_default_str();
  i.harvest_app->add_flag("--keep-duplicates", h.keep_duplicates, "keep near-duplicates");
  i.harvest_app->add_option("--decontaminate", h.benchmarks,
                            "folder of benchmark problems: records that overlap are flagged");
  i.harvest_app->add_option("--ngram", h.benchmark_words, "words in a row that count as overlap")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  i.harvest_app->add_option("--overlap", h.benchmark_share, "share from which a record is flagged")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  i.harvest_app->add_option("--licence", h.licence, "of the prompts' sources, a tag")
      ->capture_default_str();
  i.harvest_app->add_option("--model-terms", h.model_terms,
                            "MODEL=TEXT: what its terms say about its output, a tag");

  i.export_app = app.add_subcommand("export", "a kernel or a run for other programs");
  i.export_app->add_option("kernel", i.exports.what,
                           "[RUN/]KERNEL (default: best); with --git the run (default: the last)");
  auto* gallery =
      i.export_app->add_flag("--gallery", i.exports.gallery, "KERNEL is one of the gallery");
  auto* git = i.export_app->add_option("--git", i.exports.git,
                                       "a new folder: a git repository with one commit per kernel");
  auto* to = i.export_app
                 ->add_option("--to", i.exports.to,
                              "cu: a program that checks and times; torch: PyTorch load_inline; "
                              "torch-cpp: PyTorch extension with setup.py; kernelbench: ModelNew; "
                              "gpumode: custom_kernel; cupy: RawModule")
                 ->check(CLI::IsMember(results::ExportFormatNames()));
  git->excludes(to);
  git->excludes(gallery);
  i.export_app->add_option("-o,--output", i.exports.output,
                           "file or folder (default: TASK_KERNEL in this folder)");
  i.export_app->add_option("--cases", i.exports.cases, "of the task (default: the scored ones)")
      ->delimiter(',');
  i.export_app
      ->add_option("--compiler", i.exports.compiler,
                   "of the kernel: nvrtc, when it is first used, to the machine code that was "
                   "measured; or nvcc, with the file")
      ->check(CLI::IsMember({"nvrtc", "nvcc"}))
      ->capture_default_str();

  i.serve_app = app.add_subcommand("serve", "runs in a browser on this machine while they grow");
  i.serve_app->add_option("runs", i.serve.runs, "the runs (default: all)");
  i.serve_app->add_option("--port", i.serve.port, "of 127.0.0.1 (default: any free one)")
      ->check(CLI::Range(0, 65535));
}

InspectApp::~InspectApp() = default;

std::optional<int> InspectApp::Run(const Common& common) const {
  if (impl_->report_app->parsed()) return ReportCommand(impl_->report, common);
  if (impl_->diff_app->parsed()) return DiffCommand(impl_->diff, common);
  if (impl_->log_app->parsed()) return LogCommand(impl_->log, common);
  if (impl_->compare_app->parsed()) return CompareCommand(impl_->compare, common);
  if (impl_->harvest_app->parsed()) return HarvestCommand(impl_->harvest, common);
  if (impl_->export_app->parsed()) return ExportCommand(impl_->exports, common);
  if (impl_->serve_app->parsed()) return ServeCommand(impl_->serve, common);
  return std::nullopt;
}

}  // namespace grove::cli
