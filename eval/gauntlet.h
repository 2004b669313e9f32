// The gauntlet: kernel programs that cheat, err or attack, and honest ones of unusual make, each
// with the verdict that it must get (tests/gauntlet). One evaluation of all of them proves on the
// machine at hand that no wrong program is kept and no right one is lost.
//
// A gauntlet is a folder:
//   tasks.toml            what the programs are for: [ID] with of (a task), suite, checks (names of
//                         its cases), scored (the case that is timed, whatever it is in the task),
//                         nondeterministic (permitted; default false)
//   NAME/expect.toml      task (an ID), why (one line), catalogue (numbers), verdict (one name or
//                         several; "pass": honest), stage (optional), class (optional: the measured
//                         one), devices (default both of "emulator", "cuda"), and tables [emulator]
//                         and [cuda] that replace verdict, stage or class there; screen = true (on
//                         a GPU only the emulator's look before it can tell); append_hex and
//                         pad_bytes change the source before it is read (bytes that an editor would
//                         not keep; a source larger than anybody would check in)
//   NAME/source.cu        with plan.json unless the source has `// grove:` comments, or instead
//   NAME/reply.txt        a whole reply of a model
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "codegen/compiler.h"
#include "eval/device.h"
#include "eval/evaluator.h"
#include "eval/verdict.h"

namespace grove::eval {

struct GauntletExpectation {
  std::vector<VerdictKind> verdicts;  // any of them will do
  std::optional<Stage> stage;
  std::optional<seeds::PrecisionClass> measured_class;
  bool honest() const { return verdicts.size() == 1 && verdicts[0] == VerdictKind::kPass; }
};

struct GauntletEntry {
  std::string name;
  std::string task;  // ID of tasks.toml
  std::string why;
  std::vector<std::int64_t> catalogue;
  GauntletExpectation expected;
  std::map<std::string, GauntletExpectation> on;  // by device kind, where it differs
  std::vector<std::string> devices;               // kinds that can tell
  std::string source, plan;
  std::optional<std::string> reply;  // instead of source and plan
  bool screen = false;

  bool runs_on(std::string_view device_kind) const;
  const GauntletExpectation& expected_on(std::string_view device_kind) const;
};

struct GauntletTask {
  std::string id;
  std::string of;
  std::string suite;
  std::vector<std::string> checks;
  std::string scored;
  bool nondeterministic = false;
};

struct Gauntlet {
  std::vector<GauntletTask> tasks;
  std::vector<GauntletEntry> entries;  // by name
};

// The folder that comes with the program: $GROVE_SHARE/gauntlet, share/grove/gauntlet beside it, or
// the source tree's tests/gauntlet.
std::filesystem::path DefaultGauntletFolder();

// kNotFound without such a folder; kInvalidInput names the file that is wrong. `only` is a glob
// (* and ?) over names; empty = all. kNotFound when nothing matches.
Result<Gauntlet> LoadGauntlet(const std::filesystem::path& folder, std::string_view only);

enum class GauntletStatus {
  kAsExpected,
  kFalseAccept,   // passed, and must not
  kFalseReject,   // did not pass, and must
  kOtherVerdict,  // refused, as it must be, but with a verdict, stage or class not expected
  kSkipped,       // this device cannot tell
};
std::string_view Name(GauntletStatus status);

struct GauntletOutcome {
  std::string name, task;
  GauntletStatus status = GauntletStatus::kSkipped;
  std::string expected;  // "wrong_result or unwritten"
  Verdict got;
  std::optional<seeds::PrecisionClass> measured_class;
  Milliseconds time{0};             // of the evaluation, wall
  std::vector<StageRecord> stages;  // that it went through
};

struct GauntletTotals {
  int hostile = 0, honest = 0;  // evaluated
  int false_accepts = 0, false_rejects = 0, other_verdicts = 0, skipped = 0;
  bool clean() const { return false_accepts + false_rejects + other_verdicts == 0; }
};
GauntletTotals Total(const std::vector<GauntletOutcome>& outcomes);

struct GauntletOptions {
  std::filesystem::path tasks;  // folder of the tasks
  EvaluatorOptions evaluation;  // `screen` is for the entries that ask for it
  // Told when the tasks are prepared (references compiled), before the first entry; may be empty.
  std::function<void()> ready;
  // Told of every outcome when it is there, one at a time; may be empty.
  std::function<void(const GauntletOutcome&)> done;
};

// Evaluates all entries in parallel on the calling oneTBB arena; outcomes in the order of the
// entries. The device's kind is its name up to a colon. An Error is ours: a task that does not
// load, a compiler or device that is gone.
Result<std::vector<GauntletOutcome>> RunGauntlet(const Gauntlet& gauntlet,
                                                 codegen::Compiler& compiler, Device& device,
                                                 const GauntletOptions& options);

// A program compiled and resolved for one of its task's cases. Valid during the visit.
struct Specimen {
  const CaseContext* context = nullptr;
  Prepared candidate;
  std::uint64_t seed = 0;  // of the inputs
};

// For tools that look closer at the honest programs than RunGauntlet does: calls `visit` for each
// that this device runs, with its task's `cases` smallest check cases, in parallel on the calling
// oneTBB arena. An Error as of RunGauntlet, and for an honest program that does not compile.
Status VisitHonest(const Gauntlet& gauntlet, codegen::Compiler& compiler, Device& device,
                   const GauntletOptions& options, std::size_t cases,
                   const std::function<void(const GauntletEntry&, std::vector<Specimen>)>& visit);

}  // namespace grove::eval
