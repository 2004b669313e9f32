#include "results/control.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <random>
#include <system_error>

#include <fmt/format.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include "base/files.h"

namespace grove::results {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kTextLimit = 4000;
constexpr std::uintmax_t kFileLimit = 64 << 10;
constexpr int kRoundsLimit = 1000;
constexpr std::size_t kBranchLimit = 64;

constexpr ControlKind kKinds[] = {ControlKind::kHint, ControlKind::kGoal, ControlKind::kStop,
                                  ControlKind::kPause, ControlKind::kContinue};

bool HasText(ControlKind kind) { return kind == ControlKind::kHint || kind == ControlKind::kGoal; }

bool IsName(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_' || c == '-';
  });
}

bool IsUtf8(const std::string& text) {
  try {
    (void)nlohmann::json(text).dump();
    return true;
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

Status Check(const ControlMessage& message) {
  const auto bad = [](std::string what) { return Fail(ErrorCode::kInvalidInput, std::move(what)); };
  if (HasText(message.kind)) {
    const std::string what(Name(message.kind));
    if (std::all_of(message.text.begin(), message.text.end(),
                    [](unsigned char c) { return std::isspace(c) != 0; })) {
      return bad(fmt::format("the {} is empty", what));
    }
    if (message.text.size() > kTextLimit) {
      return bad(fmt::format("the {} has {} bytes; at most {} are taken", what, message.text.size(),
                             kTextLimit));
    }
    if (!IsUtf8(message.text)) return bad(fmt::format("the {} is not UTF-8", what));
  }
  if (!IsName(message.branch) || message.branch.size() > kBranchLimit) {
    return bad("a branch is the name of an idea or kernel, such as r2.i3 or r2.i3.b1");
  }
  if (message.rounds < 0 || message.rounds > kRoundsLimit) {
    return bad(fmt::format("rounds is {}; it must be from 1 to {}", message.rounds, kRoundsLimit));
  }
  return {};
}

std::int64_t Microsecond(WallTime time) {
  return std::chrono::duration_cast<std::chrono::microseconds>(time.time_since_epoch()).count();
}

Result<ControlMessage> Parse(const std::string& text, std::string key) {
  const auto bad = [](const char* what) { return Fail(ErrorCode::kInvalidInput, what); };
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return bad("not a JSON object");
  const auto word = [&](const char* name) -> std::string {
    const auto it = json.find(name);
    return it != json.end() && it->is_string() ? it->get<std::string>() : std::string();
  };
  const auto number = [&](const char* name) -> std::int64_t {
    const auto it = json.find(name);
    return it != json.end() && it->is_number_integer() ? it->get<std::int64_t>() : 0;
  };
  ControlMessage message;
  const std::string kind = word("kind");
  const auto known = std::find_if(std::begin(kKinds), std::end(kKinds),
                                  [&](ControlKind k) { return Name(k) == kind; });
  if (known == std::end(kKinds)) return bad("unknown kind of message");
  message.kind = *known;
  message.text = word("text");
  message.branch = word("branch");
  const std::int64_t rounds = number("rounds");
  if (rounds < 0 || rounds > kRoundsLimit) return bad("rounds out of range");
  message.rounds = static_cast<int>(rounds);
  message.key = std::move(key);
  message.time = WallTime(std::chrono::microseconds(number("time_us")));
  if (auto good = Check(message); !good) return Failure(std::move(good.error()));
  return message;
}

struct Found {
  ControlInbox inbox;
  std::vector<fs::path> bad;
};

Result<Found> Look(const fs::path& run) {
  Found found;
  const fs::path folder = run / "control";
  std::error_code error;
  if (!fs::is_directory(folder, error)) return found;
  std::vector<fs::path> files;
  fs::directory_iterator it(folder, error);
  for (; !error && it != fs::directory_iterator(); it.increment(error)) {
    if (it->path().extension() == ".json") files.push_back(it->path());
  }
  if (error) {
    return Fail(ErrorCode::kResource,
                fmt::format("cannot list {}: {}", folder.string(), error.message()));
  }
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) {
    auto text = ReadFile(file, kFileLimit);
    if (!text && text.error().code == ErrorCode::kNotFound) continue;  // taken meanwhile
    auto message = text ? Parse(*text, file.stem().string())
                        : Result<ControlMessage>(Failure(std::move(text.error())));
    if (message) {
      found.inbox.messages.push_back(std::move(*message));
    } else {
      found.inbox.problems.push_back(
          fmt::format("{} is no message: {}", file.filename().string(), message.error().message));
      found.bad.push_back(file);
    }
  }
  return found;
}

}  // namespace

std::string_view Name(ControlKind kind) {
  switch (kind) {
    case ControlKind::kHint:
      return "hint";
    case ControlKind::kGoal:
      return "goal";
    case ControlKind::kStop:
      return "stop";
    case ControlKind::kPause:
      return "pause";
    case ControlKind::kContinue:
      return "continue";
  }
  return "unknown";
}

Result<std::string> PostControl(const fs::path& run, ControlMessage message, const Clock& clock) {
  if (auto good = Check(message); !good) return Failure(std::move(good.error()));
  std::error_code error;
  if (!fs::is_regular_file(run / "run.db", error)) {
    return Fail(ErrorCode::kNotFound, fmt::format("no run in {}", run.string()));
  }
  const fs::path folder = run / "control";
  fs::create_directories(folder, error);
  if (error) {
    return Fail(ErrorCode::kResource,
                fmt::format("cannot make {}: {}", folder.string(), error.message()));
  }
  message.time = clock.WallTime();
  // The random part tells apart what two writers post in one microsecond.
  std::random_device random;
  message.key = fmt::format("{:017}-{}-{:08x}", Microsecond(message.time), ::getpid(), random());
  nlohmann::ordered_json json;
  json["version"] = 1;
  json["kind"] = Name(message.kind);
  json["time_us"] = Microsecond(message.time);
  if (HasText(message.kind)) json["text"] = message.text;
  if (!message.branch.empty()) json["branch"] = message.branch;
  if (message.rounds > 0) json["rounds"] = message.rounds;
  if (auto done = WriteFileAtomic(folder / (message.key + ".json"), json.dump() + "\n"); !done) {
    return Failure(std::move(done.error()));
  }
  return message.key;
}

Result<ControlInbox> ReadControl(const fs::path& run) {
  auto found = Look(run);
  if (!found) return Failure(std::move(found.error()));
  return std::move(found->inbox);
}

void SetAsideBadControl(const fs::path& run) {
  const auto found = Look(run);
  if (!found) return;
  for (const fs::path& file : found->bad) {
    std::error_code ignored;
    fs::rename(file, fs::path(file.string() + ".bad"), ignored);
  }
}

Status RemoveControl(const fs::path& run, std::string_view key) {
  std::error_code error;
  fs::remove(run / "control" / (std::string(key) + ".json"), error);
  if (error) {
    return Fail(ErrorCode::kResource,
                fmt::format("cannot remove message {}: {}", key, error.message()));
  }
  return {};
}

std::string HintKey(const ControlMessage& message) {
  std::string key = message.key;
  if (!message.branch.empty()) key += "?branch=" + message.branch;
  if (message.rounds > 0) {
    key += fmt::format("{}rounds={}", message.branch.empty() ? '?' : '&', message.rounds);
  }
  return key;
}

HintScope ScopeOf(const HintRow& hint) {
  HintScope scope;
  const auto question = hint.key.find('?');
  if (question == std::string::npos) return scope;
  std::string_view rest = std::string_view(hint.key).substr(question + 1);
  while (!rest.empty()) {
    const auto end = std::min(rest.find('&'), rest.size());
    const std::string_view field = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (field.starts_with("branch=")) scope.branch = field.substr(7);
    if (field.starts_with("rounds=")) {
      const std::string_view digits = field.substr(7);
      std::from_chars(digits.data(), digits.data() + digits.size(), scope.rounds);
    }
  }
  return scope;
}

std::vector<const HintRow*> HintsInForce(const RunData& data, const CandidateRow& parent,
                                         int round) {
  std::vector<const HintRow*> hints;
  for (const HintRow& hint : data.hints) {
    const RoundRow* taken = hint.round ? data.Find(hint.round) : nullptr;
    if (hint.kind != "hint" || taken == nullptr || taken->index > round) continue;
    const HintScope scope = ScopeOf(hint);
    if (scope.rounds > 0 && round >= taken->index + scope.rounds) continue;
    bool concerned = scope.branch.empty();
    // The parent links of a damaged file could go round in a circle.
    std::size_t steps = 0;
    for (const CandidateRow* at = &parent;
         !concerned && at != nullptr && steps <= data.candidates.size();
         at = data.Find(at->parent), ++steps) {
      const IdeaRow* idea = data.Find(at->idea);
      concerned = at->name == scope.branch || (idea != nullptr && idea->name == scope.branch);
    }
    if (concerned) hints.push_back(&hint);
  }
  return hints;
}

}  // namespace grove::results
