#include "ideas/knowledge.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <set>
#include <system_error>

#include <fmt/format.h>

#include "base/files.h"
#include "base/hash.h"
#include "base/suggest.h"

namespace grove::ideas {
namespace {

constexpr std::size_t kMaxFile = 1 << 20;
constexpr std::array<std::string_view, 5> kFields = {"Families", "Arch", "When", "Moves", "See"};

std::string_view Trim(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

void Append(std::string& text, std::string_view more) {
  if (more.empty()) return;
  if (!text.empty()) text += ' ';
  text += more;
}

// "sm_90" to 90; 0 when it is something else.
int ArchNumber(std::string_view arch) {
  if (!arch.starts_with("sm_")) return 0;
  int number = 0;
  const std::string_view digits = arch.substr(3);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  // sm_90a is sm_90 with features of that chip.
  const bool whole = end == digits.data() + digits.size() ||
                     (end + 1 == digits.data() + digits.size() && (*end == 'a' || *end == 'f'));
  return error == std::errc() && whole && number > 0 ? number : 0;
}

// Reads one file line by line.
class Reader {
 public:
  Reader(std::string_view text, std::string_view file) : text_(text), file_(file) {}

  Result<std::vector<KnowledgeEntry>> Read() {
    if (text_.size() > kMaxFile) return Wrong("at most 1 MiB of text");
    while (!text_.empty()) {
      const std::size_t end = text_.find('\n');
      const std::string_view line = text_.substr(0, end);
      text_.remove_prefix(end == std::string_view::npos ? text_.size() : end + 1);
      ++line_;
      if (auto status = Take(line); !status) return Failure(std::move(status.error()));
    }
    if (auto status = Finish(); !status) return Failure(std::move(status.error()));
    if (entries_.empty()) return Wrong("at least one entry (## Title)");
    return std::move(entries_);
  }

 private:
  tl::unexpected<Error> Wrong(const std::string& expected) const {
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("{}:{}: expected {}", file_, line_, expected));
  }

  Status Take(std::string_view line) {
    if (line.starts_with("## ")) {
      if (tier_.empty()) return Wrong("the title of the tier (# Title) before the first entry");
      if (auto status = Finish(); !status) return status;
      KnowledgeEntry& entry = entries_.emplace_back();
      entry.tier = tier_;
      entry.title = Trim(line.substr(3));
      if (entry.title.empty()) return Wrong("a title after ##");
      if (!titles_.insert(entry.title).second) {
        return Wrong(fmt::format("a title that is not used above: \"{}\"", entry.title));
      }
      opened_ = line_;
      seen_.clear();
      field_ = nullptr;
      in_text_ = false;
      return {};
    }
    if (line.starts_with("# ")) {
      if (!tier_.empty()) return Wrong("one title of the tier; entries begin with ##");
      tier_ = Trim(line.substr(2));
      if (tier_.empty()) return Wrong("a title after #");
      return {};
    }
    if (line.starts_with("#")) return Wrong("# Title or ## Title");
    if (tier_.empty() && !Trim(line).empty()) return Wrong("the title of the tier (# Title) first");
    if (entries_.empty()) return {};  // the introduction
    if (in_text_) {
      Append(entries_.back().text, Trim(line));
      return {};
    }
    if (Trim(line).empty()) {
      in_text_ = !seen_.empty();
      return {};
    }
    if (line.starts_with("  ") && field_ != nullptr) {
      Append(*field_, Trim(line));
      return {};
    }
    if (!line.starts_with("- "))
      return Wrong("a field (- When: ...), or a blank line and the text");
    return Field(line.substr(2));
  }

  Status Field(std::string_view line) {
    KnowledgeEntry& entry = entries_.back();
    const std::size_t colon = line.find(':');
    const std::string name(Trim(line.substr(0, colon)));
    if (colon == std::string_view::npos) return Wrong("a field with a colon, as in - When: ...");
    if (std::find(kFields.begin(), kFields.end(), name) == kFields.end()) {
      const std::vector<std::string> valid(kFields.begin(), kFields.end());
      return Wrong(UnknownName("field", name, valid));
    }
    if (!seen_.insert(name).second) return Wrong(fmt::format("field {} once", name));
    const std::string value(Trim(line.substr(colon + 1)));
    field_ = nullptr;
    if (name == "Families") {
      for (std::size_t at = 0; at <= value.size();) {
        const std::size_t comma = std::min(value.find(',', at), value.size());
        const std::string_view family = Trim(std::string_view(value).substr(at, comma - at));
        if (family.empty()) return Wrong("names of families with commas between them, or all");
        entry.families.emplace_back(family);
        at = comma + 1;
      }
    } else if (name == "Arch") {
      entry.arch = ArchNumber(value);
      if (entry.arch == 0) return Wrong("an architecture like sm_90 after Arch:");
    } else {
      field_ = name == "When" ? &entry.when : name == "Moves" ? &entry.moves : &entry.see;
      *field_ = value;
    }
    return {};
  }

  // Whether the entry that ends here is whole.
  Status Finish() {
    if (entries_.empty()) return {};
    const KnowledgeEntry& entry = entries_.back();
    const auto lacks = [&](std::string_view what) {
      return Fail(ErrorCode::kInvalidInput,
                  fmt::format("{}:{}: entry \"{}\" lacks {}", file_, opened_, entry.title, what));
    };
    if (entry.families.empty()) return lacks("Families");
    if (entry.when.empty()) return lacks("When");
    if (entry.moves.empty()) return lacks("Moves");
    if (entry.see.empty()) return lacks("See");
    if (entry.text.empty()) return lacks("a text after a blank line");
    return {};
  }

  std::string_view text_;
  std::string_view file_;
  int line_ = 0;
  int opened_ = 0;  // line of the entry's title
  std::string tier_;
  std::vector<KnowledgeEntry> entries_;
  std::set<std::string> titles_;
  std::set<std::string> seen_;    // fields of the entry so far
  std::string* field_ = nullptr;  // which may go on
  bool in_text_ = false;
};

// The part of a pool that a round shows, in an order that has nothing to do with that of the files
// and is the same in every run.
void Show(std::vector<std::pair<std::string, std::string>> pool, std::int64_t round, double share,
          std::vector<std::string>& excerpt) {
  if (pool.empty()) return;
  std::sort(pool.begin(), pool.end(), [](const auto& a, const auto& b) {
    const Hash left = HashText(a.first), right = HashText(b.first);
    return left != right ? left < right : a.first < b.first;
  });
  const double exact = std::clamp(share, 0.0, 1.0) * static_cast<double>(pool.size());
  const std::size_t count = std::max<std::size_t>(1, static_cast<std::size_t>(std::lround(exact)));
  const std::size_t start = static_cast<std::size_t>(std::max<std::int64_t>(0, round)) * count;
  for (std::size_t i = 0; i < std::min(count, pool.size()); ++i) {
    excerpt.push_back(std::move(pool[(start + i) % pool.size()].second));
  }
}

}  // namespace

Result<std::vector<KnowledgeEntry>> ReadKnowledge(std::string_view text, std::string_view file) {
  return Reader(text, file).Read();
}

std::string Describe(const KnowledgeEntry& entry) {
  return fmt::format("{} [{}]: {} When: {} Moves: {} See: {}", entry.title, entry.tier, entry.text,
                     entry.when, entry.moves, entry.see);
}

Library::Library(std::vector<llm::PlaybookTip> tips, std::vector<KnowledgeEntry> knowledge)
    : tips_(std::move(tips)), knowledge_(std::move(knowledge)) {}

Result<Library> Library::Load(const std::filesystem::path& folder) {
  auto tips = llm::LoadPlaybookTips(folder);
  if (!tips) return Failure(std::move(tips.error()));
  std::error_code error;
  std::vector<std::filesystem::path> files;
  for (const auto& item : std::filesystem::directory_iterator(folder, error)) {
    if (item.path().extension() == ".md") files.push_back(item.path());
  }
  if (error || files.empty()) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("no knowledge files (*.md) in {}{}{}", folder.string(),
                            error ? ": " : "", error ? error.message() : ""));
  }
  std::sort(files.begin(), files.end());
  std::vector<KnowledgeEntry> knowledge;
  std::set<std::string> titles;
  for (const auto& path : files) {
    auto text = ReadFile(path, kMaxFile);
    if (!text) return Failure(std::move(text.error()));
    auto entries = ReadKnowledge(*text, path.filename().string());
    if (!entries) return Failure(std::move(entries.error()));
    for (KnowledgeEntry& entry : *entries) {
      if (!titles.insert(entry.title).second) {
        return Fail(ErrorCode::kInvalidInput,
                    fmt::format("{}: the title \"{}\" is used in another file too",
                                path.filename().string(), entry.title));
      }
      knowledge.push_back(std::move(entry));
    }
  }
  return Library(std::move(*tips), std::move(knowledge));
}

std::vector<std::string> Library::Excerpt(std::string_view family, std::string_view arch,
                                          std::int64_t round, double share) const {
  std::vector<std::pair<std::string, std::string>> pool;
  for (const llm::PlaybookTip& tip : tips_) {
    if (tip.family != family) continue;
    pool.emplace_back(tip.id, fmt::format("{} [{}]: {}", tip.title, tip.category, tip.rationale));
  }
  std::vector<std::string> excerpt;
  Show(std::move(pool), round, share, excerpt);
  pool.clear();
  const int device = ArchNumber(arch);
  for (const KnowledgeEntry& entry : knowledge_) {
    const bool concerns = std::any_of(entry.families.begin(), entry.families.end(),
                                      [&](const auto& f) { return f == "all" || f == family; });
    if (!concerns || (device > 0 && entry.arch > device)) continue;
    pool.emplace_back(entry.title, Describe(entry));
  }
  Show(std::move(pool), round, share, excerpt);
  return excerpt;
}

}  // namespace grove::ideas
