// Messages to a run from outside: hints, goals, stop, pause, continue. `grove hint` and the live
// page write them, the run's own process reads them; run.db keeps its one writer.
//
// Constraints: a message is whole or not there, whatever is killed when; writers need no lock, know
// nothing of each other and never hold a run up; a hint for a run that is not live waits until it
// is resumed. Rejected: a second writer of run.db (would hold up the search, and an old grove could
// write into a newer store), signals (carry no text), a socket (nothing waits while no run lives),
// one append-only file (a torn last line, and nobody can shorten it safely).
//
// Layout: runs/NAME/control/KEY.json, one file per message, written beside and renamed. KEY begins
// with the moment in microseconds, so that names sort by time. The run removes a file once what it
// asks for has taken effect: a text is in the store, a stop has been noted there and nothing new
// begins. After a kill in between, a text is applied again, which changes nothing, since the store
// takes a key once, and a stop or pause of the life before is passed over. A file that is no
// message is renamed to NAME.bad and reported. Thread-safe: stateless functions.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "results/rows.h"

namespace grove::results {

enum class ControlKind { kHint, kGoal, kStop, kPause, kContinue };
std::string_view Name(ControlKind kind);  // "hint", "goal", "stop", "pause", "continue"

struct ControlMessage {
  ControlKind kind = ControlKind::kHint;
  std::string text;  // of a hint or goal
  // A hint for kernels that are, or descend from, this candidate or idea ("r2.i3.b1", "r2.i3");
  // empty = for every one.
  std::string branch;
  int rounds = 0;  // that a hint holds for, from the round that first used it; 0 = to the end
  // Set by PostControl.
  std::string key;
  WallTime time;
};

// Puts the message into the folder of the run `run` (runs/NAME) and returns its key. kInvalidInput
// for a text that is empty, over 4000 bytes or no UTF-8, a branch that is no name, or rounds out of
// 0 to 1000; kNotFound when there is no such run; kResource when the file cannot be written.
Result<std::string> PostControl(const std::filesystem::path& run, ControlMessage message,
                                const Clock& clock);

struct ControlInbox {
  std::vector<ControlMessage> messages;  // oldest first
  std::vector<std::string> problems;     // files that are no messages, one line each
};
// What waits. An empty inbox when the folder is not there. Changes nothing, so that `grove status`
// may look as well.
Result<ControlInbox> ReadControl(const std::filesystem::path& run);
// Moves what is no message out of the way. For the run's own process.
void SetAsideBadControl(const std::filesystem::path& run);
// After the message is applied. Succeeds when it is gone already.
Status RemoveControl(const std::filesystem::path& run, std::string_view key);

// --- hints in the store
// --------------------------------------------------------------------------- The scope of a hint
// travels in HintRow::key: "KEY", or "KEY?branch=r2.i3&rounds=4".

std::string HintKey(const ControlMessage& message);
struct HintScope {
  std::string branch;  // empty = every kernel
  int rounds = 0;      // 0 = to the end
};
HintScope ScopeOf(const HintRow& hint);

// The hints that the ideas for `parent` in round `round` are told: of kind "hint", taken in this
// round or before, not past their rounds, and of a branch that leads to `parent`. Oldest first.
// Pointers lead into `data`.
std::vector<const HintRow*> HintsInForce(const RunData& data, const CandidateRow& parent,
                                         int round);

}  // namespace grove::results
