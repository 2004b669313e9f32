#include "cli/steer_app.h"

#include <string>

#include <CLI/CLI.hpp>

#include "cli/steer_command.h"

namespace grove::cli {

struct SteerApp::Impl {
  CLI::App* status = nullptr;
  CLI::App* hint = nullptr;
  CLI::App* goal = nullptr;
  CLI::App* stop = nullptr;
  CLI::App* pause = nullptr;
  CLI::App* go_on = nullptr;
  std::string run;
  results::ControlMessage message;
};

SteerApp::SteerApp(CLI::App& app) : impl_(std::make_unique<Impl>()) {
  Impl& i = *impl_;
  i.status = app.add_subcommand("status", "where a run or batch stands, and its goals");
  i.status->add_option("run", i.run, "the run or batch (default: the last run)");

  i.hint = app.add_subcommand("hint", "tell a run something for its next ideas");
  i.hint->add_option("run", i.run, "the run, or a batch: all its tasks that have begun")
      ->required();
  i.hint->add_option("text", i.message.text, "the hint")->required();
  i.hint->add_option("--branch", i.message.branch,
                     "only for this kernel or idea and what descends from it");
  i.hint->add_option("--rounds", i.message.rounds, "only for so many rounds (default: all)")
      ->check(CLI::Range(1, 1000));

  i.goal = app.add_subcommand("goal", "give a run one more goal");
  i.goal->add_option("run", i.run, "the run, or a batch: all its tasks that have begun")
      ->required();
  i.goal->add_option("text", i.message.text, "as of grove run --goal")->required();

  i.stop =
      app.add_subcommand("stop", "let a run finish what is in flight and stop; twice: at once");
  i.pause = app.add_subcommand("pause", "hold a run's next questions to models");
  i.go_on = app.add_subcommand("continue", "let a paused run go on");
  for (CLI::App* sub : {i.stop, i.pause, i.go_on}) {
    sub->add_option("run", i.run, "the run, or a batch: its task that is running")->required();
  }
}

SteerApp::~SteerApp() = default;

std::optional<int> SteerApp::Run(const Common& common) const {
  const Impl& i = *impl_;
  if (i.status->parsed()) return StatusCommand(i.run, common);
  using results::ControlKind;
  const std::pair<CLI::App*, ControlKind> messages[] = {{i.hint, ControlKind::kHint},
                                                        {i.goal, ControlKind::kGoal},
                                                        {i.stop, ControlKind::kStop},
                                                        {i.pause, ControlKind::kPause},
                                                        {i.go_on, ControlKind::kContinue}};
  for (const auto& [sub, kind] : messages) {
    if (!sub->parsed()) continue;
    results::ControlMessage message = i.message;
    message.kind = kind;
    return ControlCommand(i.run, message, common);
  }
  return std::nullopt;
}

}  // namespace grove::cli
