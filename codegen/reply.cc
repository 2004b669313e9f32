// Finds the kernel program in a model's reply. The reply is hostile: cut, fenced twice, doubled,
// lying. One pass over its lines; everything is linear in its size, but for edits: each looks
// through the source once, and their number is limited.
#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/text_diff.h"
#include "codegen/plan_json.h"
#include "codegen/program.h"
#include "codegen/text.h"

namespace grove::codegen {
namespace {

constexpr std::size_t kMaxReplyBytes = std::size_t{8} << 20;

struct Block {
  std::string tag;  // first word of the info string, lower case
  std::string text;
  std::size_t line = 1;  // of the opening fence, 1-based
  bool closed = false;
};

struct Reply {
  std::vector<Block> blocks;
  std::string prose;  // everything outside the fences
};

struct Fence {
  char mark = '`';
  std::size_t length = 0;
  std::size_t indent = 0;
  std::string_view info;
};

std::optional<Fence> ReadFence(std::string_view line) {
  Fence fence;
  fence.indent = std::min(line.find_first_not_of(" \t"), line.size());
  line.remove_prefix(fence.indent);
  if (line.empty() || (line[0] != '`' && line[0] != '~')) return std::nullopt;
  fence.mark = line[0];
  fence.length = std::min(line.find_first_not_of(fence.mark), line.size());
  if (fence.length < 3) return std::nullopt;
  fence.info = Trimmed(line.substr(fence.length));
  // `code` in a line of prose is no fence.
  if (fence.mark == '`' && fence.info.find('`') != std::string_view::npos) return std::nullopt;
  return fence;
}

std::string TagOf(std::string_view info) {
  if (info.starts_with("{")) info.remove_prefix(1);  // ```{.cuda}
  if (info.starts_with(".")) info.remove_prefix(1);
  std::string tag(info.substr(0, info.find_first_of(" \t,:{}=")));
  for (char& c : tag) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return tag;
}

bool IsSourceTag(std::string_view tag) {
  static constexpr std::array<std::string_view, 11> kTags = {
      "cuda", "cu", "cpp", "c++", "cxx", "cc", "c", "cuh", "cuda-cpp", "cuda-c++", "cudac"};
  return std::find(kTags.begin(), kTags.end(), tag) != kTags.end();
}

bool IsPlanTag(std::string_view tag) {
  static constexpr std::array<std::string_view, 7> kTags = {
      "json", "plan", "launch", "launch_plan", "launch-plan", "jsonc", "json5"};
  return std::find(kTags.begin(), kTags.end(), tag) != kTags.end();
}

// Splits into blocks and prose.
Reply SplitReply(std::string_view text) {
  Reply reply;
  Fence open;  // of the block being read, when `inside`
  bool inside = false;
  std::size_t line_number = 0;
  while (!text.empty()) {
    ++line_number;
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    const std::optional<Fence> fence = ReadFence(line);
    const auto start_block = [&] {
      open = *fence;
      inside = true;
      Block& block = reply.blocks.emplace_back();
      block.tag = TagOf(fence->info);
      block.line = line_number;
    };
    if (!inside) {
      if (fence) {
        start_block();
      } else {
        reply.prose += line;
        reply.prose += '\n';
      }
      continue;
    }
    if (fence && fence->mark == open.mark && fence->length >= open.length) {
      if (fence->info.empty()) {
        reply.blocks.back().closed = true;
        inside = false;
        continue;
      }
      // A fence with a language inside a block of the same length: the block before was never
      // closed, or was a wrapper around this one.
      const std::string tag = TagOf(fence->info);
      if (IsSourceTag(tag) || IsPlanTag(tag)) {
        start_block();
        continue;
      }
    }
    const std::size_t indent =
        std::min({open.indent, line.size(), std::min(line.find_first_not_of(" \t"), line.size())});
    reply.blocks.back().text += line.substr(indent);
    reply.blocks.back().text += '\n';
  }
  return reply;
}

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool IsEdit(const Block& block) { return block.tag == "edit"; }

bool LooksLikeSource(const Block& block) {
  return !IsEdit(block) && Contains(block.text, "__global__") &&
         !Trimmed(block.text).starts_with('{');
}

bool HasLaunches(std::string_view text) {
  return Contains(text, "\"launches\"") || Contains(text, "\"variants\"");
}

bool LooksLikePlan(const Block& block) {
  return !IsEdit(block) && Trimmed(block.text).starts_with('{') && HasLaunches(block.text);
}

// The end of the JSON object at `start` (one past its brace), or npos when it does not end.
std::size_t ObjectEnd(std::string_view text, std::size_t start) {
  std::size_t depth = 0;
  bool in_string = false;
  for (std::size_t i = start; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{') {
      ++depth;
    } else if (c == '}' && --depth == 0) {
      return i + 1;
    }
  }
  return std::string_view::npos;
}

// The last JSON object in prose that begins like a plan and has launches.
std::string_view PlanInProse(std::string_view prose) {
  static constexpr std::array<std::string_view, 6> kFirstKeys = {"\"version\"",     "\"variants\"",
                                                                 "\"launches\"",    "\"workspace\"",
                                                                 "\"tensor_maps\"", "\"when\""};
  constexpr int kMaxTries = 16;  // objects that do not end, each scanned to the end of the prose
  std::string_view found;
  int tries = 0;
  for (std::size_t i = prose.find('{'); i != std::string_view::npos;) {
    std::size_t next = prose.find_first_not_of(" \t\r\n", i + 1);
    if (next == std::string_view::npos) break;
    const bool likely = std::any_of(kFirstKeys.begin(), kFirstKeys.end(), [&](std::string_view k) {
      return prose.substr(next, k.size()) == k;
    });
    if (likely) {
      const std::size_t end = ObjectEnd(prose, i);
      if (end == std::string_view::npos) {
        if (++tries == kMaxTries) break;
      } else {
        const std::string_view object = prose.substr(i, end - i);
        if (HasLaunches(object)) found = object;
        next = end;
      }
    }
    i = prose.find('{', next);
  }
  return found;
}

template <typename Predicate>
const Block* Last(const Reply& reply, Predicate predicate) {
  const auto found = std::find_if(reply.blocks.rbegin(), reply.blocks.rend(), predicate);
  return found == reply.blocks.rend() ? nullptr : &*found;
}

Failure Bad(std::string message) { return Fail(ErrorCode::kInvalidInput, std::move(message)); }

Failure CutOff(std::string_view what, const Block& block) {
  return Bad(
      fmt::format("{} cut off: the block opened on line {} is not closed", what, block.line));
}

Result<const Block*> FindSource(const Reply& reply) {
  const Block* complete =
      Last(reply, [](const Block& b) { return b.closed && LooksLikeSource(b); });
  if (complete != nullptr) return complete;
  const Block* cut = Last(reply, [](const Block& b) {
    return !b.closed && (LooksLikeSource(b) || IsSourceTag(b.tag));
  });
  if (cut != nullptr) return CutOff("code", *cut);
  const Block* other = Last(reply, [](const Block& b) { return IsSourceTag(b.tag); });
  if (other != nullptr) {
    return Bad(
        fmt::format("the {} block on line {} has no __global__ function", other->tag, other->line));
  }
  if (reply.blocks.empty()) {
    return Bad("the reply has no code block; expected ```cuda ... ``` and ```json ... ```");
  }
  return Bad(
      fmt::format("none of the {} code blocks has a __global__ function", reply.blocks.size()));
}

// The plan's text; empty when there is none (then comments must say it).
Result<std::string> FindPlan(const Reply& reply) {
  // A plan whose object is complete needs no closing fence.
  const Block* plan = Last(reply, [](const Block& b) {
    return LooksLikePlan(b) && (b.closed || ReadJson(b.text).has_value());
  });
  if (plan != nullptr) return plan->text;
  if (const std::string_view prose = PlanInProse(reply.prose); !prose.empty()) {
    return std::string(prose);
  }
  const Block* tagged = Last(
      reply, [](const Block& b) { return !b.closed && IsPlanTag(b.tag) && !LooksLikeSource(b); });
  if (tagged != nullptr) return CutOff("launch plan", *tagged);
  return std::string();
}

using Lines = std::vector<std::string_view>;

std::string_view WithoutTrailingBlanks(std::string_view line) {
  return line.substr(0, line.find_last_not_of(" \t\r") + 1);
}

bool SameLine(std::string_view one, std::string_view other) {
  return WithoutTrailingBlanks(one) == WithoutTrailingBlanks(other);
}

struct Edit {
  std::size_t line = 0;  // of its first mark in the reply
  Lines old, now;
};

Result<std::vector<Edit>> EditsOf(const Block& block) {
  std::vector<Edit> edits;
  enum class In { kNothing, kOld, kNew } in = In::kNothing;
  std::size_t number = block.line;
  for (const std::string_view line : LinesOf(block.text)) {
    ++number;
    const auto misplaced = [&] {
      return Bad(
          fmt::format("edit: the mark on line {} of the reply is out of order; an edit is "
                      "<<<<<<< old, =======, >>>>>>> new",
                      number));
    };
    if (line.starts_with("<<<<<<<")) {
      if (in != In::kNothing) return misplaced();
      in = In::kOld;
      edits.emplace_back().line = number;
    } else if (in == In::kOld && WithoutTrailingBlanks(line) == "=======") {
      in = In::kNew;
    } else if (line.starts_with(">>>>>>>")) {
      if (in != In::kNew) return misplaced();
      in = In::kNothing;
    } else if (in == In::kOld) {
      edits.back().old.push_back(line);
    } else if (in == In::kNew) {
      edits.back().now.push_back(line);
    } else if (!Trimmed(line).empty()) {
      return Bad(
          fmt::format("edit: line {} of the reply stands outside of <<<<<<< old and >>>>>>> "
                      "new",
                      number));
    }
  }
  if (in != In::kNothing) {
    return Bad(fmt::format("edit: the one on line {} of the reply does not end with >>>>>>> new",
                           edits.back().line));
  }
  return edits;
}

constexpr std::size_t kMostEdits = 1000;

// The base's source after all edits of the reply, in their order.
Result<std::string> Edited(const Reply& reply, std::string_view base) {
  Lines lines = LinesOf(base);
  std::size_t count = 0;
  for (const Block& block : reply.blocks) {
    if (!IsEdit(block)) continue;
    if (!block.closed) return CutOff("edits", block);
    auto edits = EditsOf(block);
    if (!edits) return Fail(std::move(edits.error()));
    for (const Edit& edit : *edits) {
      if (++count > kMostEdits) return Bad(fmt::format("more than {} edits", kMostEdits));
      const auto wrong = [&](std::string_view what) {
        return Bad(fmt::format("edit {} (line {} of the reply): {}", count, edit.line, what));
      };
      if (edit.old.empty()) return wrong("its old text is empty; name the lines it stands beside");
      const auto find = [&](Lines::iterator from) {
        return std::search(from, lines.end(), edit.old.begin(), edit.old.end(), SameLine);
      };
      const auto at = find(lines.begin());
      if (at == lines.end()) return wrong("its old text is not in the source");
      std::size_t found = 1;
      for (auto next = find(at + 1); next != lines.end(); next = find(next + 1)) ++found;
      if (found > 1) {
        return wrong(fmt::format("its old text is in the source {} times; give more lines", found));
      }
      const auto behind = lines.erase(at, at + static_cast<std::ptrdiff_t>(edit.old.size()));
      lines.insert(behind, edit.now.begin(), edit.now.end());
    }
  }
  std::string source;
  for (const std::string_view line : lines) {
    source += line;
    source += '\n';
  }
  if (source.size() > kMaxReplyBytes) return Bad("the edited source grows too large");
  return source;
}

bool HasEdits(const Reply& reply) {
  return std::any_of(reply.blocks.begin(), reply.blocks.end(), IsEdit);
}

}  // namespace

Result<KernelProgram> ParseReply(std::string_view reply_text, const seeds::ProgramText* base) {
  if (reply_text.size() > kMaxReplyBytes) {
    return Bad(fmt::format("the reply has {} bytes, at most {} are read", reply_text.size(),
                           kMaxReplyBytes));
  }
  if (reply_text.starts_with("\xef\xbb\xbf")) reply_text.remove_prefix(3);
  if (Trimmed(reply_text).empty()) return Bad("the reply is empty");
  const Reply reply = SplitReply(reply_text);
  Result<const Block*> source = FindSource(reply);
  if (!source && HasEdits(reply)) {
    if (base == nullptr)
      return Bad("there are edits, but no program that they could be applied to");
    auto edited = Edited(reply, base->source);
    if (!edited) return Fail(std::move(edited.error()));
    auto plan = FindPlan(reply);
    if (!plan) return Fail(std::move(plan.error()));
    return MakeProgram(*edited, plan->empty() ? base->plan : *plan);
  }
  if (!source) return Fail(std::move(source).error());
  Result<std::string> plan = FindPlan(reply);
  if (!plan) return Fail(std::move(plan).error());
  Result<KernelProgram> program = MakeProgram((*source)->text, *plan);
  if (program || !plan->empty()) return program;
  const Block* other =
      Last(reply, [](const Block& b) { return IsPlanTag(b.tag) && !LooksLikeSource(b); });
  if (other != nullptr) {
    program.error().message +=
        fmt::format("; the {} block on line {} is no launch plan: it has no \"launches\"",
                    other->tag, other->line);
  }
  return program;
}

}  // namespace grove::codegen
