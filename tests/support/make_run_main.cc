// grove-make-run RUNS NAME CANDIDATES [hostile]: a made-up run for tests of the page, and for
// measuring how fast a large one opens (docs/report.md).
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/support/synthetic_run.h"

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: %s RUNS NAME CANDIDATES [hostile]\n", argv[0]);
    return 2;
  }
  grove::testing::SyntheticRun run;
  run.name = argv[2];
  run.candidates = std::atoi(argv[3]);
  run.hostile = argc > 4 && std::strcmp(argv[4], "hostile") == 0;
  if (const auto made = grove::testing::MakeSyntheticRun(argv[1], run); !made) {
    std::fprintf(stderr, "%s\n", made.error().message.c_str());
    return 1;
  }
  return 0;
}
