// What a search is told: stored with the run, so that `grove resume` needs nothing but its name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace grove::search {

struct SearchConfig {
  std::string task;
  std::string model = "playbook";
  std::string policy = "beam";  // which kernels seed the next round: search/policy.h
  std::string device = "auto";
  std::string gpu = "H200";        // which GPU the emulator models
  std::string tasks;               // folder of the tasks, absolute; empty = the program's own
  std::string suite;               // whose cases; empty = the first that has all of `cases`
  std::vector<std::string> cases;  // scored or extra cases that count; empty = the scored ones
  int rounds = 3;
  int ideas = 3;           // per frontier kernel
  int branches = 2;        // candidates per idea
  std::vector<std::string> goals;  // search/goals.h; the run ends when all are met
  int frontier = 3;        // fastest kernels carried into the next round
  int reserve = 1;         // places beside them for promising but slower ones
  int patience = 4;        // rounds without a gain before the search ends
  int repairs = 2;         // repair turns per candidate
  int calls = 16;          // model calls in flight at once
  // Percent of a round after which the next round's ideas are asked for; 100 = when it is over.
  int eager = 100;
  int screen = 0;          // 1 = every candidate passes the emulator before it reaches a GPU
  std::uint64_t seed = 1;  // of inputs and of the model's samples
};

// One JSON object; FromJson refuses unknown fields and values out of range (kInvalidInput), and
// fills what is absent with the defaults above.
std::string ToJson(const SearchConfig& config);
Result<SearchConfig> ConfigFromJson(std::string_view json);
// The range of every number: rounds 1 to 1000, ideas 1 to 64, ... kInvalidInput names the option.
Status Validate(const SearchConfig& config);

}  // namespace grove::search
