// `grove status` and the messages to a live run. Options in, exit code out (commands.h).
#pragma once

#include <string>

#include "cli/commands.h"
#include "results/control.h"

namespace grove::cli {

// Reads only. An empty name means the run written last.
int StatusCommand(const std::string& run, const Common& common);

// Hints and goals wait for a run that is not live; stop, pause and continue of such a run are bad
// input, since nobody would hear them.
int ControlCommand(const std::string& run, const results::ControlMessage& message,
                   const Common& common);

}  // namespace grove::cli
