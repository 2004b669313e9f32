#include "results/exports/git_export.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <unordered_map>

#include <fmt/format.h>
#include <sys/socket.h>
#include <nlohmann/json.hpp>

#include "base/process.h"
#include "results/format.h"
#include "results/run_index.h"

namespace grove::results {
namespace {

using Json = nlohmann::ordered_json;

// Names come from the store, which may be damaged or hostile; git has its own rules for refs.
bool IsRefName(const std::string& name) {
  return !name.empty() && name.size() < 100 && name.front() != '.' && name.back() != '.' &&
         name.find("..") == std::string::npos && !name.ends_with(".lock") &&
         name.find_first_not_of(
             "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") ==
             std::string::npos;
}

std::string Data(std::string_view text) { return fmt::format("data {}\n{}\n", text.size(), text); }

std::string File(std::string_view name, std::string_view text) {
  return fmt::format("M 100644 inline {}\n", name) + Data(text);
}

std::string Message(const RunData& data, const RunIndex& index, const CandidateRow& c,
                    const CandidateRow* seed) {
  const IdeaRow* idea = index.IdeaOf(c);
  std::string out = Visible(c.name) + ": " + (idea != nullptr ? Visible(idea->title) : "the seed");
  out += "\n\n";
  if (!c.evaluation) {
    out += "not evaluated\n";
  } else if (const auto score = ScoreOf(c)) {
    out += FormatTime(*score, c.evaluation->score_kind);
    if (const auto gain = seed != nullptr ? SpeedUp(*seed, c) : std::nullopt; gain && &c != seed) {
      out += ", " + FormatRatio(*gain) + " the seed";
    }
    const CandidateRow* parent = index.ParentOf(c);
    if (const auto gain = parent != nullptr ? SpeedUp(*parent, c) : std::nullopt) {
      out += ", " + FormatRatio(*gain) + " its parent";
    }
    out += "\n";
  } else {
    const eval::Verdict& v = c.evaluation->verdict;
    out +=
        fmt::format("{} at {}: {}\n", eval::Name(v.kind), eval::Name(v.stage), Visible(v.message));
  }
  if (idea != nullptr) {
    out += "\n" + VisibleBlock(idea->rationale) + "\n\nCategory: " + Visible(idea->category) + "\n";
  }
  for (const FrontierRow* row : index.FrontierOf(c.id)) {
    const RoundRow* round = data.Find(row->round);
    out += fmt::format("Frontier: after round {}, {}, place {}\n",
                       round != nullptr ? round->index : -1, Name(row->kind), row->place);
  }
  return out;
}

std::string Numbers(const CandidateRow& c) {
  Json json = {{"kernel", c.name}};
  json["verdict"] = c.evaluation ? Json(eval::Name(c.evaluation->verdict.kind)) : Json(nullptr);
  const auto score = ScoreOf(c);
  json["score_ns"] = score ? Json(score->count()) : Json(nullptr);
  json["score_kind"] = score ? Json(Name(c.evaluation->score_kind)) : Json(nullptr);
  json["cases"] = Json::array();
  if (c.evaluation) {
    for (const CaseTimeRow& t : c.evaluation->case_times) {
      json["cases"].push_back({{"case", t.case_name},
                               {"mode", Name(t.mode)},
                               {"kind", Name(t.kind)},
                               {"time_ns", t.time.count()},
                               {"floor_ns", t.floor.count()}});
    }
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string IdeaText(const RunIndex& index, const CandidateRow& c) {
  const IdeaRow* idea = index.IdeaOf(c);
  if (idea == nullptr) return "# The task's own seed\n";
  std::string out = "# " + Visible(idea->title) + "\n\n" + Visible(idea->category);
  if (idea->expected_gain) out += ", expected " + FormatRatio(*idea->expected_gain);
  return out + "\n\n" + VisibleBlock(idea->rationale) + "\n";
}

std::filesystem::path FindGit() {
  const char* path = std::getenv("PATH");
  std::string_view rest = path != nullptr ? path : "";
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    std::error_code error;
    auto file = std::filesystem::path(rest.substr(0, end)) / "git";
    if (std::filesystem::is_regular_file(file, error)) return file;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return {};
}

// Runs git in `folder`; its input is `input` when there is some.
Status Git(const std::filesystem::path& git, const std::filesystem::path& folder,
           std::vector<std::string> arguments, std::string_view input = {}) {
  ProcessOptions process;
  process.program = git;
  process.arguments = std::move(arguments);
  process.folder = folder;
  process.environment = SelectEnvironment({"PATH", "HOME"});
  // The user's own configuration (hooks, signing, templates) has no say in it.
  for (const char* setting : {"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "LC_ALL=C"}) {
    process.environment.push_back(setting);
  }
  process.channel = !input.empty();
  auto child = Process::Start(process);
  if (!child) return Fail(child.error());
  while (!input.empty()) {
    const ssize_t sent = ::send(child->channel(), input.data(), input.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) break;  // git has ended; its exit code says why
    input.remove_prefix(static_cast<std::size_t>(sent));
  }
  child->CloseChannel();
  const auto status = child->WaitFor(std::chrono::minutes(10));
  if (!status) {
    child->Kill();
    return Fail(ErrorCode::kInternal, "git did not end within 10 minutes");
  }
  if (!status->ok()) {
    return Fail(ErrorCode::kInternal, fmt::format("git failed ({}): {}", status->Describe(),
                                                  Fit(Visible(child->ErrorText()), 400)));
  }
  return {};
}

}  // namespace

Result<std::string> GitStream(Reader& reader, const RunData& data, GitExport& counts) {
  counts = {};
  const RunIndex index(data);
  const CandidateRow* seed = data.Seed();
  const CandidateRow* best = data.Best();
  std::unordered_map<CandidateId, int> marks;
  std::string out = "feature done\n";
  // Parents come first: a parent's id is below its children's.
  for (const CandidateRow& c : data.candidates) {
    if (!c.source) continue;
    auto source = reader.Text(*c.source);
    if (!source) return Fail(source.error(), c.name);
    auto plan = c.plan ? reader.Text(*c.plan) : Result<std::string>(std::string());
    if (!plan) return Fail(plan.error(), c.name);
    const int mark = static_cast<int>(marks.size()) + 1;
    WallTime moment = data.run.created;
    if (const RoundRow* round = index.RoundOf(c)) moment = round->started;
    for (const CallRow* call : index.CallsOf(c)) {
      if (call->ended) moment = std::max(moment, *call->ended);
    }
    const std::string who = fmt::format(
        "grove <grove@localhost> {} +0000",
        std::chrono::duration_cast<std::chrono::seconds>(moment.time_since_epoch()).count());
    const std::string ref = IsRefName(c.name) ? c.name : fmt::format("candidate-{}", c.id.value);
    out += fmt::format("commit refs/kernels/{}\nmark :{}\nauthor {}\ncommitter {}\n", ref, mark,
                       who, who);
    out += Data(Message(data, index, c, seed));
    for (const CandidateRow* at : index.Lineage(c)) {
      const auto it = marks.find(at->id);
      if (at == &c || it == marks.end()) continue;
      out += fmt::format("from :{}\n", it->second);
      break;
    }
    out += File("kernel.cu", *source) + File("plan.json", *plan) +
           File("idea.md", IdeaText(index, c)) + File("numbers.json", Numbers(c)) + "\n";
    marks[c.id] = mark;
    ++counts.commits;
  }
  const auto branch = [&](const std::string& name, CandidateId candidate) {
    const auto it = marks.find(candidate);
    if (it == marks.end()) return;
    out += fmt::format("reset refs/heads/{}\nfrom :{}\n\n", name, it->second);
    ++counts.branches;
  };
  if (best != nullptr) counts.best = best->name;
  if (best == nullptr) best = seed;
  if (best != nullptr) branch("best", best->id);
  RoundId last;
  for (const FrontierRow& row : data.frontier) last = std::max(last, row.round);
  for (const FrontierRow& row : data.frontier) {
    const CandidateRow* c = row.round == last ? data.Find(row.candidate) : nullptr;
    if (c != nullptr && IsRefName(c->name)) branch("frontier/" + c->name, c->id);
  }
  return out + "done\n";
}

Result<GitExport> ExportGit(Reader& reader, const RunData& data,
                            const std::filesystem::path& folder) {
  std::error_code error;
  if (std::filesystem::exists(folder, error) && (!std::filesystem::is_directory(folder, error) ||
                                                 !std::filesystem::is_empty(folder, error))) {
    return Fail(ErrorCode::kInvalidInput,
                folder.string() + " is there already and not an empty folder; name a new one");
  }
  const std::filesystem::path git = FindGit();
  if (git.empty()) return Fail(ErrorCode::kUnavailable, "no git in PATH; install git");
  GitExport counts;
  auto stream = GitStream(reader, data, counts);
  if (!stream) return Fail(stream.error());
  std::filesystem::create_directories(folder, error);
  if (error) {
    return Fail(ErrorCode::kResource,
                fmt::format("cannot make {}: {}", folder.string(), error.message()));
  }
  if (Status s = Git(git, folder, {"init", "--quiet", "--initial-branch=best"}); !s) {
    return Fail(s.error());
  }
  if (Status s = Git(git, folder, {"fast-import", "--quiet"}, *stream); !s) return Fail(s.error());
  if (counts.branches > 0) {
    if (Status s = Git(git, folder, {"reset", "--quiet", "--hard", "best"}); !s) {
      return Fail(s.error());
    }
  }
  return counts;
}

}  // namespace grove::results
