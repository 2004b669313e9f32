// `grove run` with several tasks or a batch file, `grove resume BATCH` and `grove status BATCH`
// (search/batch.h). Options in, exit code out (commands.h).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "search/batch.h"

namespace grove::cli {

// Whether runs/NAME is a batch.
bool IsBatch(const Common& common, const std::string& name);

// What a batch needs of the commands that run one task: runs `config` under the name `run`,
// creating or resuming it, until it has `rounds` finished rounds. The exit code; kExitDone when it
// went well.
using RunOne =
    std::function<int(const std::string& run, const search::SearchConfig& config, int rounds)>;

// Starts a new batch named `name`, or goes on with it.
int BatchCommand(const std::string& name, const search::BatchSpec& spec, const RunOne& run_one,
                 const Common& common);
int ResumeBatchCommand(const std::string& name, const RunOne& run_one, const Common& common);
int BatchStatusCommand(const std::string& name, const Common& common);

}  // namespace grove::cli
