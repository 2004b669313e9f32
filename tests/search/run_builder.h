// Runs as plain rows, without a store: what tests of policies, bandits and batches look at.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "results/rows.h"
#include "search/policy.h"

namespace grove::testing {

class RunBuilder {
 public:
  explicit RunBuilder(double seed_ns = 1000) {
    data_.environment.push_back({"gpu", "H200"});
    results::CandidateRow& seed = Kernel("seed", seed_ns);
    seed.evaluation->case_times[0].launches = 1;
  }

  // A finished round; its frontier is given afterwards by Frontier or Run.
  void Round(int index) {
    results::RoundRow round;
    round.id = RoundId(index);
    round.index = index;
    round.status = results::RoundStatus::kFinished;
    data_.rounds.push_back(round);
  }

  // A candidate of the newest round. time 0 = it failed.
  results::CandidateRow& Add(const std::string& name, const std::string& parent,
                             const std::string& idea, double ns,
                             const std::string& category = "memory access") {
    auto known = ideas_.find(idea + "/" + parent);
    if (known == ideas_.end()) {
      results::IdeaRow row;
      row.id = IdeaId(static_cast<std::int64_t>(data_.ideas.size()) + 1);
      row.round = data_.rounds.back().id;
      row.parent = data_.FindCandidate(parent)->id;
      row.title = idea;
      row.category = category;
      data_.ideas.push_back(row);
      known = ideas_.emplace(idea + "/" + parent, row.id).first;
    }
    const CandidateId parent_id = data_.FindCandidate(parent)->id;
    results::CandidateRow& row = Kernel(name, ns);
    row.round = data_.rounds.back().id;
    row.idea = known->second;
    row.parent = parent_id;
    return row;
  }

  // Chooses after the newest round and stores the choice.
  search::Choice Run(const search::Policy& policy) {
    const int index = data_.rounds.back().index;
    search::Choice choice = policy.Choose(data_, index);
    int place = 0;
    for (const results::FrontierEntry& entry : choice.frontier) {
      data_.frontier.push_back(
          {data_.rounds.back().id, entry.candidate, ++place, entry.kind, entry.why});
    }
    return choice;
  }

  // "r1.a r1.b | r1.c": the fast and the reserve.
  std::string Names(const search::Choice& choice) const {
    std::string names;
    bool reserve = false;
    for (const results::FrontierEntry& entry : choice.frontier) {
      if (!names.empty()) names += " ";
      if (!reserve && entry.kind == results::FrontierKind::kReserve) {
        names += "| ";
        reserve = true;
      }
      names += data_.Find(entry.candidate)->name;
    }
    return names;
  }
  std::string WhyPruned(const search::Choice& choice, const std::string& name) const {
    for (const search::Pruned& pruned : choice.pruned) {
      if (data_.Find(pruned.candidate)->name == name) return pruned.why;
    }
    return "";
  }

  results::RunData& data() { return data_; }

 private:
  results::CandidateRow& Kernel(const std::string& name, double ns) {
    results::CandidateRow row;
    row.id = CandidateId(static_cast<std::int64_t>(data_.candidates.size()) + 1);
    row.name = name;
    row.status = results::CandidateStatus::kEvaluated;
    row.identity = HashText(name);
    auto& e = row.evaluation.emplace();
    e.score_kind = results::TimeKind::kMeasured;
    e.verdict.kind = ns > 0 ? eval::VerdictKind::kPass : eval::VerdictKind::kWrongResult;
    if (ns > 0) {
      e.score = Nanoseconds(ns);
      results::CaseTimeRow time;
      time.case_name = "scored";
      time.kind = results::TimeKind::kMeasured;
      time.time = Nanoseconds(ns);
      time.class_floor = Nanoseconds(50);
      time.floor = Nanoseconds(50);
      e.case_times.push_back(time);
    }
    data_.candidates.push_back(std::move(row));
    return data_.candidates.back();
  }

  results::RunData data_;
  std::map<std::string, IdeaId> ideas_;
};

}  // namespace grove::testing
