// Special registers: where a thread is, clocks, masks.
#include <string>
#include <unordered_map>

#include "eval/emulator/control.h"
#include "eval/emulator/machine.h"

namespace grove::emulator {
namespace {

enum Special : int {
  kTidX,
  kTidY,
  kTidZ,
  kNtidX,
  kNtidY,
  kNtidZ,
  kCtaidX,
  kCtaidY,
  kCtaidZ,
  kNctaidX,
  kNctaidY,
  kNctaidZ,
  kLaneId,
  kWarpId,
  kNWarpId,
  kClock,
  kClock64,
  kClockHi,
  kGlobalTimer,
  kGlobalTimerLo,
  kGlobalTimerHi,
  kLaneMaskEq,
  kLaneMaskLt,
  kLaneMaskLe,
  kLaneMaskGt,
  kLaneMaskGe,
  kSmId,
  kNSmId,
  kGridId,
  kEnvReg1,
  kEnvReg2,
  kEnvRegOther,
  kDynamicShared,
  kTotalShared,
  kZero,
  kOne,
};

const std::unordered_map<std::string, int>& SpecialNames() {
  static const std::unordered_map<std::string, int> names = {
      {"%tid.x", kTidX},
      {"%tid.y", kTidY},
      {"%tid.z", kTidZ},
      {"%tid", kTidX},
      {"%ntid.x", kNtidX},
      {"%ntid.y", kNtidY},
      {"%ntid.z", kNtidZ},
      {"%ctaid.x", kCtaidX},
      {"%ctaid.y", kCtaidY},
      {"%ctaid.z", kCtaidZ},
      {"%nctaid.x", kNctaidX},
      {"%nctaid.y", kNctaidY},
      {"%nctaid.z", kNctaidZ},
      {"%laneid", kLaneId},
      {"%warpid", kWarpId},
      {"%nwarpid", kNWarpId},
      {"%clock", kClock},
      {"%clock64", kClock64},
      {"%clock_hi", kClockHi},
      {"%globaltimer", kGlobalTimer},
      {"%globaltimer_lo", kGlobalTimerLo},
      {"%globaltimer_hi", kGlobalTimerHi},
      {"%lanemask_eq", kLaneMaskEq},
      {"%lanemask_lt", kLaneMaskLt},
      {"%lanemask_le", kLaneMaskLe},
      {"%lanemask_gt", kLaneMaskGt},
      {"%lanemask_ge", kLaneMaskGe},
      {"%smid", kSmId},
      {"%nsmid", kNSmId},
      {"%gridid", kGridId},
      {"%envreg1", kEnvReg1},
      {"%envreg2", kEnvReg2},
      {"%envreg0", kEnvRegOther},
      {"%dynamic_smem_size", kDynamicShared},
      {"%total_smem_size", kTotalShared},
      // Clusters of one block.
      {"%clusterid.x", kCtaidX},
      {"%clusterid.y", kCtaidY},
      {"%clusterid.z", kCtaidZ},
      {"%nclusterid.x", kNctaidX},
      {"%nclusterid.y", kNctaidY},
      {"%nclusterid.z", kNctaidZ},
      {"%cluster_ctaid.x", kZero},
      {"%cluster_ctaid.y", kZero},
      {"%cluster_ctaid.z", kZero},
      {"%cluster_nctaid.x", kOne},
      {"%cluster_nctaid.y", kOne},
      {"%cluster_nctaid.z", kOne},
      {"%cluster_ctarank", kZero},
      {"%cluster_nctarank", kOne},
      {"%is_explicit_cluster", kZero},
  };
  return names;
}

// clock64 counts the warp instructions of this warp times a nominal 4 cycles.
std::uint64_t ClockOf(const Warp& w) {
  return static_cast<std::uint64_t>(w.clock_base - w.fuel) * 4;
}

std::uint64_t SpecialValue(const Warp& w, std::uint32_t id, std::uint32_t lane) {
  const Launch& l = *w.launch;
  const std::uint32_t thread = static_cast<std::uint32_t>(w.index) * kLanes + lane;
  const std::uint32_t bit = 1u << lane;
  switch (static_cast<Special>(id)) {
    case kTidX:
      return thread % l.block[0];
    case kTidY:
      return thread / l.block[0] % l.block[1];
    case kTidZ:
      return thread / l.block[0] / l.block[1];
    case kNtidX:
      return l.block[0];
    case kNtidY:
      return l.block[1];
    case kNtidZ:
      return l.block[2];
    case kCtaidX:
      return w.block->index[0];
    case kCtaidY:
      return w.block->index[1];
    case kCtaidZ:
      return w.block->index[2];
    case kNctaidX:
      return l.grid[0];
    case kNctaidY:
      return l.grid[1];
    case kNctaidZ:
      return l.grid[2];
    case kLaneId:
      return lane;
    case kWarpId:
      return static_cast<std::uint64_t>(w.index);
    case kNWarpId:
      return 64;
    case kClock:
    case kClock64:
    case kGlobalTimer:
    case kGlobalTimerLo:
      return ClockOf(w);
    case kClockHi:
    case kGlobalTimerHi:
      return ClockOf(w) >> 32;
    case kLaneMaskEq:
      return bit;
    case kLaneMaskLt:
      return bit - 1;
    case kLaneMaskLe:
      return bit | (bit - 1);
    case kLaneMaskGt:
      return ~(bit | (bit - 1));
    case kLaneMaskGe:
      return ~(bit - 1);
    case kSmId:
      return static_cast<std::uint64_t>(w.block->flat % 132);
    case kNSmId:
      return 132;
    case kGridId:
      return 1;
    case kEnvReg1:
      return l.grid_workspace >> 32;
    case kEnvReg2:
      return l.grid_workspace & 0xffffffffu;
    case kDynamicShared:
      return l.dynamic_shared;
    case kTotalShared:
      return l.shared_bytes;
    case kOne:
      return 1;
    case kEnvRegOther:
    case kZero:
      return 0;
  }
  return 0;
}

template <typename T>
const Inst* LoadSpecialRegister(Warp& w, const Inst* ip) {
  T* d = w.At<T>(ip->d);
  ForEachLane(w.mask, [&](int lane) {
    const std::uint64_t value = SpecialValue(w, ip->a, static_cast<std::uint32_t>(lane));
    const bool clock64 = ip->a == kClock64 || ip->a == kGlobalTimer || ip->a == kGridId;
    d[lane] = static_cast<T>(clock64 ? value : value & 0xffffffffu);
  });
  return ip + 1;
}

}  // namespace

Handler SpecialHandler(bool wide) {
  return wide ? LoadSpecialRegister<std::uint64_t> : LoadSpecialRegister<std::uint32_t>;
}

int SpecialRegister(const std::string& name) {
  const auto found = SpecialNames().find(name);
  if (found != SpecialNames().end()) return found->second;
  return name.starts_with("%envreg") ? static_cast<int>(kEnvRegOther) : -1;
}

}  // namespace grove::emulator
