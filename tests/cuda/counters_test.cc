#include "eval/cuda/counters.h"

#include <gtest/gtest.h>

#include "eval/cuda/cuda_device.h"
#include "eval/cuda/profile_run.h"

namespace grove::cuda {
namespace {

constexpr const char* kHeader =
    "\"ID\",\"Process ID\",\"Process Name\",\"Host Name\",\"Kernel Name\",\"Context\",\"Stream\","
    "\"Block Size\",\"Grid Size\",\"Device\",\"CC\",\"Section Name\",\"Metric Name\","
    "\"Metric Unit\",\"Metric Value\",\"Rule Name\",\"Rule Type\",\"Rule Description\"\n";

constexpr const char* kSpeed = "GPU Speed Of Light Throughput";

std::string Row(int id, const std::string& kernel, const std::string& section,
                const std::string& metric, const std::string& unit, const std::string& value) {
  return "\"" + std::to_string(id) + "\",\"77\",\"grove-gpu-worker\",\"127.0.0.1\",\"" + kernel +
         "\",\"1\",\"13\",\"(256, 1, 1)\",\"(4096, 1, 1)\",\"0\",\"9.0\",\"" + section + "\",\"" +
         metric + "\",\"" + unit + "\",\"" + value + "\",\"\",\"\",\"\"\n";
}

std::string Sample() {
  return std::string(
             "==PROF== Connected to process 77 (/x/grove-gpu-worker)\n"
             "==PROF== Profiling \"softmax\" - 0: 0%....50%....100% - 12 passes\n") +
         kHeader +
         Row(5, "softmax(const float *, float *)", kSpeed, "DRAM Throughput", "%", "84.26") +
         Row(5, "softmax(const float *, float *)", kSpeed, "Duration", "us", "1,531.04") +
         Row(5, "softmax(const float *, float *)", kSpeed, "Compute (SM) Throughput", "%", "21.4") +
         Row(5, "softmax(const float *, float *)", "Occupancy", "Achieved Occupancy", "%", "74.9") +
         Row(5, "softmax(const float *, float *)", "Launch Statistics",
             "Function Cache Configuration", "", "CachePreferNone") +
         Row(5, "softmax(const float *, float *)", "Command line profiler metrics",
             "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio", "inst",
             "9.5") +
         Row(5, "softmax(const float *, float *)", "Command line profiler metrics",
             "smsp__average_warps_issue_stalled_selected_per_issue_active.ratio", "inst", "99") +
         Row(6, "tail(float *)", kSpeed, "Duration", "ns", "2,400") +
         Row(6, "tail(float *)", kSpeed, "DRAM Throughput", "%", "3.5");
}

TEST(Counters, TheCsvOfNcuBecomesRows) {
  const auto rows = ParseCounters(Sample());
  ASSERT_TRUE(rows) << rows.error().message;
  ASSERT_EQ(rows->size(), 8U);  // the row whose value is a word is passed over
  EXPECT_EQ(rows->front().kernel, "softmax");
  EXPECT_EQ(rows->front().launch, 0);
  EXPECT_DOUBLE_EQ(rows->front().value, 84.26);
  EXPECT_EQ(rows->front().unit, "%");
  EXPECT_DOUBLE_EQ((*rows)[1].value, 1531.04);
  EXPECT_EQ(rows->back().kernel, "tail");
  EXPECT_EQ(rows->back().launch, 1);
}

TEST(Counters, TheSummaryIsOneLineForEachKernelTheSlowestFirst) {
  const std::string summary = CounterSummary(ParseCounters(Sample()).value());
  EXPECT_EQ(summary,
            "softmax: 1531.0 us under the profiler, DRAM 84% of peak, SM 21% of peak, 75% of the "
            "warps resident, warps wait, cycles per issue: long scoreboard 9.5\n"
            "tail: 2.4 us under the profiler, DRAM 4% of peak\n");
}

TEST(Counters, TheSummaryNamesTheGridTheRateAndTheLongestWaits) {
  const char* metrics = "Command line profiler metrics";
  const auto stall = [&](const char* name, const char* value) {
    return Row(1, "k(int)", metrics,
               std::string("smsp__average_warps_issue_stalled_") + name + "_per_issue_active.ratio",
               "inst", value);
  };
  const std::string summary = CounterSummary(
      ParseCounters(std::string(kHeader) + stall("barrier", "1.15") + stall("selected", "1") +
                    stall("not_selected", "0.97") + stall("drain", "0") + stall("wait", "1.56") +
                    stall("lg_throttle", "0.16") + stall("long_scoreboard", "0.91") +
                    stall("misc", "0.1") +
                    Row(1, "k(int)", kSpeed, "Memory Throughput", "%", "61") +
                    Row(1, "k(int)", kSpeed, "DRAM Throughput", "%", "41.8") +
                    Row(1, "k(int)", kSpeed, "L2 Cache Throughput", "%", "53.3") +
                    Row(1, "k(int)", "Memory", "Memory Throughput", "byte/s", "2.0107e+12") +
                    Row(1, "k(int)", "Launch Statistics", "Grid Size", "", "528") +
                    Row(1, "k(int)", "Launch Statistics", "Block Size", "", "256"))
          .value());
  EXPECT_EQ(
      summary,
      "k (528 blocks of 256 threads): DRAM 42% of peak (2011 GB/s), L2 53% of peak, warps wait, "
      "cycles per issue: wait 1.6, barrier 1.1, not selected 1.0, long scoreboard 0.9, lg "
      "throttle 0.2\n");
}

TEST(Counters, MoreThanThreeLaunchesAreCountedOnly) {
  std::string csv = kHeader;
  for (int i = 0; i < 5; ++i) {
    csv += Row(i, "k" + std::to_string(i) + "()", "S", "Duration", "us", std::to_string(10 + i));
  }
  const std::string summary = CounterSummary(ParseCounters(csv).value());
  EXPECT_TRUE(summary.starts_with("k4: 14.0 us")) << summary;
  EXPECT_NE(summary.find("and 2 more launches"), std::string::npos);
  EXPECT_EQ(summary.find("k0"), std::string::npos);
}

TEST(Counters, TheTableHasEveryRow) {
  const std::string table = CounterTable(ParseCounters(Sample()).value());
  EXPECT_NE(table.find("launch 0 softmax"), std::string::npos);
  EXPECT_NE(table.find("launch 1 tail"), std::string::npos);
  EXPECT_NE(table.find("Achieved Occupancy"), std::string::npos);
  EXPECT_NE(table.find("74.9"), std::string::npos);
}

TEST(Counters, MissingPermissionIsOneClearLine) {
  const auto rows = ParseCounters(
      "==PROF== Connected to process 1\n==ERROR== ERR_NVGPUCTRPERM - The user does not have "
      "permission to access NVIDIA GPU Performance Counters on the target device 0.\n");
  ASSERT_FALSE(rows);
  EXPECT_EQ(rows.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(rows.error().message.find("does not permit"), std::string::npos);
  EXPECT_NE(rows.error().message.find("NVreg_RestrictProfilingToAdminUsers"), std::string::npos);
}

TEST(Counters, OtherEndsOfNcuAreSaidInItsWords) {
  EXPECT_NE(ParseCounters("==WARNING== No kernels were profiled.\n")
                .error()
                .message.find("profiled no kernel"),
            std::string::npos);
  EXPECT_NE(ParseCounters("==ERROR== Failed to find metric foo\n")
                .error()
                .message.find("Failed to find metric foo"),
            std::string::npos);
  EXPECT_FALSE(ParseCounters(""));
  EXPECT_FALSE(ParseCounters(kHeader));
}

TEST(Counters, BrokenCsvNeverBecomesNumbersThatAreNotThere) {
  const std::string whole = Sample();
  for (std::size_t cut = 0; cut < whole.size(); cut += 7) {
    const auto rows = ParseCounters(whole.substr(0, cut));
    if (rows) {
      EXPECT_LE(rows->size(), 8U);
    }
  }
  EXPECT_FALSE(ParseCounters(std::string(kHeader) + "\"1\",\"2\"\n,,,,\n\"\"\"\"\"\n"));
}

TEST(Counters, AQuotedCommaAndQuoteStayInsideAField) {
  const auto rows = ParseCounters(std::string(kHeader) +
                                  Row(1, "k<int, \"\"x\"\">(int, float)", "S", "M", "%", "1"));
  ASSERT_TRUE(rows);
  EXPECT_EQ(rows->front().kernel, "k<int, \"x\">");
}

TEST(ProfileJob, SurvivesItsFile) {
  Job job;
  job.seed = 77;
  job.candidate.cubin = std::string("\0cubin", 6);
  job.task_case.tensors.resize(1);
  job.task_case.tensors[0].shape = {4, 5};
  const auto read = DecodeProfileJob(EncodeProfileJob(3, "support", job));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->ordinal, 3);
  EXPECT_EQ(read->support_cubin, "support");
  EXPECT_EQ(read->job.seed, 77U);
  EXPECT_EQ(read->job.candidate.cubin, job.candidate.cubin);
}

TEST(ProfileJob, AFileThatIsNoneIsRefused) {
  EXPECT_FALSE(DecodeProfileJob(""));
  const std::string whole = EncodeProfileJob(0, "s", Job{});
  for (std::size_t cut = 0; cut < whole.size(); ++cut) {
    EXPECT_FALSE(DecodeProfileJob(whole.substr(0, cut))) << cut;
  }
  EXPECT_FALSE(DecodeProfileJob(whole + "x"));
  EXPECT_FALSE(RunProfileJob("/nowhere/job"));
}

TEST(DriverVersion, IsReadFromTheKernelModulesLine) {
  EXPECT_EQ(ParseDriverVersion("NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Tue "
                               "Aug  5 11:22:33 UTC 2025\nGCC version:  gcc version 12.2.0\n"),
            "580.159.04");
  EXPECT_EQ(
      ParseDriverVersion("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  "
                         "Release Build  (root@x)\n"),
      "570.86.15");
  EXPECT_EQ(ParseDriverVersion(""), "");
  EXPECT_EQ(ParseDriverVersion("GCC version: 12.2.0"), "");
  EXPECT_EQ(ParseDriverVersion("NVRM version: none\nGCC version: 12.2.0"), "");
}

}  // namespace
}  // namespace grove::cuda
