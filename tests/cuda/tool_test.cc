#include "eval/cuda/tool.h"

#include <gtest/gtest.h>

namespace grove::cuda {
namespace {

ToolRun Shell(const std::string& script) {
  ToolRun run;
  run.program = "/bin/sh";
  run.arguments = {"-c", script};
  return run;
}

TEST(FindTool, LooksOnThePath) {
  const auto shell = FindTool("sh");
  ASSERT_TRUE(shell);
  EXPECT_EQ(shell->filename(), "sh");
  EXPECT_FALSE(FindTool("no-such-tool-of-anybody"));
}

TEST(RunTool, KeepsOutputErrorsAndStatus) {
  const auto output = RunTool(Shell("echo out; echo err >&2; exit 3"));
  ASSERT_TRUE(output) << output.error().message;
  EXPECT_EQ(output->out, "out\n");
  EXPECT_EQ(output->errors, "err\n");
  EXPECT_EQ(output->status.code, 3);
}

TEST(RunTool, GivesItsInputToTheProgramHoweverLong) {
  ToolRun run = Shell("wc -c");
  run.input.assign(3'000'000, 'x');
  const auto output = RunTool(run);
  ASSERT_TRUE(output) << output.error().message;
  EXPECT_NE(output->out.find("3000000"), std::string::npos) << output->out;
}

TEST(RunTool, AProgramThatReadsNothingDoesNotHoldItUp) {
  ToolRun run = Shell("echo done");
  run.input.assign(3'000'000, 'x');
  const auto output = RunTool(run);
  ASSERT_TRUE(output) << output.error().message;
  EXPECT_EQ(output->out, "done\n");
}

TEST(RunTool, LargeOutputArrivesWhole) {
  const auto output = RunTool(Shell("head -c 2000000 /dev/zero | tr '\\0' y"));
  ASSERT_TRUE(output);
  EXPECT_EQ(output->out.size(), 2'000'000U);
}

TEST(RunTool, AProgramPastItsDeadlineIsKilledAndNamed) {
  ToolRun run = Shell("sleep 600");
  run.deadline = std::chrono::milliseconds(100);
  const auto output = RunTool(run);
  ASSERT_FALSE(output);
  EXPECT_EQ(output.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(output.error().message.find("sh did not end"), std::string::npos);
}

TEST(RunTool, AProgramThatIsNotThereIsNotFound) {
  ToolRun run;
  run.program = "/nowhere/tool";
  const auto output = RunTool(run);
  ASSERT_FALSE(output);
  EXPECT_EQ(output.error().code, ErrorCode::kNotFound);
}

TEST(RunTool, KeysOfTheUserAreNotPassedOn) {
  setenv("GROVE_TEST_SECRET", "x", 1);
  ToolRun run = Shell("env");
  run.environment = {"GIVEN=1"};
  const auto output = RunTool(run);
  unsetenv("GROVE_TEST_SECRET");
  ASSERT_TRUE(output);
  EXPECT_EQ(output->out.find("GROVE_TEST_SECRET"), std::string::npos);
  EXPECT_NE(output->out.find("GIVEN=1"), std::string::npos);
}

}  // namespace
}  // namespace grove::cuda
