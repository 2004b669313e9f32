// The run store: one SQLite file runs/NAME/run.db per run, written by one process at a time and
// readable by any number while it is written.
//
// Crash safety. Every function that writes is one transition of the search in one transaction, and
// is named by a natural key (round number; round, parent and ordinal of an idea; idea and branch of
// a candidate; CallKey of a call; kind and key of a ledger entry). Calling it again, in this
// process or after a kill, changes nothing and returns what is stored: the first writing wins. So a
// resumed search simply runs its round again; what was answered is not asked again, what was
// evaluated is not evaluated again.
//
// Durability. WAL with synchronous=FULL: a transaction that returned has reached the disk, so that
// a node that loses power loses no reply that was paid for. It costs one fsync per transaction,
// which is little beside a model call or an evaluation (docs/store.md has figures).
//
// Shared transactions (StoreOptions::linger). What leaves the process, or allows something to leave
// it, is on the disk before the function returns: BeginCall, RenewCall, FailCall, Reserve, and all
// that is not named here. What only keeps what came (AnswerCall, RecordIdeas, LinkIdeas,
// RequestCandidates, ReceiveProgram, RecordAttempt, RecordVerdict, MoveVerdict, Book, SettleAll,
// LimitStates) may wait for it, at most the linger. The order is kept, so nothing is there without
// what it was made of, and a kill leaves the run as it was at most a linger before; what a search
// did since then it does again, and a reply of that moment is asked for and paid again, like one
// that was on its way.
//
// Errors. kResource (disk full, read-only folder, quota): nothing of the transition is stored, the
// run is as it was; with a linger, nothing can be stored until the run is opened again.
// kUnavailable: another process writes the run. kNotFound: no such row. kInternal: a damaged file,
// or a transition that breaks a rule of the schema (a bug of the caller).
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/hash.h"
#include "base/result.h"
#include "results/rows.h"
#include "seeds/task.h"

namespace grove::results {

// What a new run consists of.
struct RunStart {
  std::string name;    // folder name: letters, digits, '.', '_', '-'; up to 100
  std::string config;  // JSON
  std::string program_version;
  std::uint64_t seed = 0;
  std::vector<EnvironmentRow> environment;
  std::string task_name, task_title, task_demanded, task_contract;
  seeds::ProgramText reference, task_seed;
  std::vector<CaseRow> cases;
};

struct IdeaDraft {
  std::string title, category, rationale;
  std::optional<double> expected_gain;  // factor over the parent
  int number = 0;                       // in the round; 0 = the next free one
  int ordinal = 0;                      // among the parent's, from 1; 0 = its place in the span
};

// What a model wrote for a candidate. Texts are missing when the reply held nothing usable.
struct ProgramDraft {
  int turn = 0;  // 0 = first reply, then repairs
  std::optional<std::string> source, plan;
  std::optional<Hash> identity;
};

struct FrontierEntry {
  CandidateId candidate;
  FrontierKind kind = FrontierKind::kFastest;
  std::string why;
};

// An amount of the ledger, in the unit that its kind names.
struct Amount {
  LedgerKind kind = LedgerKind::kTokens;
  double amount = 0;
};
// The ledger's keys of a candidate's evaluations, and of the nth time (>= 1) that one thing is
// done.
std::string EvaluationKey(std::string_view candidate);
std::string NumberedKey(std::string_view key, int n);
struct LedgerTotal {
  double settled = 0;   // spent
  double reserved = 0;  // promised and not yet settled
};

// What an entry of the ledger belongs to; 0 = none.
struct LedgerScope {
  int round = 0;  // index
  int idea = 0;   // IdeaRow::number, of that round
  CallId call;
};
// What a limit bounds. A run searches one task, so kRun and kTask count the same entries; they are
// two limits because the second is a share of a budget that several runs have together.
enum class LedgerSpan { kRun, kTask, kRound, kIdea };
std::string_view Name(LedgerSpan span);  // "run", ...
struct LedgerLimit {
  LedgerKind kind = LedgerKind::kTokens;
  LedgerSpan span = LedgerSpan::kRun;
  double most = 0;  // in the kind's unit; this much may be spent, and no more
};
struct LimitState {
  LedgerLimit limit;
  double settled = 0;
  double reserved = 0;
};

struct StoreOptions {
  // false: synchronous=NORMAL. A kill still loses nothing; a power loss may lose the newest
  // transitions, never the file.
  bool survive_power_loss = true;
  int busy_timeout_ms = 5000;  // to wait for another program (an sqlite3 shell) that holds the file
  // How long a transition may wait for others to be committed with it. 0 = none waits.
  std::chrono::milliseconds linger{0};
};

// kInvalidInput for what cannot be a run's name (empty, too long, path separators, leading '.').
Status CheckRunName(std::string_view name);
// The message of a duplicate's verdict: "the same program as r1.i2.b1".
std::string DuplicateMessage(std::string_view of);
// The request as stored: JSON with model, messages and limits, keys in a fixed order; not its seed,
// so that the branches of an idea share one text; for the shared part of a message the hash of its
// text ("shared"), which is stored beside. Invalid UTF-8 is replaced. Its HashText is
// CallRow::request. (Runs of earlier versions have "seed" in it and nothing shared.)
std::string RequestJson(const llm::Request& request);

// The writer. Thread-safe: any thread may call anything, transitions are serialised inside. Holds
// the run's lock until it is destroyed, which commits what lingers. `clock` must outlive it.
class Store {
 public:
  // Makes `runs`/NAME/run.db with status kRunning. kInvalidInput for a bad name and when the run
  // exists already.
  static Result<std::unique_ptr<Store>> Create(const std::filesystem::path& runs,
                                               const RunStart& start, const Clock& clock,
                                               const StoreOptions& options = {});
  // Opens a run to go on with it; migrates an older schema. kNotFound when there is none.
  static Result<std::unique_ptr<Store>> Open(const std::filesystem::path& runs,
                                             std::string_view name, const Clock& clock,
                                             const StoreOptions& options = {});
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  const std::filesystem::path& folder() const;  // runs/NAME

  // --- the run ---
  Status SetStatus(RunStatus status, std::string_view reason);
  Status SetConfig(std::string_view config);                    // JSON, in place of the old
  Status SetEnvironment(std::span<const EnvironmentRow> rows);  // adds or replaces by key
  Status AddEvent(std::string_view kind, std::string_view text);
  // false: this key was there.
  Result<bool> AddHint(std::string_view key, std::string_view kind, std::string_view text);
  // Hints not yet used, oldest first, marked as used in `round` by the same transaction. On a round
  // that is run again after a kill: also those it had taken.
  Result<std::vector<HintRow>> TakeHints(RoundId round);
  Status AnswerHint(std::int64_t id, std::string_view answer);

  // --- the tree ---
  Result<RoundId> BeginRound(int index);
  // `frontier` in order of place. A finished round stays as it is. `cut`: the run's budget ended
  // it.
  Status FinishRound(RoundId round, std::span<const FrontierEntry> frontier, bool cut = false);
  // Makes a round that was cut short one that runs, without a frontier. false: it is no such round.
  // REQUIRES: it is the last.
  Result<bool> ReopenRound(RoundId round);
  // The task's own seed, "seed", as kReceived.
  Result<CandidateId> RecordSeed(const ProgramDraft& program);
  // Ordinals are positions in `ideas`, from 1, unless the draft says another. Ids in the same
  // order; an id follows from round and number alone, a candidate's from its idea and branch, so
  // the ids of a run do not depend on what arrived first and are sorted as the names are.
  Result<std::vector<IdeaId>> RecordIdeas(RoundId round, CandidateId parent, CallId call,
                                          std::span<const IdeaDraft> ideas);
  // Names the call that an idea came from, where none is named yet: ideas are stored while their
  // reply comes in, before there is one.
  Status LinkIdeas(std::span<const IdeaId> ideas, CallId call);
  // Branches first .. first + count - 1 of an idea; first >= 1. Ids in their order.
  Result<std::vector<CandidateId>> RequestCandidates(IdeaId idea, int first, int count);
  Result<CandidateId> RequestCandidate(IdeaId idea, int branch);
  // Makes the program the candidate's. false: nothing changed, since this or a later turn is stored
  // or the verdict is final.
  Result<bool> ReceiveProgram(CandidateId candidate, const ProgramDraft& program);
  // Keeps a failed program that goes back to the model for repair. false: this turn is stored.
  Result<bool> RecordAttempt(CandidateId candidate, const ProgramDraft& program,
                             const eval::Verdict& verdict, const std::string& report = {});
  // The candidate's final verdict with all its rows. Books `cost`, for which nothing was reserved,
  // under the first key "evaluation NAME #1", "... #2" that is free: a candidate may be evaluated
  // more than once. false: it had a verdict, and keeps it. Of two rows with one key (case, kind,
  // mode; case, entry) the last is kept; without any stage one is made from the verdict.
  Result<bool> RecordVerdict(CandidateId candidate, const EvaluationRow& evaluation,
                             std::span<const Amount> cost = {}, const LedgerScope& scope = {});

  // A contest for the first place, with its cases and samples. false: these two have met before,
  // and what is stored stays.
  Result<bool> RecordPromotion(const PromotionRow& promotion);
  // What a profiler said of a candidate, in short and in full; replaces an earlier profile.
  Status RecordProfile(CandidateId candidate, std::string_view summary, std::string_view report);
  // Baselines known for this run's cases; replaces those of the same case, name and GPU.
  Status SetBaselines(std::span<const BaselineRow> rows);
  // Gives the verdict of `from`, and every row of its evaluation, to `to`, which has none yet and
  // the same program; `from` and the round's other duplicates of it become duplicates of `to`. For
  // programs that turn out to be equal after the wrong one of them was evaluated. false: `to` had a
  // verdict, and nothing changed.
  Result<bool> MoveVerdict(CandidateId from, CandidateId to);

  // --- models ---
  // Before a request is sent: stores it as kPending with its reservations. When the key is already
  // kAnswered nothing changes: take the reply (FindReply) instead of asking. When it is kPending or
  // kFailed (a kill, an outage) this is a new attempt; what an unfinished one had reserved counts
  // as spent, since the provider may have billed it. Look at `status` and `attempts` of the result.
  // kBudget, and nothing is stored, when `reserve` beside all that is settled and reserved would
  // exceed one of `limits`: checked and reserved in the one transaction.
  Result<CallRow> BeginCall(const CallKey& key, const llm::Request& request,
                            std::span<const Amount> reserve = {},
                            std::span<const LedgerLimit> limits = {});
  // Another attempt of a pending call: settles the last one at what it reserved (it may have been
  // billed) and reserves again. kBudget as above: then nothing changed.
  Result<CallRow> RenewCall(CallId call, std::span<const Amount> reserve,
                            std::span<const LedgerLimit> limits);
  // Settles the attempt's reservations at `cost`; kinds that it does not name at what they
  // reserved. false: it was answered before.
  Result<bool> AnswerCall(CallId call, const llm::Reply& reply, std::span<const Amount> cost = {});
  // As AnswerCall, for a request that gave no reply.
  Status FailCall(CallId call, std::string_view error, std::span<const Amount> cost = {});
  // The stored answer; none when the call is unknown, pending or failed.
  Result<std::optional<llm::Reply>> FindReply(const CallKey& key);
  // The calls of a round (its index), by role and then in the order of their keys.
  Result<std::vector<CallRow>> CallsOf(int round);
  // Whether any call was answered.
  Result<bool> HasReplies();

  // --- ledger ---
  // false: the entry exists.
  Result<bool> Reserve(std::string_view key, const Amount& amount);
  // The same for several kinds at once, within limits: kBudget as in BeginCall.
  Result<bool> Reserve(std::string_view key, std::span<const Amount> amounts,
                       const LedgerScope& scope, std::span<const LedgerLimit> limits);
  // Enters what was spent without a reservation, once. false: the entry exists.
  Result<bool> Book(std::string_view key, std::span<const Amount> amounts,
                    const LedgerScope& scope);
  // The same for what may be done more than once: under the first of "KEY #1", "KEY #2" that is
  // free. Nothing for no amounts.
  Status BookAgain(std::string_view key, std::span<const Amount> amounts, const LedgerScope& scope);
  // Settles what `cost` names, and the rest of the key's reservations in full.
  Status SettleAll(std::string_view key, std::span<const Amount> cost);
  // Settles every open reservation in full: what a process that died had promised may have been
  // billed. Returns how many there were. REQUIRES: nothing is in flight.
  Result<int> SettleOpen();
  // What stands against each of `limits` for work in `scope`, in their order.
  Result<std::vector<LimitState>> LimitStates(const LedgerScope& scope,
                                              std::span<const LedgerLimit> limits);
  // false: it was settled. Settling what was not reserved is recorded as both.
  Result<bool> Settle(std::string_view key, const Amount& amount);
  Result<LedgerTotal> Total(LedgerKind kind);

  // --- reading, as Reader does ---
  Result<RunData> Load();
  Result<std::string> Text(const Hash& hash);
  Result<std::string> Request(const Hash& hash);

 private:
  struct Impl;
  explicit Store(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// An inspector: reads a run, whoever writes it, and never writes to it, locks it or holds it up.
// Must be on the same machine as a process that writes (WAL shares memory). Thread-safe.
class Reader {
 public:
  // `run` is the run's folder or its run.db.
  static Result<std::unique_ptr<Reader>> Open(const std::filesystem::path& run);
  ~Reader();
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  // A consistent snapshot of everything but texts and samples.
  Result<RunData> Load();
  Result<std::string> Text(const Hash& hash);
  // RequestJson of what a call asked, with shared texts in their places.
  Result<std::string> Request(const Hash& hash);
  Result<std::vector<SampleRow>> Samples(CandidateId candidate);
  Result<std::optional<llm::Reply>> FindReply(const CallKey& key);

 private:
  struct Impl;
  explicit Reader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// One line of a list of runs.
struct RunSummary {
  std::string name;
  std::filesystem::path folder;
  std::string problem;  // when it cannot be read; then the rest is empty
  RunInfo run;
  std::string task;
  int rounds = 0, candidates = 0, correct = 0;
  std::optional<Nanoseconds> seed_score, best_score;  // of one kind
  TimeKind score_kind = TimeKind::kModelled;
};
// The runs below `runs`, newest first. A run that cannot be read is listed with its problem. An
// empty list when the folder does not exist.
Result<std::vector<RunSummary>> ListRuns(const std::filesystem::path& runs);

// Whether a run (folder or run.db) is whole: SQLite's own check, references, no half-written
// transition (an evaluated candidate without stages, rows of an evaluation without a verdict, an
// answered call without a reply), names that follow the tree, every text with the hash that names
// it. kInternal with what is wrong. Slow for a large run: it reads all of it.
Status CheckStore(const std::filesystem::path& run);

}  // namespace grove::results
