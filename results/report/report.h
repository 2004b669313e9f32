// The report: one HTML file that needs no network and no other file. The page's own code is static
// (results/report/assets, with d3, Prism and diff from Debian's packages, put in when grove is
// built); a run comes in as data only.
//
// Nothing that a model or a user wrote is ever markup. It is JSON inside script elements of a type
// that browsers do not run, with <, > and & escaped; the page puts it in by textContent only; and a
// content security policy lets run none but the page's own scripts, by a nonce that hangs on the
// data, and reach no network.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "results/report/report_data.h"
#include "results/store.h"

namespace grove::results {

struct ReportOptions {
  std::vector<ReportBaseline> baselines;  // besides those that the run keeps
  bool conversations = true;              // with prompts and replies; they are most of its size
};

// The whole file. Texts are deflated, so that a run of thousands of candidates opens at once; a
// kernel's are inflated by the browser when it is looked at. The same store gives the same bytes.
Result<std::string> RenderReport(Reader& reader, const RunData& data, const ReportOptions& options);

// The page of a run that `grove serve` shows: without data, which it fetches below `api`
// ("api/runs/NAME") and follows. The nonce goes into the Content-Security-Policy that the page
// carries; letters and digits.
std::string LivePage(const std::string& api, const std::string& nonce);

// The list of runs that `grove serve` begins with, links to "runs/NAME"; no script.
std::string RunListPage(const std::vector<RunSummary>& runs);
std::string_view StyleSheet();  // that it refers to as /style.css

// JSON as it may stand inside a script element: no <, > or & is left.
std::string EscapeForScript(std::string json);

}  // namespace grove::results
