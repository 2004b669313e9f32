#include "cli/rank_command.h"

#include <cstdio>
#include <fstream>
#include <map>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/complain.h"
#include "cli/exit_code.h"
#include "results/format.h"
#include "seeds/profile/ranking.h"

namespace grove::cli {
namespace {

using profile::Group;
using profile::Ranking;

// Foreign text on a terminal: control characters and what is too long are cut.
std::string Plain(std::string_view text, std::size_t width) {
  std::string plain;
  for (const char c : text) {
    if (plain.size() == width) {
      plain.replace(width - 3, 3, "...");
      break;
    }
    plain += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  }
  return plain;
}

nlohmann::ordered_json ToJson(const Ranking& ranking) {
  nlohmann::ordered_json json;
  json["gpu"] = ranking.gpu;
  json["counted"] = ranking.on_cpu ? "operations on the CPU" : "kernels";
  json["devices"] = ranking.devices;
  json["events"] = ranking.events;
  json["warmup_events"] = ranking.warmup;
  json["window_ns"] = ranking.window.count();
  json["busy_ns"] = ranking.busy.count();
  json["idle_share"] = ranking.idle_share;
  json["idle_amdahl_limit"] = ranking.idle_limit;
  auto& groups = json["groups"] = nlohmann::ordered_json::array();
  for (const Group& group : ranking.groups) {
    nlohmann::ordered_json g;
    g["name"] = group.name;
    g["shapes"] = group.shapes;
    g["kernel"] = group.example;
    g["count"] = group.count;
    g["total_ns"] = group.total.count();
    g["mean_ns"] = group.mean.count();
    g["min_ns"] = group.min.count();
    g["p95_ns"] = group.p95.count();
    g["stable"] = group.stable;
    g["share"] = group.share;
    g["amdahl_limit"] = group.limit;
    g["gain"] = group.gain;
    if (!group.bound.empty()) g["bound"] = group.bound;
    if (group.floor) g["share_of_roofline"] = *group.floor;
    if (group.task) {
      g["task"] = {
          {"name", group.task->task}, {"dims", group.task->dims}, {"type", group.task->type}};
    }
    groups.push_back(std::move(g));
  }
  auto& unknown = json["unknown_categories"] = nlohmann::ordered_json::object();
  for (const auto& [category, count] : ranking.unknown) unknown[category] = count;
  return json;
}

void PrintTable(const Ranking& ranking, double speedup) {
  const std::string where = ranking.on_cpu        ? "the CPU"
                            : ranking.gpu.empty() ? "one GPU"
                                                  : Plain(ranking.gpu, 40);
  fmt::print("{} events in {} on {}{}; {} busy {:.1f}%, idle {:.1f}% (without gaps: {:.2f}x)\n",
             ranking.events, results::FormatTime(ranking.window), where,
             ranking.devices > 1 ? fmt::format(", {} devices", ranking.devices) : "",
             ranking.on_cpu ? "operations" : "GPU", 100 * (1 - ranking.idle_share),
             100 * ranking.idle_share, ranking.idle_limit);
  if (ranking.on_cpu) {
    fmt::print(
        "Times are of a CPU: which operations there are and how often, not what a GPU spends.\n");
  } else if (ranking.idle_share > 0.2) {
    fmt::print(
        "More than a fifth of the time no kernel runs: launch gaps (graphs, fusion) are worth "
        "more than any kernel below.\n");
  }
  if (ranking.warmup > 0) {
    fmt::print("{} events of the first step are left out as warm-up\n", ranking.warmup);
  }
  fmt::print("\n{:>6} {:>7} {:>9} {:>9} {:>6} {:>8}  {:<9} {:<16} {}\n", "share", "calls", "mean",
             "p95", "limit", fmt::format("at {:.3g}x", speedup), "bound", "task", "what");
  for (const Group& group : ranking.groups) {
    std::string bound = group.bound;
    if (group.floor) bound += fmt::format(" {:.0f}%", 100 * *group.floor);
    fmt::print("{:>5.1f}% {:>6}{} {:>9} {:>9} {:>5.2f}x {:>7.3f}x  {:<9} {:<16} {} {}\n",
               100 * group.share, group.count, group.stable ? " " : "?",
               results::FormatTime(group.mean), results::FormatTime(group.p95), group.limit,
               group.gain, bound, group.task ? group.task->task : "-", Plain(group.name, 60),
               Plain(group.task && !group.task->dims.empty()
                         ? fmt::format("({}{}{})", group.task->dims,
                                       group.task->type.empty() ? "" : ", ", group.task->type)
                         : group.shapes,
                     80));
  }
  if (!ranking.unknown.empty()) {
    fmt::print("\nnot counted:");
    for (const auto& [category, count] : ranking.unknown) {
      fmt::print(" {} x {}", count, Plain(category.empty() ? "(no category)" : category, 40));
    }
    fmt::print("\n");
  }
}

// The groups of one task add up, since a batch has a task once.
Status WriteBatch(const std::filesystem::path& file, const Ranking& ranking) {
  std::map<std::string, double> weights;
  std::map<std::string, std::string> where;
  for (const Group& group : ranking.groups) {
    if (!group.task) continue;
    weights[group.task->task] += group.share;
    auto& text = where[group.task->task];
    if (!group.task->dims.empty()) {
      text += fmt::format("\n#   {:.1f}%: {}{}", 100 * group.share, group.task->dims,
                          group.task->type.empty() ? "" : ", " + group.task->type);
    }
  }
  if (weights.empty()) {
    return Fail(ErrorCode::kInvalidInput,
                "no kernel of the profile fits a task: nothing to write for a batch");
  }
  std::string text =
      "# Made by `grove rank`: weights are shares of the wall time.\n"
      "# Run it with: grove run --batch THIS_FILE\n";
  for (const auto& [task, weight] : weights) {
    // Its shapes as a comment: a batch chooses among a task's own cases.
    text +=
        fmt::format("\n[[task]]\nname = \"{}\"\nweight = {:.6f}{}\n", task, std::max(weight, 1e-6),
                    where[task].empty() ? "" : "\n# seen with:" + where[task]);
  }
  std::filesystem::path aside = file;
  aside += ".new";
  {
    std::ofstream stream(aside, std::ios::binary);
    stream << text;
    stream.close();
    if (!stream) {
      std::error_code ignored;
      std::filesystem::remove(aside, ignored);
      return Fail(ErrorCode::kResource, fmt::format("{}: cannot be written", file.string()));
    }
  }
  std::error_code error;
  std::filesystem::rename(aside, file, error);
  if (error) {
    return Fail(ErrorCode::kResource, fmt::format("{}: {}", file.string(), error.message()));
  }
  return {};
}

}  // namespace

CLI::App* AddRank(CLI::App& app, RankCommandOptions& options) {
  CLI::App* rank = app.add_subcommand(
      "rank", "which kernels of a model's profile are worth making fast (Amdahl)");
  rank->add_option("profiles", options.profiles,
                   "torch.profiler traces (.json, .json.gz) or nsys exports (.sqlite)")
      ->required();
  rank->add_option("--speedup", options.speedup,
                   "assumed for each group, for the gain of the whole")
      ->check(CLI::Range(1.0, 1e6))
      ->capture_default_str();
  rank->add_flag("--kernels", options.kernels,
                 "by kernel and launch shape, also where operations are known");
  rank->add_flag("--cpu", options.cpu,
                 "a profile made without a GPU: operations, by their time on the CPU");
  rank->add_option("--limit", options.limit, "groups shown")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  rank->add_option("--batch", options.batch, "write a file for grove run --batch, with weights");
  return rank;
}

int RankCommand(const RankCommandOptions& options, bool json) {
  std::vector<profile::Profile> profiles;
  for (const auto& file : options.profiles) {
    auto profile = profile::ReadProfile(
        file, options.cpu ? profile::Counted::kOperations : profile::Counted::kKernels);
    if (!profile) return Complain(profile.error());
    profiles.push_back(std::move(*profile));
  }
  profile::RankOptions rank;
  rank.speedup = options.speedup;
  rank.by_operation = !options.kernels;
  rank.limit = static_cast<std::size_t>(options.limit);
  auto ranking = profile::Rank(profiles, rank);
  if (!ranking) return Complain(ranking.error());
  if (!options.batch.empty()) {
    if (auto written = WriteBatch(options.batch, *ranking); !written) {
      return Complain(written.error());
    }
  }
  if (json) {
    fmt::print("{}\n",
               ToJson(*ranking).dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    PrintTable(*ranking, options.speedup);
  }
  return kExitDone;
}

}  // namespace grove::cli
