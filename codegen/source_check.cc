// What a source may not contain. The first line of defence for the host's files; the compile
// workers' own isolation is the second.
#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "codegen/headers.h"
#include "codegen/program.h"
#include "codegen/source_lexer.h"
#include "codegen/text.h"

namespace grove::codegen {
namespace {

using Kind = SourceToken::Kind;

constexpr std::array<std::string_view, 14> kDirectives = {
    "define", "undef", "if",    "ifdef",   "ifndef", "elif",     "elifdef",
    "else",   "endif", "error", "warning", "pragma", "elifndef", "include"};

// First words of the pragmas that NVRTC knows or ignores without touching a file.
constexpr std::array<std::string_view, 22> kPragmas = {"unroll",
                                                       "nounroll",
                                                       "once",
                                                       "push_macro",
                                                       "pop_macro",
                                                       "pack",
                                                       "message",
                                                       "GCC",
                                                       "clang",
                                                       "STDC",
                                                       "nv_abi",
                                                       "nv_exec_check_disable",
                                                       "nv_diag_suppress",
                                                       "nv_diag_default",
                                                       "nv_diag_error",
                                                       "nv_diag_warning",
                                                       "nv_diagnostic",
                                                       "diag_suppress",
                                                       "diag_default",
                                                       "diag_error",
                                                       "diag_warning",
                                                       "omp"};

// Bytes of assembler text after macros, of a whole source.
constexpr std::size_t kMaxExpansion = std::size_t{4} << 20;

constexpr std::array<std::string_view, 3> kAsmDirectives = {".incbin", ".include", ".file"};

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

class Checker {
 public:
  Checker(std::string_view source, std::vector<SourceToken> tokens)
      : source_(source), tokens_(std::move(tokens)) {}

  Status Check() {
    if (Status s = CollectStringMacros(); !s) return s;
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      const SourceToken& token = tokens_[i];
      if (token.line_start && token.Is("#")) {
        if (Status s = CheckDirective(i); !s) return s;
      } else if (token.kind == Kind::kIdentifier) {
        if (Status s = CheckName(i); !s) return s;
      }
    }
    return {};
  }

 private:
  template <typename... Args>
  Failure Refuse(const SourceToken& token, fmt::format_string<Args...> format,
                 Args&&... args) const {
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("{}: {}", Place(PositionOf(source_, token.offset)),
                            fmt::format(format, std::forward<Args>(args)...)));
  }

  // Index of the next token that is no comment, within the directive when `i` is in one.
  std::size_t Next(std::size_t i) const {
    const bool in_directive = tokens_[i].in_directive;
    for (++i; i < tokens_.size() && tokens_[i].kind == Kind::kComment; ++i) {
    }
    if (i < tokens_.size() && in_directive && (tokens_[i].line_start || !tokens_[i].in_directive)) {
      return tokens_.size();
    }
    return i;
  }
  bool Valid(std::size_t i) const { return i < tokens_.size(); }

  Status CheckDirective(std::size_t hash) {
    const std::size_t name_at = Next(hash);
    if (!Valid(name_at)) return {};  // "#" alone does nothing
    const SourceToken& name = tokens_[name_at];
    if (name.kind != Kind::kIdentifier ||
        std::find(kDirectives.begin(), kDirectives.end(), name.text) == kDirectives.end()) {
      return Refuse(name,
                    "#{} is not allowed; allowed: #include of device headers, #define, #undef, "
                    "conditionals, #pragma, #error",
                    std::string(Trimmed(name.text.substr(0, 32))));
    }
    if (name.text == "include") return CheckInclude(name_at);
    if (name.text == "define" || name.text == "undef") return CheckDefine(name_at);
    if (name.text == "pragma") return CheckPragma(name_at);
    if (name.text == "if" || name.text == "elif") {
      for (std::size_t i = Next(name_at); Valid(i); i = Next(i)) {
        if (tokens_[i].kind == Kind::kIdentifier) {
          if (Status s = CheckName(i); !s) return s;
        }
        if (tokens_[i].kind == Kind::kString) {
          return Refuse(tokens_[i], "a string in the condition of #{}", name.text);
        }
      }
    }
    return {};
  }

  // Headers of the toolkit include some of their parts by macros (__THRUST_..._HEADER and what
  // these are made of): one that the source defines would lead the compiler to any file.
  Status CheckDefine(std::size_t directive_at) const {
    const std::size_t at = Next(directive_at);
    if (Valid(at) && Contains(tokens_[at].text, "THRUST")) {
      return Refuse(tokens_[at], "{} belongs to the toolkit's headers", Quoted(tokens_[at].text));
    }
    return {};
  }

  Status CheckInclude(std::size_t name_at) const {
    const std::size_t target_at = Next(name_at);
    if (!Valid(target_at)) return Refuse(tokens_[name_at], "#include without a header");
    const SourceToken& target = tokens_[target_at];
    if (target.kind != Kind::kHeaderName) {
      return Refuse(target, "#include of a macro is not allowed; write the header's name");
    }
    const std::string_view header = target.text.substr(1, target.text.size() - 2);
    if (!HeaderAllowed(header)) {
      return Refuse(target, "#include of {} is not allowed; allowed: {}", Quoted(header),
                    AllowedHeaders());
    }
    return {};
  }

  Status CheckPragma(std::size_t name_at) const {
    const std::size_t word_at = Next(name_at);
    if (!Valid(word_at)) return {};
    const SourceToken& word = tokens_[word_at];
    if (std::find(kPragmas.begin(), kPragmas.end(), word.text) == kPragmas.end()) {
      return Refuse(word, "#pragma {} is not allowed; allowed: {}", Quoted(word.text),
                    fmt::join(kPragmas, ", "));
    }
    if (const std::size_t next = Next(word_at);
        word.text == "GCC" && Valid(next) && tokens_[next].text == "dependency") {
      return Refuse(word, "#pragma GCC dependency is not allowed");
    }
    return {};
  }

  Status CheckName(std::size_t i) {
    const SourceToken& token = tokens_[i];
    const std::string lower = Lower(token.text);
    if (Contains(lower, "has_include") || Contains(lower, "has_embed")) {
      return Refuse(token, "{} is not allowed", Quoted(token.text));
    }
    // The beginning of __has_include, to be completed by ## in a macro.
    static constexpr std::string_view kHasInclude = "__has_include";
    static constexpr std::string_view kHasEmbed = "__has_embed";
    if (token.in_directive &&
        (kHasInclude.starts_with(token.text) || kHasEmbed.starts_with(token.text))) {
      return Refuse(token, "{} in a directive is not allowed", Quoted(token.text));
    }
    const bool after_dot = i > 0 && tokens_[i - 1].Is(".");
    if (lower == "incbin" || (lower == "include" && after_dot)) {
      return Refuse(token, "the assembler directive {} is not allowed", Quoted(token.text));
    }
    if (token.text == "import" && token.line_start && Valid(Next(i)) &&
        (tokens_[Next(i)].Is("<") || tokens_[Next(i)].kind == Kind::kString)) {
      return Refuse(token, "import is not allowed; write #include");
    }
    if (token.text == "_Pragma" || token.text == "__pragma") return CheckPragmaOperator(i);
    if (token.text == "asm" || token.text == "__asm" || token.text == "__asm__") return CheckAsm(i);
    return {};
  }

  Status CheckPragmaOperator(std::size_t at) const {
    const std::size_t open = Next(at);
    const std::size_t text_at = Valid(open) ? Next(open) : open;
    if (!Valid(text_at) || !tokens_[open].Is("(") || tokens_[text_at].kind != Kind::kString) {
      return Refuse(tokens_[at], "_Pragma needs a string literal; write #pragma");
    }
    const std::string text = DecodeLiteral(tokens_[text_at]);
    const std::string_view trimmed = Trimmed(text);
    const std::string_view word = trimmed.substr(0, trimmed.find_first_of(" \t("));
    if (std::find(kPragmas.begin(), kPragmas.end(), word) == kPragmas.end() || word == "GCC") {
      return Refuse(tokens_[text_at], "_Pragma({}) is not allowed; allowed: {}", Quoted(word),
                    fmt::join(kPragmas, ", "));
    }
    return {};
  }

  // `#define NAME "text"`: the pieces that an assembler string may be put together from.
  Status CollectStringMacros() {
    std::size_t total = 0;
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      if (!tokens_[i].line_start || !tokens_[i].Is("#")) continue;
      const std::size_t define = Next(i);
      if (!Valid(define) || !tokens_[define].IsName("define")) continue;
      const std::size_t name = Next(define);
      if (!Valid(name) || tokens_[name].kind != Kind::kIdentifier) continue;
      std::string value;
      bool strings_only = true;
      for (std::size_t k = Next(name); Valid(k) && strings_only; k = Next(k)) {
        if (tokens_[k].kind == Kind::kString) {
          value += DecodeLiteral(tokens_[k]);
        } else if (const auto other = string_macros_.find(tokens_[k].text);
                   other != string_macros_.end()) {
          value += other->second;
        } else {
          strings_only = false;
        }
        // Macros that double one another's text would grow without bound.
        if (total + value.size() > kMaxExpansion) {
          return Refuse(tokens_[name], "the string macros expand to more than {} bytes",
                        kMaxExpansion);
        }
      }
      if (!strings_only) continue;
      total += value.size();
      string_macros_[tokens_[name].text] = std::move(value);
    }
    return {};
  }

  // The template of an asm statement: its literals joined, escapes resolved.
  Status CheckAsm(std::size_t at) {
    std::size_t i = Next(at);
    while (Valid(i) && tokens_[i].kind == Kind::kIdentifier) i = Next(i);  // volatile, goto
    if (!Valid(i) || !tokens_[i].Is("(")) return {};
    std::string text;
    int depth = 0;
    for (; Valid(i); i = Next(i)) {
      const SourceToken& token = tokens_[i];
      if (token.Is("(")) ++depth;
      if (token.Is(")") && --depth == 0) break;
      if (token.Is(":") && depth == 1) break;
      if (token.IsName("asm") || token.IsName("__asm") || token.IsName("__asm__")) {
        return Refuse(token, "asm inside asm");  // also keeps this scan linear
      }
      if (token.kind == Kind::kString) {
        text += DecodeLiteral(token);
      } else if (const auto macro = string_macros_.find(token.text);
                 macro != string_macros_.end()) {
        text += macro->second;
      }
      if (asm_bytes_ + text.size() > kMaxExpansion) {
        return Refuse(tokens_[at], "more than {} bytes of assembler", kMaxExpansion);
      }
    }
    asm_bytes_ += text.size();
    std::string squeezed = Lower(text);
    std::erase_if(squeezed, [](char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; });
    for (const std::string_view directive : kAsmDirectives) {
      if (Contains(squeezed, directive)) {
        return Refuse(tokens_[at], "the assembler directive {} is not allowed", directive);
      }
    }
    return {};
  }

  std::string_view source_;
  std::vector<SourceToken> tokens_;
  std::map<std::string_view, std::string> string_macros_;
  std::size_t asm_bytes_ = 0;
};

}  // namespace

Status CheckSource(std::string_view source) {
  Result<LexedSource> lexed = LexSource(source);
  if (!lexed) return Fail(std::move(lexed).error());
  return Checker(source, std::move(lexed->tokens)).Check();
}

}  // namespace grove::codegen
