// What lies beside the records: the dataset card and the manifest. Inside of results/harvest.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "results/harvest/harvest.h"

namespace grove::results {

// Counted while the records were written.
struct CardFigures {
  std::map<std::string, std::map<std::string, std::int64_t>> splits;  // kind -> split -> records
  std::map<std::string, std::int64_t> flagged;                        // by kind
  std::map<std::string, std::int64_t> labels, tasks;                  // of the nodes
};

// README.md with the head that dataset hubs read (configs, splits) and the counts.
std::string DatasetCard(const std::vector<const RunData*>& runs, const HarvestOptions& options,
                        const HarvestReport& report, const CardFigures& figures);

std::string ManifestJson(const std::vector<const RunData*>& runs, const HarvestOptions& options,
                         const std::vector<HarvestedFile>& files);

}  // namespace grove::results
