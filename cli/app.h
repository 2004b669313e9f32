// The command line: one table of subcommands and options (CLI11), one exit code.
#pragma once

namespace grove::cli {

int Main(int argc, const char* const* argv);

}  // namespace grove::cli
