#include "eval/baselines.h"

#include <stdlib.h>

#include <gtest/gtest.h>

#include "base/files.h"
#include "tests/support/fakes.h"

namespace grove::eval {
namespace {

namespace fs = std::filesystem;

constexpr const char* kUuid = "GPU-01234567-89ab-cdef-0123-456789abcdef";
constexpr const char* kOther = "GPU-fedcba98-89ab-cdef-0123-456789abcdef";

class BaselinesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "grove-baselines-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    cache_ = pattern;
  }
  void TearDown() override { fs::remove_all(cache_); }

  const seeds::Case& Scored() const { return *task_.FindCase("scored"); }
  StoredBaseline Entry(const std::string& name, double ns) const {
    StoredBaseline b;
    b.task = task_.name;
    b.case_name = "scored";
    b.case_key = CaseKey(task_, Scored());
    b.name = name;
    b.library = "cuBLAS 13.1.0";
    b.driver = gpu_.driver;
    b.time = Nanoseconds(ns);
    b.low = Nanoseconds(ns - 1);
    b.high = Nanoseconds(ns + 1);
    b.samples = {Nanoseconds(ns), Nanoseconds(ns + 1)};
    b.measured = std::chrono::system_clock::time_point(std::chrono::seconds(1764439200));
    return b;
  }
  std::vector<StoredBaseline> Find(const GpuIdentity& gpu) const {
    return FindBaselines(cache_, gpu, task_);
  }
  fs::path File(const std::string& uuid) const { return cache_ / "baselines" / (uuid + ".json"); }

  fs::path cache_;
  seeds::Task task_ = testing::TinyTask();
  GpuIdentity gpu_{kUuid, "NVIDIA H200", "580.1", 0};
};

TEST_F(BaselinesTest, WhatWasSavedIsFoundFastestFirst) {
  ASSERT_TRUE(SaveBaselines(cache_, gpu_, {Entry("slow", 200), Entry("fast", 100)}));
  const auto found = Find(gpu_);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].name, "fast");
  EXPECT_EQ(found[0].time, Nanoseconds(100));
  EXPECT_EQ(found[0].low, Nanoseconds(99));
  EXPECT_EQ(found[0].high, Nanoseconds(101));
  EXPECT_EQ(found[0].library, "cuBLAS 13.1.0");
  EXPECT_EQ(found[0].samples.size(), 2U);
  EXPECT_EQ(found[0].measured, Entry("fast", 100).measured);
  EXPECT_EQ(found[1].name, "slow");
}

TEST_F(BaselinesTest, ABaselineIsNeverUsedOnAnotherGpuOfTheSameModel) {
  ASSERT_TRUE(SaveBaselines(cache_, gpu_, {Entry("fast", 100)}));
  EXPECT_TRUE(Find({kOther, "NVIDIA H200", "580.1", 0}).empty());
}

TEST_F(BaselinesTest, AFileCopiedToAnotherGpusNameIsNotBelieved) {
  ASSERT_TRUE(SaveBaselines(cache_, gpu_, {Entry("fast", 100)}));
  fs::copy_file(File(kUuid), File(kOther));
  EXPECT_TRUE(Find({kOther, "NVIDIA H200", "580.1", 0}).empty());
}

TEST_F(BaselinesTest, AnotherDriverDoesNotFindItAndTheOldOneStillDoes) {
  ASSERT_TRUE(SaveBaselines(cache_, gpu_, {Entry("fast", 100)}));
  GpuIdentity updated = gpu_;
  updated.driver = "590.2";
  EXPECT_TRUE(Find(updated).empty());
  StoredBaseline anew = Entry("fast", 90);
  anew.driver = updated.driver;
  ASSERT_TRUE(SaveBaselines(cache_, updated, {anew}));
  ASSERT_EQ(Find(updated).size(), 1U);
  EXPECT_EQ(Find(updated)[0].time, Nanoseconds(90));
  ASSERT_EQ(Find(gpu_).size(), 1U);
  EXPECT_EQ(Find(gpu_)[0].time, Nanoseconds(100));
}

TEST_F(BaselinesTest, AnotherInstalledVersionOfItsLibraryDoesNotFindIt) {
  StoredBaseline torch = Entry("torch_eager", 300);
  torch.library = "torch 2.11, CUDA 13.0";
  ASSERT_TRUE(SaveBaselines(cache_, gpu_, {Entry("cublas_fp32", 100), torch}));
  std::string installed = "cuBLAS 13.1.0";
  int asked = 0;
  const PresentLibrary present = [&](const std::string& product) {
    ++asked;
    return product == "cuBLAS" ? installed : std::string();
  };
  EXPECT_EQ(FindBaselines(cache_, gpu_, task_, present).size(), 2U);
  EXPECT_EQ(asked, 2);
  installed = "cuBLAS 13.2.0";
  const auto found = FindBaselines(cache_, gpu_, task_, present);
  // What is installed of PyTorch is not known: its entry stays.
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].name, "torch_eager");
  installed.clear();
  EXPECT_EQ(FindBaselines(cache_, gpu_, task_, present).size(), 2U);
}

TEST_F(BaselinesTest, ACaseThatChangesLosesItsBaselinesAndItsNameDoesNotCount) {
  ASSERT_TRUE(SaveBaselines(cache_, gpu_, {Entry("fast", 100)}));
  for (seeds::Case& c : task_.cases) {
    if (c.name == "scored") c.name = "renamed";
  }
  ASSERT_EQ(Find(gpu_).size(), 1U);
  EXPECT_EQ(Find(gpu_)[0].case_name, "renamed");
  for (seeds::Case& c : task_.cases) {
    if (c.name == "renamed") c.tensors[0].shape = {2048};
  }
  EXPECT_TRUE(Find(gpu_).empty());
}

TEST_F(BaselinesTest, TheKeyKnowsDtypesInputsAndConstants) {
  const Hash key = CaseKey(task_, Scored());
  seeds::Case changed = Scored();
  changed.tensors[0].dtype = DType::kF16;
  EXPECT_NE(CaseKey(task_, changed), key);
  changed = Scored();
  changed.tensors[0].distribution.b = 2;
  EXPECT_NE(CaseKey(task_, changed), key);
  changed = Scored();
  changed.scalars.push_back({"eps", DType::kF32, 1e-5});
  EXPECT_NE(CaseKey(task_, changed), key);
}

TEST_F(BaselinesTest, MeasuringAgainReplacesTheEntryAndKeepsTheOthers) {
  ASSERT_TRUE(SaveBaselines(cache_, gpu_, {Entry("a", 100), Entry("b", 200)}));
  ASSERT_TRUE(SaveBaselines(cache_, gpu_, {Entry("a", 90)}));
  const auto found = Find(gpu_);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].time, Nanoseconds(90));
  EXPECT_EQ(found[1].name, "b");
}

TEST_F(BaselinesTest, ADamagedFileIsNoBaselineAndIsReplaced) {
  ASSERT_TRUE(SaveBaselines(cache_, gpu_, {Entry("a", 100)}));
  for (const char* text :
       {"", "{", "[]", "{\"version\": 1}", "{\"version\": 99, \"baselines\": []}",
        "{\"version\": 1, \"uuid\": 7, \"baselines\": [1, null]}"}) {
    ASSERT_TRUE(WriteFileAtomic(File(kUuid), text));
    EXPECT_TRUE(Find(gpu_).empty()) << text;
  }
  ASSERT_TRUE(SaveBaselines(cache_, gpu_, {Entry("b", 100)}));
  EXPECT_EQ(Find(gpu_).size(), 1U);
}

TEST_F(BaselinesTest, ATimeThatIsNoneIsLeftOut) {
  ASSERT_TRUE(SaveBaselines(cache_, gpu_, {Entry("a", -5), Entry("b", 0), Entry("c", 1)}));
  ASSERT_EQ(Find(gpu_).size(), 1U);
  EXPECT_EQ(Find(gpu_)[0].name, "c");
}

TEST_F(BaselinesTest, AUuidThatCouldLeaveTheFolderIsRefused) {
  for (const char* uuid : {"", "GPU-", "../x", "GPU-../../x", "GPU-0123/4", "MIG-0123"}) {
    const GpuIdentity gpu{uuid, "x", "1", 0};
    EXPECT_FALSE(SaveBaselines(cache_, gpu, {Entry("a", 1)})) << uuid;
    EXPECT_TRUE(Find(gpu).empty()) << uuid;
  }
}

TEST_F(BaselinesTest, TorchIsAskedForTheScoredCasesOnly) {
  const std::string request = TorchRequest(task_);
  EXPECT_NE(request.find("\"case\":\"scored\""), std::string::npos);
  EXPECT_EQ(request.find("\"case\":\"smoke\""), std::string::npos);
  EXPECT_NE(request.find("\"allow_tf32\":false"), std::string::npos);
  EXPECT_NE(request.find("\"shape\":[1024]"), std::string::npos);
}

std::string Torch(const std::string& uuid, const std::string& rows) {
  return R"({"device": "NVIDIA H200", "uuid": ")" + uuid +
         R"(", "torch": "2.11.0", "cuda": "13.0", "results": [)" + rows + "]}";
}

TEST_F(BaselinesTest, TorchResultsBecomeEntriesWithVersions) {
  const auto results = ParseTorchResults(
      Torch(kUuid, R"({"task": "tiny", "case": "scored", "mode": "eager", "error": null,
                       "median_us": 12.5, "min_us": 12, "q3_us": 13, "samples_us": [12, 13]},
                      {"task": "tiny", "case": "scored", "mode": "compile",
                       "error": "RuntimeError: no triton"},
                      {"task": "other", "case": "x", "mode": "eager", "median_us": 1})"),
      task_);
  ASSERT_TRUE(results) << results.error().message;
  EXPECT_EQ(results->gpu.uuid, kUuid);
  ASSERT_EQ(results->baselines.size(), 1U);
  const StoredBaseline& b = results->baselines[0];
  EXPECT_EQ(b.name, "torch_eager");
  EXPECT_EQ(b.time, Nanoseconds(12500));
  EXPECT_EQ(b.library, "torch 2.11.0, CUDA 13.0");
  EXPECT_EQ(b.case_key, CaseKey(task_, Scored()));
  EXPECT_EQ(b.samples.size(), 2U);
  ASSERT_EQ(results->problems.size(), 1U);
  EXPECT_NE(results->problems[0].find("no triton"), std::string::npos);
}

TEST_F(BaselinesTest, TorchResultsThatAreNoneAreRefusedWithTheReason) {
  const std::string row = R"({"task": "tiny", "case": "scored", "mode": "eager", "median_us": 1})";
  for (const std::string& text :
       {std::string(), std::string("[]"), std::string("{}"), Torch("", row), Torch(kUuid, "1"),
        Torch(kUuid, ""), Torch(kUuid, R"({"task": "tiny", "case": "scored", "mode": "x"})")}) {
    const auto results = ParseTorchResults(text, task_);
    ASSERT_FALSE(results) << text;
    EXPECT_EQ(results.error().code, ErrorCode::kInvalidInput);
  }
  EXPECT_NE(ParseTorchResults(Torch("", row), task_).error().message.find("one physical GPU"),
            std::string::npos);
}

}  // namespace
}  // namespace grove::eval
