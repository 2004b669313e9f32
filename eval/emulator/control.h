// Handlers that the decoder itself emits, and the special registers.
#pragma once

#include <string>

#include "eval/emulator/machine.h"

namespace grove::emulator {

Handler EnterBlockHandler();  // d: basic block, a: its instructions
Handler GuardHandler();       // a: predicate, b: xor mask, d: instructions that follow under it
Handler SkipHandler();        // a: predicate, b: xor mask; lanes where it is false go to target
Handler UnsupportedHandler();
Handler WarpBarrierHandler();            // bar.warp.sync, in exec_warp.cc
Handler NarrowHandler();                 // d = low 32 bits of a
Handler ImmediateHandler(bool wide);     // d = imm
Handler SymbolHandler(bool wide);        // d = address of symbol a, plus imm
Handler LocalAddressHandler(bool wide);  // d = local memory offset imm in this function's frame
Handler SpecialHandler(bool wide);       // d = special register a

// The number of a special register ("%tid.x"), -1 when it is not known.
int SpecialRegister(const std::string& name);

// The limit of a warp whose lanes all run together.
inline const Inst* NoLimit() { return reinterpret_cast<const Inst*>(~std::uintptr_t{0}); }

// Puts lanes aside; they run later. REQUIRES: mask != 0, disjoint from every other group.
void PushGroup(Warp& warp, const Inst* pc, std::uint32_t mask);

}  // namespace grove::emulator
