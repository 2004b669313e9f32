// Turns parsed statements into a Program. Each family of instructions registers its decoders in the
// table (exec_*.cc); a new family is a new file with one Register function. A decoder that fails,
// and an opcode that is not in the table, become the fault kUnsupported when a thread reaches them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "eval/emulator/machine.h"
#include "eval/emulator/ptx.h"

namespace grove::emulator {

class Decoder;

struct Opcode {
  // Emits instructions for decoder.statement(); false (with decoder.Fail) when it cannot.
  bool (*decode)(Decoder&) = nullptr;
  // A guarded instruction of this kind is branched around, since its handler may stop the warp or
  // change the set of active lanes. Others run under a reduced mask.
  bool branch_around = false;
};
using OpcodeTable = std::unordered_map<std::string_view, Opcode>;

bool DecodeWarpBarrier(Decoder& decoder);  // bar.warp.sync, in exec_warp.cc

void RegisterInteger(OpcodeTable& table);
void RegisterSelect(OpcodeTable& table);
void RegisterFloat(OpcodeTable& table);
void RegisterConvert(OpcodeTable& table);
void RegisterMemory(OpcodeTable& table);
void RegisterAtomic(OpcodeTable& table);
void RegisterAsync(OpcodeTable& table);
void RegisterMbarrier(OpcodeTable& table);
void RegisterControl(OpcodeTable& table);
void RegisterWarp(OpcodeTable& table);
void RegisterMatrix(OpcodeTable& table);

// A module-scope or function-scope name and where it leads.
struct Address {
  std::uint32_t base = 0;  // frame offset of the base address
  bool wide = true;        // the base is a 64-bit register
  std::int64_t offset = 0;
};

class Decoder {
 public:
  Decoder(const PtxModule& module, const OpcodeTable& table, Program& program);
  void Run();

  // --- for decode functions ---
  const Statement& statement() const { return *statement_; }
  bool Has(std::string_view modifier) const;
  // The index-th modifier that names a type, kNone when there are fewer. -1: the last.
  Type TypeAt(int index) const;
  std::size_t count() const { return statement_->operands.size(); }
  // Operand `index`; a sink when there are fewer (and the decoding fails).
  const Operand& Op(std::size_t index);
  // Frame offset of a value of this type: a register of the same width, or a constant. `relaxed`
  // lets a register be wider than the type (ld, st, cvt): the low half is used.
  std::uint32_t Source(const Operand& operand, Type type, bool relaxed = false);
  std::uint32_t Destination(const Operand& operand, Type type);
  std::uint32_t PredicateSource(const Operand& operand);  // not negated; see negated below
  std::uint32_t PredicateDestination(const Operand& operand);
  std::uint32_t Constant(std::uint64_t bits, bool wide);
  std::uint32_t Temporary(bool wide);
  std::uint32_t CarryFlag();  // CC.CF, as a predicate
  // 4 or 8: bytes per lane of the register, 0 for predicates and what is no register.
  int RegisterBytes(const Operand& operand) const;
  Type RegisterType(const Operand& operand) const;
  // The address of [..]; symbols are loaded into a temporary.
  Address ResolveAddress(const Operand& operand);
  // When the operand is an address whose base is a .param variable or parameter of a .func: its
  // words in this frame.
  const ParamSlot* LocalParam(const Operand& operand) const;
  // Byte offset in the parameter block of an .entry; -1 when it is no kernel parameter.
  std::int64_t KernelParam(const std::string& name) const;
  Inst& Emit(Handler handler);
  // An access of so many bytes may touch shared memory: what the race check must tell apart.
  void TouchShared(Space space, int bytes) {
    if (space != Space::kShared && space != Space::kGeneric) return;
    program_.shared_granule = std::min(program_.shared_granule, static_cast<std::uint32_t>(bytes));
  }
  std::uint32_t AddExtra(const std::vector<std::uint32_t>& values);
  bool Fail(std::string message);
  Counters& counts() { return program_.blocks[block_].per_warp; }

  // --- for exec_control.cc ---
  void EmitBranch(Handler handler, std::uint32_t predicate, bool negated, const std::string& label);
  void FixLabel(std::size_t inst, const std::string& label, int extra = -1);
  void StartBlock();
  void UseFunction(std::uint32_t function) { calls_[function_index_].push_back(function); }
  Program& program() { return program_; }
  std::uint32_t function_index() const { return function_index_; }
  const Function& function() const { return *function_; }
  const ParamSlot* ParamVariable(const std::string& name) const;
  const std::vector<std::string>* BranchTargets(const std::string& name) const;

 private:
  struct Fixup {
    std::size_t inst;
    std::string label;
    int extra;  // >= 0: index in Program::extra instead of Inst::target
  };
  void PrepareFunction(std::uint32_t index);
  void DecodeFunction(std::uint32_t index);
  void DecodeStatement(const Statement& statement);
  std::uint32_t Allocate(bool wide);
  std::uint32_t AllocatePredicate();
  ParamSlot AllocateParam(std::int64_t bytes);
  std::uint32_t RegisterSlot(std::uint32_t index);
  void LoadSpecial(const std::string& name, std::uint32_t to, bool wide);
  bool LoadSymbol(const std::string& name, std::int64_t offset, std::uint32_t to, bool wide);
  void UseSymbol(std::uint32_t symbol);
  void CollectShared();

  const PtxModule& module_;
  const OpcodeTable& table_;
  Program& program_;
  const Function* function_ = nullptr;
  FunctionCode* code_ = nullptr;
  std::uint32_t function_index_ = 0;
  const Statement* statement_ = nullptr;
  std::uint32_t block_ = 0;
  std::size_t block_inst_ = 0;
  bool failed_ = false;
  std::string failure_;
  std::vector<std::uint32_t> slots_;  // by register, 0 = not yet
  std::map<std::pair<std::uint64_t, bool>, std::uint32_t> constants_;
  std::uint32_t frame_end_ = 0;
  std::uint32_t predicate_next_ = 0, predicate_end_ = 0;
  std::uint32_t sink_ = 0, carry_ = 0;
  std::unordered_map<std::string, std::uint32_t> symbol_by_name_;
  std::unordered_map<std::string, std::uint32_t> local_symbols_;    // function-scope, this function
  std::unordered_map<std::string, std::uint32_t> local_variables_;  // byte offset in local memory
  std::unordered_map<std::string, ParamSlot> params_;
  std::unordered_map<std::string, std::uint32_t> kernel_params_;
  std::unordered_map<std::string, std::size_t> labels_;
  std::vector<Fixup> fixups_;
  std::vector<std::pair<std::size_t, std::size_t>> jumps_;  // instruction, target
  std::vector<std::vector<std::uint32_t>> uses_symbols_, calls_;
};

}  // namespace grove::emulator
