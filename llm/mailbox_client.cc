#include "llm/mailbox_client.h"

#include <algorithm>
#include <condition_variable>
#include <fstream>
#include <map>
#include <mutex>
#include <system_error>

#include <unistd.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/hash.h"
#include "llm/meter.h"
#include "llm/protocol.h"

namespace grove::llm {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr auto kLook = 200ms;
// A reply that nobody has touched for so long is one whose mark was forgotten.
constexpr auto kForgotten = 5s;
constexpr std::uintmax_t kReplyLimit = std::uintmax_t{16} << 20;
constexpr std::string_view kPromptSuffix = ".prompt.md";
constexpr std::string_view kWithdrawnSuffix = ".withdrawn";
constexpr std::string_view kClosing = "<!-- end of reply";

std::string HashOf(const Request& request) {
  std::vector<std::string> texts = {std::string(Name(request.role)), std::to_string(request.seed),
                                    std::to_string(request.max_tokens.value)};
  for (const Message& message : request.messages) {
    texts.push_back(std::to_string(static_cast<int>(message.author)));
    texts.push_back(message.text);
  }
  texts.emplace_back("stop");
  texts.insert(texts.end(), request.stop.begin(), request.stop.end());
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  return HashTexts(views).Hex();
}

std::string Stem(int number) { return fmt::format("{:04}", number); }

std::string PromptText(int number, const Request& request, const std::string& hash) {
  std::string text = fmt::format(
      "<!-- grove prompt {0}\n"
      "role: {1}\n"
      "request: {2}\n"
      "seed: {3}\n"
      "longest reply: {4} tokens\n"
      "form: {5}\n"
      "reply to: {0}.reply.md, beside this file\n"
      "taken: when the reply's last line is the closing line shown below, and not before\n"
      "-->\n\n",
      Stem(number), Name(request.role), hash, request.seed, request.max_tokens.value,
      FormOf(request.role));
  text += fmt::format(
      "Answer what follows in the file `{}.reply.md`. The form: {}. Close the reply with this "
      "line:\n\n"
      "    {}\n\n",
      Stem(number), FormOf(request.role), EndOfReply(hash));
  if (request.seed != 0) {
    text += fmt::format(
        "Sample {}: other samples of the same prompt should differ from this one in what the "
        "prompt leaves open.\n\n",
        request.seed);
  }
  for (const Message& message : request.messages) {
    const char* author = message.author == Message::Author::kSystem      ? "system"
                         : message.author == Message::Author::kAssistant ? "assistant"
                                                                         : "user";
    text += fmt::format("---- {} ----\n\n{}\n\n", author, message.text);
  }
  return text;
}

// The number of "0001.prompt.md"; 0 for any other name.
int NumberOf(const fs::path& path) {
  const std::string name = path.filename().string();
  if (!name.ends_with(kPromptSuffix)) return 0;
  const std::string digits = name.substr(0, name.size() - kPromptSuffix.size());
  if (digits.empty() || digits.size() > 9) return 0;
  if (!std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; })) {
    return 0;
  }
  return std::stoi(digits);
}

// What closes a reply, whoever's it is; empty where nothing does.
std::string_view ClosingLine(std::string_view file) {
  const std::size_t last = file.find_last_not_of(" \t\r\n");
  if (last == std::string_view::npos) return {};
  file = file.substr(0, last + 1);
  const std::size_t line = file.rfind('\n');
  if (line != file.npos) file.remove_prefix(line + 1);
  return file.starts_with(kClosing) && file.ends_with("-->") ? file : std::string_view();
}

// The header's `role` and `request`, and the closing line; empty where it is damaged.
MailboxEntry ReadEntry(const fs::path& folder, int number) {
  MailboxEntry entry;
  entry.number = number;
  entry.prompt = folder / (Stem(number) + std::string(kPromptSuffix));
  entry.reply = folder / (Stem(number) + ".reply.md");
  std::ifstream file(entry.prompt, std::ios::binary);
  std::string head(4096, '\0');
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<std::size_t>(file.gcount()));
  if (const std::size_t at = head.find(fmt::format("\n    {}", kClosing)); at != head.npos) {
    entry.end = head.substr(at + 5, head.find('\n', at + 5) - at - 5);
  }
  head.resize(std::min(head.size(), head.find("-->")));
  const auto field = [&](std::string_view name) -> std::string {
    const std::size_t at = head.find(fmt::format("\n{}: ", name));
    if (at == std::string::npos) return {};
    const std::size_t from = at + name.size() + 3;
    return head.substr(from, head.find('\n', from) - from);
  };
  std::error_code error;
  entry.withdrawn = fs::exists(folder / (Stem(number) + std::string(kWithdrawnSuffix)), error);
  entry.role = field("role");
  entry.hash = field("request");
  return entry;
}

Result<std::vector<MailboxEntry>> ReadEntries(const fs::path& folder) {
  std::vector<MailboxEntry> entries;
  std::error_code error;
  fs::directory_iterator files(folder, error);
  if (error == std::errc::no_such_file_or_directory) return entries;
  for (; !error && files != fs::directory_iterator(); files.increment(error)) {
    if (const int number = NumberOf(files->path())) entries.push_back(ReadEntry(folder, number));
  }
  if (error) {
    return Fail(ErrorCode::kUnavailable,
                fmt::format("reading mailbox {}: {}", folder.string(), error.message()));
  }
  std::sort(entries.begin(), entries.end(),
            [](const auto& a, const auto& b) { return a.number < b.number; });
  return entries;
}

// Where the answer to a request goes, and what closes it.
struct Place {
  fs::path reply;
  std::string end;
};

struct Look {
  std::optional<std::string> text;  // of a complete reply
  std::string other;                // the closing line of another prompt's
};
Result<Look> TakeReply(const Place& place) {
  auto file = ReadFile(place.reply, kReplyLimit);
  if (!file) {
    if (file.error().code == ErrorCode::kNotFound) return Look();
    return Fail(std::move(file.error()), "mailbox");
  }
  Look look;
  look.text = CompleteReply(*file, place.end);
  if (look.text) {
    look.text = ValidUtf8(*look.text);
  } else {
    look.other = ValidUtf8(ClosingLine(*file));
  }
  return look;
}

class MailboxClient final : public Client {
 public:
  MailboxClient(fs::path folder, const Clock& clock, MailboxLog log)
      : folder_(std::move(folder)), clock_(clock), log_(std::move(log)) {}

  std::string_view name() const override { return "mailbox"; }

  Result<Reply> Complete(const Request& request, std::stop_token stop) override {
    if (auto good = CheckRequest(request, name()); !good) return Fail(std::move(good.error()));
    const auto start = clock_.Now();
    auto place = Post(request);
    if (!place) return Fail(std::move(place.error()));
    const fs::path& path = place->reply;
    // What the file looked like when it was last read and found incomplete.
    std::optional<std::pair<std::uintmax_t, fs::file_time_type>> seen;
    std::mutex mutex;
    std::condition_variable_any waiting;
    std::unique_lock lock(mutex);
    bool told = false;
    bool reminded = false;
    auto touched = start;
    while (true) {
      std::error_code error;
      const auto size = fs::file_size(path, error);
      if (!error) {
        const auto time = fs::last_write_time(path, error);
        const std::pair look(size, time);
        if (!error && look != seen) {
          auto taken = TakeReply(*place);
          if (!taken) return Fail(std::move(taken.error()));
          if (taken->text) {
            if (told) Log("mailbox: took {}", path.filename().string());
            return Answered(request, *std::move(taken->text), clock_.Now() - start);
          }
          if (!taken->other.empty()) {
            Log("mailbox: {} is not taken: it closes with {}, as an answer to another prompt; the "
                "closing line of this one is {}",
                path.string(), taken->other, place->end);
          }
          seen = look;
          touched = clock_.Now();
        } else if (!error && !reminded && clock_.Now() - touched >= kForgotten) {
          reminded = true;
          Log("mailbox: {} is not taken yet: its last line is not {}", path.string(), place->end);
        }
      }
      if (!told) {
        told = true;
        Log("mailbox: waits for {} (an answer to {}.prompt.md, {})", path.string(),
            path.stem().stem().string(), Name(request.role));
      }
      if (stop.stop_requested()) {
        Withdraw(path);
        if (request.meter != nullptr) request.meter->Ended(false);  // nobody bills a wait
        return Fail(ErrorCode::kCancelled, "cancelled");
      }
      waiting.wait_for(lock, stop, kLook, [] { return false; });
    }
  }

 private:
  template <typename... Parts>
  void Log(fmt::format_string<Parts...> text, Parts&&... parts) const {
    if (log_) log_(fmt::format(text, std::forward<Parts>(parts)...));
  }

  static fs::path MarkOf(const fs::path& reply) {
    return reply.parent_path() / (reply.stem().stem().string() + std::string(kWithdrawnSuffix));
  }
  // Says to those who answer that nobody waits. A mark that cannot be written costs them an answer,
  // which a later run still takes.
  static void Withdraw(const fs::path& reply) {
    std::ofstream(MarkOf(reply))
        << "Nobody waits for this answer now: the run was stopped. `grove resume` asks again.\n";
  }

  // Once the prompt's file is there and not marked.
  Result<Place> Post(const Request& request) {
    auto place = Find(request);
    if (place) {
      std::error_code ignored;
      fs::remove(MarkOf(place->reply), ignored);
    }
    return place;
  }

  Result<Place> Find(const Request& request) {
    const std::string hash = HashOf(request);
    const std::lock_guard lock(mutex_);
    if (!known_) {
      if (auto loaded = Load(); !loaded) return Fail(std::move(loaded.error()));
    }
    for (int attempt = 0; attempt < 1000; ++attempt) {
      if (const auto found = places_.find(hash); found != places_.end()) return found->second;
      const int number = next_;
      const fs::path prompt = folder_ / (Stem(number) + std::string(kPromptSuffix));
      const fs::path draft = folder_ / fmt::format(".{}.{}.draft", hash, getpid());
      if (auto written = WriteFileAtomic(draft, PromptText(number, request, hash)); !written) {
        return Fail(std::move(written.error()), "mailbox");
      }
      // A link fails where a rename would replace another process's prompt.
      std::error_code error;
      fs::create_hard_link(draft, prompt, error);
      if (error && error != std::errc::file_exists && !fs::exists(prompt)) {
        fs::rename(draft, prompt, error);  // a file system without links: one process at a time
      }
      std::error_code ignored;
      fs::remove(draft, ignored);
      if (!error) {
        ++next_;
        const Place place{folder_ / (Stem(number) + ".reply.md"), EndOfReply(hash)};
        return places_.emplace(hash, place).first->second;
      }
      if (error != std::errc::file_exists) {
        return Fail(ErrorCode::kResource,
                    fmt::format("writing {}: {}", prompt.string(), error.message()));
      }
      if (auto loaded = Load(); !loaded) return Fail(std::move(loaded.error()));
    }
    return Fail(ErrorCode::kUnavailable,
                fmt::format("mailbox {}: no free number could be had", folder_.string()));
  }

  Status Load() {
    std::error_code error;
    fs::create_directories(folder_, error);
    if (error) {
      return Fail(ErrorCode::kResource,
                  fmt::format("creating mailbox {}: {}", folder_.string(), error.message()));
    }
    auto entries = ReadEntries(folder_);
    if (!entries) return Fail(std::move(entries.error()));
    for (MailboxEntry& entry : *entries) {
      next_ = std::max(next_, entry.number + 1);
      if (entry.hash.empty()) continue;
      places_.emplace(std::move(entry.hash), Place{std::move(entry.reply), std::move(entry.end)});
    }
    known_ = true;
    return {};
  }

  static Reply Answered(const Request& request, std::string text, Milliseconds latency) {
    Answer answer;
    answer.text = std::move(text);
    answer.finish = FinishReason::kStop;
    answer.model = "mailbox";
    return MakeReply(answer, request, HttpOutcome{}, Secret(), latency);
  }

  const fs::path folder_;
  const Clock& clock_;
  const MailboxLog log_;
  std::mutex mutex_;
  // Guarded by mutex_.
  bool known_ = false;  // the folder was read
  int next_ = 1;
  std::map<std::string, Place> places_;  // by the request's hash
};

}  // namespace

std::unique_ptr<Client> MakeMailboxClient(std::filesystem::path folder, const Clock& clock,
                                          MailboxLog log) {
  return std::make_unique<MailboxClient>(std::move(folder), clock, std::move(log));
}

Result<std::vector<MailboxEntry>> ListWaiting(const std::filesystem::path& folder) {
  auto entries = ReadEntries(folder);
  if (!entries) return entries;
  std::vector<MailboxEntry> waiting;
  for (MailboxEntry& entry : *entries) {
    auto file = ReadFile(entry.reply, kReplyLimit);
    if (file && CompleteReply(*file, entry.end)) continue;
    entry.started = file.has_value();
    waiting.push_back(std::move(entry));
  }
  return waiting;
}

std::string EndOfReply(std::string_view hash) {
  return fmt::format("{} to {} -->", kClosing, hash.substr(0, 8));
}

Result<MailboxEntry> ReadMailboxEntry(const fs::path& prompt) {
  const int number = NumberOf(prompt);
  std::error_code error;
  if (number == 0 || !fs::exists(prompt, error)) {
    return Fail(ErrorCode::kNotFound, fmt::format("{} is no prompt", prompt.string()));
  }
  return ReadEntry(prompt.parent_path(), number);
}

std::optional<std::string> CompleteReply(std::string_view file, std::string_view end) {
  if (end.empty()) return std::nullopt;
  const std::size_t last = file.find_last_not_of(" \t\r\n");
  if (last == std::string_view::npos) return std::nullopt;
  file = file.substr(0, last + 1);
  if (!file.ends_with(end)) return std::nullopt;
  file.remove_suffix(end.size());
  if (!file.empty() && file.back() != '\n') return std::nullopt;  // quoted in a sentence
  if (file.starts_with("\xEF\xBB\xBF")) file.remove_prefix(3);
  return std::string(file);
}

Status CheckReply(Role role, std::string_view end, const std::filesystem::path& path) {
  auto file = ReadFile(path, kReplyLimit);
  if (!file) return Fail(std::move(file.error()));
  const auto bad = [&](std::string_view what) {
    return Fail(ErrorCode::kInvalidInput, fmt::format("{}: {}", path.filename().string(), what));
  };
  const auto text = CompleteReply(*file, end);
  if (!text) {
    const std::string_view other = ClosingLine(*file);
    if (!other.empty()) {
      return bad(
          fmt::format("it closes with {}, as an answer to another prompt; the closing line of "
                      "this one is {}",
                      ValidUtf8(other), end));
    }
    return bad(fmt::format("the last line is not {}", end));
  }
  if (text->find_first_not_of(" \t\r\n") == std::string::npos) return bad("the reply is empty");
  if (role == Role::kIdea || role == Role::kAdviser) {
    const std::size_t open = text->find('{');
    const std::size_t close = text->rfind('}');
    if (open == std::string::npos || close == std::string::npos || close < open) {
      return bad("there is no JSON object in it");
    }
    const auto json = nlohmann::json::parse(text->substr(open, close - open + 1), nullptr, false);
    if (!json.is_object()) return bad("its JSON cannot be parsed");
    if (!json.contains("ideas") || !json["ideas"].is_array()) {
      return bad("its JSON object has no list \"ideas\"");
    }
    return {};
  }
  const auto closed = [&](std::string_view language) {
    const std::size_t at = text->find(fmt::format("```{}", language));
    return at != std::string::npos && text->find("\n```", at) != std::string::npos;
  };
  if (!closed("cuda") && closed("edit")) return {};
  for (const char* language : {"cuda", "json"}) {
    const std::size_t at = text->find(fmt::format("```{}", language));
    if (at == std::string::npos || text->find("\n```", at) == std::string::npos) {
      return bad(fmt::format("there is no closed ```{} block in it", language));
    }
  }
  return {};
}

std::string_view FormOf(Role role) {
  switch (role) {
    case Role::kIdea:
    case Role::kAdviser:
      return "one JSON object {\"ideas\": [...]} and nothing else";
    case Role::kCode:
    case Role::kRepair:
      return "a few sentences, then one ```cuda block with the source and one ```json block with "
             "the plan, or ```edit blocks with changes to the program shown";
  }
  return "text";
}

Result<Role> RoleFrom(std::string_view name) {
  for (const Role role : {Role::kIdea, Role::kCode, Role::kRepair, Role::kAdviser}) {
    if (Name(role) == name) return role;
  }
  return Fail(ErrorCode::kInvalidInput,
              fmt::format("\"{}\" is no role; the roles are idea, code, repair and adviser",
                          name.substr(0, 40)));
}

}  // namespace grove::llm
