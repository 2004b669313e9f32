// The baselines that the cache folder holds for the GPUs of a workbench, as rows of a run.
#pragma once

#include <filesystem>
#include <vector>

#include "cli/commands.h"
#include "cli/workbench.h"
#include "eval/baselines.h"
#include "results/rows.h"

namespace grove::cli {

std::filesystem::path CacheFolder(const Common& common);

// A known baseline as a row; `gpu` is the one that measured it.
results::BaselineRow RowOf(const eval::StoredBaseline& known, const eval::GpuIdentity& gpu);
// What the cache knows of one GPU, measured with the libraries that are installed now.
std::vector<eval::StoredBaseline> CurrentBaselines(const eval::GpuIdentity& gpu,
                                                   const seeds::Task& task, const Common& common);
// Of the task's scored cases on the bench's GPUs; empty when times are modelled.
std::vector<results::BaselineRow> KnownBaselines(const Workbench& bench, const Common& common);

}  // namespace grove::cli
