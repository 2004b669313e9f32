#include "eval/cuda/checker.h"

#include <algorithm>

#include <fmt/format.h>

#include "eval/cuda/attempt.h"

namespace grove::cuda {
namespace {

using eval::ExecutionFault;
using eval::VerdictKind;
using seeds::Tensor;
using seeds::TensorRole;

// Slots of a lane's results.
constexpr std::size_t kGuardSlots = 0;   // 2 per buffer
constexpr std::size_t kScanSlots = 256;  // 1 per tensor
constexpr std::size_t kHashSlots = 320;  // 1 per tensor
constexpr std::size_t kCompareSlots = 384;
constexpr std::size_t kMaxTensors = 64;
constexpr std::size_t kMaxGuarded = 128;

// Mixed into a check's seed for its rehearsal.
constexpr std::uint64_t kOtherDraw = 0x5851f42d4c957f2dULL;

struct RunHash {
  std::uint64_t a = 0, b = 0;
  friend bool operator==(const RunHash&, const RunHash&) = default;
};

// What CheckGuards found, as a sentence; empty when all guards are whole.
std::string GuardDamage(const Lane& lane, std::size_t index, const std::string& name) {
  const auto front = lane.result<ScanResult>(kGuardSlots + 2 * index);
  const auto back = lane.result<ScanResult>(kGuardSlots + 2 * index + 1);
  if (back.count > 0) {
    return fmt::format("{} bytes written behind the end of {}, the first one {} bytes past it",
                       back.count, name, back.first());
  }
  if (front.count > 0)
    return fmt::format("{} bytes written before the start of {}", front.count, name);
  return {};
}

CuStatus CheckGuards(Lane& lane, std::span<const GuardedBuffer> buffers, std::size_t offset) {
  const SupportCode& support = lane.parts().support;
  for (std::size_t i = 0; i < buffers.size() && offset + i < kMaxGuarded; ++i) {
    const GuardedBuffer& b = buffers[i];
    const std::size_t slot = kGuardSlots + 2 * (offset + i);
    if (auto ok = support.CheckGuard(lane.stream(), b.front_begin(), b.data(), kGuardPattern,
                                     lane.slot(slot));
        !ok) {
      return ok;
    }
    if (auto ok = support.CheckGuard(lane.stream(), b.back_begin(), b.back_end(), kGuardPattern,
                                     lane.slot(slot + 1));
        !ok) {
      return ok;
    }
  }
  return {};
}

}  // namespace

std::vector<CuDevicePtr> TensorSet::addresses() const {
  std::vector<CuDevicePtr> list;
  for (const GuardedBuffer& buffer : buffers) list.push_back(buffer.data());
  return list;
}

std::int64_t TensorSet::bytes() const {
  std::int64_t sum = 0;
  for (const GuardedBuffer& buffer : buffers) sum += buffer.bytes();
  return sum;
}

std::vector<std::string> TensorNames(const seeds::Case& task_case) {
  std::vector<std::string> names;
  for (const Tensor& tensor : task_case.tensors) names.push_back(tensor.name);
  return names;
}

Executed<TensorSet> MakeTensors(MemoryPool& pool, const seeds::Case& task_case, bool reference) {
  TensorSet set;
  for (const Tensor& tensor : task_case.tensors) {
    const bool as_f64 = reference && tensor.role == TensorRole::kOutput;
    const std::int64_t bytes = as_f64 ? tensor.elements() * 8 : tensor.bytes().value;
    auto buffer = pool.Acquire(bytes);
    if (!buffer) {
      Fault fault = FaultOf(buffer.error());
      fault.message = fmt::format("tensor {} of {} bytes: {}", tensor.name, bytes, fault.message);
      return tl::unexpected(std::move(fault));
    }
    set.buffers.push_back(std::move(*buffer));
  }
  return set;
}

CuStatus UploadStored(Lane& lane, const seeds::Stored& stored, std::int64_t bytes,
                      CuDevicePtr data) {
  const auto contents = lane.parts().stored.Get(stored, bytes);
  if (!contents) {
    return tl::unexpected(
        CuError{kCuInvalidValue, "no tensor", contents.error().message, "reading a stored tensor"});
  }
  const Driver& driver = lane.driver();
  // From pageable memory: the call returns when the bytes have been taken.
  return driver.Check(
      driver.MemcpyHtoDAsync(data, (*contents)->data(), (*contents)->size(), lane.stream()),
      "cuMemcpyHtoDAsync");
}

CuStatus DrawInputs(Lane& lane, const seeds::Case& task_case, std::uint64_t seed,
                    const TensorSet& set) {
  for (std::size_t i = 0; i < task_case.tensors.size(); ++i) {
    const Tensor& tensor = task_case.tensors[i];
    if (tensor.role != TensorRole::kInput) continue;
    if (tensor.distribution.kind == seeds::Distribution::Kind::kFile) {
      if (auto ok = UploadStored(lane, tensor.distribution.stored, tensor.bytes().value,
                                 set.buffers[i].data());
          !ok) {
        return ok;
      }
      continue;
    }
    if (auto ok =
            lane.parts().support.Generate(lane.stream(), tensor, i, seed, set.buffers[i].data());
        !ok) {
      return ok;
    }
  }
  return {};
}

CuStatus FillGuards(Lane& lane, std::span<const GuardedBuffer> buffers) {
  const SupportCode& support = lane.parts().support;
  for (const GuardedBuffer& b : buffers) {
    if (auto ok =
            support.Fill(lane.stream(), b.front_begin(),
                         static_cast<std::int64_t>(b.data() - b.front_begin()), kGuardPattern);
        !ok) {
      return ok;
    }
    if (auto ok =
            support.Fill(lane.stream(), b.back_begin(),
                         static_cast<std::int64_t>(b.back_end() - b.back_begin()), kGuardPattern);
        !ok) {
      return ok;
    }
  }
  return {};
}

Executed<std::string> FindGuardDamage(Lane& lane, std::span<const GuardedBuffer> buffers,
                                      const std::vector<std::string>& names) {
  GROVE_TRY(lane.ClearResults());
  GROVE_TRY(CheckGuards(lane, buffers, 0));
  GROVE_TRY(lane.ReadResults());
  GROVE_WAIT(lane.Wait(kOwnDeadline));
  for (std::size_t i = 0; i < buffers.size() && i < names.size() && i < kMaxGuarded; ++i) {
    if (std::string damage = GuardDamage(lane, i, names[i]); !damage.empty()) return damage;
  }
  return std::string();
}

CuStatus PoisonOutputs(Lane& lane, const seeds::Case& task_case, const TensorSet& set, int which) {
  for (std::size_t i = 0; i < task_case.tensors.size(); ++i) {
    const Tensor& tensor = task_case.tensors[i];
    if (tensor.role != TensorRole::kOutput) continue;
    if (auto ok =
            lane.parts().support.Fill(lane.stream(), set.buffers[i].data(), set.buffers[i].bytes(),
                                      PoisonPattern(tensor.dtype, which));
        !ok) {
      return ok;
    }
  }
  return {};
}

Executed<CheckDone> RunCheck(Lane& lane, const CheckJob& job) {
  CheckDone done;
  const SupportCode& support = lane.parts().support;
  const seeds::Case& c = job.task_case;
  const auto report = [&done](Fault fault) -> Executed<CheckDone> {
    if (fault.sticky) return tl::unexpected(std::move(fault));
    done.outcome.fault = ExecutionFault{fault.kind, std::move(fault.message)};
    return std::move(done);
  };
  if (c.tensors.size() > kMaxTensors) {
    return report({VerdictKind::kInfrastructure, "a case has at most 64 tensors", false});
  }
  auto program = LoadedProgram::Load(lane.parts().context, job.candidate.cubin, job.candidate.plan,
                                     TensorNames(c));
  if (!program) return report(program.error());

  auto blas = lane.BlasFor(job.candidate.plan);
  if (!blas) return report(blas.error());

  auto hold = lane.parts().gate.Enter(kCandidatePhase);
  auto set = MakeTensors(lane.parts().pool, c, false);
  if (!set) return report(set.error());
  auto bound = program->Bind(set->addresses(), lane.parts().pool, *blas);
  if (!bound) return report(bound.error());

  GROVE_TRY(FillGuards(lane, set->buffers));
  GROVE_TRY(FillGuards(lane, bound->workspaces()));

  // Poisons what one execution must write itself, and executes; waits for its end.
  const auto execute = [&](int poison) -> Executed<void> {
    GROVE_TRY(PoisonOutputs(lane, c, *set, poison));
    for (std::size_t w = 0; w < bound->workspaces().size(); ++w) {
      if (job.candidate.plan.workspaces[w].zero) continue;
      const GuardedBuffer& b = bound->workspaces()[w];
      GROVE_TRY(support.Fill(lane.stream(), b.data(), b.bytes(),
                             PoisonPattern(job.candidate.plan.workspaces[w].dtype, poison)));
    }
    if (auto ok = bound->Enqueue(lane.stream()); !ok) {
      // Earlier launches of the plan may be running: the buffers must not go back before they end.
      GROVE_WAIT(lane.Wait(job.deadline));
      return tl::unexpected(FaultOf(ok.error()));
    }
    return lane.Wait(job.deadline);
  };

  if (job.runs > 1) {
    GROVE_TRY(DrawInputs(lane, c, job.seed ^ kOtherDraw, *set));
    GROVE_WAIT(lane.Wait(kOwnDeadline));
    if (auto ok = execute(1); !ok) return report(ok.error());
  }
  GROVE_TRY(DrawInputs(lane, c, job.seed, *set));
  GROVE_WAIT(lane.Wait(kOwnDeadline));

  std::vector<RunHash> hashes(c.tensors.size());
  std::vector<GuardedBuffer> masks(c.tensors.size());
  int runs = std::max(1, job.runs);
  bool any_left = false;  // poison left after the first run
  for (int run = 0; run < runs; ++run) {
    const bool first = run == 0;
    const int poison = run % 2;
    if (auto ok = execute(poison); !ok) return report(ok.error());

    GROVE_TRY(lane.ClearResults());
    for (std::size_t i = 0; i < c.tensors.size(); ++i) {
      if (c.tensors[i].role != TensorRole::kOutput) continue;
      const GuardedBuffer& b = set->buffers[i];
      GROVE_TRY(support.Hash(lane.stream(), b.data(), b.bytes(), lane.slot(kHashSlots + i)));
      const int size = static_cast<int>(SizeOf(c.tensors[i].dtype));
      if (run <= 1) {
        GROVE_TRY(support.CountPattern(lane.stream(), b.data(), c.tensors[i].elements(), size,
                                       PoisonPattern(c.tensors[i].dtype, poison), masks[i].data(),
                                       first, lane.slot(kScanSlots + i)));
      }
    }
    GROVE_TRY(lane.ReadResults());
    GROVE_WAIT(lane.Wait(kOwnDeadline));
    for (std::size_t i = 0; i < c.tensors.size(); ++i) {
      if (c.tensors[i].role != TensorRole::kOutput) continue;
      const auto hash = lane.result<ScanResult>(kHashSlots + i);
      const RunHash now{hash.hash_a, hash.hash_b};
      if (first) {
        hashes[i] = now;
      } else if (now != hashes[i]) {
        done.outcome.deterministic = false;
      }
      if (run > 1) continue;
      const auto left = lane.result<ScanResult>(kScanSlots + i);
      if (left.count == 0) continue;
      if (first) {
        // Perhaps unwritten, perhaps the very value: mark which, and run again on the other poison.
        any_left = true;
        auto mask = lane.parts().pool.Acquire(c.tensors[i].elements());
        if (!mask) return report(FaultOf(mask.error()));
        masks[i] = std::move(*mask);
        GROVE_TRY(support.CountPattern(
            lane.stream(), set->buffers[i].data(), c.tensors[i].elements(),
            static_cast<int>(SizeOf(c.tensors[i].dtype)), PoisonPattern(c.tensors[i].dtype, poison),
            masks[i].data(), true, lane.slot(kScanSlots + i)));
      } else if (masks[i].data() != 0 && !done.outcome.unwritten_tensor) {
        done.outcome.unwritten_tensor = i;
        done.outcome.unwritten_element = left.first();
      }
    }
    if (first && any_left) runs = std::max(runs, 2);
  }
  // Runs on different poisons differ where nothing was written; that is not nondeterminism.
  if (done.outcome.unwritten_tensor) done.outcome.deterministic = true;

  GROVE_TRY(lane.ClearResults());
  GROVE_TRY(CheckGuards(lane, set->buffers, 0));
  GROVE_TRY(CheckGuards(lane, bound->workspaces(), set->buffers.size()));
  GROVE_TRY(lane.ReadResults());
  GROVE_WAIT(lane.Wait(kOwnDeadline));
  for (std::size_t i = 0; i < set->buffers.size() + bound->workspaces().size() && i < kMaxGuarded;
       ++i) {
    const bool workspace = i >= set->buffers.size();
    const std::string& name =
        workspace ? job.candidate.plan.workspaces[i - set->buffers.size()].name : c.tensors[i].name;
    if (std::string damage = GuardDamage(lane, i, name); !damage.empty()) {
      return report({VerdictKind::kOutOfBounds, std::move(damage), false});
    }
  }
  hold.Release();

  auto compared = CompareWithReference(lane, job, job.seed, *set);
  if (!compared) return report(compared.error());
  done.outcome.fault = std::move(compared->fault);
  done.outcome.errors = std::move(compared->errors);
  done.outcome.gates = std::move(compared->gates);
  done.reference_time = compared->time;
  return done;
}

}  // namespace grove::cuda
