#include "search/elsewhere.h"

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/files.h"
#include "search/candidate.h"
#include "search/promote.h"

namespace grove::search {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kLargestFile = std::uintmax_t{256} << 20;

fs::path FileOf(const fs::path& folder, int number, std::string_view what) {
  return folder / fmt::format("{:04}.{}", number, what);
}

// The numbers of the packages there are, ascending.
Result<std::vector<int>> Numbers(const fs::path& folder) {
  std::vector<int> numbers;
  std::error_code error;
  if (!fs::exists(folder, error)) return numbers;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (at->path().extension() != ".package") continue;
    const std::string stem = at->path().stem().string();
    int number = 0;
    const auto [rest, bad] = std::from_chars(stem.data(), stem.data() + stem.size(), number);
    if (bad == std::errc() && rest == stem.data() + stem.size() && number > 0) {
      numbers.push_back(number);
    }
  }
  if (error) {
    return Fail(ErrorCode::kResource,
                fmt::format("cannot read {}: {}", folder.string(), error.message()));
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

std::string GpuOf(const eval::PackageResult& result) { return result.gpus.front().name; }

}  // namespace

Hash RunKey(const results::RunInfo& run) {
  const std::string created = fmt::to_string(
      std::chrono::duration_cast<std::chrono::microseconds>(run.created.time_since_epoch())
          .count());
  const std::string seed = fmt::to_string(run.seed);
  const std::string_view parts[] = {run.name, created, seed};
  return HashTexts(parts);
}

fs::path PackagesFolder(const fs::path& run) { return run / "packages"; }

Result<std::unique_ptr<Elsewhere>> Elsewhere::Open(const fs::path& run, const Hash& key) {
  std::unique_ptr<Elsewhere> elsewhere(new Elsewhere(PackagesFolder(run)));
  auto numbers = Numbers(elsewhere->folder_);
  if (!numbers) return Failure(std::move(numbers.error()));
  for (const int number : *numbers) {
    elsewhere->last_ = number;
    const fs::path package_file = FileOf(elsewhere->folder_, number, "package");
    const fs::path result_file = FileOf(elsewhere->folder_, number, "result");
    auto text = ReadFile(package_file, kLargestFile);
    if (!text) return Failure(std::move(text.error()));
    auto package = eval::DecodePackage(*text);
    if (!package) return Fail(std::move(package.error()), package_file.string());
    if (package->run_key != key) {
      return Fail(ErrorCode::kInvalidInput,
                  fmt::format("{} belongs to another run ({}); take it away", package_file.string(),
                              package->run));
    }
    std::error_code error;
    if (!fs::exists(result_file, error)) {
      for (const auto& program : package->programs) elsewhere->away_[program.identity] = number;
      continue;
    }
    auto answer = ReadFile(result_file, kLargestFile);
    if (!answer) return Failure(std::move(answer.error()));
    auto result = eval::DecodeResult(*answer);
    if (!result) return Fail(std::move(result.error()), result_file.string());
    elsewhere->results_.push_back(std::move(*result));
  }
  for (const eval::PackageResult& result : elsewhere->results_) {
    for (const auto& item : result.evaluations) {
      elsewhere->back_.emplace(item.identity, &item.evaluation);
      elsewhere->away_.erase(item.identity);
    }
    for (const auto& contest : result.contests) {
      elsewhere->contests_.emplace(std::pair(contest.incumbent, contest.challenger),
                                   &contest.pairs);
    }
  }
  return elsewhere;
}

Elsewhere::Place Elsewhere::Where(const Hash& identity) const {
  if (back_.contains(identity)) return Place::kBack;
  if (away_.contains(identity)) return Place::kAway;
  const std::scoped_lock lock(mutex_);
  return awaited_.contains(identity) ? Place::kAway : Place::kNew;
}

std::optional<eval::Evaluation> Elsewhere::Find(const std::string& name,
                                                const codegen::KernelProgram& program) {
  const Hash identity = program.identity();
  if (const auto found = back_.find(identity); found != back_.end()) return *found->second;
  const std::scoped_lock lock(mutex_);
  awaited_.emplace(identity,
                   eval::PackagedProgram{name, identity, program.source, program.plan_json});
  return std::nullopt;
}

std::optional<std::vector<eval::CasePair>> Elsewhere::FindContest(const Hash& incumbent,
                                                                  const Hash& challenger) const {
  const auto found = contests_.find({incumbent, challenger});
  if (found == contests_.end()) return std::nullopt;
  return *found->second;
}

std::vector<eval::PackagedProgram> Elsewhere::awaited() const {
  std::vector<eval::PackagedProgram> programs;
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& [identity, program] : awaited_) programs.push_back(program);
  }
  std::sort(programs.begin(), programs.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  return programs;
}

Result<Elsewhere::Packed> Elsewhere::Pack(eval::EvaluationPackage draft) {
  draft.programs = awaited();
  const bool held = std::all_of(draft.programs.begin(), draft.programs.end(), [&](const auto& p) {
    const auto at = away_.find(p.identity);
    return at != away_.end() && at->second == last_;
  });
  Packed packed;
  packed.programs = draft.programs.size();
  packed.number = held ? last_ : last_ + 1;
  packed.fresh = !held;
  packed.file = FileOf(folder_, packed.number, "package");
  if (held) return packed;
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) {
    return Fail(ErrorCode::kResource,
                fmt::format("cannot make {}: {}", folder_.string(), error.message()));
  }
  draft.number = packed.number;
  const std::string file = Encode(draft);
  if (auto written = WriteFileAtomic(packed.file, file); !written) {
    return Failure(std::move(written.error()));
  }
  return packed;
}

Result<std::vector<eval::PackagedProgram>> IncumbentsOf(results::Store& store,
                                                        const results::RunData& data,
                                                        std::size_t most) {
  std::vector<const results::CandidateRow*> rows;
  // First whom the round's winners will challenge, then the frontier in order of place.
  if (!data.rounds.empty()) rows.push_back(ChampionBefore(data, data.rounds.back().id));
  for (const results::FrontierRow& row : data.frontier) {
    if (row.round != data.frontier.back().round) continue;
    const results::CandidateRow* kernel = data.Find(row.candidate);
    if (std::find(rows.begin(), rows.end(), kernel) == rows.end()) rows.push_back(kernel);
  }
  if (data.frontier.empty() && rows.empty()) rows.push_back(data.Seed());
  std::erase_if(rows, [](const auto* row) { return row == nullptr || !results::ScoreOf(*row); });
  if (rows.size() > most) rows.resize(most);
  std::vector<eval::PackagedProgram> programs;
  for (const results::CandidateRow* row : rows) {
    auto program = ProgramOf(store, *row);
    if (!program) return Failure(std::move(program.error()));
    programs.push_back({row->name, program->identity(), program->source, program->plan_json});
  }
  return programs;
}

Result<Absorbed> Absorb(const fs::path& run, const results::RunInfo& info,
                        std::string_view result) {
  auto decoded = eval::DecodeResult(result);
  if (!decoded) return Failure(std::move(decoded.error()));
  if (decoded->run_key != RunKey(info)) {
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("the result belongs to another run ({}), not to this {}", decoded->run,
                            info.name));
  }
  const fs::path folder = PackagesFolder(run);
  const fs::path file = FileOf(folder, decoded->number, "result");
  std::error_code error;
  if (fs::exists(file, error)) {
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("the result of package {:04} was absorbed before", decoded->number));
  }
  auto text = ReadFile(FileOf(folder, decoded->number, "package"), kLargestFile);
  if (!text || HashText(*text) != decoded->package) {
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("the result is of a package {:04} that this run did not write",
                            decoded->number));
  }
  auto package = eval::DecodePackage(*text);
  if (!package) return Failure(std::move(package.error()));
  Absorbed absorbed;
  absorbed.number = decoded->number;
  absorbed.gpu = GpuOf(*decoded);
  absorbed.evaluations = decoded->evaluations.size();
  absorbed.missing = package->programs.size();
  for (const auto& item : decoded->evaluations) {
    const bool asked =
        std::any_of(package->programs.begin(), package->programs.end(),
                    [&](const auto& program) { return program.identity == item.identity; });
    if (!asked) {
      return Fail(ErrorCode::kInvalidInput,
                  fmt::format("the result of package {:04} judges a program that the package does "
                              "not hold",
                              decoded->number));
    }
    --absorbed.missing;
  }
  auto before = Elsewhere::Open(run, RunKey(info));
  if (!before) return Failure(std::move(before.error()));
  for (const eval::PackageResult& other : (*before)->results()) {
    if (GpuOf(other) == absorbed.gpu) continue;
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("the result was measured on {}, this run's kernels on {}: times of "
                            "different GPUs are not compared in one run",
                            absorbed.gpu, GpuOf(other)));
  }
  if (auto written = WriteFileAtomic(file, result); !written) {
    return Failure(std::move(written.error()));
  }
  return absorbed;
}

}  // namespace grove::search
