// A run's idea tree as a git repository, so that git's own tools walk it: `git log --graph --all`,
// `git diff`, `git blame`, gitk.
//
// One commit per kernel; its parent commit is the parent kernel; the message is the idea and the
// numbers. Branches: `best` (checked out), `frontier/NAME` for the kernels that the last finished
// round carried on. Every other kernel is held by a ref refs/kernels/NAME, which `git log
// --glob=refs/kernels` walks and `git branch` does not list. Files: kernel.cu, plan.json, idea.md,
// numbers.json. Author, committer and dates come from the run, so the same store gives the same
// commit hashes. Written by `git fast-import`, a child process.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"
#include "results/store.h"

namespace grove::results {

struct GitExport {
  int commits = 0, branches = 0;
  std::string best;  // name of the kernel that the branch `best` shows; empty when none passed
};

// The stream for fast-import, for tests and for other readers of it. Kernels without a program
// (nothing usable was received) have no commit; their children hang on the nearest ancestor that
// has one.
Result<std::string> GitStream(Reader& reader, const RunData& data, GitExport& counts);

// kInvalidInput when `folder` is there and not empty, kUnavailable without git, kResource for the
// disk, kInternal with what git said.
Result<GitExport> ExportGit(Reader& reader, const RunData& data,
                            const std::filesystem::path& folder);

}  // namespace grove::results
