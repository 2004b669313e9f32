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

// Whether a result is the answer to this package (`file`: its bytes) and may stand beside `others`.
// What lies in the run's folder is checked as what is absorbed: people copy files there.
Status CheckResult(const eval::PackageResult& result, const eval::EvaluationPackage& package,
                   std::string_view file, const std::vector<eval::PackageResult>& others) {
  if (result.number != package.number || HashText(file) != result.package) {
    return Fail(
        ErrorCode::kInvalidInput,
        fmt::format("the result is of a package {:04} that this run did not write", result.number));
  }
  const auto among = [](const std::vector<eval::PackagedProgram>& programs, const Hash& identity) {
    return std::any_of(programs.begin(), programs.end(),
                       [&](const auto& program) { return program.identity == identity; });
  };
  const auto strange = [&](std::string_view does) {
    return Fail(
        ErrorCode::kInvalidInput,
        fmt::format("the result of package {:04} {} a program that the package does not hold",
                    result.number, does));
  };
  for (const auto& item : result.evaluations) {
    if (!among(package.programs, item.identity)) return strange("judges");
  }
  for (const auto& profile : result.profiles) {
    if (!among(package.programs, profile.identity) &&
        !among(package.incumbents, profile.identity)) {
      return strange("profiles");
    }
  }
  for (const eval::PackageResult& other : others) {
    if (GpuOf(other) == GpuOf(result)) continue;
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("the result was measured on {}, this run's kernels on {}: times of "
                            "different GPUs are not compared in one run",
                            GpuOf(result), GpuOf(other)));
  }
  return {};
}

// A result in the run's folder that no package's number leads to would be passed over in silence.
Status CheckNames(const fs::path& folder, const std::vector<int>& numbers) {
  std::error_code error;
  if (!fs::exists(folder, error)) return {};
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const fs::path file = at->path();
    if (file.extension() != ".result") continue;
    const bool known = std::any_of(numbers.begin(), numbers.end(), [&](int number) {
      return file.filename() == FileOf("", number, "result");
    });
    if (known) continue;
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("{} is not the name of a result of this run; move it elsewhere and: "
                            "grove absorb {}",
                            file.string(), file.filename().string()));
  }
  return {};
}

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
  if (auto named = CheckNames(elsewhere->folder_, *numbers); !named) {
    return Failure(std::move(named.error()));
  }
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
    if (auto good = CheckResult(*result, *package, *text, elsewhere->results_); !good) {
      Error problem = std::move(good.error());
      problem.message += "; take the file away, its programs wait again then";
      return Fail(std::move(problem), result_file.string());
    }
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

Result<Absorbed> Absorb(const fs::path& run, const results::RunInfo& info, std::string_view result,
                        const fs::path& from) {
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
  Absorbed absorbed;
  absorbed.in_place = fs::exists(file, error) && fs::equivalent(from, file, error);
  if (!absorbed.in_place && fs::exists(file, error)) {
    const auto there = ReadFile(file, kLargestFile);
    return Fail(ErrorCode::kInvalidInput,
                there && *there == result
                    ? fmt::format("the result of package {:04} was absorbed before, or copied to "
                                  "{}; go on with: grove resume {}",
                                  decoded->number, file.string(), info.name)
                    : fmt::format("another result of package {:04} was absorbed before, or copied "
                                  "to {}; a package has one result",
                                  decoded->number, file.string()));
  }
  auto text = ReadFile(FileOf(folder, decoded->number, "package"), kLargestFile);
  if (!text) {
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("the result is of a package {:04} that this run did not write",
                            decoded->number));
  }
  auto package = eval::DecodePackage(*text);
  if (!package) return Failure(std::move(package.error()));
  // With the file in place this checks it as well.
  auto before = Elsewhere::Open(run, RunKey(info));
  if (!before) return Failure(std::move(before.error()));
  if (auto good = CheckResult(*decoded, *package, *text, (*before)->results()); !good) {
    return Failure(std::move(good.error()));
  }
  absorbed.number = decoded->number;
  absorbed.gpu = GpuOf(*decoded);
  absorbed.evaluations = decoded->evaluations.size();
  absorbed.missing = static_cast<std::size_t>(
      std::count_if(package->programs.begin(), package->programs.end(), [&](const auto& program) {
        return std::none_of(decoded->evaluations.begin(), decoded->evaluations.end(),
                            [&](const auto& item) { return item.identity == program.identity; });
      }));
  absorbed.profiles = decoded->profiles.size();
  if (absorbed.in_place) return absorbed;
  if (auto written = WriteFileAtomic(file, result); !written) {
    return Failure(std::move(written.error()));
  }
  return absorbed;
}

}  // namespace grove::search
