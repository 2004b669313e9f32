// A real GPU for the tests labelled gpu, and small tasks to run on it. Every test skips with the
// driver's own words where there is none; the suite's main then counts "nothing ran" as a failure,
// so it is only registered under the label gpu.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "codegen/compile_farm.h"
#include "codegen/program.h"
#include "eval/cuda/cuda_device.h"
#include "eval/cuda/lane.h"
#include "seeds/task.h"

namespace grove::cuda {

// y = 2 x over `elements` fp32, and whatever else a test adds.
struct MiniTask {
  seeds::Task task;
  eval::CaseContext context;
};

class GpuTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite();
  static void TearDownTestSuite();
  void SetUp() override;

  // y = 2 x on a case of `elements`, reference compiled and ready.
  std::unique_ptr<MiniTask> Doubling(std::int64_t elements, std::string case_name = "case");
  // Compiles source and plan for the task's case; fails the test when it does not fit.
  eval::Prepared Prepare(const MiniTask& mini, const std::string& source, const std::string& plan);
  eval::Prepared PrepareKernel(const MiniTask& mini, const std::string& body);

  eval::CheckOutcome Check(const MiniTask& mini, const eval::Prepared& candidate, int runs = 2);
  eval::TimeOutcome Time(const MiniTask& mini, const eval::Prepared& candidate);
  eval::VerdictKind FaultOfBody(const std::string& body);

  static std::unique_ptr<codegen::CompileFarm> farm_;
  static std::unique_ptr<CudaDevice> device_;
  static std::string why_not_;
};

// For tests of our own device code: a context and lane in this very process.
class LaneTest : public GpuTest {
 protected:
  void SetUp() override;
  static std::unique_ptr<WorkerParts> parts_;
  static std::unique_ptr<Lane> lane_;
};

}  // namespace grove::cuda
