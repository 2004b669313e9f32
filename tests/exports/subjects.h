// Kernel programs to export: every task's seed and reference, the suite of honest programs
// (clusters, cooperative and dependent launches, tensor maps, repeats, library steps), the
// playbook's.
#pragma once

#include <string>
#include <vector>

#include "results/exports/cu_unit.h"

namespace grove::results {

// Each with the scored cases of its task and some of the small ones.
std::vector<ExportedKernel> AllSubjects();

// A program of the suite of honest and hostile ones, by its folder's name.
ExportedKernel GauntletProgram(const std::string& folder);
// A program whose plan uses all that plans have, for the cases of task qr.
ExportedKernel Everything();
// A task's seed with the named cases; its scored ones when there are none.
ExportedKernel SeedOf(const std::string& task, const std::vector<std::string>& cases = {});

}  // namespace grove::results
