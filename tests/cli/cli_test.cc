// The program as a user meets it: whole commands, their output and exit codes.
#include <algorithm>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "results/store.h"
#include "tests/support/program.h"

namespace grove {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::ProgramOptions;
using testing::ProgramResult;
using testing::RunProgram;

const std::string kKernels = std::string(GROVE_SOURCE_DIR) + "/tests/data/kernels/";

class CliTest : public ::testing::Test {
 protected:
  ProgramResult Grove(std::vector<std::string> arguments, ProgramOptions options = {}) {
    options.folder = folder_.path();
    // One compile cache for all tests of a run: what is compiled once is compiled.
    options.environment.push_back("GROVE_CACHE=" + ::testing::TempDir() + "grove-test-cache");
    return RunProgram("grove", arguments, options);
  }
  std::vector<std::string> SmallRun(const std::string& name) {
    return {"run",        "softmax_small",
            "--tasks",    std::string(GROVE_SOURCE_DIR) + "/tests/data/tasks",
            "--name",     name,
            "--rounds",   "2",
            "--ideas",    "2",
            "--branches", "2",
            "--frontier", "2"};
  }
  testing::ScratchFolder folder_;
};

TEST_F(CliTest, HelpFitsOneScreenAndNamesEveryCommand) {
  const ProgramResult result = Grove({"--help"});
  EXPECT_EQ(result.exit_code, 0);
  for (const char* command :
       {"run", "resume", "tree", "show", "runs", "eval", "tasks", "devices"}) {
    EXPECT_THAT(result.out, HasSubstr(command));
  }
  EXPECT_LE(std::count(result.out.begin(), result.out.end(), '\n'), 70);
}

TEST_F(CliTest, TasksAreListedAndShown) {
  const ProgramResult list = Grove({"tasks"});
  EXPECT_EQ(list.exit_code, 0);
  for (const char* task : {"softmax", "layernorm", "matmul"}) {
    EXPECT_THAT(list.out, HasSubstr(task));
  }
  const ProgramResult show = Grove({"tasks", "show", "softmax", "--json"});
  EXPECT_EQ(show.exit_code, 0);
  const auto json = nlohmann::json::parse(show.out);
  EXPECT_EQ(json["name"], "softmax");
  bool exact = false;
  for (const auto& task_case : json["cases"]) {
    exact = exact || (task_case["role"] == "scored" && task_case["dims"]["M"] == 4096 &&
                      task_case["dims"]["N"] == 65536);
  }
  EXPECT_TRUE(exact);
}

TEST_F(CliTest, TasksOfASuiteAreListed) {
  const ProgramResult list = Grove({"tasks", "--suite", "crfm"});
  EXPECT_EQ(list.exit_code, 0);
  EXPECT_THAT(list.out, HasSubstr("conv2d"));
  EXPECT_THAT(list.out, ::testing::Not(HasSubstr("rmsnorm")));
  const ProgramResult nine = Grove({"tasks", "--suite", "autokernel", "--json"});
  EXPECT_EQ(nlohmann::json::parse(nine.out).size(), 9U);
  const ProgramResult unknown = Grove({"tasks", "--suite", "crmf"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("did you mean 'crfm'?"));
}

TEST_F(CliTest, ATaskThatThePlaybookCannotDoIsOneMessageAndNoRun) {
  const auto tasks = folder_.path() / "tasks";
  std::filesystem::create_directories(tasks);
  std::filesystem::copy(std::string(GROVE_SOURCE_DIR) + "/tests/data/tasks/softmax_small",
                        tasks / "my_own_op", std::filesystem::copy_options::recursive);
  std::ifstream written(tasks / "my_own_op" / "task.toml");
  std::string text(std::istreambuf_iterator<char>(written), {});
  for (const auto& [from, to] :
       {std::pair<std::string, std::string>{"\"softmax_small\"", "\"my_own_op\""},
        {"\"row_reduction\"", "\"of_my_own\""}}) {
    const auto at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
  }
  std::ofstream(tasks / "my_own_op" / "task.toml") << text;
  const ProgramResult result = Grove({"run", "my_own_op", "--tasks", tasks.string()});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("the playbook (the built-in model) has no transformations for "
                                    "task my_own_op"));
  EXPECT_THAT(result.err, HasSubstr("--model"));
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1);
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "runs"));
}

TEST_F(CliTest, AnExtraCaseIsTimedWhenItIsNamed) {
  const std::string seed = std::string(GROVE_SOURCE_DIR) + "/seeds/tasks/softmax/seed.cu";
  const ProgramResult result =
      Grove({"eval", "softmax", seed, "--suite", "autokernel", "--cases", "32x128_f16", "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("32x128_f16"));
  EXPECT_THAT(result.out, ::testing::Not(HasSubstr("4096x4096")));
  const ProgramResult check = Grove({"eval", "softmax", seed, "--cases", "smoke"});
  EXPECT_EQ(check.exit_code, 2);
}

TEST_F(CliTest, AnUnknownTaskNamesTheNearestAndTouchesNothing) {
  const ProgramResult result = Grove({"run", "sofmax"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("did you mean 'softmax'?"));
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "runs"));
}

TEST_F(CliTest, AnUnknownGpuDeviceOptionCommandOrFileExitsWith2) {
  const ProgramResult gpu = Grove({"run", "softmax", "--gpu", "H20"});
  EXPECT_EQ(gpu.exit_code, 2);
  EXPECT_THAT(gpu.err, HasSubstr("H200"));
  const ProgramResult device = Grove({"run", "softmax", "--device", "emulater"});
  EXPECT_EQ(device.exit_code, 2);
  EXPECT_THAT(device.err, HasSubstr("did you mean 'emulator'?"));
  const ProgramResult option = Grove({"run", "softmax", "--ronds", "3"});
  EXPECT_EQ(option.exit_code, 2);
  EXPECT_THAT(option.err, HasSubstr("did you mean '--rounds'?"));
  const ProgramResult command = Grove({"tre"});
  EXPECT_EQ(command.exit_code, 2);
  EXPECT_THAT(command.err, HasSubstr("did you mean 'tree'?"));
  const ProgramResult file = Grove({"eval", "softmax", "nothing.cu"});
  EXPECT_EQ(file.exit_code, 2);
  EXPECT_THAT(file.err, HasSubstr("nothing.cu"));
  const ProgramResult rounds = Grove({"run", "softmax", "--rounds", "0"});
  EXPECT_EQ(rounds.exit_code, 2);
  EXPECT_THAT(rounds.err, HasSubstr("rounds"));
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "runs"));
}

TEST_F(CliTest, ABrokenTaskFileGivesFileLineAndColumn) {
  const auto task = folder_.path() / "tasks" / "broken";
  std::filesystem::create_directories(task);
  std::ofstream(task / "task.toml") << "name = \"broken\"\ntitle = [\n";
  const ProgramResult result =
      Grove({"run", "broken", "--tasks", (folder_.path() / "tasks").string()});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, ::testing::ContainsRegex("task.toml:[0-9]+:[0-9]+"));
}

TEST_F(CliTest, AReadOnlyRunsFolderIsOneClearMessage) {
  const ProgramResult result =
      Grove({"run", "softmax_small", "--tasks", std::string(GROVE_SOURCE_DIR) + "/tests/data/tasks",
             "--runs", "/proc/grove"});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, HasSubstr("/proc/grove"));
}

struct Refused {
  const char* file;
  const char* verdict;
};

class RefusedTest : public CliTest, public ::testing::WithParamInterface<Refused> {};

TEST_P(RefusedTest, WithItsVerdict) {
  const ProgramResult result =
      Grove({"eval", "softmax", kKernels + GetParam().file, kKernels + "plan.json", "--json"});
  EXPECT_EQ(result.exit_code, 1) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["verdict"], GetParam().verdict) << result.out;
  EXPECT_FALSE(json.contains("score_ns"));
}

INSTANTIATE_TEST_SUITE_P(
    Kernels, RefusedTest,
    ::testing::Values(Refused{"one_past_the_end.cu", "out_of_bounds"},
                      Refused{"endless.cu", "timeout"}, Refused{"zeros.cu", "wrong_result"},
                      Refused{"last_column_unwritten.cu", "unwritten"},
                      Refused{"wrong_when_scored.cu", "wrong_result"}, Refused{"race.cu", "race"},
                      Refused{"half_a_block_at_a_barrier.cu", "barrier_divergence"}),
    [](const auto& kernel) {
      std::string name = kernel.param.file;
      return name.substr(0, name.find('.'));
    });

TEST_F(CliTest, ACorrectKernelPassesWithAModelledTime) {
  const ProgramResult result =
      Grove({"eval", "softmax", kKernels + "correct.cu", kKernels + "plan.json", "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["verdict"], "pass");
  EXPECT_EQ(json["score_kind"], "modelled");
  EXPECT_EQ(json["precision_class"], "fp32");
  EXPECT_GT(json["times"][0]["checked_share"].get<double>(), 0);
  const ProgramResult text =
      Grove({"eval", "softmax", kKernels + "correct.cu", kKernels + "plan.json"});
  EXPECT_THAT(text.out, HasSubstr("modelled"));
}

TEST_F(CliTest, WithoutAGpuTheSeedsModelledTimeIsTheOnlyBaselineAndIsNotKept) {
  const std::string tasks = std::string(GROVE_SOURCE_DIR) + "/tests/data/tasks";
  const ProgramResult result = Grove({"baseline", "softmax_small", "--tasks", tasks, "--device",
                                      "emulator", "--json", "--cache", folder_.path() / "cache"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  ASSERT_GE(json.size(), 1U);
  EXPECT_EQ(json[0]["baseline"], "seed");
  EXPECT_EQ(json[0]["kind"], "modelled");
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "cache" / "baselines"));
  const ProgramResult torch =
      Grove({"baseline", "softmax_small", "--tasks", tasks, "--device", "emulator", "--torch"});
  EXPECT_EQ(torch.exit_code, 3);
  EXPECT_THAT(torch.err, HasSubstr("needs a GPU"));
}

TEST_F(CliTest, ATaskMayBeNamedByItsFolder) {
  const std::string task = std::string(GROVE_SOURCE_DIR) + "/tests/data/tasks/softmax_small";
  const ProgramResult baseline =
      Grove({"baseline", task + "/", "--device", "emulator", "--json", "--quiet"});
  ASSERT_EQ(baseline.exit_code, 0) << baseline.err;
  EXPECT_EQ(nlohmann::json::parse(baseline.out)[0]["baseline"], "seed");
  const ProgramResult show = Grove({"tasks", "show", task, "--json"});
  ASSERT_EQ(show.exit_code, 0) << show.err;
  EXPECT_EQ(nlohmann::json::parse(show.out)["name"], "softmax_small");
  const ProgramResult run = Grove({"run", task, "--dry-run"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  const ProgramResult none = Grove({"baseline", "./nowhere", "--device", "emulator"});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.err, HasSubstr("./nowhere: no task is there"));
}

TEST_F(CliTest, AnImportNamesWhatIsWrongWithItsFile) {
  const std::string tasks = std::string(GROVE_SOURCE_DIR) + "/tests/data/tasks";
  const auto import = [&](const std::string& text) {
    std::ofstream(folder_.path() / "torch.json") << text;
    return Grove({"baseline", "softmax_small", "--tasks", tasks, "--import", "torch.json"});
  };
  const ProgramResult broken = import("{");
  EXPECT_EQ(broken.exit_code, 2);
  EXPECT_THAT(broken.err, HasSubstr("torch.json: not what torch_baseline.py writes"));
  const ProgramResult elsewhere = import(
      R"({"uuid": "GPU-0123", "device": "NVIDIA H200", "results": [{"task": "softmax_small",
          "case": "no such", "mode": "eager", "median_us": 1}]})");
  EXPECT_EQ(elsewhere.exit_code, 3);
  EXPECT_THAT(elsewhere.err, HasSubstr("which is not here"));
  EXPECT_EQ(
      Grove({"baseline", "softmax_small", "--tasks", tasks, "--import", "none.json"}).exit_code, 2);
}

TEST_F(CliTest, SeveralGpusAreNamedInOneDeviceAndNonsenseIsRefusedBeforeAnyWorkerStarts) {
  const std::string tasks = std::string(GROVE_SOURCE_DIR) + "/tests/data/tasks";
  for (const char* device : {"cuda:0,0", "cuda:0,x", "cuda:,1", "cuda:0,", "every"}) {
    const ProgramResult result =
        Grove({"baseline", "softmax_small", "--tasks", tasks, "--device", device});
    EXPECT_EQ(result.exit_code, 2) << device;
    EXPECT_THAT(result.err, HasSubstr("device")) << device;
  }
}

TEST_F(CliTest, AProfileOfAModelledKernelSaysWhatItKnowsAndThatThereAreNoCounters) {
  auto arguments = SmallRun("p");
  arguments[7] = "1";
  ASSERT_EQ(Grove(arguments).exit_code, 0);
  const ProgramResult result = Grove({"profile", "p/best", "--device", "emulator", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["time_kind"], "modelled");
  EXPECT_THAT(json["counters_problem"].get<std::string>(), HasSubstr("modelled"));
  EXPECT_THAT(json["report"].get<std::string>(), HasSubstr("registers"));
  EXPECT_THAT(json["summary"].get<std::string>(), HasSubstr("GB/s"));
  EXPECT_EQ(Grove({"profile", "p/r9.i9.b9"}).exit_code, 2);
  EXPECT_EQ(Grove({"profile", "p/best", "--device", "emulator", "--case", "none"}).exit_code, 2);
}

TEST_F(CliTest, ASearchFindsFasterKernelsAndItsTreeCanBeRead) {
  const ProgramResult run = Grove(SmallRun("small"));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("round 2/2 done"));
  EXPECT_THAT(run.err, Not(HasSubstr("\x1b")));
  EXPECT_THAT(run.out, HasSubstr("modelled"));

  const ProgramResult tree = Grove({"tree", "small", "--json"});
  EXPECT_EQ(tree.exit_code, 0);
  EXPECT_TRUE(nlohmann::json::accept(tree.out));
  const ProgramResult show = Grove({"show", "best"});
  EXPECT_EQ(show.exit_code, 0);
  EXPECT_THAT(show.out, HasSubstr("__global__"));
  EXPECT_THAT(show.out, HasSubstr("modelled"));
  const ProgramResult json = Grove({"show", "small/r1.i1.b1", "--json"});
  EXPECT_EQ(json.exit_code, 0);
  EXPECT_TRUE(nlohmann::json::accept(json.out));
  const ProgramResult unknown = Grove({"show", "r1.i1.b9"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("did you mean"));
  const ProgramResult runs = Grove({"runs"});
  EXPECT_THAT(runs.out, HasSubstr("finished"));
  const ProgramResult again = Grove({"resume", "small"});
  EXPECT_EQ(again.exit_code, 0) << again.err;
  // What has ended goes on when it is given more rounds.
  const ProgramResult more = Grove({"resume", "small", "--rounds", "3"});
  EXPECT_EQ(more.exit_code, 0) << more.err;
  EXPECT_THAT(more.err + more.out, HasSubstr("round 3/3 done"));
  const ProgramResult twice = Grove(SmallRun("small"));
  EXPECT_EQ(twice.exit_code, 2);
  EXPECT_THAT(twice.err, HasSubstr("small"));
}

TEST_F(CliTest, OnATerminalOneLiveLineShowsTheProgress) {
  ProgramOptions options;
  options.terminal = true;
  auto arguments = SmallRun("live");
  const ProgramResult run = Grove(arguments, options);
  EXPECT_EQ(run.exit_code, 0) << run.out;
  EXPECT_THAT(run.out, HasSubstr("\r\x1b[K"));
  EXPECT_THAT(run.out, HasSubstr("candidates"));
}

TEST_F(CliTest, AnInterruptEndsWith130AndTheRunResumes) {
  ProgramOptions options;
  options.interrupt_on = "round 1/2";
  const ProgramResult stopped = Grove(SmallRun("stopped"), options);
  EXPECT_EQ(stopped.exit_code, 130) << stopped.err;
  EXPECT_THAT(stopped.out, HasSubstr("grove resume stopped"));
  EXPECT_TRUE(results::CheckStore(folder_.path() / "runs" / "stopped"));
  const ProgramResult resumed = Grove({"resume", "stopped"});
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
}

}  // namespace
}  // namespace grove
