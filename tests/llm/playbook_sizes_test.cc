// What a search that names other sizes (--cases) first meets: for such a case every strategy that
// a transformation of the task's seed leads to is compiled for a Hopper GPU and its plan holds.
// Check cases are small; a path that only a size of a timed case takes is compiled nowhere else.
// Without GROVE_PLAYBOOK_ALL_CASES=1 it is the sizes that take a path of their own; with it, all
// timed cases of all tasks, some ten minutes.
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/dtype.h"
#include "base/share.h"
#include "codegen/program.h"
#include "seeds/task.h"
#include "tests/llm/playbook_fixture.h"

namespace grove::llm::playbook {
namespace {

struct Size {
  std::string task, suite, name;
};
void PrintTo(const Size& size, std::ostream* out) {
  *out << size.task << ", suite " << size.suite << ", --cases " << size.name;
}

std::vector<Size> Sizes() {
  if (std::getenv("GROVE_PLAYBOOK_ALL_CASES") == nullptr)
    return {{"attention", "crfm", "head1024"}};
  std::vector<Size> sizes;
  const auto names = seeds::ListTasks(ShareFolder("tasks"));
  if (!names) return sizes;  // the list of tests is empty, which the suite reports
  for (const std::string& name : *names) {
    const auto task = seeds::LoadTask(ShareFolder("tasks"), name);
    if (!task) continue;  // task_test.cc reports it
    for (const seeds::Case& c : task->cases) {
      if (c.role != seeds::CaseRole::kScored && c.role != seeds::CaseRole::kExtra) continue;
      for (const std::string& suite : task->suites) {
        const bool in = c.suites.empty() ||
                        std::find(c.suites.begin(), c.suites.end(), suite) != c.suites.end();
        if (in) sizes.push_back({name, suite, c.name});
      }
    }
  }
  return sizes;
}

class PlaybookSizes : public PlaybookSuite, public ::testing::WithParamInterface<Size> {
 protected:
  // As the client makes them of a prompt's task section.
  static Facts FactsOf(const Op& op, const seeds::Case& c) {
    Facts facts = {{"hopper", 1}, {"rows", 1}, {"row", 1}};
    std::map<std::string, std::int64_t> dims;
    for (const seeds::Dim& dim : c.dims) {
      std::string key = dim.name;
      std::transform(key.begin(), key.end(), key.begin(),
                     [](unsigned char letter) { return std::tolower(letter); });
      facts[key] = dim.value;
      dims[dim.name] = dim.value;
    }
    for (const std::string& dim : op.rows) facts["rows"] *= dims[dim];
    for (const std::string& dim : op.row) facts["row"] *= dims[dim];
    facts["bits"] = static_cast<std::int64_t>(SizeOf(c.tensors.front().dtype)) * 8;
    facts["row_kb"] = std::max<std::int64_t>(1, facts["row"] * facts["bits"] / 8192);
    facts["rows_max"] = facts["rows"], facts["row_max"] = facts["row"];
    return facts;
  }
};

TEST_P(PlaybookSizes, EveryStrategyFromTheSeedCompiles) {
  const auto whole = seeds::LoadTask(ShareFolder("tasks"), GetParam().task);
  ASSERT_TRUE(whole) << whole.error().message;
  const auto task = seeds::SelectCases(*whole, GetParam().suite, {GetParam().name});
  ASSERT_TRUE(task) << task.error().message;
  const auto op = std::find_if(catalogue_->ops().begin(), catalogue_->ops().end(),
                               [&](const Op& known) { return known.name == GetParam().task; });
  ASSERT_NE(op, catalogue_->ops().end());
  const auto scored =
      std::find_if(task->cases.begin(), task->cases.end(),
                   [](const seeds::Case& c) { return c.role == seeds::CaseRole::kScored; });
  ASSERT_NE(scored, task->cases.end());
  const Facts facts = FactsOf(*op, *scored);
  const Traits seed = TraitsOf(whole->seed.source, whole->family);
  Traits from = seed;
  from["op"] = op->name;
  std::set<std::string> made;  // strategies
  for (const Entry& entry : catalogue_->entries()) {
    if (!catalogue_->Applies(entry, from, facts)) continue;
    const Traits traits = catalogue_->Apply(entry, from, facts).front();
    if (!made.insert(traits.at("strategy")).second) continue;
    const auto program = ProgramOf(traits);
    ASSERT_TRUE(program) << entry.id << ": " << program.error().message;
    const auto plan = codegen::ResolvePlan(program->program.plan, *scored, {});
    ASSERT_TRUE(plan) << entry.id << ": " << plan.error().message;
    const auto compiled =
        farm_->Compile({codegen::Prelude(*scored) + program->program.source, "sm_90a", {}});
    ASSERT_TRUE(compiled) << compiled.error().message;
    ASSERT_TRUE((*compiled)->ok()) << entry.id << ": " << (*compiled)->log;
    const auto valid = codegen::ValidatePlan(*plan, (*compiled)->entries, {});
    EXPECT_TRUE(valid) << entry.id << ": " << valid.error().message;
  }
  EXPECT_FALSE(made.empty()) << "the playbook has nothing for this size";
}

INSTANTIATE_TEST_SUITE_P(Playbook, PlaybookSizes, ::testing::ValuesIn(Sizes()),
                         [](const auto& size) {
                           std::string name =
                               size.param.task + "_" + size.param.suite + "_" + size.param.name;
                           for (char& c : name) {
                             if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
                           }
                           return name;
                         });

}  // namespace
}  // namespace grove::llm::playbook
