// `grove gauntlet --sanitize`: the honest programs under compute-sanitizer.
#pragma once

#include "cli/commands.h"
#include "cli/workbench.h"
#include "eval/gauntlet.h"

namespace grove::cli {

// Executes every honest program on its task's two smallest check cases under each tool of
// `options`, a process for each program and tool, several at a time, and prints a table and totals.
// kExitFailed when a tool finds an error, or when nothing ran; kExitBadInput for a tool that does
// not exist; kExitMachine without one GPU or without compute-sanitizer.
int SanitizeGauntlet(const eval::Gauntlet& gauntlet, const Machine& machine,
                     const eval::GauntletOptions& run, const GauntletCommandOptions& options,
                     const Common& common);

}  // namespace grove::cli
