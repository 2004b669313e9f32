// Any reply gives a program or is refused as invalid input; a program's source passes the check
// again and has a stable identity.
#include <cstdint>
#include <cstdlib>

#include "codegen/program.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace grove::codegen;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const grove::Result<KernelProgram> program = ParseReply(text);
  if (!program) {
    if (program.error().code != grove::ErrorCode::kInvalidInput) std::abort();
  } else {
    if (!CheckSource(program->source)) std::abort();
    const grove::Result<KernelProgram> again = MakeProgram(program->source, program->plan_json);
    if (!again || again->identity() != program->identity()) std::abort();
  }
  // As edits of a program; with a base a reply gives at least what it gives without.
  const grove::seeds::ProgramText base = {
      "extern \"C\" __global__ void k(float* y) {\n  y[0] = 1;\n  y[1] = 2;\n}\n",
      R"({"version": 1, "launches": [{"kernel": "k", "grid": [1], "block": [1], "args": ["y"]}]})"};
  const grove::Result<KernelProgram> edited = ParseReply(text, &base);
  if (!edited && (program || edited.error().code != grove::ErrorCode::kInvalidInput)) std::abort();
  if (edited && !CheckSource(edited->source)) std::abort();
  // The source check on its own sees more kinds of text than fences let through.
  (void)MakeProgram(text, "");
  return 0;
}
