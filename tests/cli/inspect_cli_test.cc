// The commands that look at runs, as a user calls them, on a made-up run.
#include <algorithm>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tests/support/program.h"

namespace grove {
namespace {

using ::testing::HasSubstr;
using testing::ProgramResult;
using testing::RunProgram;

class InspectCliTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const ProgramResult made = RunProgram("grove-make-run", {Runs(), "a", "24"});
    ASSERT_EQ(made.exit_code, 0) << made.err;
  }
  std::string Runs() const { return (folder_.path() / "runs").string(); }
  ProgramResult Grove(std::vector<std::string> arguments, bool terminal = false) const {
    arguments.insert(arguments.begin(), {"--runs", Runs()});
    testing::ProgramOptions options;
    options.folder = folder_.path();
    options.terminal = terminal;
    return RunProgram("grove", arguments, options);
  }
  testing::ScratchFolder folder_;
};

TEST_F(InspectCliTest, DiffIsAgainstTheParentUnlessAnotherIsNamed) {
  const ProgramResult parent = Grove({"diff", "r2.i1.b1", "--json"});
  ASSERT_EQ(parent.exit_code, 0) << parent.err;
  const auto json = nlohmann::json::parse(parent.out);
  const auto shown = nlohmann::json::parse(Grove({"show", "r2.i1.b1", "--json"}).out);
  EXPECT_EQ(json["before"]["kernel"], shown["parent"]);
  const ProgramResult two = Grove({"diff", "seed", "a/best"});
  ASSERT_EQ(two.exit_code, 0) << two.err;
  EXPECT_THAT(two.out, HasSubstr("--- seed source"));
  EXPECT_EQ(Grove({"diff", "seed"}).exit_code, 2);  // it has no parent
  const ProgramResult unknown = Grove({"diff", "r2.i1.b9"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("did you mean 'r2.i1.b"));
}

TEST_F(InspectCliTest, TerminalOutputKeepsToTheWidth) {
  for (const char* command : {"tree", "log", "compare"}) {
    std::vector<std::string> arguments = {command, "a"};
    const ProgramResult result = Grove(arguments, true);
    ASSERT_EQ(result.exit_code, 0) << result.out;
    std::size_t columns = 0;
    bool escape = false;
    for (const char c : result.out) {
      if (c == '\n') columns = 0;
      if (c == '\x1b') escape = true;
      // One column per character: the bytes that continue one do not count.
      if (!escape && c != '\r' && c != '\n' && (c & 0xc0) != 0x80) ++columns;
      if (escape && c == 'm') escape = false;
      ASSERT_LE(columns, 100U) << command;
    }
  }
}

TEST_F(InspectCliTest, AHalfDeletedRunIsNamedByEveryCommand) {
  std::filesystem::create_directories(folder_.path() / "runs" / "half" / "control");
  for (std::vector<std::string> arguments : {std::vector<std::string>{"tree", "half"},
                                             {"show", "half/best"},
                                             {"log", "half"},
                                             {"report", "half"},
                                             {"harvest", "half", "-o", "data"},
                                             {"compare", "a", "half"},
                                             {"export", "half", "--git", "tree"},
                                             {"serve", "half"}}) {
    const ProgramResult result = Grove(arguments);
    EXPECT_EQ(result.exit_code, 2) << arguments[0];
    EXPECT_THAT(result.err, HasSubstr("half has no run.db: deleted in part")) << arguments[0];
  }
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "data"));
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "tree"));
}

TEST_F(InspectCliTest, LogShowsTheEventsAndTheirKinds) {
  const ProgramResult log = Grove({"log", "a"});
  EXPECT_EQ(log.exit_code, 0);
  EXPECT_THAT(log.out, HasSubstr("all rounds are done"));
  EXPECT_EQ(nlohmann::json::parse(Grove({"log", "a", "--json", "-n", "1"}).out).size(), 1U);
  EXPECT_THAT(Grove({"log", "a", "--kind", "none"}).out, HasSubstr("no events of this kind"));
}

TEST_F(InspectCliTest, ReportHarvestAndExportWriteWhereTheyAreTold) {
  const ProgramResult report = Grove({"report", "a"});
  ASSERT_EQ(report.exit_code, 0) << report.err;
  EXPECT_TRUE(std::filesystem::exists(folder_.path() / "a.html"));
  const ProgramResult harvest = Grove({"harvest", "a", "-o", "data", "--json"});
  ASSERT_EQ(harvest.exit_code, 0) << harvest.err;
  EXPECT_EQ(nlohmann::json::parse(harvest.out)["files"].size(), 6U);
  const ProgramResult exported = Grove({"export", "a", "--git", "tree", "--json"});
  ASSERT_EQ(exported.exit_code, 0) << exported.err;
  EXPECT_TRUE(std::filesystem::exists(folder_.path() / "tree" / "kernel.cu"));
  EXPECT_EQ(Grove({"harvest", "a", "-o", "data"}).exit_code, 2);  // not empty
  EXPECT_EQ(Grove({"export", "a", "--git", "tree"}).exit_code, 2);
}

TEST_F(InspectCliTest, BadInputIsOneMessageAndExitCodeTwo) {
  std::ofstream(folder_.path() / "bad.json") << "[1]";
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"report", "b"},
        {"report", "a", "--baselines", "bad.json"},
        {"report", "a", "--baselines", "none.json"},
        {"compare", "a", "b"},
        {"harvest", "a", "-o", "x", "--kinds", "leaves"},
        {"harvest", "a", "-o", "x", "--model-terms", "none"},
        {"harvest", "a", "-o", "x", "--decontaminate", "nowhere"},
        {"export", "best"},
        {"export", "r9.i9.b9", "--to", "cu"},
        {"serve", "b"}}) {
    const ProgramResult result = Grove(arguments);
    EXPECT_EQ(result.exit_code, 2) << arguments[0] << arguments.back() << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  }
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "x"));
}

}  // namespace
}  // namespace grove
