// The machine instructions of a compiled kernel, counted by kind from a disassembler's listing
// (cuobjdump -sass or nvdisasm), and how far its global loads run ahead of what waits for them.
// Static: an instruction in a loop counts once. Pure but for DisassembleCubin.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace grove::cuda {

struct SassMix {
  std::string kernel;
  int total = 0;
  std::map<std::string, int> kinds;  // "fp32", "tensor", "global load", ... (KindOfSass)
  // The most global loads into registers that are under way at once in the order of the listing,
  // and the bytes of one thread in them. A load is under way until an instruction names its
  // register; those before it are then done too. What the compiler moved below the arithmetic shows
  // here.
  int loads_in_flight = 0;
  int bytes_in_flight = 0;
};

// The kind of a mnemonic: "FFMA" -> "fp32", "LDG.E.128" -> "global load", "HGMMA..." -> "tensor",
// "LDL" -> "local (spill)"; "other" for what is none of them.
std::string_view KindOfSass(std::string_view mnemonic);

// One entry per function of the listing, in its order; NOPs are not counted. Empty for text that
// is no listing.
std::vector<SassMix> ParseSass(std::string_view listing);

// "412 instructions: fp32 96 (23%), int 88 (21%), ...; at most 8 global loads (128 bytes) of a
// thread under way at once", with the largest kinds first.
std::string Describe(const SassMix& mix);

// Runs cuobjdump, else nvdisasm, on the cubin. kUnavailable with one line when neither is here.
Result<std::vector<SassMix>> DisassembleCubin(std::string_view cubin);

}  // namespace grove::cuda
