// What a run may spend and has spent, for people and for --json.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "results/rows.h"
#include "search/config.h"
#include "search/estimate.h"

namespace grove::cli {

// The ledger of a run: its limits with what is spent and reserved, and what each role and model
// had.
std::string LedgerText(const results::RunData& data, const search::SearchConfig& config);
nlohmann::ordered_json LedgerJson(const results::RunData& data, const search::SearchConfig& config);

std::string EstimateText(const search::Estimate& estimate);
nlohmann::ordered_json EstimateJson(const search::Estimate& estimate);

}  // namespace grove::cli
