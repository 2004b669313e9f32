#include "codegen/own_names.h"

#include <algorithm>
#include <set>
#include <vector>

namespace grove::codegen {
namespace {

using Kind = SourceToken::Kind;

// Words after which a name is used, not declared, and words that are no names.
const std::set<std::string_view>& Keywords() {
  static const std::set<std::string_view> words = {
      "alignas",  "alignof",  "asm",      "auto",     "bool",      "break",     "case",
      "catch",    "char",     "class",    "const",    "consteval", "constexpr", "constinit",
      "continue", "decltype", "default",  "delete",   "do",        "double",    "else",
      "enum",     "explicit", "extern",   "false",    "float",     "for",       "friend",
      "goto",     "if",       "inline",   "int",      "long",      "mutable",   "namespace",
      "new",      "noexcept", "nullptr",  "operator", "private",   "protected", "public",
      "register", "return",   "short",    "signed",   "sizeof",    "static",    "struct",
      "switch",   "template", "this",     "throw",    "true",      "try",       "typedef",
      "typename", "union",    "unsigned", "using",    "virtual",   "void",      "volatile",
      "while",    "dim",      "tensor",   "scalar",   "threadIdx", "blockIdx",  "blockDim",
      "gridDim",  "warpSize"};
  return words;
}

// Keywords that end a type, so that a name behind them is declared: "int x", "const x" is none.
bool EndsType(std::string_view word) {
  static const std::set<std::string_view> words = {
      "auto",   "bool",     "char", "double",   "float", "int",    "long", "short",
      "signed", "unsigned", "void", "typename", "class", "struct", "const"};
  return words.contains(word);
}

// Names of the language's library that a source may also define or shadow: which one a use means
// cannot be told here.
bool IsLibrary(std::string_view name) {
  static const std::set<std::string_view> words = {
      "abs",   "ceil", "cos",  "exp",  "exp2",  "fabs",   "floor", "fma",    "fmaxf",       "fminf",
      "half",  "log",  "log2", "max",  "min",   "pow",    "rsqrt", "rsqrtf", "sin",         "sqrt",
      "sqrtf", "swap", "tanh", "uint", "ulong", "ushort", "uchar", "dim3",   "nv_bfloat16", "expf"};
  if (words.contains(name) || name.ends_with("_t")) return true;
  // Vector types: float4, uint2, half2, ...
  static const std::set<std::string_view> vectors = {
      "char",  "uchar", "short",  "ushort", "int",      "uint",     "long",
      "ulong", "float", "double", "half",   "longlong", "ulonglong"};
  return !name.empty() && name.back() >= '1' && name.back() <= '4' &&
         vectors.contains(name.substr(0, name.size() - 1));
}

}  // namespace

OwnNames FindOwnNames(const LexedSource& source) {
  std::vector<const SourceToken*> tokens;
  for (const SourceToken& token : source.tokens) {
    if (token.kind != Kind::kComment) tokens.push_back(&token);
  }
  const auto at = [&](std::size_t i) -> const SourceToken* {
    return i < tokens.size() ? tokens[i] : nullptr;
  };
  // The index after the bracket that closes the one at `open`.
  const auto after = [&](std::size_t open) {
    int depth = 0;
    for (std::size_t i = open; i < tokens.size(); ++i) {
      if (tokens[i]->Is("(")) ++depth;
      if (tokens[i]->Is(")") && --depth == 0) return i + 1;
    }
    return tokens.size();
  };

  std::set<std::string_view> declared, foreign, called, defined;
  std::set<std::string_view> types;  // template parameters
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const SourceToken& token = *tokens[i];
    if (token.kind != Kind::kIdentifier) continue;
    const std::string_view name = token.text;
    const SourceToken* before = i > 0 ? tokens[i - 1] : nullptr;
    const SourceToken* next = at(i + 1);
    const bool member = before != nullptr &&
                        (before->Is(".") || before->Is("::") ||
                         (before->Is(":") && i > 1 && tokens[i - 2]->Is(":")) ||
                         (before->Is(">") && i > 1 && tokens[i - 2]->Is("-")) || before->Is("->"));
    const bool scope =
        next != nullptr &&
        (next->Is("::") || (next->Is(":") && at(i + 2) != nullptr && at(i + 2)->Is(":")));
    if (token.in_directive || member || scope || Keywords().contains(name) ||
        name.starts_with("__") || IsLibrary(name)) {
      foreign.insert(name);
      continue;
    }
    // A name behind a type (a name, a keyword of types, or one of > * & behind such) that is
    // followed by what follows a declarator.
    const bool behind_type =
        before != nullptr && ((before->kind == Kind::kIdentifier &&
                               (!Keywords().contains(before->text) || EndsType(before->text))) ||
                              before->Is(">") || before->Is("*") || before->Is("&"));
    const bool declarator =
        next != nullptr && (next->Is("=") || next->Is(";") || next->Is(",") || next->Is(")") ||
                            next->Is("[") || next->Is("{") || next->Is(":"));
    const bool parameter = before != nullptr && next != nullptr && next->Is(">") &&
                           (before->IsName("typename") || before->IsName("class") ||
                            before->IsName("int") || before->IsName("bool"));
    if (next != nullptr && next->Is("(")) {
      const std::size_t end = after(i + 1);
      const bool body = at(end) != nullptr && at(end)->Is("{");
      const bool function = before != nullptr && before->kind == Kind::kIdentifier && body;
      (function ? defined : called).insert(name);
      continue;
    }
    if (before != nullptr && (before->IsName("typename") || before->IsName("class"))) {
      types.insert(name);
    }
    if (parameter || (behind_type && declarator && before->kind == Kind::kIdentifier)) {
      declared.insert(name);
    }
    // "float* x", "const T& x": the star or ampersand itself stands behind a type. "a * b" does
    // too, so the name counts only where it is declared nowhere else as something foreign.
    if (behind_type && declarator && before->kind == Kind::kPunctuation && i > 1 &&
        tokens[i - 2]->kind == Kind::kIdentifier &&
        (EndsType(tokens[i - 2]->text) || types.contains(tokens[i - 2]->text))) {
      declared.insert(name);
    }
  }

  OwnNames names;
  for (const SourceToken* token : tokens) {
    const std::string_view name = token->text;
    if (token->kind != Kind::kIdentifier || foreign.contains(name) || names.contains(name)) {
      continue;
    }
    const bool own = defined.contains(name) || (declared.contains(name) && !called.contains(name));
    if (own) names.emplace(name, "$" + std::to_string(names.size() + 1));
  }
  return names;
}

}  // namespace grove::codegen
