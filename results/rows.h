// What a run's store holds, as plain structs: the contract between the store, those who write it
// (search/) and those who show it (tree, show, report, harvest). Times of kernels are Nanoseconds,
// moments are wall times. Plain values: safe to copy and to share while nobody changes them.
// docs/store.md describes the same data as tables.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/units.h"
#include "eval/verdict.h"
#include "llm/client.h"
#include "seeds/task.h"

namespace grove::results {

using WallTime = std::chrono::system_clock::time_point;  // kept to the microsecond

// The words of the store. Name() gives the text of the column, FromName<E>() reads it back.
enum class RunStatus {
  kRunning,      // a process writes it, or died while it did (see RunInfo::live)
  kStopped,      // the user or a limit stopped it; resumable
  kFinished,     // its goal or its last round was reached
  kInterrupted,  // ended by a signal or an error; resumable
};
enum class RoundStatus { kRunning, kFinished };
enum class CandidateStatus {
  kRequested,  // a model is to write it
  kReceived,   // its program is stored, its verdict is not
  kEvaluated,  // its verdict is final
};
enum class CallStatus { kPending, kAnswered, kFailed };
enum class TimeKind { kModelled, kMeasured };  // never compared with each other
enum class FrontierKind { kFastest, kReserve };
// The name is the unit. kTokens = kTokensIn + kTokensOut; kSeconds is wall time while a process
// works.
enum class LedgerKind {
  kTokens,
  kDollars,
  kGpuSeconds,
  kEvaluations,
  kTokensIn,
  kTokensOut,
  kSeconds
};

std::string_view Name(RunStatus value);
std::string_view Name(RoundStatus value);
std::string_view Name(CandidateStatus value);
std::string_view Name(CallStatus value);
std::string_view Name(TimeKind value);
std::string_view Name(FrontierKind value);
std::string_view Name(LedgerKind value);

// How a case was timed; the score counts kCold only.
enum class TimingMode { kCold, kHot, kGraph, kHost };
std::string_view Name(TimingMode value);

// For the enums above and those of other folders that the store keeps.
template <typename E>
std::optional<E> FromName(std::string_view name);
template <>
std::optional<RunStatus> FromName(std::string_view name);
template <>
std::optional<RoundStatus> FromName(std::string_view name);
template <>
std::optional<CandidateStatus> FromName(std::string_view name);
template <>
std::optional<CallStatus> FromName(std::string_view name);
template <>
std::optional<TimeKind> FromName(std::string_view name);
template <>
std::optional<FrontierKind> FromName(std::string_view name);
template <>
std::optional<LedgerKind> FromName(std::string_view name);
template <>
std::optional<TimingMode> FromName(std::string_view name);
template <>
std::optional<eval::Stage> FromName(std::string_view name);
template <>
std::optional<eval::VerdictKind> FromName(std::string_view name);
template <>
std::optional<eval::Contest> FromName(std::string_view name);
template <>
std::optional<llm::Role> FromName(std::string_view name);
template <>
std::optional<llm::FinishReason> FromName(std::string_view name);

// --- the run and its task -----------------------------------------------------------------------

struct RunInfo {
  std::string name;
  WallTime created;
  std::string config;  // JSON
  std::string program_version;
  RunStatus status = RunStatus::kRunning;
  std::string reason;  // why it has this status, in words; may be empty
  WallTime status_since;
  std::uint64_t seed = 0;  // of the search's random numbers
  // A process holds the run's lock now. Not stored: found out when the run is read. A run that is
  // kRunning and not live was killed.
  bool live = false;

  // The status to show people: kInterrupted for a run that is kRunning and not live.
  RunStatus effective_status() const;
};

struct EnvironmentRow {
  std::string key;  // "gpu", "driver", "toolkit", "sqlite", ...
  std::string value;
};

// One run searches one task. The texts are stored by hash, so that a run explains itself without
// the task's folder.
struct TaskRow {
  std::string name;
  std::string title;
  std::string demanded;  // precision class, seeds::Name(PrecisionClass)
  Hash contract;         // the operation in words
  Hash reference_source, reference_plan;
  Hash seed_source, seed_plan;
};

struct CaseRow {
  std::string name;
  std::string role;  // seeds::Name(CaseRole): "smoke", "sweep", "stability", "edge", "scored"
  std::vector<seeds::Dim> dims;
  double flops = 0;  // FLOP
  Bytes min_bytes;
};

// --- evaluation ---------------------------------------------------------------------------------

struct StageRow {
  eval::Stage stage = eval::Stage::kParse;
  std::string case_name;  // empty when the stage belongs to no case
  eval::VerdictKind verdict = eval::VerdictKind::kPass;
  Milliseconds duration{0};
  // Where values were compared: the largest relative L2 error of a row, and what was allowed.
  double error = 0, tolerance = 0;
};

struct CaseTimeRow {
  std::string case_name;
  TimeKind kind = TimeKind::kModelled;
  TimingMode mode = TimingMode::kCold;
  Nanoseconds time{0};  // of one execution of the plan: median of the samples, or the model
  std::optional<Nanoseconds> low;  // interval of the median, measured times only
  std::optional<Nanoseconds> high;
  Nanoseconds floor{0};        // impossible-floor on this device; 0 = unknown
  Nanoseconds class_floor{0};  // floor for honest work of the demanded class; 0 = unknown
  std::string bound;           // "memory", "fp32", "tensor", "latency", ...; empty = unknown
  double dram_bytes = 0;       // traffic, modelled or counted; 0 = unknown
  double occupancy = 0;        // resident warps / maximum, 0 to 1; 0 = unknown
  std::string limiter;         // of the occupancy: "registers", "shared memory", ...
  std::int64_t launches = 0;   // kernels launched by one execution
  std::int64_t dropped = 0;    // samples dropped because the GPU was throttled
  double checked_share = 0;    // of the output elements, rechecked after timing, 0 to 1
  std::string note;            // how they were rechecked, or why not; may be empty
  std::string gpu_uuid;        // of the physical GPU that measured; empty when modelled
  Nanoseconds empty{0};        // an empty kernel timed the same way; 0 = unknown
};

// The launches of one kernel in one execution of a plan of several. Times of launches are taken
// with events between them, so their sum exceeds that of the plan a little.
struct LaunchRow {
  std::string case_name;
  std::string entry;          // name of the kernel
  std::int64_t launches = 0;  // of it, in one execution
  Nanoseconds time{0};        // of all of them together; 0 = unknown
  double dram_bytes = 0;      // of all of them, modelled; 0 = unknown
  std::string bound;          // of the slowest: as in CaseTimeRow; empty = unknown
  double occupancy = 0;       // of the slowest
  std::string limiter;        // of the occupancy of the slowest
};

struct KernelRow {
  std::string case_name;
  std::string entry;           // name of the entry point
  std::int64_t registers = 0;  // per thread
  Bytes spill_stores, spill_loads;
  Bytes static_shared;   // per block
  Bytes dynamic_shared;  // per block, of its largest launch
  Bytes stack;           // local memory per thread
};

// One timed execution.
struct SampleRow {
  std::string case_name;
  TimingMode mode = TimingMode::kCold;
  std::int64_t ordinal = 0;  // within case and mode, from 0; set by the store, in the order given
  Nanoseconds time{0};
};

// Everything that evaluating one candidate gave; search/ fills it from what eval/ returns.
struct EvaluationRow {
  eval::Verdict verdict;
  std::string precision;             // class reached, seeds::Name(PrecisionClass); empty = none
  std::optional<Nanoseconds> score;  // geometric mean over the scored cases; none unless timed
  TimeKind score_kind = TimeKind::kModelled;
  std::vector<StageRow> stages;  // in the order in which they ran; never empty
  std::vector<CaseTimeRow> case_times;
  std::vector<LaunchRow> launches;  // in the order of the plan; none for a case of one launch
  std::vector<KernelRow> kernels;
  std::vector<SampleRow> samples;  // written with the rest; read by Reader::Samples only
};

// --- the tree -----------------------------------------------------------------------------------

struct RoundRow {
  RoundId id;
  int index = 0;
  RoundStatus status = RoundStatus::kRunning;
  WallTime started;
  std::optional<WallTime> finished;
  bool cut = false;  // finished because the run's budget was: not all was asked or evaluated
};

struct IdeaRow {
  IdeaId id;
  RoundId round;
  CandidateId parent;
  int ordinal = 0;   // among the ideas for this parent in this round, from 1
  int number = 0;    // among all ideas of the round, from 1: the 3 of r2.i3
  std::string name;  // "r2.i3"
  std::string title, category, rationale;
  std::optional<double> expected_gain;  // factor over the parent; 1.3 = 30% more speed
  CallId call;                          // that wrote it; none for the built-in playbook
};

struct CandidateRow {
  CandidateId id;
  std::string name;    // "r2.i3.b1", or "seed": unique in the run
  RoundId round;       // none for the task's seed
  IdeaId idea;         // none for the task's seed
  CandidateId parent;  // none for the task's seed
  int branch = 0;      // among the siblings of the idea, from 1; 0 = the seed
  int turn = 0;        // repair turns that led to the stored program
  CandidateStatus status = CandidateStatus::kRequested;
  std::optional<Hash> source, plan;  // texts; none until received, or nothing usable was received
  std::optional<Hash> identity;      // of the normalised program
  std::optional<EvaluationRow> evaluation;  // exactly when kEvaluated; without samples
  std::string profile;                      // what a profiler said, in short; empty = not profiled
  std::optional<Hash> profile_report;       // text: the whole of it
};

// A program of a candidate that failed and was given back to the model for repair.
struct AttemptRow {
  CandidateId candidate;
  int turn = 0;  // 0 = the first program
  std::optional<Hash> source, plan;
  eval::Verdict verdict;
  std::string report;  // what the repair prompt said beside the verdict; may be empty
};

// A challenger measured interleaved with an incumbent (eval/promotion.h). Ratios are the
// challenger's time over the incumbent's, with two standard errors to each side; equal when
// modelled.
struct PromotionCaseRow {
  std::string case_name;
  Nanoseconds incumbent{0}, challenger{0};  // medians
  double ratio = 1, low = 1, high = 1;
  // Sample i of both was taken side by side. Written with the rest; not read back by Load.
  std::vector<Nanoseconds> incumbent_samples, challenger_samples;
};
struct PromotionRow {
  CandidateId challenger, incumbent;
  eval::Contest outcome = eval::Contest::kTie;
  bool promoted = false;  // the challenger took the incumbent's place
  TimeKind kind = TimeKind::kMeasured;
  double ratio = 1, low = 1, high = 1;  // geometric mean over the cases
  std::vector<PromotionCaseRow> cases;
  std::string gpu_uuid;  // of the GPU that measured both; empty when modelled
  std::string why;
  WallTime time;  // set by the store
};

// Who does not have the first place after it.
CandidateId LoserOf(const PromotionRow& contest);

// What a vendor's library or a framework takes for a case, on one physical GPU.
struct BaselineRow {
  std::string case_name;
  std::string name;  // "cublas_fp32", "torch_compile", ...
  std::string gpu_uuid, gpu, driver;
  std::string version;                   // of the library
  Nanoseconds time{0};                   // cold median
  std::optional<Nanoseconds> low, high;  // [min, q3]
  WallTime measured;
};

struct FrontierRow {
  RoundId round;  // the round that chose it; it seeds the next
  CandidateId candidate;
  int place = 0;  // from 1
  FrontierKind kind = FrontierKind::kFastest;
  std::string why;
};

// --- models and money ---------------------------------------------------------------------------

// What a request is for, in the search's own numbers, so that a resumed run asks the same question
// under the same key. `turn` counts repair turns, or repeated requests of other roles.
struct CallKey {
  llm::Role role = llm::Role::kIdea;
  int round = 0;   // index
  int parent = 0;  // place of the parent in the frontier; 0 = no one parent
  int idea = 0;    // IdeaRow::number; 0 = none
  int branch = 0;  // 0 = none
  int turn = 0;
  friend auto operator<=>(const CallKey&, const CallKey&) = default;
};
std::string ToString(const CallKey& key);  // "code r2.p1.i3.b1.t0", for messages and the ledger

struct CallRow {
  CallId id;
  CallKey key;
  std::string model;
  Hash request;  // text: RequestJson() of what was asked
  CallStatus status = CallStatus::kPending;
  std::optional<Hash> reply;  // text, exactly when kAnswered
  llm::Usage usage;
  llm::FinishReason finish = llm::FinishReason::kStop;
  std::string reply_model;
  Milliseconds latency{0};
  std::string error;  // when kFailed
  int attempts = 0;   // times it was sent and may have been billed
  int retries = 0;    // attempts of the client that failed before the reply
  // What all its attempts cost; none = the price is not known.
  std::optional<double> dollars;
  WallTime asked;
  std::optional<WallTime> ended;
};

// The unit is the kind's name. Reserved before it is spent, settled once.
struct LedgerRow {
  LedgerKind kind = LedgerKind::kTokens;
  std::string key;  // what it is for; unique for its kind
  double reserved = 0;
  std::optional<double> settled;  // none while it is reserved
  WallTime time;                  // of the reservation
  int round = 0;                  // index; 0 = of no round
  int idea = 0;                   // IdeaRow::number; 0 = of no idea
  CallId call;                    // none when it is no call's
};

struct EventRow {
  std::int64_t id = 0;
  WallTime time;
  std::string kind;
  std::string text;
};

// Something the user told a live run.
struct HintRow {
  std::int64_t id = 0;
  WallTime time;
  std::string key;   // unique: where it came from, so that it is taken once
  std::string kind;  // "hint", "question", "goal"
  std::string text;
  RoundId round;       // in which it was used; none = not yet
  std::string answer;  // to a question
};

// A whole run. Rows are sorted by id.
struct RunData {
  RunInfo run;
  std::vector<EnvironmentRow> environment;
  TaskRow task;
  std::vector<CaseRow> cases;
  std::vector<RoundRow> rounds;
  std::vector<IdeaRow> ideas;
  std::vector<CandidateRow> candidates;
  std::vector<AttemptRow> attempts;
  std::vector<FrontierRow> frontier;
  std::vector<PromotionRow> promotions;  // oldest first
  std::vector<BaselineRow> baselines;    // by case and time, fastest first
  std::vector<CallRow> calls;
  std::vector<LedgerRow> ledger;
  std::vector<EventRow> events;
  std::vector<HintRow> hints;

  // nullptr when there is none. By id in logarithmic, by name in linear time.
  const RoundRow* Find(RoundId id) const;
  const IdeaRow* Find(IdeaId id) const;
  const CandidateRow* Find(CandidateId id) const;
  const CandidateRow* FindCandidate(std::string_view name) const;
  const IdeaRow* FindIdea(std::string_view name) const;
  const CandidateRow* Seed() const;
  // The passed candidate with the least score of `kind`, or of the kind of the seed's score (else
  // measured where there is one); ties go to the older. Whoever lost a contest for the first place
  // (`promotions`) stands behind those who lost none, whatever its score says.
  const CandidateRow* Best(std::optional<TimeKind> kind = std::nullopt) const;
};

// The score of a candidate that passed.
std::optional<Nanoseconds> ScoreOf(const CandidateRow& candidate);
// Parent's (or any other's) time over the candidate's: 2 = twice as fast. None when one has no
// score or their kinds differ, since modelled and measured times do not compare.
std::optional<double> SpeedUp(const CandidateRow& from, const CandidateRow& to);
// Impossible-floor over time, 0 to 1 (the SOL share); none when the floor is not known.
std::optional<double> ShareOfFloor(const CaseTimeRow& row);

// An idea's credit apart from its implementations: a bad idea is one whose correct implementations
// are slow, a bad implementation one that is not correct.
struct IdeaCredit {
  int candidates = 0;
  int evaluated = 0;                   // of them, with a verdict
  int duplicates = 0;                  // of those: a program that there was already
  int undecided = 0;                   // of those: no fault of theirs, as when a share was spent
  int compiled = 0;                    // reached a verdict beyond the compiler
  int correct = 0;                     // passed
  const CandidateRow* best = nullptr;  // least score
  std::optional<Nanoseconds> median;   // of the scores of best's kind
  std::optional<Nanoseconds> worst;    // of them
  // What shares are of: the candidates that tell something of the idea.
  int tries() const { return evaluated - duplicates - undecided; }
  int open() const { return candidates - evaluated; }  // of which nothing is known yet
};
// `siblings` in any order. Pointers lead into them.
IdeaCredit CreditOf(const std::vector<const CandidateRow*>& siblings);

}  // namespace grove::results
