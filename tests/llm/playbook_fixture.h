// What tests of the playbook's programs share: the shipped catalogue and a compiler, made once for
// a suite of tests, and a program from the text of its traits.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/result.h"
#include "base/share.h"
#include "codegen/compile_farm.h"
#include "codegen/program.h"
#include "llm/playbook/catalogue.h"

namespace grove::llm::playbook {

class PlaybookSuite : public ::testing::Test {
 protected:
  struct Made {
    Traits traits;  // complete
    codegen::KernelProgram program;
  };

  static void SetUpTestSuite() { Load({}); }
  static void TearDownTestSuite() {
    farm_.reset();
    catalogue_.reset();
  }
  // With a cache folder, what was compiled before is not compiled again.
  static void Load(const std::filesystem::path& cache) {
    auto loaded = Catalogue::Load(ShareFolder("playbook"));
    ASSERT_TRUE(loaded) << loaded.error().message;
    catalogue_ = std::make_unique<Catalogue>(std::move(*loaded));
    codegen::FarmOptions options;
    options.deadline = std::chrono::minutes(5);  // a busy machine is no failure of the playbook
    options.cache_folder = cache;
    auto farm = codegen::MakeCompileFarm(options);
    ASSERT_TRUE(farm) << farm.error().message;
    farm_ = std::move(*farm);
  }

  // The program of `traits`, "op=matmul strategy=mma ..."; kInvalidInput for a name that no
  // template of the strategy knows.
  static Result<Made> ProgramOf(const std::string& traits) {
    const Traits asked = TraitsOf(fmt::format("// traits: {}\n", traits), "");
    auto complete = catalogue_->Complete(asked);
    if (!complete) return Failure(std::move(complete.error()));
    for (const auto& [name, value] : asked) {
      if (!complete->contains(name)) {
        return Fail(ErrorCode::kInvalidInput, "no template knows " + name);
      }
    }
    return ProgramOf(*complete);
  }
  static Result<Made> ProgramOf(const Traits& complete) {
    auto text = catalogue_->Render(complete, {});
    if (!text) return Failure(std::move(text.error()));
    auto program = codegen::MakeProgram(text->source, text->plan);
    if (!program) return Failure(std::move(program.error()));
    return Made{complete, std::move(*program)};
  }

  static inline std::unique_ptr<Catalogue> catalogue_;
  static inline std::unique_ptr<codegen::Compiler> farm_;
};

}  // namespace grove::llm::playbook
