// What the head and a GPU worker say to each other: typed messages over the frames of
// base/framing.h, in the wire format of base/wire.h. Both ends come from the same build; the
// version in kOpen guards against a stale worker binary.
//
//   head -> worker   kOpen      version, device ordinal, limits      first of all
//   worker -> head   kFacts     DeviceFacts                          or kFailed
//   head -> worker   kSupport   cubin of our own device code
//   worker -> head   kReady     -                                    or kFailed
//   head -> worker   kCheck     id, CheckJob                         several in flight
//   head -> worker   kTime      id, TimeJob                          alone
//   head -> worker   kTrim      -                                    give idle memory back
//   worker -> head   kDone      id, outcome (of the job's kind), time of the reference
//   worker -> head   kFatal     verdict kind, message                then the worker ends itself
//   worker -> head   kFailed    message                              then the worker ends itself
//
// A decoder never trusts the bytes: kInternal with the message's name when they do not fit.
// Thread-safety: plain functions and values.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "codegen/plan.h"
#include "eval/cuda/driver.h"
#include "eval/cuda/statistics.h"
#include "eval/device.h"
#include "seeds/task.h"

namespace grove::cuda {

inline constexpr std::uint32_t kProtocolVersion = 3;
// Largest message accepted: a check with two cubins is far below.
inline constexpr std::size_t kMaxMessage = std::size_t{256} << 20;

enum class MessageType : std::uint16_t {
  kOpen = 1,
  kFacts,
  kSupport,
  kReady,
  kCheck,
  kTime,
  kTrim,
  kDone,
  kFatal,
  kFailed,
};

struct OpenMessage {
  std::uint32_t version = kProtocolVersion;
  int ordinal = 0;
  int lanes = 4;                             // jobs at a time
  Bytes idle_memory{std::int64_t{4} << 30};  // kept for reuse
};

struct Program {
  std::string cubin;
  codegen::ResolvedPlan plan;
};

// What every job carries. Of the case only the tensors, row_elements,
// golden outputs and the checker travel; stored tensors are read by the worker itself.
struct Job {
  seeds::Case task_case;
  Program reference;
  Program candidate;
  std::uint64_t seed = 0;
  std::chrono::milliseconds deadline{10000};  // of one wait for the candidate, sync included
};

struct CheckJob : Job {
  int runs = 1;
};

struct TimeJob : Job {
  std::optional<Program> base;  // present: interleaved comparison of candidate with base
  StoppingLimits limits;
  bool all_modes = true;  // hot, graph and host beside cold
};

struct CheckDone {
  eval::CheckOutcome outcome;
  Nanoseconds reference_time{0};  // of the reference's launch on this case, wall; 0 = did not run
};

struct TimeDone {
  eval::TimeOutcome outcome;
  std::optional<eval::PairOutcome> pair;
};

struct FatalMessage {
  eval::VerdictKind kind = eval::VerdictKind::kInfrastructure;
  std::string message;
};

std::string Encode(const OpenMessage& message);
std::string Encode(const DeviceFacts& facts);
std::string Encode(const CheckJob& job);
std::string Encode(const TimeJob& job);
std::string Encode(const CheckDone& done);
std::string Encode(const TimeDone& done);
std::string Encode(const FatalMessage& message);

Result<OpenMessage> DecodeOpen(std::string_view bytes);
Result<DeviceFacts> DecodeFacts(std::string_view bytes);
Result<CheckJob> DecodeCheckJob(std::string_view bytes);
Result<TimeJob> DecodeTimeJob(std::string_view bytes);
Result<CheckDone> DecodeCheckDone(std::string_view bytes);
Result<TimeDone> DecodeTimeDone(std::string_view bytes);
Result<FatalMessage> DecodeFatal(std::string_view bytes);

// A request id in front of a job or a done message.
std::string WithId(std::uint64_t id, std::string_view payload);
// Takes the id off; kInternal when there is none.
Result<std::uint64_t> TakeId(std::string_view& payload);

}  // namespace grove::cuda
