#include "codegen/program.h"

#include <algorithm>
#include <array>
#include <utility>

#include "codegen/grove_comment.h"
#include "codegen/source_lexer.h"
#include "codegen/text.h"

namespace grove::codegen {
namespace {

using Kind = SourceToken::Kind;

// Whether the blank between two tokens may matter ("+ +" is not "++", "return x" not "returnx").
bool BlankMatters(const SourceToken& before, const SourceToken& after) {
  if (before.in_directive || before.kind == Kind::kNumber) return true;
  const bool punctuation = before.kind == Kind::kPunctuation;
  if (punctuation != (after.kind == Kind::kPunctuation)) return false;
  if (!punctuation) return true;
  static constexpr std::array<std::string_view, 30> kJoined = {
      "++", "--", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<", ">>", "==", "!=", "<=",
      ">=", "&&", "||", "->", "::", ".*", "..", "##", "//", "/*", "<:", ":>", "<%", "%>", "%:"};
  const std::string joined = std::string(before.text) + std::string(after.text);
  return std::find(kJoined.begin(), kJoined.end(), joined) != kJoined.end();
}

// The source without comments and needless blanks; directives keep their lines.
std::string Normalised(std::string_view source) {
  const Result<LexedSource> lexed = LexSource(source);
  if (!lexed) return std::string(source);
  std::string text;
  const SourceToken* before = nullptr;
  bool blank = false;
  for (const SourceToken& token : lexed->tokens) {
    blank |= token.space_before;
    if (token.kind == Kind::kComment) {
      blank = true;
      continue;
    }
    const bool directive_edge =
        before != nullptr && (before->in_directive || token.in_directive) && token.line_start;
    if (directive_edge) {
      text += '\n';
    } else if (before != nullptr && blank && BlankMatters(*before, token)) {
      text += ' ';
    }
    text += token.text;
    before = &token;
    blank = false;
  }
  return text;
}

}  // namespace

Hash KernelProgram::identity() const {
  const std::string normalised = Normalised(source);
  const std::string canonical = CanonicalJson(plan);
  const std::array<std::string_view, 2> texts = {normalised, canonical};
  return HashTexts(texts);
}

std::size_t KernelProgram::size() const {
  return Normalised(source).size() + CanonicalJson(plan).size();
}

Result<KernelProgram> MakeProgram(std::string_view source, std::string_view plan_json) {
  if (source.starts_with("\xef\xbb\xbf")) source.remove_prefix(3);
  if (plan_json.starts_with("\xef\xbb\xbf")) plan_json.remove_prefix(3);
  if (Trimmed(source).empty()) return Fail(ErrorCode::kInvalidInput, "the source is empty");
  if (Status status = CheckSource(source); !status) {
    return Fail(std::move(status).error(), "source");
  }
  KernelProgram program;
  program.source = std::string(source);
  if (Trimmed(plan_json).empty()) {
    Result<std::string> made = PlanFromComments(source);
    if (!made) return Fail(std::move(made).error(), "source");
    program.plan_json = *std::move(made);
  } else {
    program.plan_json = std::string(plan_json);
  }
  Result<LaunchPlan> plan = ParsePlan(program.plan_json);
  if (!plan) return Fail(std::move(plan).error(), "launch plan");
  program.plan = *std::move(plan);
  return program;
}

}  // namespace grove::codegen
