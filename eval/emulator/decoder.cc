#include "eval/emulator/decoder.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "eval/emulator/control.h"

namespace grove::emulator {
namespace {

constexpr std::uint32_t kMaxFrame = 8u << 20;  // bytes of registers of one function and warp
const Operand kNoOperand{};

bool IsWide(Type type) { return SizeOf(type) == 8; }

std::uint64_t ImmediateBits(const Operand& o, Type type) {
  if (o.kind == Operand::Kind::kFloat) {
    const auto bits = static_cast<std::uint64_t>(o.value);
    if (type == Type::kF64 || (IsWide(type) && !o.single)) {
      if (!o.single) return bits;
      return std::bit_cast<std::uint64_t>(
          static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits))));
    }
    if (o.single) return bits;
    return std::bit_cast<std::uint32_t>(static_cast<float>(std::bit_cast<double>(bits)));
  }
  if (type == Type::kF32) {
    return std::bit_cast<std::uint32_t>(static_cast<float>(o.value));
  }
  if (type == Type::kF64) return std::bit_cast<std::uint64_t>(static_cast<double>(o.value));
  auto bits = static_cast<std::uint64_t>(o.value);
  const int bytes = SizeOf(type);
  if (bytes < 8 && bytes > 0) bits &= (std::uint64_t{1} << (8 * bytes)) - 1;
  return bits;
}

}  // namespace

Decoder::Decoder(const PtxModule& module, const OpcodeTable& table, Program& program)
    : module_(module), table_(table), program_(program) {}

bool Decoder::Has(std::string_view modifier) const {
  return std::find(statement_->modifiers.begin(), statement_->modifiers.end(), modifier) !=
         statement_->modifiers.end();
}

Type Decoder::TypeAt(int index) const {
  Type last = Type::kNone;
  int seen = 0;
  for (const std::string& m : statement_->modifiers) {
    const Type t = TypeFromName(m);
    if (t == Type::kNone) continue;
    if (seen++ == index) return t;
    last = t;
  }
  return index < 0 ? last : Type::kNone;
}

const Operand& Decoder::Op(std::size_t index) {
  if (index < statement_->operands.size()) return statement_->operands[index];
  Fail("an operand is missing");
  return kNoOperand;
}

bool Decoder::Fail(std::string message) {
  if (!failed_) failure_ = std::move(message);
  failed_ = true;
  return false;
}

std::uint32_t Decoder::Allocate(bool wide) {
  const std::uint32_t at = frame_end_;
  frame_end_ += wide ? 256 : 128;
  if (frame_end_ > kMaxFrame) {
    frame_end_ = at;
    Fail("the function needs too many registers");
  }
  return at;
}

std::uint32_t Decoder::AllocatePredicate() {
  if (predicate_next_ == predicate_end_) {
    predicate_next_ = Allocate(false);
    predicate_end_ = predicate_next_ + 128;
  }
  const std::uint32_t at = predicate_next_;
  predicate_next_ += 4;
  return at;
}

// Words of a parameter in the frame. One that does not fit has no bytes: nothing can access it.
ParamSlot Decoder::AllocateParam(std::int64_t bytes) {
  constexpr std::int64_t kMaxParam = 65536;
  const std::int64_t words = std::max<std::int64_t>((bytes + 3) / 4, 2);
  if (bytes > kMaxParam || frame_end_ + words * 128 > kMaxFrame) return {frame_end_, 0};
  const ParamSlot slot{frame_end_, static_cast<std::uint32_t>(bytes)};
  frame_end_ += static_cast<std::uint32_t>(words) * 128;
  return slot;
}

std::uint32_t Decoder::RegisterSlot(std::uint32_t index) {
  std::uint32_t& slot = slots_[index];
  if (slot == 0) {
    const Type type = function_->registers[index].type;
    slot = type == Type::kPred ? AllocatePredicate() : Allocate(IsWide(type));
  }
  return slot;
}

Type Decoder::RegisterType(const Operand& o) const {
  return o.kind == Operand::Kind::kRegister ? function_->registers[o.index].type : Type::kNone;
}

int Decoder::RegisterBytes(const Operand& o) const {
  const Type type = RegisterType(o);
  if (type == Type::kNone || type == Type::kPred || type == Type::kB128) return 0;
  return IsWide(type) ? 8 : 4;
}

std::uint32_t Decoder::Constant(std::uint64_t bits, bool wide) {
  const auto [found, fresh] = constants_.try_emplace({bits, wide}, 0);
  if (fresh) {
    found->second = Allocate(wide);
    code_->constants.push_back({found->second, wide, bits});
  }
  return found->second;
}

std::uint32_t Decoder::Temporary(bool wide) { return Allocate(wide); }

std::uint32_t Decoder::CarryFlag() {
  if (carry_ == 0) carry_ = AllocatePredicate();
  return carry_;
}

std::uint32_t Decoder::Source(const Operand& o, Type type, bool relaxed) {
  const bool wide = IsWide(type);
  switch (o.kind) {
    case Operand::Kind::kRegister: {
      const int bytes = RegisterBytes(o);
      if (bytes == 0 || (bytes == 4 && wide) || (bytes == 8 && !wide && !relaxed)) {
        Fail(fmt::format("register {} has the wrong width", function_->registers[o.index].name));
        return kFrameHead;
      }
      if (bytes == 8 && !wide) {
        const std::uint32_t low = Temporary(false);
        Inst& inst = Emit(NarrowHandler());
        inst.d = low;
        inst.a = RegisterSlot(o.index);
        return low;
      }
      return RegisterSlot(o.index);
    }
    case Operand::Kind::kInteger:
    case Operand::Kind::kFloat:
      return Constant(ImmediateBits(o, type), wide);
    case Operand::Kind::kSpecial: {
      const std::uint32_t to = Temporary(wide);
      LoadSpecial(o.name, to, wide);
      return to;
    }
    case Operand::Kind::kSymbol: {
      const std::uint32_t to = Temporary(wide);
      if (!LoadSymbol(o.name, o.value, to, wide)) Fail(fmt::format("unknown name {}", o.name));
      return to;
    }
    default:
      Fail("operand of an unexpected kind");
      return kFrameHead;
  }
}

std::uint32_t Decoder::Destination(const Operand& o, Type type) {
  if (o.kind == Operand::Kind::kSink) return sink_;
  const int bytes = RegisterBytes(o);
  if (bytes == 0 || (bytes == 8) != IsWide(type)) {
    Fail("the destination is no register of that width");
    return sink_;
  }
  return RegisterSlot(o.index);
}

std::uint32_t Decoder::PredicateSource(const Operand& o) {
  if (o.kind == Operand::Kind::kInteger) return Constant(o.value != 0 ? kFull : 0, false);
  if (RegisterType(o) != Type::kPred) {
    Fail("expected a predicate");
    return sink_;
  }
  return RegisterSlot(o.index);
}

std::uint32_t Decoder::PredicateDestination(const Operand& o) {
  if (o.kind == Operand::Kind::kSink) return sink_;
  if (RegisterType(o) != Type::kPred) {
    Fail("expected a predicate");
    return sink_;
  }
  return RegisterSlot(o.index);
}

Inst& Decoder::Emit(Handler handler) {
  Inst& inst = program_.code.emplace_back();
  inst.fn = handler;
  inst.statement = static_cast<std::uint32_t>(program_.sources.size() - 1);
  return inst;
}

std::uint32_t Decoder::AddExtra(const std::vector<std::uint32_t>& values) {
  const auto at = static_cast<std::uint32_t>(program_.extra.size());
  program_.extra.insert(program_.extra.end(), values.begin(), values.end());
  return at;
}

void Decoder::UseSymbol(std::uint32_t symbol) { uses_symbols_[function_index_].push_back(symbol); }

bool Decoder::LoadSymbol(const std::string& name, std::int64_t offset, std::uint32_t to,
                         bool wide) {
  if (const auto local = local_variables_.find(name); local != local_variables_.end()) {
    Inst& inst = Emit(wide ? LocalAddressHandler(true) : LocalAddressHandler(false));
    inst.d = to;
    inst.imm = local->second + offset;
    return true;
  }
  if (const std::int64_t param = KernelParam(name); param >= 0) {
    Inst& inst = Emit(ImmediateHandler(wide));
    inst.d = to;
    inst.imm = static_cast<std::int64_t>(kParamWindow) + param + offset;
    return true;
  }
  auto found = local_symbols_.find(name);
  std::uint32_t symbol = 0;
  if (found != local_symbols_.end()) {
    symbol = found->second;
  } else {
    found = symbol_by_name_.find(name);
    if (found == symbol_by_name_.end()) return false;
    symbol = found->second;
  }
  UseSymbol(symbol);
  if (program_.symbols[symbol].kind == Symbol::Kind::kFunction) {
    calls_[function_index_].push_back(program_.symbols[symbol].function);
  }
  Inst& inst = Emit(SymbolHandler(wide));
  inst.d = to;
  inst.a = symbol;
  inst.imm = offset;
  return true;
}

void Decoder::LoadSpecial(const std::string& name, std::uint32_t to, bool wide) {
  const int id = SpecialRegister(name);
  if (id < 0) {
    Fail(fmt::format("unknown special register {}", name));
    return;
  }
  Inst& inst = Emit(SpecialHandler(wide));
  inst.d = to;
  inst.a = static_cast<std::uint32_t>(id);
}

Address Decoder::ResolveAddress(const Operand& o) {
  Address address;
  if (o.kind != Operand::Kind::kAddress || o.elements.empty()) {
    Fail("expected an address");
    return address;
  }
  const Operand& base = o.elements[0];
  if (base.kind == Operand::Kind::kRegister) {
    const int bytes = RegisterBytes(base);
    if (bytes == 0)
      Fail("the address is no register");
    else
      address.base = RegisterSlot(base.index);
    address.wide = bytes == 8;
    address.offset = o.value;
  } else if (base.kind == Operand::Kind::kInteger) {
    address.base = Constant(static_cast<std::uint64_t>(base.value), true);
    address.offset = o.value;
  } else {
    Operand symbol = base;
    symbol.value = 0;
    if (base.kind != Operand::Kind::kSymbol) Fail("operand of an unexpected kind");
    address.base = Source(symbol, Type::kB64);
    address.offset = o.value;
  }
  return address;
}

const ParamSlot* Decoder::ParamVariable(const std::string& name) const {
  const auto found = params_.find(name);
  return found == params_.end() ? nullptr : &found->second;
}

const ParamSlot* Decoder::LocalParam(const Operand& o) const {
  if (o.kind != Operand::Kind::kAddress || o.elements.empty() ||
      o.elements[0].kind != Operand::Kind::kSymbol) {
    return nullptr;
  }
  return ParamVariable(o.elements[0].name);
}

std::int64_t Decoder::KernelParam(const std::string& name) const {
  const auto found = kernel_params_.find(name);
  return found == kernel_params_.end() ? std::int64_t{-1} : std::int64_t{found->second};
}

const std::vector<std::string>* Decoder::BranchTargets(const std::string& name) const {
  const auto found = function_->branch_targets.find(name);
  return found == function_->branch_targets.end() ? nullptr : &found->second;
}

void Decoder::FixLabel(std::size_t inst, const std::string& label, int extra) {
  fixups_.push_back({inst, label, extra});
}

void Decoder::EmitBranch(Handler handler, std::uint32_t predicate, bool negated,
                         const std::string& label) {
  Inst& inst = Emit(handler);
  inst.a = predicate;
  inst.b = negated ? kFull : 0;
  FixLabel(program_.code.size() - 1, label);
}

void Decoder::StartBlock() {
  block_ = static_cast<std::uint32_t>(program_.blocks.size());
  program_.blocks.emplace_back();
  block_inst_ = program_.code.size();
  Inst& inst = Emit(EnterBlockHandler());
  inst.d = block_;
}

void Decoder::Run() {
  program_.functions.resize(module_.functions.size());
  uses_symbols_.resize(module_.functions.size());
  calls_.resize(module_.functions.size());
  for (const Variable& v : module_.variables) {
    Symbol symbol;
    symbol.variable = v;
    if (v.space == Space::kShared) {
      symbol.kind = v.bytes == 0 ? Symbol::Kind::kDynamicShared : Symbol::Kind::kShared;
    }
    symbol_by_name_[v.name] = static_cast<std::uint32_t>(program_.symbols.size());
    program_.symbols.push_back(std::move(symbol));
  }
  for (std::uint32_t i = 0; i < module_.functions.size(); ++i) {
    program_.function_by_name[module_.functions[i].name] = i;
    Symbol symbol;
    symbol.kind = Symbol::Kind::kFunction;
    symbol.function = i;
    symbol.variable.name = module_.functions[i].name;
    symbol_by_name_.try_emplace(symbol.variable.name,
                                static_cast<std::uint32_t>(program_.symbols.size()));
    program_.symbols.push_back(std::move(symbol));
  }
  program_.sources.push_back({0, ""});
  for (std::uint32_t i = 0; i < module_.functions.size(); ++i) PrepareFunction(i);
  for (std::uint32_t i = 0; i < module_.functions.size(); ++i) {
    if (module_.functions[i].defined) DecodeFunction(i);
  }
  // Addresses of instructions are final now.
  for (const auto& [inst, target] : jumps_) {
    program_.code[inst].target = program_.code.data() + target;
  }
  CollectShared();
}

// Parameters of functions come first in their frames, so that a caller decoded earlier knows them.
void Decoder::PrepareFunction(std::uint32_t index) {
  const Function& f = module_.functions[index];
  FunctionCode& code = program_.functions[index];
  code.name = f.name;
  code.entry = f.entry;
  code.defined = f.defined;
  code.max_threads = f.max_threads;
  frame_end_ = kFrameHead;
  if (f.entry) {
    std::uint32_t at = 0;
    for (const Variable& v : f.parameters) {
      const auto align = static_cast<std::uint32_t>(v.align);
      at = (at + align - 1) / align * align;
      code.parameter_offsets.push_back(at);
      code.parameter_bytes.push_back(
          static_cast<std::uint32_t>(std::min<std::int64_t>(v.bytes, 65536)));
      at += code.parameter_bytes.back();
    }
    code.parameter_block = at;
  } else {
    for (const Variable& v : f.parameters) {
      code.parameters.push_back(AllocateParam(v.bytes));
    }
    for (const Variable& v : f.results) {
      code.results.push_back(AllocateParam(v.bytes));
    }
  }
  code.frame_bytes = frame_end_;
}

void Decoder::DecodeFunction(std::uint32_t index) {
  function_ = &module_.functions[index];
  code_ = &program_.functions[index];
  function_index_ = index;
  slots_.assign(function_->registers.size(), 0);
  constants_.clear();
  params_.clear();
  kernel_params_.clear();
  labels_.clear();
  fixups_.clear();
  local_symbols_.clear();
  local_variables_.clear();
  predicate_next_ = predicate_end_ = carry_ = 0;
  frame_end_ = code_->frame_bytes;
  sink_ = Allocate(true);
  for (std::size_t i = 0; i < function_->parameters.size(); ++i) {
    const std::string& name = function_->parameters[i].name;
    if (function_->entry)
      kernel_params_[name] = code_->parameter_offsets[i];
    else
      params_[name] = code_->parameters[i];
  }
  for (std::size_t i = 0; i < function_->results.size(); ++i) {
    params_[function_->results[i].name] = code_->results[i];
  }
  std::int64_t local = 0;
  for (const Variable& v : function_->variables) {
    if (v.space == Space::kParam) {
      params_[v.name] = AllocateParam(v.bytes);
    } else if (v.space == Space::kLocal) {
      local = (local + v.align - 1) / v.align * v.align;
      local_variables_[v.name] = static_cast<std::uint32_t>(std::min(local, kMaxVariableBytes));
      local = std::min(local + v.bytes, kMaxVariableBytes);
    } else {
      Symbol symbol;
      symbol.variable = v;
      if (v.space == Space::kShared) {
        symbol.kind = v.bytes == 0 ? Symbol::Kind::kDynamicShared : Symbol::Kind::kShared;
      }
      local_symbols_[v.name] = static_cast<std::uint32_t>(program_.symbols.size());
      program_.symbols.push_back(std::move(symbol));
    }
  }
  code_->local_bytes = static_cast<std::uint32_t>((local + 15) / 16 * 16);
  code_->start = static_cast<std::uint32_t>(program_.code.size());
  StartBlock();
  for (const Statement& s : function_->statements) {
    DecodeStatement(s);
  }
  // A body without a final ret ends like one with it.
  Statement ret;
  ret.opcode = "ret";
  ret.text = "end of the function";
  ret.line = function_->statements.empty() ? 0 : function_->statements.back().line;
  DecodeStatement(ret);
  for (const Fixup& fixup : fixups_) {
    const auto found = labels_.find(fixup.label);
    if (found == labels_.end()) {
      Inst& inst = program_.code[fixup.inst];
      inst.fn = UnsupportedHandler();
      continue;
    }
    if (fixup.extra >= 0) {
      program_.extra[static_cast<std::size_t>(fixup.extra)] =
          static_cast<std::uint32_t>(found->second);
    } else {
      jumps_.emplace_back(fixup.inst, found->second);
    }
  }
  code_->frame_bytes = (frame_end_ + 255) / 256 * 256;
  code_->image.assign(code_->frame_bytes, std::byte{0});
  for (const FunctionCode::Constant& c : code_->constants) {
    for (int lane = 0; lane < kLanes; ++lane) {
      if (c.wide) {
        std::memcpy(code_->image.data() + c.offset + lane * 8, &c.bits, 8);
      } else {
        const auto low = static_cast<std::uint32_t>(c.bits);
        std::memcpy(code_->image.data() + c.offset + lane * 4, &low, 4);
      }
    }
  }
}

void Decoder::DecodeStatement(const Statement& s) {
  if (s.kind == Statement::Kind::kLabel) {
    program_.sources.push_back({s.line, s.label + ":"});
    StartBlock();
    labels_[s.label] = block_inst_;
    return;
  }
  statement_ = &s;
  failed_ = false;
  program_.sources.push_back({s.line, s.text});
  const auto found = table_.find(s.opcode);
  const bool known = found != table_.end();
  const bool around = !known || found->second.branch_around;
  const std::size_t first = program_.code.size();
  const std::size_t first_extra = program_.extra.size();
  const std::size_t first_fixup = fixups_.size();
  const Counters saved = counts();
  bool guarded = s.guarded;
  std::uint32_t predicate = 0;
  if (guarded) {
    if (RegisterType(s.guard) != Type::kPred) {
      Fail("the guard is no predicate");
      guarded = false;
    } else {
      predicate = RegisterSlot(s.guard.index);
    }
  }
  const bool branch = s.opcode == "bra";
  std::size_t head = 0;
  if (guarded && !branch) {
    head = program_.code.size();
    Inst& inst = Emit(around ? SkipHandler() : GuardHandler());
    inst.a = predicate;
    // Skip branches when the guard is false, Guard keeps lanes where it is true.
    inst.b = s.guard.negated ? kFull : 0;
  }
  const std::uint32_t block_before = block_;
  if (!known)
    Fail("");
  else if (!failed_)
    found->second.decode(*this);
  if (failed_) {
    // Roll back to the guard and leave one instruction that says so.
    const std::size_t keep = guarded && !branch ? head + 1 : first;
    program_.code.resize(keep);
    program_.extra.resize(first_extra);
    fixups_.resize(first_fixup);
    block_ = block_before;
    program_.blocks[block_].per_warp = saved;
    if (guarded && !branch) program_.code[head].fn = SkipHandler();
    program_.sources.back().text += failure_.empty() ? "" : "  // " + failure_;
    Emit(UnsupportedHandler());
  }
  ++program_.blocks[block_before].instructions;
  program_.code[block_inst_].a = static_cast<std::uint32_t>(program_.blocks[block_].instructions);
  if (block_ != block_before) {
    // The statement ended its block: the entry of the old one was written before.
    for (std::size_t i = first; i-- > 0;) {
      if (program_.code[i].fn == EnterBlockHandler()) {
        program_.code[i].a = static_cast<std::uint32_t>(program_.blocks[block_before].instructions);
        break;
      }
    }
  }
  if (guarded && !branch) {
    if (around || failed_) {
      if (block_ == block_before || program_.code.back().fn != EnterBlockHandler()) StartBlock();
      jumps_.emplace_back(head, block_inst_);
    } else {
      program_.code[head].d = static_cast<std::uint32_t>(program_.code.size() - head - 1);
    }
  }
}

// Which shared variables an entry needs: its own and those of every function it may call.
void Decoder::CollectShared() {
  for (std::uint32_t i = 0; i < program_.functions.size(); ++i) {
    if (!program_.functions[i].entry) continue;
    std::set<std::uint32_t> seen{i}, symbols;
    std::vector<std::uint32_t> todo{i};
    while (!todo.empty()) {
      const std::uint32_t f = todo.back();
      todo.pop_back();
      for (const std::uint32_t s : uses_symbols_[f]) {
        const Symbol::Kind kind = program_.symbols[s].kind;
        if (kind == Symbol::Kind::kShared || kind == Symbol::Kind::kDynamicShared) {
          symbols.insert(s);
        }
      }
      for (const std::uint32_t callee : calls_[f]) {
        if (seen.insert(callee).second) todo.push_back(callee);
      }
    }
    program_.functions[i].shared_symbols.assign(symbols.begin(), symbols.end());
  }
}

}  // namespace grove::emulator
