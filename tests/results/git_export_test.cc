#include "results/exports/git_export.h"

#include <cstdio>
#include <fstream>
#include <memory>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "base/files.h"
#include "tests/results/sample_run.h"
#include "tests/support/synthetic_run.h"

namespace grove::results {
namespace {

using ::testing::HasSubstr;

class GitExportTest : public RunsFolder {
 protected:
  // What git says of the exported repository, without its last newline.
  std::string Git(const std::string& arguments) const {
    const std::string command = "git -C '" + (runs_ / "out").string() + "' " + arguments;
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(::popen(command.c_str(), "r"),
                                                               ::pclose);
    std::string out;
    char buffer[4096];
    while (const std::size_t n = std::fread(buffer, 1, sizeof buffer, pipe.get())) {
      out.append(buffer, n);
    }
    while (!out.empty() && out.back() == '\n') out.pop_back();
    return out;
  }
  GitExport Export(const std::string& name) {
    auto reader = Reader::Open(runs_ / name);
    EXPECT_TRUE(reader);
    auto data = (*reader)->Load();
    auto counts = ExportGit(**reader, *data, runs_ / "out");
    EXPECT_TRUE(counts) << counts.error().message;
    return counts ? *counts : GitExport{};
  }
};

TEST_F(GitExportTest, EveryKernelIsACommitWhoseParentIsItsParent) {
  ASSERT_TRUE(RunSampleSearch(*Create("a"), {}));
  const GitExport counts = Export("a");
  const RunData data = Load("a");
  EXPECT_EQ(counts.commits, static_cast<int>(data.candidates.size()));
  for (const CandidateRow& c : data.candidates) {
    const CandidateRow* parent = data.Find(c.parent);
    if (parent == nullptr) continue;
    EXPECT_EQ(Git("rev-parse refs/kernels/" + c.name + "^"),
              Git("rev-parse refs/kernels/" + parent->name));
  }
  EXPECT_EQ(Git("fsck --strict 2>&1"), "");
}

TEST_F(GitExportTest, BestIsCheckedOutAndTheFrontierIsBranches) {
  ASSERT_TRUE(RunSampleSearch(*Create("a"), {}));
  const GitExport counts = Export("a");
  const RunData data = Load("a");
  EXPECT_EQ(counts.best, data.Best()->name);
  EXPECT_EQ(Git("rev-parse best"), Git("rev-parse refs/kernels/" + counts.best));
  EXPECT_EQ(Git("status --porcelain"), "");
  auto reader = Reader::Open(runs_ / "a");
  EXPECT_EQ(ReadFile(runs_ / "out" / "kernel.cu").value(),
            (*reader)->Text(*data.Best()->source).value());
  const std::string branches = Git("branch --list 'frontier/*'");
  for (const FrontierRow& row : data.frontier) {
    if (row.round != data.rounds.back().id) continue;
    EXPECT_THAT(branches, HasSubstr("frontier/" + data.Find(row.candidate)->name));
  }
  EXPECT_EQ(counts.branches, 3);  // best and two of the frontier
}

TEST_F(GitExportTest, TheMessageIsTheIdeaAndTheNumbers) {
  ASSERT_TRUE(RunSampleSearch(*Create("a"), {}));
  Export("a");
  const RunData data = Load("a");
  const std::string message = Git("log -1 --format=%B best");
  EXPECT_THAT(message, HasSubstr(data.Find(data.Best()->idea)->title));
  EXPECT_THAT(message, HasSubstr("the seed"));
  EXPECT_THAT(message, HasSubstr("modelled"));
  const FrontierRow& kept = data.frontier.back();
  EXPECT_THAT(Git("log -1 --format=%B refs/kernels/" + data.Find(kept.candidate)->name),
              HasSubstr(fmt::format("Frontier: after round {}, {}, place {}",
                                    data.Find(kept.round)->index, Name(kept.kind), kept.place)));
}

TEST_F(GitExportTest, TheSameStoreGivesTheSameCommits) {
  ASSERT_TRUE(RunSampleSearch(*Create("a"), {}));
  Export("a");
  const std::string first = Git("rev-parse best");
  std::filesystem::remove_all(runs_ / "out");
  Export("a");
  EXPECT_EQ(Git("rev-parse best"), first);
}

TEST_F(GitExportTest, HostileTextsBecomeMessagesAndNothingElse) {
  ASSERT_TRUE(testing::MakeSyntheticRun(runs_, {.name = "h", .candidates = 12, .hostile = true}));
  Export("h");
  const std::string message = Git("log -1 --format=%B best");
  EXPECT_THAT(message, HasSubstr("\\u202e"));
  EXPECT_EQ(message.find('\x1b'), std::string::npos);
  EXPECT_EQ(Git("ls-tree --name-only best"), "idea.md\nkernel.cu\nnumbers.json\nplan.json");
}

TEST_F(GitExportTest, AFolderThatIsNotEmptyIsLeftAlone) {
  ASSERT_TRUE(RunSampleSearch(*Create("a"), {}));
  std::filesystem::create_directories(runs_ / "out");
  std::ofstream(runs_ / "out" / "mine") << "precious";
  auto reader = Reader::Open(runs_ / "a");
  const auto data = (*reader)->Load();
  const auto counts = ExportGit(**reader, *data, runs_ / "out");
  ASSERT_FALSE(counts);
  EXPECT_EQ(counts.error().code, ErrorCode::kInvalidInput);
  EXPECT_FALSE(std::filesystem::exists(runs_ / "out" / ".git"));
}

}  // namespace
}  // namespace grove::results
