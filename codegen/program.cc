#include "codegen/program.h"

#include <algorithm>
#include <array>
#include <utility>

#include "codegen/grove_comment.h"
#include "codegen/own_names.h"
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

// The source without comments and needless blanks, its own names replaced; directives keep their
// lines.
std::string Normalised(const LexedSource& lexed, const OwnNames& names) {
  std::string text;
  const SourceToken* before = nullptr;
  bool blank = false;
  for (const SourceToken& token : lexed.tokens) {
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
    const auto own = token.kind == Kind::kIdentifier ? names.find(token.text) : names.end();
    text += own == names.end() ? std::string(token.text) : own->second;
    before = &token;
    blank = false;
  }
  return text;
}

void Rename(std::vector<Step>& steps, const OwnNames& names) {
  for (Step& step : steps) {
    if (auto* launch = std::get_if<Launch>(&step.action)) {
      if (const auto own = names.find(launch->kernel); own != names.end()) {
        launch->kernel = own->second;
      }
    } else if (auto* repeat = std::get_if<Repeat>(&step.action)) {
      Rename(repeat->steps, names);
    }
  }
}

}  // namespace

Hash KernelProgram::identity() const {
  const Result<LexedSource> lexed = LexSource(source);
  const OwnNames names = lexed ? FindOwnNames(*lexed) : OwnNames();
  const std::string normalised = lexed ? Normalised(*lexed, names) : source;
  LaunchPlan renamed = plan;
  for (Variant& variant : renamed.variants) Rename(variant.steps, names);
  const std::string canonical = CanonicalJson(renamed);
  const std::array<std::string_view, 2> texts = {normalised, canonical};
  return HashTexts(texts);
}

std::size_t KernelProgram::size() const {
  const Result<LexedSource> lexed = LexSource(source);
  return (lexed ? Normalised(*lexed, {}).size() : source.size()) + CanonicalJson(plan).size();
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
