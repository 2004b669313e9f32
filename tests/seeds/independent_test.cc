// Every task's reference against another implementation: NumPy in fp64 (independent.py), on the
// inputs that candidates get, for the smoke case and one other per suite; and the lint of every
// task.
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "codegen/compile_farm.h"
#include "eval/emulator_device.h"
#include "eval/inputs.h"
#include "eval/lint.h"
#include "seeds/task.h"

namespace grove {
namespace {

using ::testing::HasSubstr;

std::filesystem::path Tasks() { return std::filesystem::path(GROVE_SOURCE_DIR) / "seeds/tasks"; }

std::unique_ptr<codegen::Compiler> MakeCompiler() {
  codegen::FarmOptions options;
  options.deadline = std::chrono::minutes(5);
  options.cache_folder =
      std::filesystem::path(GROVE_BINARY_DIR).parent_path() / "test-results/task_kernels_cache";
  auto farm = codegen::MakeCompileFarm(options);
  EXPECT_TRUE(farm) << (farm ? "" : farm.error().message);
  return farm ? std::move(*farm) : nullptr;
}

// The smoke case and the first sweep case of a suite, as a task.
seeds::Task Few(const seeds::Task& whole, const std::string& suite) {
  seeds::Task task = *seeds::SelectCases(whole, suite, {});
  std::set<seeds::CaseRole> seen;
  for (std::size_t i = 0; i < task.cases.size();) {
    const seeds::CaseRole role = task.cases[i].role;
    const bool wanted = (role == seeds::CaseRole::kSmoke || role == seeds::CaseRole::kSweep) &&
                        seen.insert(role).second;
    if (wanted) {
      ++i;
      continue;
    }
    const auto at = static_cast<std::ptrdiff_t>(i);
    task.cases.erase(task.cases.begin() + at);
    task.reduction.erase(task.reduction.begin() + at);
    task.reference_elements_per_block.erase(task.reference_elements_per_block.begin() + at);
  }
  return task;
}

void WriteDoubles(const std::filesystem::path& path, const std::vector<double>& values) {
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(values.data()),
            static_cast<std::streamsize>(values.size() * sizeof(double)));
}

// Inputs and reference outputs of a case as files for the script. Returns the number of outputs.
int WriteCase(const eval::CaseContext& context, const std::filesystem::path& folder,
              const std::string& stem) {
  const seeds::Case& c = context.task_case();
  const std::uint64_t seed = 77;
  const auto outputs =
      eval::EmulateReference(context, std::vector<std::uint64_t>(c.tensors.size(), seed));
  EXPECT_TRUE(outputs) << (outputs ? "" : outputs.error().message);
  if (!outputs) return 0;
  nlohmann::ordered_json json = {{"task", context.task->name}, {"case", c.name}};
  json["dims"] = nlohmann::ordered_json::object();
  json["scalars"] = nlohmann::ordered_json::object();
  for (const seeds::Dim& dim : c.dims) json["dims"][dim.name] = dim.value;
  for (const seeds::Scalar& scalar : c.scalars) {
    json["scalars"][scalar.name] = scalar.dtype == DType::kF32
                                       ? static_cast<double>(static_cast<float>(scalar.value))
                                       : scalar.value;
  }
  std::size_t output = 0;
  for (std::size_t t = 0; t < c.tensors.size(); ++t) {
    const seeds::Tensor& tensor = c.tensors[t];
    std::vector<double> values;
    if (tensor.role == seeds::TensorRole::kInput) {
      std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.bytes().value));
      eval::FillInput(tensor, seed, t, bytes);
      for (std::int64_t i = 0; i < tensor.elements(); ++i) {
        values.push_back(LoadElement(tensor.dtype, bytes.data(), i));
      }
    } else {
      values = (*outputs)[output++];
    }
    const std::string file = fmt::format("{}.{}.bin", stem, tensor.name);
    WriteDoubles(folder / file, values);
    json["tensors"].push_back(
        {{"name", tensor.name},
         {"role", tensor.role == seeds::TensorRole::kInput ? "input" : "output"},
         {"shape", tensor.shape},
         {"file", file}});
  }
  std::ofstream(folder / (stem + ".json")) << json.dump();
  return static_cast<int>(output);
}

TEST(References, AgreeWithNumPy) {
  const auto compiler = MakeCompiler();
  ASSERT_TRUE(compiler);
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / "independent";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  int written = 0, tasks = 0;
  const auto names = seeds::ListTasks(Tasks());
  ASSERT_TRUE(names);
  for (const std::string& name : *names) {
    const auto whole = seeds::LoadTask(Tasks(), name);
    ASSERT_TRUE(whole) << whole.error().message;
    if (whole->reference.source.empty()) continue;  // a checker judges it, and has its own tests
    ++tasks;
    for (const std::string& suite : whole->suites) {
      const seeds::Task few = Few(*whole, suite);
      for (std::size_t i = 0; i < few.cases.size(); ++i) {
        const auto context = eval::PrepareReference(few, i, *compiler, "sm_90");
        ASSERT_TRUE(context) << context.error().message;
        written +=
            WriteCase(*context, folder, fmt::format("{}_{}_{}", name, suite, few.cases[i].name));
      }
    }
  }
  EXPECT_GE(tasks, 12);
  // Debian's interpreter: the package is for that one, whatever else is on PATH.
  const std::string command = fmt::format("/usr/bin/python3 {}/tests/seeds/independent.py {} 2>&1",
                                          GROVE_SOURCE_DIR, folder.string());
  std::FILE* pipe = ::popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string text;
  char buffer[4096];
  for (std::size_t n; (n = std::fread(buffer, 1, sizeof(buffer), pipe)) > 0;)
    text.append(buffer, n);
  ASSERT_EQ(::pclose(pipe), 0) << text << "(python3-numpy is in scripts/setup)";
  int compared = 0;
  std::istringstream lines(text);
  std::string task, case_name, output, number;
  while (lines >> task >> case_name >> output >> number) {
    EXPECT_LT(std::stod(number), 1e-12) << task << " " << case_name << " " << output;
    ++compared;
  }
  EXPECT_EQ(compared, written) << text;
  std::filesystem::remove_all(folder);
}

// --- lint ---------------------------------------------------------------------------------------

class LintTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { compiler_ = MakeCompiler(); }
  static void TearDownTestSuite() { compiler_.reset(); }
  // rmsnorm in few cases, to be broken.
  static seeds::Task Sound() {
    const auto whole = seeds::LoadTask(Tasks(), "rmsnorm");
    EXPECT_TRUE(whole);
    return *whole;
  }
  static std::vector<eval::LintFinding> Findings(const seeds::Task& task) {
    eval::LintOptions options;
    options.small = true;
    const auto report = eval::Lint(task, *compiler_, options);
    EXPECT_TRUE(report) << (report ? "" : report.error().message);
    return report ? report->findings : std::vector<eval::LintFinding>{};
  }
  static bool Has(const std::vector<eval::LintFinding>& findings, const std::string& check,
                  const std::string& words) {
    for (const eval::LintFinding& finding : findings) {
      if (finding.check == check && finding.message.find(words) != std::string::npos) return true;
    }
    return false;
  }
  static seeds::Task WithReference(const std::string& from, const std::string& to) {
    seeds::Task task = Sound();
    const std::size_t at = task.reference.source.find(from);
    EXPECT_NE(at, std::string::npos) << task.reference.source;
    task.reference.source.replace(at, from.size(), to);
    return task;
  }
  static std::unique_ptr<codegen::Compiler> compiler_;
};
std::unique_ptr<codegen::Compiler> LintTest::compiler_;

TEST_F(LintTest, ASoundTaskHasNoFindings) {
  for (const auto& finding : Findings(Sound())) {
    ADD_FAILURE() << finding.case_name << ": " << finding.check << ": " << finding.message;
  }
}

TEST_F(LintTest, WhatTheTextLacksIsNamed) {
  seeds::Task task = Sound();
  task.title.clear();
  task.family.clear();
  task.baselines.clear();
  task.contract = "Normalises x to y.";
  task.cases[0].tolerance = 0.5;
  task.cases[0].flops = 0;
  task.cases[0].min_bytes = Bytes(std::int64_t{1} << 50);
  std::erase_if(task.cases, [](const auto& c) { return c.role == seeds::CaseRole::kEdge; });
  const auto findings = eval::LintText(task);
  for (const char* words :
       {"title", "family", "baselines", "contract is too short", "what weight is", "tolerance",
        "flops", "bytes", "no case of role edge"}) {
    EXPECT_TRUE(Has(findings, "text", words)) << words;
  }
  EXPECT_TRUE(eval::LintText(Sound()).empty());
}

TEST_F(LintTest, AnInputThatNothingDependsOnIsFound) {
  EXPECT_TRUE(
      Has(Findings(WithReference("weight[", "x[0 * ")), "reference", "do not depend on weight"));
}

TEST_F(LintTest, AToleranceThatLetsOtherAnswersPassIsFound) {
  seeds::Task task = Sound();
  for (seeds::Case& c : task.cases) c.tolerance = 20;
  const auto findings = Findings(task);
  EXPECT_TRUE(Has(findings, "answers", "zeros would pass"));
  EXPECT_TRUE(Has(findings, "answers", "mean of the right answer"));
  EXPECT_TRUE(Has(findings, "answers", "for other inputs"));
}

// Zeros are the factorisation of zeros.
TEST_F(LintTest, ZerosThatACheckerWouldTakeAreFound) {
  const auto whole = seeds::LoadTask(Tasks(), "qr");
  ASSERT_TRUE(whole) << whole.error().message;
  EXPECT_FALSE(Has(Findings(*whole), "answers", "zeros would pass"));
  seeds::Task task = *whole;
  for (seeds::Case& c : task.cases) {
    if (c.role != seeds::CaseRole::kSmoke) continue;
    c.tensors[0].distribution = {};
    c.tensors[0].distribution.kind = seeds::Distribution::Kind::kConstant;
    c.tensors[0].distribution.a = 0;
  }
  EXPECT_TRUE(Has(Findings(task), "answers", "zeros would pass"));
}

TEST_F(LintTest, ASeedThatDoesNotPassIsFound) {
  seeds::Task task = Sound();
  const std::string from = "scalar::eps";
  task.seed.source.replace(task.seed.source.find(from), from.size(), "1.0f");
  EXPECT_TRUE(Has(Findings(task), "seed", "does not pass"));
}

TEST_F(LintTest, AReferenceThatDoesNotCompileIsAFinding) {
  EXPECT_TRUE(Has(Findings(WithReference("weight[", "nothing[")), "reference", "nothing"));
}

}  // namespace
}  // namespace grove
