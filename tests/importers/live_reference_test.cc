// A task with `reference = "live"`: its module answers over a pipe, and candidates are judged by
// that. One import for all; what a module could do to us is written into the imported file, so that
// it happens where it must be borne: when it is asked.
#include "eval/live_reference.h"

#include <unistd.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "codegen/compile_farm.h"
#include "codegen/program.h"
#include "eval/emulator_device.h"
#include "eval/evaluator.h"
#include "eval/inputs.h"
#include "eval/lint.h"
#include "eval/model/device_spec.h"
#include "seeds/importers/problem_import.h"
#include "seeds/live.h"
#include "seeds/safetensors.h"

namespace grove::eval {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

// Two outputs, a parameter, a number among the arguments and an integer input.
constexpr char kModule[] = R"py(import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.shift = nn.Parameter(torch.rand(width))

    def forward(self, x, factor, index):
        y = x * factor + self.shift
        return y, y.sum(dim=-1) + index


rows = 512
width = 256


def get_inputs():
    return [torch.randn(rows, width), 2.0, torch.randint(0, 9, (rows,))]


def get_init_inputs():
    return [width]
)py";

class Live : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    tasks_ = fs::path(::testing::TempDir()) / fmt::format("grove-live-test-{}", getpid());
    fs::remove_all(tasks_);
    fs::create_directories(tasks_);
    ASSERT_TRUE(WriteFileAtomic(tasks_ / "shifted.py", kModule));
    const fs::path data = fs::path(GROVE_SOURCE_DIR) / "tests/data";
    Import(importers::ProblemFormat::kKernelBench,
           {tasks_ / "shifted.py", data / "problems/fair/bool_masks.py",
            data / "problems/fair/view_outputs.py"},
           {});
    Import(importers::ProblemFormat::kGpuMode,
           {data / "gpumode/row_scale", data / "gpumode/in_place"}, {});
    Import(importers::ProblemFormat::kFlashInfer, {data / "flashinfer/scaled_rows.json"},
           data / "flashinfer/scaled_rows.jsonl");
  }
  static void TearDownTestSuite() {
    std::error_code ignored;
    fs::remove_all(tasks_, ignored);
  }
  static void Import(importers::ProblemFormat format, std::vector<fs::path> files,
                     const fs::path& workloads) {
    importers::ProblemImport options;
    options.format = format;
    options.files = std::move(files);
    options.workloads = workloads;
    options.tasks = tasks_;
    options.live = true;
    options.jobs = 2;
    const auto outcomes = importers::ImportProblems(options);
    ASSERT_TRUE(outcomes) << outcomes.error().message;
    for (const auto& outcome : *outcomes) {
      ASSERT_EQ(outcome.status, importers::ImportStatus::kImported) << outcome.reason;
    }
  }

  // Every test has the module as it was.
  void SetUp() override { ASSERT_TRUE(WriteFileAtomic(Module(), kModule)); }
  static fs::path Module() { return tasks_ / "shifted/problem.py"; }
  // The module with `body` in place of the first line of its forward.
  static void Rewrite(const std::string& body) {
    std::string text = kModule;
    const std::string line = "        y = x * factor + self.shift\n";
    text.replace(text.find(line), line.size(), body);
    ASSERT_TRUE(WriteFileAtomic(Module(), text));
  }

  static seeds::Task Task(const std::string& name = "shifted") {
    auto task = seeds::LoadTask(tasks_, name);
    EXPECT_TRUE(task) << (task ? "" : task.error().message);
    return task ? std::move(*task) : seeds::Task();
  }
  static std::vector<double> Read(const seeds::Stored& stored, std::int64_t elements) {
    std::vector<double> values(static_cast<std::size_t>(elements));
    EXPECT_TRUE(seeds::ReadStored(stored, 0, std::as_writable_bytes(std::span(values))));
    return values;
  }
  // What is said when the module, rewritten, is asked.
  static Error Asked(const std::string& body, LiveOptions options = {}) {
    Rewrite(body);
    LiveReference live(std::move(options));
    const seeds::Task task = Task();
    const auto outputs = live.Outputs(*task.FindCase("small"), 5);
    EXPECT_FALSE(outputs);
    return outputs ? Error() : outputs.error();
  }
  static Evaluation Evaluate(const seeds::Task& task) {
    codegen::FarmOptions options;
    options.cache_folder =
        fs::path(GROVE_BINARY_DIR).parent_path() / "test-results/task_kernels_cache";
    auto farm = codegen::MakeCompileFarm(options);
    EXPECT_TRUE(farm);
    const auto device = MakeEmulatorDevice(*FindDevice("H200"), {});
    auto evaluator = Evaluator::Create(task, **farm, *device, {});
    EXPECT_TRUE(evaluator) << (evaluator ? "" : evaluator.error().message);
    auto program = codegen::MakeProgram(task.seed.source, task.seed.plan);
    EXPECT_TRUE(program);
    auto evaluation = (*evaluator)->Evaluate(*program);
    EXPECT_TRUE(evaluation) << (evaluation ? "" : evaluation.error().message);
    return evaluation ? std::move(*evaluation) : Evaluation();
  }

  static fs::path tasks_;
};
fs::path Live::tasks_;

TEST_F(Live, CasesAreLiveButForThoseWithGoldenOutputsOfTheirOwn) {
  for (const seeds::Case& c : Task().cases) {
    EXPECT_EQ(seeds::IsLive(c), c.name.rfind("golden_", 0) != 0) << c.name;
    EXPECT_EQ(c.golden.size(), 2U) << c.name;
  }
}

TEST_F(Live, AnswersAreTheModulesInFp64OnOurOwnInputsAndFreshForEverySeed) {
  const seeds::Task task = Task();
  const seeds::Case& c = *task.FindCase("odd");
  const std::int64_t rows = c.tensors[0].shape[0], width = c.tensors[0].shape[1];
  LiveReference live({});
  std::vector<double> before;
  for (const std::uint64_t seed : {11U, 12U}) {
    const auto outputs = live.Outputs(c, seed);
    ASSERT_TRUE(outputs) << outputs.error().message;
    ASSERT_EQ(outputs->size(), 2U);
    const auto y = Read((*outputs)[0], rows * width), sums = Read((*outputs)[1], rows);
    EXPECT_NE(y, before);
    before = y;
    for (const std::int64_t row : {std::int64_t{0}, rows - 1}) {
      double sum = 0;
      for (std::int64_t i = 0; i < width; ++i) {
        const double expected = InputElement(c.tensors[0], seed, 0, row * width + i) * 2.0;
        std::vector<float> shift(static_cast<std::size_t>(width));
        ASSERT_TRUE(seeds::ReadStored(c.tensors[2].distribution.stored, 0,
                                      std::as_writable_bytes(std::span(shift))));
        // Exactly: what fp32 rounds is a hundred million times larger.
        EXPECT_DOUBLE_EQ(y[static_cast<std::size_t>(row * width + i)],
                         expected + shift[static_cast<std::size_t>(i)]);
        sum += y[static_cast<std::size_t>(row * width + i)];
      }
      EXPECT_NEAR(sums[static_cast<std::size_t>(row)],
                  sum + InputElement(c.tensors[1], seed, 1, row), 1e-11);
    }
  }
}

TEST_F(Live, WhatWasAnsweredIsNotAskedAgain) {
  const seeds::Task task = Task();
  LiveReference live({});
  const auto first = live.Outputs(*task.FindCase("small"), 7);
  ASSERT_TRUE(first) << first.error().message;
  Rewrite("        raise ValueError('asked again')\n");
  const auto second = live.Outputs(*task.FindCase("small"), 7);
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_EQ(first->front().file, second->front().file);
}

TEST_F(Live, CandidatesAreJudgedByTheModuleNotByTheKernels) {
  const seeds::Task task = Task();
  const Evaluation right = Evaluate(task);
  EXPECT_TRUE(right.verdict.passed()) << right.verdict.message;
  // Reference kernels and seed agree with each other still, and with the golden outputs.
  Rewrite("        y = x * factor * 1.5 + self.shift\n");
  const Evaluation wrong = Evaluate(task);
  EXPECT_EQ(wrong.verdict.kind, VerdictKind::kWrongResult) << wrong.verdict.message;
  EXPECT_EQ(wrong.verdict.case_name, "small");
}

TEST_F(Live, BoolTensorsAndViewsGoBothWaysOverThePipe) {
  for (const char* name : {"bool_masks", "view_outputs"}) {
    const Evaluation evaluation = Evaluate(Task(name));
    EXPECT_TRUE(evaluation.verdict.passed()) << name << ": " << evaluation.verdict.message;
  }
  // An answer is the module's own: a joined mask, and an output that is a transposed view.
  LiveReference live({});
  const seeds::Task masks = Task("bool_masks"), views = Task("view_outputs");
  const seeds::Case* c = masks.FindCase("odd");
  auto outputs = live.Outputs(*c, 3);
  ASSERT_TRUE(outputs) << outputs.error().message;
  ASSERT_EQ(outputs->size(), 3U);
  const std::int64_t rows = c->tensors[0].shape[0], columns = c->tensors[0].shape[1];
  auto values = Read((*outputs)[1], rows * columns);
  // Its first mask is kept in a file, the second one drawn.
  std::vector<std::uint8_t> keep(static_cast<std::size_t>(rows * columns));
  ASSERT_TRUE(seeds::ReadStored(c->tensors[1].distribution.stored, 0,
                                std::as_writable_bytes(std::span(keep))));
  std::int64_t kept = 0;
  for (std::int64_t i = 0; i < rows * columns; ++i) {
    const bool want =
        keep[static_cast<std::size_t>(i)] != 0 && InputElement(c->tensors[2], 3, 2, i) == 0;
    ASSERT_EQ(values[static_cast<std::size_t>(i)] != 0, want) << i;
    kept += want ? 1 : 0;
  }
  EXPECT_GT(kept, 0);
  EXPECT_LT(kept, rows * columns);
  c = views.FindCase("small");
  outputs = live.Outputs(*c, 3);
  ASSERT_TRUE(outputs) << outputs.error().message;
  const auto& shape = c->tensors[0].shape;
  values = Read(outputs->front(), shape[0] * shape[1] * shape[2]);
  const std::int64_t at = 2 * shape[2] + 5, turned = 5 * shape[1] + 2;  // [0, 2, 5] and [0, 5, 2]
  EXPECT_DOUBLE_EQ(values[static_cast<std::size_t>(turned)],
                   InputElement(c->tensors[0], 3, 0, at) * InputElement(c->tensors[1], 3, 1, at));
}

TEST_F(Live, ALintHoldsTheKernelsAgainstTheModule) {
  Rewrite("        y = x * factor * 1.5 + self.shift\n");
  codegen::FarmOptions options;
  options.cache_folder =
      fs::path(GROVE_BINARY_DIR).parent_path() / "test-results/task_kernels_cache";
  auto farm = codegen::MakeCompileFarm(options);
  ASSERT_TRUE(farm);
  const auto report = Lint(Task(), **farm, {});
  ASSERT_TRUE(report) << report.error().message;
  std::string found;
  for (const LintFinding& finding : report->findings) found += finding.message + "\n";
  EXPECT_THAT(found, HasSubstr("the reference differs from the module's outputs"));
}

TEST_F(Live, CompetitionsAnswerTooAlsoThoseThatWriteIntoAnArgument) {
  LiveReference live({});
  const seeds::Task sum = Task("in_place"), rows = Task("row_scale");
  const seeds::Case* c = sum.FindCase("test_4_33");
  auto outputs = live.Outputs(*c, 3);
  ASSERT_TRUE(outputs) << outputs.error().message;
  auto values = Read(outputs->front(), 4 * 33);
  for (std::int64_t i = 0; i < 4 * 33; ++i) {
    EXPECT_DOUBLE_EQ(
        values[static_cast<std::size_t>(i)],
        InputElement(c->tensors[0], 3, 0, i) + InputElement(c->tensors[1], 3, 1, i) + 0.5);
  }
  c = rows.FindCase("test_4_33");
  outputs = live.Outputs(*c, 3);
  ASSERT_TRUE(outputs) << outputs.error().message;
  values = Read(outputs->front(), 4 * 33);
  double squares = 0;
  for (std::int64_t i = 0; i < 33; ++i) {
    const double x = InputElement(c->tensors[0], 3, 0, 33 + i);
    squares += x * x;
  }
  for (std::int64_t i = 0; i < 33; ++i) {
    EXPECT_NEAR(values[static_cast<std::size_t>(33 + i)],
                InputElement(c->tensors[0], 3, 0, 33 + i) / std::sqrt(squares) *
                    InputElement(c->tensors[1], 3, 1, i),
                1e-14);
  }
}

TEST_F(Live, DefinitionsAnswerToo) {
  const Evaluation evaluation = Evaluate(Task("scaled_rows"));
  EXPECT_TRUE(evaluation.verdict.passed()) << evaluation.verdict.message;
}

TEST_F(Live, AModuleThatHangsIsKilledAtTheDeadlineAndAskedAfreshNextTime) {
  Rewrite("        while True:\n            pass\n");
  LiveOptions options;
  options.deadline = std::chrono::seconds(2);
  LiveReference live(options);
  const seeds::Task task = Task();
  const auto hung = live.Outputs(*task.FindCase("small"), 5);
  ASSERT_FALSE(hung);
  EXPECT_EQ(hung.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(hung.error().message,
              HasSubstr("case small: it did not answer in 2 s and was killed"));
  ASSERT_TRUE(WriteFileAtomic(Module(), kModule));
  // As many seconds as a loaded machine needs.
  const auto start = std::chrono::steady_clock::now();
  auto again = live.Outputs(*task.FindCase("small"), 5);
  while (!again && std::chrono::steady_clock::now() - start < std::chrono::minutes(2)) {
    again = live.Outputs(*task.FindCase("small"), 5);
  }
  EXPECT_TRUE(again) << again.error().message;
}

TEST_F(Live, AProcessThatEndsIsOneClearLine) {
  const Error exit = Asked("        import os\n        os._exit(3)\n");
  EXPECT_EQ(exit.code, ErrorCode::kUnavailable);
  EXPECT_THAT(exit.message, HasSubstr("case small: its process ended: exit code 3"));
  EXPECT_THAT(exit.message, Not(HasSubstr("\n")));
  const Error killed = Asked("        import os\n        os.kill(os.getpid(), 9)\n");
  EXPECT_THAT(killed.message, HasSubstr("its process ended: killed by SIGKILL"));
}

TEST_F(Live, WhatTheModuleMayNotDoOrCannotIsSaidWithItsOwnReason) {
  const std::vector<std::pair<std::string, std::string>> reasons = {
      {"raise ValueError('two\\nlines')", "forward raised ValueError: two"},
      {"open('/etc/passwd').read()", "tried to read the file passwd"},
      {"open('/tmp/grove-live-test-left', 'w')", "tried to write the file grove-live-test-left"},
      {"import os; os.fork()", "tried to fork"},
      {"import socket; socket.create_connection(('127.0.0.1', 9))", "tried to open a connection"},
      {"for _ in range(1000): print('x' * (1 << 20))", "printed more than 1024 KiB"},
      {"import nowhere_to_be_found", "the Python package nowhere_to_be_found, which is not"},
      {"return x[1:], index", "its answer has another out0"},
      {"return x", "forward gave 1 tensors, not 2"},
  };
  // The first element of the integer input, 0 to 8, says which: one helper bears them all.
  std::string body;
  for (std::size_t i = 0; i < reasons.size(); ++i) {
    body += fmt::format("        if int(index[0]) == {}:\n            {}\n", i, reasons[i].first);
  }
  Rewrite(body + "        y = x * factor + self.shift\n");
  const seeds::Task task = Task();
  const seeds::Case& c = *task.FindCase("small");
  LiveReference live({});
  for (std::size_t i = 0; i < reasons.size(); ++i) {
    std::uint64_t seed = 1;
    while (InputElement(c.tensors[1], seed, 1, 0) != static_cast<double>(i)) ++seed;
    const auto outputs = live.Outputs(c, seed);
    ASSERT_FALSE(outputs) << reasons[i].first;
    EXPECT_EQ(outputs.error().code, ErrorCode::kInvalidInput) << reasons[i].first;
    EXPECT_THAT(outputs.error().message, HasSubstr(reasons[i].second));
    EXPECT_THAT(outputs.error().message, Not(HasSubstr("\n")));
  }
  EXPECT_FALSE(fs::exists("/tmp/grove-live-test-left"));
}

TEST_F(Live, NothingIsLeftOfTheAnswers) {
  fs::path folder;
  {
    LiveReference live({});
    const auto outputs = live.Outputs(*Task().FindCase("small"), 7);
    ASSERT_TRUE(outputs) << outputs.error().message;
    folder = fs::path(outputs->front().file).parent_path();
    EXPECT_TRUE(fs::exists(folder));
  }
  EXPECT_FALSE(fs::exists(folder));
}

TEST_F(Live, WithoutTorchTheInterpretersTriedAreNamed) {
  LiveOptions options;
  options.python = "/bin/false";
  const Error error = Asked("        y = x * factor + self.shift\n", options);
  EXPECT_EQ(error.code, ErrorCode::kUnavailable);
  EXPECT_THAT(error.message, HasSubstr("no Python with torch (tried /bin/false)"));
}

TEST_F(Live, ATaskWithoutItsModuleDoesNotLoad) {
  const fs::path copy = tasks_ / "copies";
  fs::remove_all(copy);
  fs::create_directories(copy);
  fs::copy(tasks_ / "shifted", copy / "shifted");
  fs::remove(copy / "shifted/problem.json");
  const auto task = seeds::LoadTask(copy, "shifted");
  ASSERT_FALSE(task);
  EXPECT_EQ(task.error().code, ErrorCode::kInvalidInput);
  EXPECT_THAT(task.error().message, HasSubstr("reference = \"live\" asks the module"));
}

}  // namespace
}  // namespace grove::eval
