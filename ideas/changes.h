// What one kernel changed of another, as prompts show it: a unified diff of program and plan, cut
// to what a reader needs. Pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "seeds/task.h"

namespace grove::ideas {

// One kernel's change in a prompt. Both texts may hold foreign ones.
struct Change {
  std::string heading;  // one line: which kernel, from which, what came of it
  std::string diff;     // of ChangeBetween
};

struct ChangeLimits {
  int context = 2;           // unchanged lines around each change
  std::size_t lines = 100;   // of the diff; further ones are counted
  std::size_t bytes = 6000;  // the same
  // Share of the longer text's lines that may differ; above it the program was rewritten, and a
  // diff of it says nothing.
  double most_changed = 0.7;
};

// "--- r1.i1.b1.cu\n+++ r2.i1.b2.cu\n@@ ..." and the same for the plans where they differ. Lines of
// the kernel that are too long are cut. Empty when the two are the same; a line in parentheses when
// the program was rewritten or is longer than a prompt's source.
std::string ChangeBetween(const std::string& from, const seeds::ProgramText& before,
                          const std::string& to, const seeds::ProgramText& after,
                          const ChangeLimits& limits = {});
// Whether `diff`, of ChangeBetween, shows lines of the program.
bool ShowsLines(const std::string& diff);

// Each change as the lines of a section: its heading and its diff in a fence. Those that fit in
// `bytes`, the first before the others; a line counts the rest.
std::vector<std::string> FitChanges(const std::vector<Change>& changes, std::size_t bytes);

}  // namespace grove::ideas
