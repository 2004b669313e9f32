#include "codegen/nvcc_source.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <utility>

#include "codegen/source_lexer.h"

namespace grove::codegen {
namespace {

using Token = SourceToken;
using Tokens = std::vector<Token>;

void AddOnce(std::vector<std::string>& list, std::string text) {
  if (std::find(list.begin(), list.end(), text) == list.end()) list.push_back(std::move(text));
}

// Changes of a text by position; applied from the front.
class Edits {
 public:
  void Insert(std::size_t at, std::string text) { edits_[at].second += std::move(text); }
  void Remove(std::size_t from, std::size_t to) {
    edits_[from].first = std::max(edits_[from].first, to);
  }
  std::string Apply(std::string_view source) const {
    std::string out;
    std::size_t at = 0;
    for (const auto& [from, edit] : edits_) {
      if (from < at) continue;
      out += source.substr(at, from - at);
      out += edit.second;
      at = std::max(from, edit.first);
      // Lines keep their numbers.
      for (std::size_t i = from; i < at; ++i) {
        if (source[i] == '\n') out += '\n';
      }
    }
    out += source.substr(at);
    return out;
  }

 private:
  std::map<std::size_t, std::pair<std::size_t, std::string>> edits_;  // removed up to, inserted
};

constexpr std::array<std::string_view, 6> kSpaces = {"__device__",   "__global__", "__host__",
                                                     "__constant__", "__shared__", "__managed__"};
// Declarations that are neither a function nor a variable.
constexpr std::array<std::string_view, 6> kOther = {"using",           "typedef", "static_assert",
                                                    "__static_assert", "friend",  "asm"};

// Walks declarations at the scope of namespaces and classes.
class Annotator {
 public:
  Annotator(const Tokens& tokens, Edits& edits) : tokens_(tokens), edits_(edits) {}

  bool Run() {
    while (at_ < tokens_.size()) {
      if (tokens_[at_].Is("}")) {
        if (scopes_.empty()) return false;
        if (tokens_[at_].Is("}")) scopes_.pop_back();
        ++at_;
        continue;
      }
      if (!Declaration()) return false;
    }
    return scopes_.empty();
  }

 private:
  enum class Scope { kNamespace, kClass };

  const Token* Peek(std::size_t i) const { return i < tokens_.size() ? &tokens_[i] : nullptr; }

  // Past the bracket that closes the one at `i`; size() when there is none.
  std::size_t PastMatching(std::size_t i, std::string_view open, std::string_view close) const {
    int depth = 0;
    for (; i < tokens_.size(); ++i) {
      if (tokens_[i].Is(open)) ++depth;
      if (tokens_[i].Is(close) && --depth == 0) return i + 1;
    }
    return tokens_.size();
  }

  // `template <...>` may hold comparisons in parentheses only, so angle brackets can be counted.
  std::size_t PastTemplate(std::size_t i) const {
    while (i + 1 < tokens_.size() && tokens_[i].IsName("template") && tokens_[i + 1].Is("<")) {
      int depth = 0;
      int round = 0;
      for (++i; i < tokens_.size(); ++i) {
        if (tokens_[i].Is("(")) ++round;
        if (tokens_[i].Is(")")) --round;
        if (round > 0) continue;
        if (tokens_[i].Is("<")) ++depth;
        if (tokens_[i].Is(">") && --depth == 0) break;
      }
      ++i;
    }
    return i;
  }

  bool Declaration() {
    const Token& first = tokens_[at_];
    if (first.Is(";")) {
      ++at_;
      return true;
    }
    if ((first.IsName("public") || first.IsName("private") || first.IsName("protected")) &&
        Peek(at_ + 1) != nullptr && Peek(at_ + 1)->Is(":")) {
      at_ += 2;
      return true;
    }
    const bool c_linkage = first.IsName("extern") && Peek(at_ + 1) != nullptr &&
                           Peek(at_ + 1)->kind == Token::Kind::kString;
    if (c_linkage) {
      const bool block = Peek(at_ + 2) != nullptr && Peek(at_ + 2)->Is("{");
      edits_.Remove(first.offset, tokens_[at_ + 1].end);
      if (block) edits_.Insert(first.offset, "inline namespace kernels ");
      at_ += 2;
      if (block) {
        scopes_.push_back(Scope::kNamespace);
        ++at_;
      }
      return true;
    }
    const std::size_t begin = PastTemplate(at_);
    return Body(begin);
  }

  // From the first token behind template parameters to the end of the declaration.
  bool Body(std::size_t begin) {
    bool space = false, call = false, array = false, constexpr_word = false, other = false;
    bool type = false, name_space = false, enumeration = false, external = false, equals = false;
    std::size_t i = begin;
    for (; i < tokens_.size(); ++i) {
      const Token& t = tokens_[i];
      if (t.kind == Token::Kind::kIdentifier) {
        if (i == begin || !call) {
          space |= std::find(kSpaces.begin(), kSpaces.end(), t.text) != kSpaces.end();
        }
        constexpr_word |= t.IsName("constexpr") || t.IsName("consteval");
        other |= i == begin && std::find(kOther.begin(), kOther.end(), t.text) != kOther.end();
        other |= t.IsName("__asm__");
        if (!call && !equals) {
          type |= t.IsName("struct") || t.IsName("class") || t.IsName("union");
          enumeration |= t.IsName("enum");
          name_space |= t.IsName("namespace");
        }
        external |= t.IsName("extern");
        if ((t.IsName("__launch_bounds__") || t.IsName("alignas") || t.IsName("__align__") ||
             t.IsName("__attribute__") || t.IsName("decltype") || t.IsName("__cluster_dims__")) &&
            Peek(i + 1) != nullptr && Peek(i + 1)->Is("(")) {
          i = PastMatching(i + 1, "(", ")") - 1;
        }
        continue;
      }
      if (t.Is("[") && Peek(i + 1) != nullptr && Peek(i + 1)->Is("[")) {  // an attribute
        i = PastMatching(i, "[", "]") - 1;
      } else if (t.Is("[")) {
        array |= !call && !equals;
        i = PastMatching(i, "[", "]") - 1;
      } else if (t.Is("(")) {
        call |= !equals;
        i = PastMatching(i, "(", ")") - 1;
      } else if (t.Is("=")) {
        // Not those of `operator=` and `operator==`.
        const bool named =
            tokens_[i - 1].IsName("operator") || (i > 1 && tokens_[i - 2].IsName("operator"));
        equals |= !named;
      } else if (t.Is(";")) {
        break;
      } else if (t.Is("}")) {
        return false;
      } else if (t.Is("{")) {
        if (name_space) {
          scopes_.push_back(Scope::kNamespace);
          at_ = i + 1;
          return true;
        }
        if (type && !enumeration && !call && !equals) {
          scopes_.push_back(Scope::kClass);
          at_ = i + 1;
          return true;
        }
        const std::size_t past = PastMatching(i, "{", "}");
        if (past == tokens_.size() && !tokens_.back().Is("}")) return false;
        if (call && !equals && !other && !enumeration) {
          // A constructor's initialisers may be braces as well: the body is the last one.
          const Token* next = Peek(past);
          if (next != nullptr && (next->Is(",") || next->Is("{"))) {
            i = past - 1;
            continue;
          }
          if (!space && !constexpr_word) Annotate(begin);
          at_ = past;
          return true;
        }
        i = past - 1;
      }
    }
    const bool in_class = !scopes_.empty() && scopes_.back() == Scope::kClass;
    if (!space && !other && !name_space && !enumeration && i > begin) {
      if (call && !equals) {
        if (!constexpr_word) Annotate(begin);  // a prototype
      } else if (!in_class && !type && !(constexpr_word && !array) && !external && i > begin + 1) {
        Annotate(begin);  // a variable
      }
    }
    at_ = i + 1;
    return true;
  }

  void Annotate(std::size_t token) { edits_.Insert(tokens_[token].offset, "__device__ "); }

  const Tokens& tokens_;
  Edits& edits_;
  std::vector<Scope> scopes_;
  std::size_t at_ = 0;
};

}  // namespace

Result<NvccSource> ForNvcc(std::string_view source) {
  auto lexed = LexSource(source);
  if (!lexed) return Fail(std::move(lexed).error());
  NvccSource result;
  Edits edits;
  Tokens code;
  const Tokens& all = lexed->tokens;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Token& t = all[i];
    if (t.kind == Token::Kind::kComment) continue;
    if (!t.in_directive) {
      code.push_back(t);
      continue;
    }
    if (!t.line_start || !t.Is("#") || i + 2 >= all.size()) continue;
    const Token& word = all[i + 1];
    if (word.IsName("include") && all[i + 2].kind == Token::Kind::kHeaderName) {
      AddOnce(result.includes, std::string(all[i + 2].text));
      edits.Remove(t.offset, all[i + 2].end);
    } else if (word.IsName("define") && all[i + 2].kind == Token::Kind::kIdentifier) {
      AddOnce(result.macros, std::string(all[i + 2].text));
    } else if (word.IsName("pragma") && all[i + 2].IsName("once")) {
      edits.Remove(t.offset, all[i + 2].end);
    }
  }
  if (!Annotator(code, edits).Run()) {
    return Fail(ErrorCode::kInvalidInput,
                "the braces of the source do not match outside of preprocessor conditions; nvcc's "
                "form of it cannot be made");
  }
  result.text = edits.Apply(source);
  return result;
}

}  // namespace grove::codegen
