// `grove report`: a run as one HTML file.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "cli/commands.h"
#include "cli/complain.h"
#include "cli/find_run.h"
#include "results/format.h"
#include "results/report/report.h"

namespace grove::cli {

int ReportCommand(const ReportOptions& options, const Common& common) {
  auto run = OpenRun(common.runs, options.run);
  if (!run) return Complain(run.error());
  results::ReportOptions report;
  report.conversations = !options.without_conversations;
  for (const std::string& file : options.baselines) {
    auto text = ReadFile(file);
    if (!text) return Complain(text.error());
    auto rows = results::ParseBaselines(*text);
    if (!rows) return Complain(std::move(rows.error()).Context(file));
    report.baselines.insert(report.baselines.end(), rows->begin(), rows->end());
  }
  auto html = results::RenderReport(*run->reader, run->data, report);
  if (!html) return Complain(html.error());
  const std::filesystem::path output =
      options.output.empty() ? std::filesystem::path(run->data.run.name + ".html") : options.output;
  if (Status written = WriteFileAtomic(output, *html); !written) return Complain(written.error());
  const auto size = static_cast<std::int64_t>(html->size());
  if (common.json) {
    fmt::print("{}\n",
               nlohmann::ordered_json(
                   {{"run", run->data.run.name}, {"file", output.string()}, {"bytes", size}})
                   .dump(2));
  } else {
    fmt::print("{} ({}): open it in a browser\n", output.string(),
               results::FormatBytes(Bytes(size)));
  }
  return kExitDone;
}

}  // namespace grove::cli
