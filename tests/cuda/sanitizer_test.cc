#include "eval/cuda/sanitizer.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "eval/cuda/profile_run.h"
#include "tests/support/program.h"

namespace grove::cuda {
namespace {

namespace fs = std::filesystem;

const std::string kDone = std::string(kSanitizeDone) + "\n";

TEST(Sanitizer, ACleanRunHasNoErrors) {
  const auto report = ParseSanitizer("========= COMPUTE-SANITIZER\n" + kDone +
                                     "========= ERROR SUMMARY: 0 errors\n");
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->errors, 0);
  EXPECT_EQ(report->warnings, 0);
  EXPECT_TRUE(report->findings.empty());
}

TEST(Sanitizer, AnAccessOutOfBoundsIsCountedAndNamed) {
  const auto report = ParseSanitizer(
      "========= COMPUTE-SANITIZER\n"
      "========= Invalid __global__ read of size 4 bytes\n"
      "=========     at softmax+0x180\n"
      "=========     by thread (31,0,0) in block (4,0,0)\n"
      "=========     Access at 0x7f3c8a000400 is out of bounds\n"
      "========= \n"
      "========= Invalid __global__ write of size 4 bytes\n"
      "=========     at softmax+0x200\n"
      "grove-gpu-worker: cuEventQuery: an illegal memory access was encountered\n"
      "========= Target application returned an error\n"
      "========= ERROR SUMMARY: 34 errors\n"
      "========= ERROR SUMMARY: 14 errors were not printed. Use --print-limit option to adjust\n");
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->errors, 34);
  ASSERT_EQ(report->findings.size(), 3U);
  EXPECT_EQ(report->findings[0], "Invalid __global__ read of size 4 bytes");
  EXPECT_EQ(report->findings[1], "Invalid __global__ write of size 4 bytes");
}

TEST(Sanitizer, OneErrorIsOne) {
  const auto report =
      ParseSanitizer("========= Uninitialized __global__ memory read of size 4 bytes\n" + kDone +
                     "========= ERROR SUMMARY: 1 error\n");
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->errors, 1);
}

TEST(Sanitizer, HazardsAreToldApartFromWarnings) {
  const auto report = ParseSanitizer(
      "========= COMPUTE-SANITIZER\n"
      "========= Error: Race reported between Write access at reduce+0x90\n"
      "=========     and Read access at reduce+0x140 [1020 hazards]\n" +
      kDone + "========= RACECHECK SUMMARY: 3 hazards displayed (1 error, 2 warnings)\n");
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->errors, 1);
  EXPECT_EQ(report->warnings, 2);
  ASSERT_EQ(report->findings.size(), 1U);
  const auto clean = ParseSanitizer(
      kDone + "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n");
  ASSERT_TRUE(clean) << clean.error().message;
  EXPECT_EQ(clean->errors, 0);
}

TEST(Sanitizer, ARunWithoutASummaryProvesNothing) {
  const auto none = ParseSanitizer("");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::kUnavailable);
  const auto unattached = ParseSanitizer(
      "========= COMPUTE-SANITIZER\n"
      "========= Error: No attachable process found. compute-sanitizer timed-out.\n");
  ASSERT_FALSE(unattached);
  EXPECT_NE(unattached.error().message.find("No attachable process"), std::string::npos);
}

TEST(Sanitizer, ACandidateThatDidNotRunToItsEndProvesNothing) {
  const auto report = ParseSanitizer(
      "========= COMPUTE-SANITIZER\n"
      "grove-gpu-worker: tensor x of 64 bytes: out of memory\n"
      "========= Target application returned an error\n"
      "========= ERROR SUMMARY: 0 errors\n");
  ASSERT_FALSE(report);
  EXPECT_NE(report.error().message.find("out of memory"), std::string::npos);
}

TEST(Sanitizer, NoCutOfItsOutputIsMoreThanItSays) {
  const std::string whole =
      "========= Invalid __global__ read of size 4 bytes\n" + kDone +
      "========= ERROR SUMMARY: 12 errors\n"
      "========= RACECHECK SUMMARY: 3 hazards displayed (1 error, 2 warnings)\n";
  for (std::size_t cut = 0; cut < whole.size(); ++cut) {
    const auto report = ParseSanitizer(std::string_view(whole).substr(0, cut));
    if (report) {
      EXPECT_LE(report->errors, 13) << cut;
    }
  }
}

TEST(Sanitizer, EveryToolHasAName) {
  for (const char* name : {"memcheck", "racecheck", "initcheck", "synccheck"}) {
    const auto tool = SanitizerToolFromName(name);
    ASSERT_TRUE(tool) << name;
    EXPECT_EQ(Name(*tool), name);
  }
  EXPECT_FALSE(SanitizerToolFromName("leakcheck"));
}

// A stand-in for compute-sanitizer: a shell script.
class FakeSanitizer {
 public:
  explicit FakeSanitizer(const std::string& script) : path_(folder_.path() / "compute-sanitizer") {
    std::ofstream(path_) << "#!/bin/sh\n" << script;
    fs::permissions(path_, fs::perms::owner_all);
  }
  const fs::path& path() const { return path_; }

 private:
  testing::ScratchFolder folder_;
  fs::path path_;
};

std::vector<Job> TwoJobs() {
  std::vector<Job> jobs(2);
  jobs[0].seed = 5;
  jobs[1].seed = 6;
  return jobs;
}

TEST(Sanitizer, ItIsRunAroundTheWorkerWithAFileForEachJob) {
  // Says what it was called with, and that both files hold a job.
  const FakeSanitizer fake(
      "echo \"=========     $1 $2 $7 $8\"\n"
      "test \"$1 $2 $7 $8\" = '--tool racecheck /x/worker sanitize' || exit 1\n"
      "test -s \"$9\" || exit 1\n"
      "shift; test -s \"$9\" || exit 1\n"
      "echo '" +
      std::string(kSanitizeDone) +
      "'\n"
      "echo '========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)'\n");
  const auto report = RunSanitizer(fake.path(), SanitizerTool::kRacecheck, "/x/worker", 0, "cubin",
                                   TwoJobs(), std::chrono::milliseconds(20000));
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->errors, 0);
}

TEST(Sanitizer, AToolThatNeverEndsIsKilledAtTheDeadline) {
  const FakeSanitizer fake("sleep 600\n");
  const auto report = RunSanitizer(fake.path(), SanitizerTool::kMemcheck, "/x/worker", 0, "cubin",
                                   TwoJobs(), std::chrono::milliseconds(200));
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ErrorCode::kUnavailable);
}

TEST(Sanitizer, WhatItSaysOnItsErrorOutputCountsToo) {
  const FakeSanitizer fake(
      "echo '========= Invalid __shared__ write of size 4 bytes' >&2\n"
      "echo '========= ERROR SUMMARY: 2 errors' >&2\n");
  const auto report = RunSanitizer(fake.path(), SanitizerTool::kMemcheck, "/x/worker", 0, "cubin",
                                   TwoJobs(), std::chrono::milliseconds(20000));
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->errors, 2);
}

TEST(SanitizeJobs, AFileThatIsNoneIsRefused) { EXPECT_FALSE(RunSanitizeJobs({"/nowhere/job"})); }

}  // namespace
}  // namespace grove::cuda
