#include "search/policy.h"

#include <gtest/gtest.h>

namespace grove::search {
namespace {

results::CandidateRow Candidate(int id, double time, std::uint64_t program) {
  results::CandidateRow row;
  row.id = CandidateId(id);
  row.identity = Hash{program, 0};
  row.evaluation.emplace();
  row.evaluation->verdict.kind =
      time > 0 ? eval::VerdictKind::kPass : eval::VerdictKind::kWrongResult;
  if (time > 0) row.evaluation->score = Nanoseconds(time);
  return row;
}

std::vector<std::int64_t> Chosen(const std::vector<results::CandidateRow>& rows, int size) {
  std::vector<const results::CandidateRow*> pointers;
  for (const auto& row : rows) pointers.push_back(&row);
  std::vector<std::int64_t> ids;
  for (const auto& entry : SelectFastest(pointers, size)) ids.push_back(entry.candidate.value);
  return ids;
}

TEST(SelectionTest, TakesTheFastestThatPassed) {
  EXPECT_EQ(
      Chosen({Candidate(1, 30, 1), Candidate(2, 10, 2), Candidate(3, 0, 3), Candidate(4, 20, 4)},
             2),
      (std::vector<std::int64_t>{2, 4}));
}

TEST(SelectionTest, TiesGoToTheOlder) {
  EXPECT_EQ(Chosen({Candidate(5, 10, 1), Candidate(3, 10, 2)}, 1), (std::vector<std::int64_t>{3}));
}

TEST(SelectionTest, AProgramOrCandidateHasOnePlace) {
  EXPECT_EQ(
      Chosen({Candidate(1, 10, 7), Candidate(2, 11, 7), Candidate(1, 10, 7), Candidate(3, 12, 8)},
             3),
      (std::vector<std::int64_t>{1, 3}));
}

TEST(SelectionTest, NothingPassedGivesNothing) {
  EXPECT_TRUE(Chosen({Candidate(1, 0, 1)}, 3).empty());
}

}  // namespace
}  // namespace grove::search
