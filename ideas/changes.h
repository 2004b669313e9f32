// What one kernel changed of another, as prompts show it: hunks of a unified diff of program and
// plan, those that matter first, cut to what a reader needs. Pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "seeds/task.h"

namespace grove::ideas {

struct ChangeLimits {
  int context = 2;           // unchanged lines around each change
  std::size_t lines = 100;   // of the diff; the plan takes at most half of them
  std::size_t bytes = 6000;  // the same
  // Share of the longer text's lines that may differ; above it the program was rewritten, and a
  // diff of it says nothing.
  double most_changed = 0.7;
};

// What matters in a change.
struct ChangeFocus {
  std::vector<std::string> kernels;  // those that the scored cases launch, most time first
  // The kernel that the prompt shows, where the change is not one of it: what it has already is
  // left out. Borrowed; may be null.
  const seeds::ProgramText* shown = nullptr;
};

// Changed lines with those around them.
struct Hunk {
  std::string text;   // "@@ -1,2 +1,3 @@", then lines that begin with ' ', '+' or '-'
  bool plan = false;  // of the plan, else of the source
  // By what it is in: the kernels of the focus in their order, then functions that the first of
  // them calls, then others, then kernels that the scored cases do not launch.
  int rank = 0;
};
struct Difference {
  std::string from, to;      // names of kernels
  std::vector<Hunk> hunks;   // the plan's, then by rank, in the order of the text
  std::size_t in_shown = 0;  // hunks left out, because the kernel shown has them
  std::string note;          // in parentheses: why there are none; empty when there are some
  ChangeLimits limits;
};

// One kernel's change in a prompt. Its texts may be foreign.
struct Change {
  std::string heading;  // one line: which kernel, from which, what came of it
  Difference difference;
};

// No hunks and no note when the two are the same; a note alone when the program was rewritten, is
// longer than a prompt's source, or has nothing that the kernel shown lacks.
Difference ChangeBetween(const std::string& from, const seeds::ProgramText& before,
                         const std::string& to, const seeds::ProgramText& after,
                         const ChangeFocus& focus = {}, const ChangeLimits& limits = {});

// Each change as the lines of a section: its heading, and in a fence as many of its hunks as its
// limits hold, whole ones as far as possible, the short ones of one rank first; what is left out is
// counted. A hunk that one before it in the section has shown is one line, "as in r6.i2.b2". The
// blocks that fit in `bytes`, the first before the others; a line counts the rest.
std::vector<std::string> FitChanges(const std::vector<Change>& changes, std::size_t bytes);

}  // namespace grove::ideas
