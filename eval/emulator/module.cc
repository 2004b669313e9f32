#include "eval/emulator/module.h"

#include <utility>

#include "eval/emulator/decoder.h"
#include "eval/emulator/ptx.h"

namespace grove::emulator {

Result<std::shared_ptr<const Module>> LoadModule(std::string_view ptx) {
  Result<PtxModule> parsed = ParsePtx(ptx);
  if (!parsed) return Fail(std::move(parsed.error()));
  OpcodeTable table;
  RegisterInteger(table);
  RegisterSelect(table);
  RegisterFloat(table);
  RegisterConvert(table);
  RegisterMemory(table);
  RegisterAtomic(table);
  RegisterAsync(table);
  RegisterMbarrier(table);
  RegisterControl(table);
  RegisterWarp(table);
  RegisterMatrix(table);
  Program program;
  Decoder(*parsed, table, program).Run();
  return std::make_shared<const Module>(std::move(program));
}

}  // namespace grove::emulator
