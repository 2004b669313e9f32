#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "eval/emulator/ptx.h"
#include "eval/emulator/ptx_lexer.h"

namespace grove::emulator {
namespace {

constexpr int kMaxNesting = 256;

struct TypeName {
  std::string_view name;
  Type type;
  int bytes;
};
constexpr std::array kTypes = {
    TypeName{"pred", Type::kPred, 0},     TypeName{"b8", Type::kB8, 1},
    TypeName{"b16", Type::kB16, 2},       TypeName{"b32", Type::kB32, 4},
    TypeName{"b64", Type::kB64, 8},       TypeName{"b128", Type::kB128, 16},
    TypeName{"u8", Type::kU8, 1},         TypeName{"u16", Type::kU16, 2},
    TypeName{"u32", Type::kU32, 4},       TypeName{"u64", Type::kU64, 8},
    TypeName{"s8", Type::kS8, 1},         TypeName{"s16", Type::kS16, 2},
    TypeName{"s32", Type::kS32, 4},       TypeName{"s64", Type::kS64, 8},
    TypeName{"f16", Type::kF16, 2},       TypeName{"f16x2", Type::kF16x2, 4},
    TypeName{"bf16", Type::kBF16, 2},     TypeName{"bf16x2", Type::kBF16x2, 4},
    TypeName{"tf32", Type::kTF32, 4},     TypeName{"f32", Type::kF32, 4},
    TypeName{"f64", Type::kF64, 8},       TypeName{"e4m3", Type::kE4M3, 1},
    TypeName{"e5m2", Type::kE5M2, 1},     TypeName{"e4m3x2", Type::kE4M3x2, 2},
    TypeName{"e5m2x2", Type::kE5M2x2, 2},
};

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text), lexer_(text) { Advance(); }

  Result<PtxModule> Run() {
    while (!failed() && token_.kind != Token::Kind::kEnd) TopLevel();
    if (failed()) return Fail(ErrorCode::kInvalidInput, error_);
    if (module_.version.empty()) {
      return Fail(ErrorCode::kInvalidInput, "line 1: not PTX: no .version directive");
    }
    return std::move(module_);
  }

 private:
  bool failed() const { return !error_.empty(); }
  void Error(std::string_view what) {
    if (failed()) return;
    error_ = fmt::format("line {}: {} (at '{}')", token_.line, what, token_.text.substr(0, 60));
    token_ = Token{};
  }
  void Advance() {
    if (failed()) return;
    token_ = lexer_.Next();
  }
  bool Accept(std::string_view punct) {
    if (!token_.Is(punct)) return false;
    Advance();
    return true;
  }
  void Expect(std::string_view punct) {
    if (!Accept(punct)) Error(fmt::format("expected '{}'", punct));
  }
  bool AcceptDirective(std::string_view name) {
    if (token_.kind != Token::Kind::kDirective || token_.text != name) return false;
    Advance();
    return true;
  }
  std::string Identifier() {
    if (token_.kind != Token::Kind::kIdentifier) {
      Error("expected a name");
      return {};
    }
    std::string name(token_.text);
    Advance();
    return name;
  }
  std::int64_t Integer() {
    const bool negative = Accept("-");
    if (token_.kind != Token::Kind::kInteger) {
      Error("expected an integer");
      return 0;
    }
    const std::int64_t value = token_.value;
    Advance();
    return negative ? static_cast<std::int64_t>(0 - static_cast<std::uint64_t>(value)) : value;
  }
  void SkipLine() {
    const int line = token_.line;
    while (token_.kind != Token::Kind::kEnd && token_.line == line) Advance();
  }
  void SkipBraces() {
    int depth = 0;
    do {
      if (token_.Is("{")) ++depth;
      if (token_.Is("}")) --depth;
      Advance();
    } while (depth > 0 && token_.kind != Token::Kind::kEnd);
  }

  void TopLevel() {
    if (token_.kind != Token::Kind::kDirective) {
      if (Accept(";")) return;
      Error("expected a directive");
      return;
    }
    const std::string_view name = token_.text;
    if (name == ".version") {
      Advance();
      module_.version = std::string(token_.text);
      Advance();
    } else if (name == ".target") {
      Advance();
      module_.target = std::string(token_.text);
      Advance();
      while (Accept(",")) Advance();
    } else if (name == ".address_size") {
      Advance();
      if (Integer() != 64) Error(".address_size must be 64");
    } else if (name == ".file" || name == ".loc") {
      SkipLine();
    } else if (name == ".section") {
      Advance();
      Advance();
      if (token_.Is("{")) SkipBraces();
    } else if (name == ".pragma") {
      while (token_.kind != Token::Kind::kEnd && !token_.Is(";")) Advance();
      Accept(";");
    } else if (name == ".alias") {
      Error("aliases are not supported");
    } else {
      Declaration();
    }
  }

  // [.extern|.visible|.weak|.common] (.entry | .func | variable)
  void Declaration() {
    bool external = false;
    for (;;) {
      if (AcceptDirective(".extern")) {
        external = true;
      } else if (!AcceptDirective(".visible") && !AcceptDirective(".weak") &&
                 !AcceptDirective(".common")) {
        break;
      }
    }
    if (AcceptDirective(".entry")) {
      FunctionDefinition(true);
    } else if (AcceptDirective(".func")) {
      FunctionDefinition(false);
    } else if (const auto space = VariableSpace()) {
      for (Variable& v : Variables(*space, external)) {
        if (!globals_.try_emplace(v.name, 0).second) continue;
        total_bytes_ += v.bytes;
        if (total_bytes_ > kMaxVariableBytes) return Error("the module's variables are too large");
        module_.variables.push_back(std::move(v));
      }
      Expect(";");
    } else {
      Error("unknown directive");
    }
  }

  std::optional<Space> VariableSpace() {
    if (AcceptDirective(".global")) return Space::kGlobal;
    if (AcceptDirective(".const")) return Space::kConst;
    if (AcceptDirective(".shared")) return Space::kShared;
    if (AcceptDirective(".local")) return Space::kLocal;
    if (AcceptDirective(".param")) return Space::kParam;
    return std::nullopt;
  }

  // After the space: [.align n] [.v2|.v4] .type name[dims] [= initialiser] {, name ...}
  std::vector<Variable> Variables(Space space, bool external) {
    std::vector<Variable> result;
    std::int64_t align = 0;
    int lanes = 1;
    Type type = Type::kNone;
    while (token_.kind == Token::Kind::kDirective) {
      if (AcceptDirective(".align")) {
        align = Integer();
        if (align <= 0 || align > 4096 || (align & (align - 1)) != 0) Error("bad alignment");
      } else if (token_.text == ".v2" || token_.text == ".v4") {
        lanes = token_.text == ".v2" ? 2 : 4;
        Advance();
      } else if (token_.text == ".ptr") {
        Advance();
        if (token_.text == ".global" || token_.text == ".shared" || token_.text == ".const" ||
            token_.text == ".local") {
          Advance();
        }
        if (AcceptDirective(".align")) Integer();
        break;
      } else if (const Type t = TypeFromName(token_.text.substr(1)); t != Type::kNone) {
        type = t;
        Advance();
      } else if (token_.text.find("attribute") != std::string_view::npos) {
        Advance();
        if (token_.Is("(")) {
          while (!token_.Is(")") && token_.kind != Token::Kind::kEnd) Advance();
          Accept(")");
        }
      } else {
        break;
      }
    }
    if (type == Type::kNone) {
      Error("expected a type");
      return result;
    }
    const int element = std::max(1, emulator::SizeOf(type));
    do {
      Variable v;
      v.space = space;
      v.external = external;
      v.name = Identifier();
      v.align = std::max<std::int64_t>(align, element * lanes);
      if (align > 0) v.align = align;
      std::int64_t count = lanes;
      bool open = false;
      if (token_.Is("<")) {  // .param .b32 p<4>
        Advance();
        Integer();
        Expect(">");
        Error("families of variables are not supported");
      }
      while (Accept("[")) {
        if (token_.Is("]")) {
          open = true;
        } else {
          const std::int64_t n = Integer();
          if (n < 0 || n > kMaxVariableBytes || (n > 0 && count > kMaxVariableBytes / n)) {
            Error("array too large");
            return result;
          }
          count *= n;
        }
        Expect("]");
      }
      v.bytes = count * element;
      if (v.bytes > kMaxVariableBytes) Error("variable too large");
      std::int64_t filled = 0;
      if (Accept("=")) Initialiser(v, type, element, filled, 0);
      if (open) v.bytes = space == Space::kShared ? 0 : filled;
      if (filled > v.bytes) Error("initialiser longer than the variable");
      result.push_back(std::move(v));
    } while (!failed() && space != Space::kParam && Accept(","));
    return result;
  }

  void Initialiser(Variable& v, Type type, int element, std::int64_t& at, int depth) {
    if (depth > 8) return Error("initialiser nested too deep");
    if (Accept("{")) {
      while (!failed() && !token_.Is("}")) {
        Initialiser(v, type, element, at, depth + 1);
        if (!Accept(",")) break;
      }
      Expect("}");
      return;
    }
    if (at + element > kMaxVariableBytes) return Error("initialiser too long");
    std::uint64_t bits = 0;
    const bool negative = Accept("-");
    if (token_.kind == Token::Kind::kInteger) {
      bits = static_cast<std::uint64_t>(token_.value);
      if (negative) bits = 0 - bits;
      if (type == Type::kF32) {
        const float f = static_cast<float>(static_cast<std::int64_t>(bits));
        std::uint32_t b;
        std::memcpy(&b, &f, 4);
        bits = b;
      }
      Advance();
    } else if (token_.kind == Token::Kind::kFloat) {
      bits = static_cast<std::uint64_t>(token_.value);
      if (type == Type::kF32 && !token_.single) {
        double d;
        std::memcpy(&d, &bits, 8);
        const float f = static_cast<float>(d);
        std::uint32_t b;
        std::memcpy(&b, &f, 4);
        bits = b;
      }
      if (negative) bits ^= std::uint64_t{1} << (element * 8 - 1);
      Advance();
    } else if (token_.kind == Token::Kind::kIdentifier) {
      std::string symbol = Identifier();
      if (symbol == "generic" && Accept("(")) {
        symbol = Identifier();
        Expect(")");
      }
      std::int64_t addend = 0;
      if (Accept("+")) addend = Integer();
      if (element == 8)
        v.relocations.push_back({at, element, std::move(symbol), addend});
      else
        Error("address in a variable of less than 8 bytes");
    } else {
      return Error("expected an initialiser");
    }
    if (v.data.size() < static_cast<std::size_t>(at + element)) {
      v.data.resize(static_cast<std::size_t>(at + element));
    }
    std::memcpy(v.data.data() + at, &bits, static_cast<std::size_t>(std::min(element, 8)));
    at += element;
  }

  void ParameterList(std::vector<Variable>& into) {
    Expect("(");
    while (!failed() && !token_.Is(")")) {
      if (AcceptDirective(".reg")) {
        Error("functions with register parameters are not supported");
        return;
      }
      if (!AcceptDirective(".param")) {
        Error("expected .param");
        return;
      }
      for (Variable& v : Variables(Space::kParam, false)) into.push_back(std::move(v));
      if (into.size() > 4096) return Error("too many parameters");
      if (!Accept(",")) break;
    }
    Expect(")");
  }

  void FunctionDefinition(bool entry) {
    Function f;
    f.entry = entry;
    if (!entry && token_.Is("(")) ParameterList(f.results);
    f.name = Identifier();
    if (token_.Is("(")) ParameterList(f.parameters);
    while (token_.kind == Token::Kind::kDirective) {  // .maxntid 256, 1, 1 and the like
      const bool bound = token_.text == ".maxntid" || token_.text == ".reqntid";
      Advance();
      std::int64_t product = 1;
      while (token_.kind == Token::Kind::kInteger) {
        if (token_.value > 0 && token_.value <= 1024 && product <= 1024) product *= token_.value;
        Advance();
        if (!Accept(",")) break;
      }
      if (bound) f.max_threads = product;
    }
    if (Accept(";")) {
      AddFunction(std::move(f));
      return;
    }
    if (!token_.Is("{")) return Error("expected a function body");
    f.defined = true;
    function_ = &f;
    scopes_.clear();
    scope_ids_.clear();
    next_scope_ = 0;
    Body();
    function_ = nullptr;
    AddFunction(std::move(f));
  }

  void AddFunction(Function f) {
    for (Function& old : module_.functions) {
      if (old.name != f.name) continue;
      if (!old.defined)
        old = std::move(f);
      else if (f.defined)
        Error(fmt::format("function {} defined twice", f.name));
      return;
    }
    module_.functions.push_back(std::move(f));
  }

  struct Scope {
    std::unordered_map<std::string, std::uint32_t> registers;  // names used
    std::unordered_map<std::string, Type> plain;               // declared by name
    std::unordered_map<std::string, std::pair<Type, std::int64_t>> families;
    std::unordered_map<std::string, std::string> renamed;  // variables and labels
  };

  void Body() {
    do {
      if (Accept("{")) {
        if (scopes_.size() >= kMaxNesting) return Error("blocks nested too deep");
        scopes_.emplace_back();
        scope_ids_.push_back(next_scope_++);
        PrescanLabels();
      } else if (Accept("}")) {
        scopes_.pop_back();
        scope_ids_.pop_back();
      } else {
        BodyStatement();
      }
    } while (!failed() && !scopes_.empty() && token_.kind != Token::Kind::kEnd);
    if (!failed() && !scopes_.empty()) Error("function body does not end");
  }

  // Labels are visible in their whole block, before their definition too; inline assembly uses the
  // same names in many blocks.
  void PrescanLabels() {
    if (scopes_.size() == 1) return;  // of the function: names stay
    Lexer ahead = lexer_;
    Token previous = token_;
    int depth = 1;
    for (int steps = 0; steps < 20000; ++steps) {
      const Token next = ahead.Next();
      if (next.kind == Token::Kind::kEnd) return;
      if (previous.Is("{")) ++depth;
      if (previous.Is("}") && --depth == 0) return;
      if (depth == 1 && previous.kind == Token::Kind::kIdentifier && next.Is(":")) {
        Rename(std::string(previous.text));
      }
      previous = next;
    }
  }

  std::string Rename(const std::string& name) {
    if (scopes_.size() <= 1) return name;
    std::string unique = fmt::format("{}@{}", name, scope_ids_.back());
    scopes_.back().renamed[name] = unique;
    return unique;
  }
  std::string Resolve(const std::string& name) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      if (const auto found = scope->renamed.find(name); found != scope->renamed.end()) {
        return found->second;
      }
    }
    return name;
  }

  void BodyStatement() {
    if (Accept(";")) return;
    if (token_.kind == Token::Kind::kDirective) {
      const std::string_view name = token_.text;
      if (name == ".reg") {
        Advance();
        RegisterDeclaration();
      } else if (name == ".loc" || name == ".file") {
        SkipLine();
      } else if (name == ".pragma") {
        while (token_.kind != Token::Kind::kEnd && !token_.Is(";")) Advance();
        Accept(";");
      } else if (const auto space = VariableSpace()) {
        for (Variable& v : Variables(*space, false)) {
          v.name = Rename(v.name);
          function_->variables.push_back(std::move(v));
        }
        Expect(";");
      } else {
        Error("unknown directive in a function");
      }
      return;
    }
    Statement s;
    s.line = token_.line;
    const std::size_t begin = static_cast<std::size_t>(token_.text.data() - text_.data());
    if (Accept("@")) {
      s.guarded = true;
      s.guard.negated = Accept("!");
      const bool negated = s.guard.negated;
      s.guard = ParseOperand(0);
      s.guard.negated = negated;
    }
    if (token_.kind != Token::Kind::kIdentifier) return Error("expected an instruction");
    const std::string name(token_.text);
    Advance();
    if (!s.guarded && Accept(":")) {
      if (token_.kind == Token::Kind::kDirective && token_.text == ".branchtargets") {
        Advance();
        auto& targets = function_->branch_targets[Resolve(name)];
        do targets.push_back(Resolve(Identifier()));
        while (!failed() && Accept(","));
        Expect(";");
        return;
      }
      if (token_.kind == Token::Kind::kDirective &&
          (token_.text == ".callprototype" || token_.text == ".calltargets")) {
        while (token_.kind != Token::Kind::kEnd && !token_.Is(";")) Advance();
        Expect(";");
        return;
      }
      s.kind = Statement::Kind::kLabel;
      s.label = Resolve(name);
      function_->statements.push_back(std::move(s));
      return;
    }
    std::size_t part = 0;
    while (part <= name.size()) {
      std::size_t dot = name.find('.', part);
      if (dot == std::string::npos) dot = name.size();
      if (part == 0)
        s.opcode = name.substr(0, dot);
      else
        s.modifiers.push_back(name.substr(part, dot - part));
      part = dot + 1;
    }
    while (!failed() && !token_.Is(";")) {
      s.operands.push_back(ParseOperand(0));
      if (s.operands.size() > 64) return Error("too many operands");
      if (!Accept(",")) break;
    }
    if (!token_.Is(";")) return Error("expected ';'");
    const std::size_t end = static_cast<std::size_t>(token_.text.data() - text_.data());
    s.text = Squeeze(text_.substr(begin, end - begin));
    Advance();
    if (function_->statements.size() > 4'000'000) return Error("function too long");
    function_->statements.push_back(std::move(s));
  }

  static std::string Squeeze(std::string_view text) {
    std::string out;
    for (const char c : text) {
      const bool blank = c == ' ' || c == '\t' || c == '\n' || c == '\r';
      if (blank && (out.empty() || out.back() == ' ')) continue;
      out += blank ? ' ' : c;
      if (out.size() >= 200) break;
    }
    return out;
  }

  void RegisterDeclaration() {
    Type type = Type::kNone;
    while (token_.kind == Token::Kind::kDirective) {
      if (const Type t = TypeFromName(token_.text.substr(1)); t != Type::kNone)
        type = t;
      else
        return Error("unknown register type");
      Advance();
    }
    if (type == Type::kNone) return Error("expected a register type");
    do {
      const std::string name = Identifier();
      if (Accept("<")) {
        const std::int64_t count = Integer();
        Expect(">");
        scopes_.back().families[name] = {type, count};
      } else {
        scopes_.back().plain[name] = type;
      }
    } while (!failed() && Accept(","));
    Expect(";");
  }

  std::optional<std::uint32_t> FindRegister(const std::string& name) {
    std::string prefix = name;
    std::int64_t number = -1;
    std::size_t digits = name.size();
    while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9') --digits;
    if (digits < name.size() && name.size() - digits < 9) {
      prefix = name.substr(0, digits);
      number = std::atoll(name.c_str() + digits);
    }
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      if (const auto used = scope->registers.find(name); used != scope->registers.end()) {
        return used->second;
      }
      Type type = Type::kNone;
      if (const auto plain = scope->plain.find(name); plain != scope->plain.end()) {
        type = plain->second;
      } else if (number >= 0) {
        if (const auto family = scope->families.find(prefix);
            family != scope->families.end() && number < family->second.second) {
          type = family->second.first;
        }
      }
      if (type == Type::kNone) continue;
      if (function_->registers.size() >= kMaxRegisters) {
        Error("too many registers");
        return std::nullopt;
      }
      const auto index = static_cast<std::uint32_t>(function_->registers.size());
      function_->registers.push_back({name, type});
      scope->registers[name] = index;
      return index;
    }
    return std::nullopt;
  }

  Operand ParseOperand(int depth) {
    Operand o = ParseSingle(depth);
    if (!failed() && Accept("|")) o.pair.push_back(ParseSingle(depth + 1));
    return o;
  }

  Operand ParseSingle(int depth) {
    Operand o;
    if (depth > 8) {
      Error("operand nested too deep");
      return o;
    }
    if (Accept("{") || token_.Is("(")) {
      const bool list = token_.Is("(");
      if (list) Advance();
      o.kind = list ? Operand::Kind::kList : Operand::Kind::kVector;
      const std::string_view end = list ? ")" : "}";
      while (!failed() && !token_.Is(end)) {
        o.elements.push_back(ParseOperand(depth + 1));
        if (o.elements.size() > 4096) Error("too many elements");
        if (!Accept(",")) break;
      }
      Expect(end);
      return o;
    }
    if (Accept("[")) {
      o.kind = Operand::Kind::kAddress;
      o.elements.push_back(ParseOperand(depth + 1));
      o.value = o.elements[0].kind == Operand::Kind::kSymbol ? o.elements[0].value : 0;
      if (token_.Is("+") || token_.Is("-")) {
        const bool minus = Accept("-");
        if (!minus) Accept("+");
        const std::int64_t offset = Integer();
        o.value = minus ? -offset : offset;
      }
      while (!failed() && Accept(",")) o.elements.push_back(ParseOperand(depth + 1));
      Expect("]");
      return o;
    }
    if (Accept("!")) {
      o = ParseSingle(depth + 1);
      o.negated = !o.negated;
      return o;
    }
    if (Accept("-")) {
      if (token_.kind == Token::Kind::kInteger) {
        o.kind = Operand::Kind::kInteger;
        o.value = static_cast<std::int64_t>(0 - static_cast<std::uint64_t>(token_.value));
        Advance();
      } else if (token_.kind == Token::Kind::kFloat) {
        o.kind = Operand::Kind::kFloat;
        o.single = token_.single;
        o.value = token_.value ^ (token_.single ? std::int64_t{1} << 31
                                                : std::numeric_limits<std::int64_t>::min());
        Advance();
      } else {
        Error("expected a number after '-'");
      }
      return o;
    }
    if (token_.kind == Token::Kind::kInteger || token_.kind == Token::Kind::kFloat) {
      o.kind =
          token_.kind == Token::Kind::kInteger ? Operand::Kind::kInteger : Operand::Kind::kFloat;
      o.value = token_.value;
      o.single = token_.single;
      Advance();
      return o;
    }
    if (token_.kind == Token::Kind::kIdentifier) {
      std::string name(token_.text);
      Advance();
      if (name == "_") return o;
      if (const auto index = FindRegister(name)) {
        o.kind = Operand::Kind::kRegister;
        o.index = *index;
        return o;
      }
      if (name.front() == '%' || name == "WARP_SZ") {
        o.kind = name == "WARP_SZ" ? Operand::Kind::kInteger : Operand::Kind::kSpecial;
        o.value = 32;
        o.name = std::move(name);
        return o;
      }
      o.kind = Operand::Kind::kSymbol;
      o.name = Resolve(name);
      if (token_.Is("+") || token_.Is("-")) {
        const bool minus = Accept("-");
        if (!minus) Accept("+");
        o.value = Integer();
        if (minus) o.value = -o.value;
      }
      return o;
    }
    Error("expected an operand");
    return o;
  }

  std::string_view text_;
  Lexer lexer_;
  Token token_;
  std::string error_;
  PtxModule module_;
  std::unordered_map<std::string, int> globals_;
  std::int64_t total_bytes_ = 0;
  Function* function_ = nullptr;
  std::vector<Scope> scopes_;
  std::vector<int> scope_ids_;
  int next_scope_ = 0;
};

}  // namespace

Type TypeFromName(std::string_view name) {
  for (const TypeName& t : kTypes) {
    if (t.name == name) return t.type;
  }
  return Type::kNone;
}

int SizeOf(Type type) {
  for (const TypeName& t : kTypes) {
    if (t.type == type) return t.bytes;
  }
  return 0;
}

bool IsSigned(Type type) {
  return type == Type::kS8 || type == Type::kS16 || type == Type::kS32 || type == Type::kS64;
}

bool IsFloatType(Type type) { return type >= Type::kF16; }

Result<PtxModule> ParsePtx(std::string_view text) {
  if (text.size() > kMaxPtxBytes) {
    return Fail(ErrorCode::kInvalidInput, "PTX text larger than 64 MiB");
  }
  return Parser(text).Run();
}

}  // namespace grove::emulator
