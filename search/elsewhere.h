// A search whose programs are evaluated on another machine (`grove run --until evaluate`). What
// would go to a GPU is looked up among the results that were absorbed; what is not there is
// awaited: the rest of the round goes on without it, the search ends when nothing but awaited
// programs is left, a package of them is written, and the search that is resumed after its result
// was absorbed runs its round again and finds them.
//
// On disk: runs/NAME/packages/NNNN.package and, when absorbed, NNNN.result beside it
// (eval/package.h has the format). Both are written whole or not at all. Thread-safe.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "codegen/program.h"
#include "eval/evaluator.h"
#include "eval/package.h"
#include "results/rows.h"
#include "results/store.h"

namespace grove::search {

// What tells this run from every other, also when its folder is copied or renamed.
Hash RunKey(const results::RunInfo& run);
// runs/NAME/packages.
std::filesystem::path PackagesFolder(const std::filesystem::path& run);

class Elsewhere {
 public:
  // Reads what `run` (its folder) has. kInvalidInput for a package or result there that is damaged
  // or that Absorb would refuse, with its path: a result that was copied there is as good as one
  // that was absorbed.
  static Result<std::unique_ptr<Elsewhere>> Open(const std::filesystem::path& run, const Hash& key);

  enum class Place {
    kNew,   // no package holds it
    kAway,  // in a package whose result is not here, or noted since
    kBack,  // Find returns it
  };
  Place Where(const Hash& identity) const;
  // What came back for this program. None: it is noted under this name for the next package.
  std::optional<eval::Evaluation> Find(const std::string& name,
                                       const codegen::KernelProgram& program);
  // The two measured beside each other, if they were.
  std::optional<std::vector<eval::CasePair>> FindContest(const Hash& incumbent,
                                                         const Hash& challenger) const;
  // Programs noted by Find, by name.
  std::vector<eval::PackagedProgram> awaited() const;
  // Of the absorbed results, the newest last; what they say of the machine is for the run's store.
  const std::vector<eval::PackageResult>& results() const { return results_; }

  struct Packed {
    std::filesystem::path file;
    int number = 0;
    std::size_t programs = 0;
    bool fresh = false;  // written now; else it was there with all that is awaited
  };
  // Writes what is awaited as the next package, unless the last one, not yet absorbed, holds it
  // all. `draft` says everything but number and programs. REQUIRES: something is awaited.
  Result<Packed> Pack(eval::EvaluationPackage draft);

 private:
  Elsewhere(std::filesystem::path folder) : folder_(std::move(folder)) {}

  const std::filesystem::path folder_;
  std::vector<eval::PackageResult> results_;
  std::map<Hash, const eval::Evaluation*> back_;
  std::map<std::pair<Hash, Hash>, const std::vector<eval::CasePair>*> contests_;
  std::map<Hash, int> away_;  // the last package that holds it
  int last_ = 0;              // number of the last package
  mutable std::mutex mutex_;
  std::map<Hash, eval::PackagedProgram> awaited_;  // GUARDED_BY(mutex_)
};

// The kernels that new ones have to beat, at most `most`: first whom the last round's winners will
// challenge (ChampionBefore), then the last frontier's in order of place, the seed before there is
// one. None while nothing has a time.
Result<std::vector<eval::PackagedProgram>> IncumbentsOf(results::Store& store,
                                                        const results::RunData& data,
                                                        std::size_t most);

// Takes a result (the bytes of its file) into the run in folder `run`. kInvalidInput, and nothing
// changes, when it is no result, belongs to another run or to no package of it, was absorbed
// before, or was measured on another model of GPU than those before it. `from`: the file's path, if
// any; the file that lies where results go is checked and stays, so that it may be copied there
// first.
struct Absorbed {
  int number = 0;
  std::size_t evaluations = 0;
  std::size_t missing = 0;  // programs of the package that it does not hold
  std::size_t profiles = 0;
  bool in_place = false;  // `from` was there already
  std::string gpu;
};
Result<Absorbed> Absorb(const std::filesystem::path& run, const results::RunInfo& info,
                        std::string_view result, const std::filesystem::path& from = {});

}  // namespace grove::search
