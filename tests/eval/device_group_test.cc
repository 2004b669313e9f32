#include "eval/device_group.h"

#include <map>
#include <thread>

#include <gtest/gtest.h>

#include "eval/evaluator.h"
#include "tests/support/fakes.h"

namespace grove::eval {
namespace {

using testing::FakeDevice;
using testing::TinyPlan;
using testing::TinySource;

std::unique_ptr<FakeDevice> Gpu(int ordinal) {
  auto device = std::make_unique<FakeDevice>();
  device->measures = true;
  device->device_name = "cuda:" + std::to_string(ordinal);
  device->uuid = "GPU-" + std::to_string(ordinal);
  return device;
}

class DeviceGroupTest : public ::testing::Test {
 protected:
  void Make(int count) {
    std::vector<std::unique_ptr<Device>> members;
    for (int i = 0; i < count; ++i) {
      auto gpu = Gpu(i);
      gpus_.push_back(gpu.get());
      members.push_back(std::move(gpu));
    }
    group_ = MakeDeviceGroup(std::move(members)).value();
    evaluator_ = Evaluator::Create(task_, compiler_, *group_, {}).value();
  }
  Result<Evaluation> Evaluate(const std::string& directives) {
    return evaluator_->Evaluate(codegen::MakeProgram(TinySource(directives), TinyPlan()).value());
  }

  seeds::Task task_ = testing::TinyTask();
  testing::FakeCompiler compiler_;
  std::vector<FakeDevice*> gpus_;
  std::unique_ptr<DeviceGroup> group_;
  std::unique_ptr<Evaluator> evaluator_;
};

TEST_F(DeviceGroupTest, ItIsNamedByItsMembersAndShowsTheirIdentities) {
  Make(2);
  EXPECT_EQ(group_->name(), "cuda:0,cuda:1");
  ASSERT_EQ(group_->gpus().size(), 2U);
  EXPECT_EQ(group_->gpus()[1].uuid, "GPU-1");
  EXPECT_EQ(group_->size(), 2U);
}

TEST_F(DeviceGroupTest, EveryMemberGetsChecksAndTimings) {
  Make(3);
  std::map<std::string, int> timed;
  for (int i = 0; i < 9; ++i) {
    const auto evaluation = Evaluate("// @time " + std::to_string(500 + i) + "\n");
    ASSERT_TRUE(evaluation);
    ++timed[evaluation->times.at(0).gpu_uuid];
  }
  EXPECT_EQ(timed.size(), 3U);
  for (const FakeDevice* gpu : gpus_) EXPECT_FALSE(gpu->checked().empty());
}

TEST_F(DeviceGroupTest, AComparisonRunsOnOneMember) {
  Make(2);
  const auto old_program = codegen::MakeProgram(TinySource("// @time 900\n"), TinyPlan()).value();
  const auto new_program = codegen::MakeProgram(TinySource("// @time 800\n"), TinyPlan()).value();
  const auto pairs = evaluator_->ComparePair(old_program, new_program);
  ASSERT_TRUE(pairs);
  EXPECT_EQ(gpus_[0]->pairs_taken() + gpus_[1]->pairs_taken(), 1);
  EXPECT_EQ(pairs->at(0).outcome.result, PairOutcome::Result::kFaster);
}

TEST_F(DeviceGroupTest, AMemberThatIsGoneIsLeftOutAndNothingIsLost) {
  Make(2);
  gpus_[0]->gone = true;
  for (int i = 0; i < 4; ++i) {
    const auto evaluation = Evaluate("// @time " + std::to_string(500 + i) + "\n");
    ASSERT_TRUE(evaluation) << evaluation.error().message;
    EXPECT_EQ(evaluation->verdict.kind, VerdictKind::kPass);
    EXPECT_EQ(evaluation->times.at(0).gpu_uuid, "GPU-1");
  }
  EXPECT_EQ(group_->alive(), 1U);
}

TEST_F(DeviceGroupTest, WhenAllAreGoneTheLastErrorIsTheGroups) {
  Make(2);
  gpus_[0]->gone = gpus_[1]->gone = true;
  const auto evaluation = Evaluate("");
  ASSERT_FALSE(evaluation);
  EXPECT_EQ(evaluation.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(evaluation.error().message.find("is gone"), std::string::npos);
  const auto again = Evaluate("");
  ASSERT_FALSE(again);
  EXPECT_NE(again.error().message.find("no GPU is left"), std::string::npos);
}

TEST_F(DeviceGroupTest, ManyThreadsMayUseItAtOnce) {
  Make(4);
  std::vector<std::thread> threads;
  std::atomic<int> passed{0};
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      const auto evaluation = Evaluate("// @time " + std::to_string(400 + t) + "\n");
      if (evaluation && evaluation->verdict.passed()) ++passed;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(passed.load(), 8);
}

TEST(DeviceGroupInput, NoMembersAndOneGpuTwiceAreRefused) {
  EXPECT_EQ(MakeDeviceGroup({}).error().code, ErrorCode::kInvalidInput);
  std::vector<std::unique_ptr<Device>> twice;
  twice.push_back(Gpu(0));
  twice.push_back(Gpu(0));
  const auto group = MakeDeviceGroup(std::move(twice));
  ASSERT_FALSE(group);
  EXPECT_NE(group.error().message.find("named twice"), std::string::npos);
}

class OtherModel final : public Device {
 public:
  std::string name() const override { return "cuda:1"; }
  const DeviceSpec& spec() const override { return *FindDevice("A100-80GB"); }
  codegen::DeviceLimits limits() const override { return {}; }
  Result<CheckOutcome> Check(const CheckRequest&) override { return CheckOutcome{}; }
  Result<TimeOutcome> Time(const TimeRequest&) override { return TimeOutcome{}; }
};

TEST(DeviceGroupInput, TwoModelsDoNotShareARun) {
  ASSERT_NE(FindDevice("A100-80GB"), nullptr);
  std::vector<std::unique_ptr<Device>> members;
  members.push_back(Gpu(0));
  members.push_back(std::make_unique<OtherModel>());
  const auto group = MakeDeviceGroup(std::move(members));
  ASSERT_FALSE(group);
  EXPECT_EQ(group.error().code, ErrorCode::kInvalidInput);
  EXPECT_NE(group.error().message.find("one model"), std::string::npos);
}

}  // namespace
}  // namespace grove::eval
