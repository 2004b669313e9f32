#include "eval/device_group.h"

#include <mutex>
#include <set>

#include <fmt/format.h>

namespace grove::eval {
namespace {

enum class Work { kCheck, kTiming };

struct Member {
  std::unique_ptr<Device> device;
  int checks = 0;
  int timings = 0;
  bool out = false;
};

class Group final : public DeviceGroup {
 public:
  explicit Group(std::vector<std::unique_ptr<Device>> devices) {
    for (auto& device : devices) {
      if (!name_.empty()) name_ += ',';
      name_ += device->name();
      members_.push_back({std::move(device)});
    }
  }

  std::string name() const override { return name_; }
  const DeviceSpec& spec() const override { return members_[0].device->spec(); }
  codegen::DeviceLimits limits() const override { return members_[0].device->limits(); }
  std::size_t size() const override { return members_.size(); }
  Device& member(std::size_t index) override { return *members_.at(index).device; }

  std::size_t alive() const override {
    const std::lock_guard lock(mutex_);
    std::size_t count = 0;
    for (const Member& member : members_) count += member.out ? 0 : 1;
    return count;
  }

  std::vector<GpuIdentity> gpus() const override {
    std::vector<GpuIdentity> all;
    for (const Member& member : members_) {
      for (GpuIdentity& gpu : member.device->gpus()) all.push_back(std::move(gpu));
    }
    return all;
  }

  Result<CheckOutcome> Check(const CheckRequest& request) override {
    return OnOne<CheckOutcome>(Work::kCheck, [&](Device& d) { return d.Check(request); });
  }
  Result<TimeOutcome> Time(const TimeRequest& request) override {
    return OnOne<TimeOutcome>(Work::kTiming, [&](Device& d) { return d.Time(request); });
  }
  Result<PairOutcome> TimePair(const PairRequest& request) override {
    return OnOne<PairOutcome>(Work::kTiming, [&](Device& d) { return d.TimePair(request); });
  }

 private:
  // The member with the least to do: a timing holds checks up, so it counts first.
  Member* Take(Work work) {
    const std::lock_guard lock(mutex_);
    Member* best = nullptr;
    for (std::size_t i = 0; i < members_.size(); ++i) {
      Member& member = members_[(next_ + i) % members_.size()];
      if (member.out) continue;
      const auto load = [](const Member& m) { return std::pair(m.timings, m.checks); };
      if (best == nullptr || load(member) < load(*best)) best = &member;
    }
    if (best == nullptr) return nullptr;
    next_ = static_cast<std::size_t>(best - members_.data()) + 1;
    ++(work == Work::kCheck ? best->checks : best->timings);
    return best;
  }

  void Give(Member& member, Work work, bool failed) {
    const std::lock_guard lock(mutex_);
    --(work == Work::kCheck ? member.checks : member.timings);
    member.out = member.out || failed;
  }

  template <typename Outcome, typename F>
  Result<Outcome> OnOne(Work work, F&& run) {
    Error last{ErrorCode::kUnavailable, name_ + ": no GPU is left"};
    for (;;) {
      Member* member = Take(work);
      if (member == nullptr) return Failure(std::move(last));
      Result<Outcome> outcome = run(*member->device);
      Give(*member, work, !outcome);
      if (outcome) return outcome;
      last = std::move(outcome.error());
    }
  }

  std::string name_;
  std::vector<Member> members_;  // never resized
  mutable std::mutex mutex_;     // the counters of members_, next_
  std::size_t next_ = 0;
};

}  // namespace

Result<std::unique_ptr<DeviceGroup>> MakeDeviceGroup(std::vector<std::unique_ptr<Device>> members) {
  if (members.empty()) return Fail(ErrorCode::kInvalidInput, "a group of GPUs needs a member");
  std::set<std::string> seen;
  for (const auto& member : members) {
    if (member->spec().name != members[0]->spec().name) {
      return Fail(ErrorCode::kInvalidInput,
                  fmt::format("{} is a {} and {} is a {}: only GPUs of one model can share a run, "
                              "since their times are compared; name those of one model",
                              members[0]->name(), members[0]->spec().name, member->name(),
                              member->spec().name));
    }
    for (const GpuIdentity& gpu : member->gpus()) {
      if (!seen.insert(gpu.uuid).second) {
        return Fail(ErrorCode::kInvalidInput,
                    fmt::format("{} ({}) is named twice", member->name(), gpu.uuid));
      }
    }
  }
  return std::unique_ptr<DeviceGroup>(std::make_unique<Group>(std::move(members)));
}

}  // namespace grove::eval
