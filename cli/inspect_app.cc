#include "cli/inspect_app.h"

#include <CLI/CLI.hpp>

namespace grove::cli {

struct InspectApp::Impl {
  ReportOptions report;
  CLI::App* report_app = nullptr;
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
}

InspectApp::~InspectApp() = default;

std::optional<int> InspectApp::Run(const Common& common) const {
  if (impl_->report_app->parsed()) return ReportCommand(impl_->report, common);
  return std::nullopt;
}

}  // namespace grove::cli
