// Fakes of what a search works with, written once. A kernel's source says how it behaves, so that a
// test reads as its own specification:
//
//   // @time 1200            modelled time in ns on every scored case (default 1000)
//   // @fail CASE KIND       the check of CASE (or * for all) ends with this verdict kind
//   // @error CASE 1e-3      relative L2 error of CASE
//   // @compile error        the compiler refuses it ("error", "timeout", "memory", "crashed")
//   // @unwritten CASE       the check of CASE finds an unwritten element
//   // @random CASE          runs of CASE differ bitwise
//   // @pairtime 900         what it takes in a comparison, when that differs from @time
//   // @pair KIND             in a comparison it ends with this verdict kind (FakeDevice::measures)
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.h"
#include "codegen/compiler.h"
#include "eval/device.h"
#include "llm/client.h"
#include "search/observer.h"
#include "seeds/task.h"

namespace grove::testing {

// A clock that only the test moves. Thread-compatible.
class FakeClock final : public Clock {
 public:
  std::chrono::steady_clock::time_point Now() const override { return now_; }
  std::chrono::system_clock::time_point WallTime() const override {
    return std::chrono::system_clock::time_point(std::chrono::hours(24 * 365 * 50)) +
           std::chrono::duration_cast<std::chrono::system_clock::duration>(now_.time_since_epoch());
  }
  void Advance(std::chrono::milliseconds by) { now_ += by; }

 private:
  std::chrono::steady_clock::time_point now_;
};

// Entry points are the `extern "C" __global__ void NAME(...)` of the source, each parameter 8
// bytes.
class FakeCompiler final : public codegen::Compiler {
 public:
  Result<std::shared_ptr<const codegen::CompileOutcome>> Compile(
      const codegen::CompileRequest& request) override;
  Result<std::string> Version() override { return std::string("fake 1"); }
  int calls() const { return calls_.load(); }
  // From the n-th call on (1-based) Compile is an Error: no compiler can be had.
  void FailFrom(int call) { fail_from_ = call; }

 private:
  std::atomic<int> calls_{0};
  int fail_from_ = 0;
};

// Behaves as the source says.
class FakeDevice final : public eval::Device {
 public:
  FakeDevice();
  std::string name() const override { return device_name; }
  const eval::DeviceSpec& spec() const override { return spec_; }
  codegen::DeviceLimits limits() const override { return {}; }
  std::vector<eval::GpuIdentity> gpus() const override;
  Result<eval::CheckOutcome> Check(const eval::CheckRequest& request) override;
  Result<eval::TimeOutcome> Time(const eval::TimeRequest& request) override;

  // As Time says, side by side, with pair_noise as the standard error of the relative difference.
  // kUnavailable unless `measures`.
  Result<eval::PairOutcome> TimePair(const eval::PairRequest& request) override;

  // A device that measures: its times are not modelled, and it compares.
  bool measures = false;
  std::string device_name = "fake";
  std::string uuid = "GPU-fake";
  // Every check and timing is an Error: the device is gone for good.
  std::atomic<bool> gone{false};
  double pair_noise = 0.001;
  int pairs_taken() const { return pairs_.load(); }

  // Names of the cases checked, in order of arrival.
  std::vector<std::string> checked() const;
  // Called at the start of every check.
  std::function<void()> on_check;

 private:
  eval::DeviceSpec spec_;
  std::atomic<int> pairs_{0};
  mutable std::mutex mutex_;
  std::vector<std::string> checked_;
};

// Answers by a function; keeps what it was asked.
class ScriptedClient final : public llm::Client {
 public:
  using Script = std::function<Result<std::string>(const llm::Request&)>;
  explicit ScriptedClient(Script script) : script_(std::move(script)) {}
  Result<llm::Reply> Complete(const llm::Request& request, std::stop_token stop) override;
  std::string_view name() const override { return "scripted"; }
  std::vector<llm::Request> requests() const;

 private:
  Script script_;
  mutable std::mutex mutex_;
  std::vector<llm::Request> requests_;
};

// Keeps the lines.
class RecordingObserver final : public search::Observer {
 public:
  void Line(std::string_view text) override;
  void Update(const search::LiveState& state) override;
  std::vector<std::string> lines() const;
  search::LiveState last() const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
  search::LiveState last_;
};

// A task of one input x and one output y (N elements, fp32) with the cases smoke, sweep, stability,
// edge and scored, whose seed takes 1000 ns on the FakeDevice.
seeds::Task TinyTask();

// A kernel for it that behaves as `directives` say ("// @time 500\n"), with its plan.
std::string TinySource(const std::string& directives);
std::string TinyPlan();

}  // namespace grove::testing
