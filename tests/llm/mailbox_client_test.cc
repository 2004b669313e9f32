// Requests as files, replies as files.
#include "llm/mailbox_client.h"

#include <algorithm>
#include <fstream>
#include <mutex>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "tests/support/program.h"

namespace grove::llm {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

// What a client's log was told.
class Told {
 public:
  MailboxLog log() {
    return [this](std::string_view line) {
      const std::lock_guard lock(mutex_);
      text_ += std::string(line) + "\n";
    };
  }
  std::string so_far() {
    const std::lock_guard lock(mutex_);
    return text_;
  }

 private:
  std::mutex mutex_;
  std::string text_;
};

class MailboxTest : public ::testing::Test {
 protected:
  std::filesystem::path box() const { return scratch_.path() / "mailbox"; }
  static Request Ask(std::uint64_t seed, Role role = Role::kCode) {
    Request request;
    request.role = role;
    request.seed = seed;
    request.messages.push_back(
        {Message::Author::kUser, "Make it fast.\n--> <!-- end of reply to 00000000 -->"});
    return request;
  }
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(box() / name) << text;
  }
  // A whole reply to the prompt in NNNN.prompt.md.
  void Close(const std::string& stem, const std::string& text) const {
    const auto entry = ReadMailboxEntry(box() / (stem + ".prompt.md"));
    ASSERT_TRUE(entry);
    EXPECT_EQ(entry->end, EndOfReply(entry->hash));
    Write(stem + ".reply.md", text + entry->end + "\n");
  }
  // The prompts that wait, once there are `count`.
  std::vector<MailboxEntry> Waiting(std::size_t count) const {
    for (int i = 0; i < 3000; ++i) {
      auto waiting = ListWaiting(box());
      if (waiting && waiting->size() >= count) return *waiting;
      std::this_thread::sleep_for(10ms);
    }
    return {};
  }

  testing::ScratchFolder scratch_;
  SystemClock clock_;
};

TEST_F(MailboxTest, AReplyIsTakenWhenItsEndMarkIsThere) {
  auto client = MakeMailboxClient(box(), clock_);
  std::optional<Result<Reply>> reply;
  std::jthread caller([&] { reply = client->Complete(Ask(1), {}); });
  ASSERT_EQ(Waiting(1).size(), 1U);
  Write("0001.reply.md", "half of it");
  std::this_thread::sleep_for(500ms);
  ASSERT_TRUE(Waiting(1).at(0).started);
  Close("0001", "all of it\n");
  caller.join();
  ASSERT_TRUE(*reply) << reply->error().message;
  EXPECT_EQ((*reply)->text, "all of it\n");
  EXPECT_TRUE((*reply)->usage.estimated);
  EXPECT_EQ((*reply)->usage.completion, EstimateTokens("all of it\n"));
  EXPECT_EQ((*reply)->model, "mailbox");
}

TEST_F(MailboxTest, ThePromptSaysWhatIsWantedAndHow) {
  auto client = MakeMailboxClient(box(), clock_);
  std::stop_source stop;
  std::jthread caller([&] { (void)client->Complete(Ask(5), stop.get_token()); });
  const auto waiting = Waiting(1);
  ASSERT_EQ(waiting.size(), 1U);
  EXPECT_EQ(waiting[0].role, "code");
  const auto text = ReadFile(waiting[0].prompt);
  stop.request_stop();
  ASSERT_TRUE(text);
  for (const char* part :
       {"role: code", "seed: 5", "```cuda", "```json", "0001.reply.md", "Make it fast."}) {
    EXPECT_THAT(*text, HasSubstr(part));
  }
  EXPECT_THAT(*text, HasSubstr("    " + EndOfReply(waiting[0].hash) + "\n"));
}

TEST_F(MailboxTest, WhoeverWaitsIsToldForWhatAndWhatWasTaken) {
  Told told;
  auto client = MakeMailboxClient(box(), clock_, told.log());
  std::jthread caller([&] { EXPECT_TRUE(client->Complete(Ask(1), {})); });
  ASSERT_EQ(Waiting(1).size(), 1U);
  while (told.so_far().empty()) std::this_thread::sleep_for(5ms);
  EXPECT_THAT(told.so_far(), HasSubstr((box() / "0001.reply.md").string()));
  EXPECT_THAT(told.so_far(), HasSubstr("an answer to 0001.prompt.md, code"));
  EXPECT_THAT(told.so_far(), ::testing::Not(HasSubstr("took")));
  // Without its mark it stands there until the writer is reminded.
  Write("0001.reply.md", "all of it");
  while (told.so_far().find("its last line is not") == std::string::npos) {
    std::this_thread::sleep_for(50ms);
  }
  Close("0001", "all of it\n");
  caller.join();
  EXPECT_THAT(told.so_far(), HasSubstr("took 0001.reply.md"));
}

TEST_F(MailboxTest, ManyWaitAndAreAnsweredInAnyOrder) {
  auto client = MakeMailboxClient(box(), clock_);
  constexpr int kCount = 12;
  std::vector<std::optional<Result<Reply>>> replies(kCount);
  {
    std::vector<std::jthread> callers;
    for (int i = 0; i < kCount; ++i) {
      callers.emplace_back([&, i] { replies[i] = client->Complete(Ask(100 + i), {}); });
    }
    auto waiting = Waiting(kCount);
    ASSERT_EQ(waiting.size(), static_cast<std::size_t>(kCount));
    std::reverse(waiting.begin(), waiting.end());
    for (const MailboxEntry& entry : waiting) {
      const auto prompt = ReadFile(entry.prompt);
      ASSERT_TRUE(prompt);
      const std::size_t at = prompt->find("seed: ") + 6;
      Write(entry.reply.filename().string(), "for " + prompt->substr(at, 3) + "\n" + entry.end);
    }
  }
  for (int i = 0; i < kCount; ++i) {
    ASSERT_TRUE(*replies[i]) << replies[i]->error().message;
    EXPECT_EQ((*replies[i])->text, "for " + std::to_string(100 + i) + "\n");
  }
  EXPECT_TRUE(ListWaiting(box())->empty());
}

TEST_F(MailboxTest, ARestartFindsItsPromptAndTheReply) {
  std::stop_source stop;
  {
    auto client = MakeMailboxClient(box(), clock_);
    std::jthread caller([&] {
      EXPECT_EQ(client->Complete(Ask(1), stop.get_token()).error().code, ErrorCode::kCancelled);
    });
    ASSERT_EQ(Waiting(1).size(), 1U);
    EXPECT_FALSE(Waiting(1).at(0).withdrawn);
    stop.request_stop();
  }
  ASSERT_EQ(Waiting(1).size(), 1U);
  EXPECT_TRUE(Waiting(1).at(0).withdrawn) << "who answers can see that nobody waits";
  Close("0001", "while it was away\n");
  auto client = MakeMailboxClient(box(), clock_);
  const auto reply = client->Complete(Ask(1), {});
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->text, "while it was away\n");
  EXPECT_FALSE(std::filesystem::exists(box() / "0002.prompt.md"));
  EXPECT_FALSE(std::filesystem::exists(box() / "0001.withdrawn"));
}

TEST_F(MailboxTest, AnotherProcesssNumbersAreNotTaken) {
  auto one = MakeMailboxClient(box(), clock_);
  auto two = MakeMailboxClient(box(), clock_);
  std::stop_source stop;
  std::vector<std::jthread> callers;
  for (int i = 0; i < 6; ++i) {
    callers.emplace_back([&, i] { (void)one->Complete(Ask(10 + i), stop.get_token()); });
    callers.emplace_back([&, i] { (void)two->Complete(Ask(20 + i), stop.get_token()); });
  }
  const auto waiting = Waiting(12);
  stop.request_stop();
  ASSERT_EQ(waiting.size(), 12U);
  std::set<std::string> hashes;
  for (const MailboxEntry& entry : waiting) hashes.insert(entry.hash);
  EXPECT_EQ(hashes.size(), 12U);
}

TEST_F(MailboxTest, AnAbsentFolderHasNothingWaiting) {
  const auto waiting = ListWaiting(box());
  ASSERT_TRUE(waiting);
  EXPECT_TRUE(waiting->empty());
}

TEST_F(MailboxTest, AFolderThatCannotBeMadeIsAnError) {
  std::ofstream(scratch_.path() / "file") << "x";
  auto client = MakeMailboxClient(scratch_.path() / "file" / "mailbox", clock_);
  const auto reply = client->Complete(Ask(1), {});
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, ErrorCode::kResource);
}

TEST(CompleteReply, OnlyTheLastLineClosesIt) {
  const std::string end = EndOfReply("0123456789abcdef");
  EXPECT_EQ(end, "<!-- end of reply to 01234567 -->");
  EXPECT_EQ(CompleteReply("text\n" + end + "\r\n \n", end), "text\n");
  EXPECT_EQ(CompleteReply(end, end), "");
  EXPECT_EQ(CompleteReply("text " + end, end), std::nullopt);
  EXPECT_EQ(CompleteReply(end + "\nmore", end), std::nullopt);
  EXPECT_EQ(CompleteReply("text\n" + EndOfReply("89abcdef"), end), std::nullopt);
  EXPECT_EQ(CompleteReply("", end), std::nullopt);
  EXPECT_EQ(CompleteReply("text", ""), std::nullopt) << "a damaged prompt asks for no line";
}

TEST_F(MailboxTest, AnAnswerToAnotherPromptIsNotTakenAndSaysSo) {
  Told told;
  auto client = MakeMailboxClient(box(), clock_, told.log());
  std::jthread first([&] { EXPECT_EQ(client->Complete(Ask(1), {})->text, "one\n"); });
  ASSERT_EQ(Waiting(1).size(), 1U);
  std::jthread second([&] { EXPECT_EQ(client->Complete(Ask(2), {})->text, "two\n"); });
  const auto waiting = Waiting(2);
  ASSERT_EQ(waiting.size(), 2U);
  Write("0001.reply.md", "two\n" + waiting[1].end);
  while (told.so_far().find("as an answer to another prompt") == std::string::npos) {
    std::this_thread::sleep_for(20ms);
  }
  EXPECT_THAT(told.so_far(), HasSubstr("0001.reply.md is not taken"));
  EXPECT_THAT(told.so_far(), ::testing::Not(HasSubstr("took")));
  const auto bad = CheckReply(Role::kCode, waiting[0].end, box() / "0001.reply.md");
  ASSERT_FALSE(bad);
  EXPECT_THAT(bad.error().message, HasSubstr(waiting[1].end));
  Close("0002", "two\n");
  Close("0001", "one\n");
}

TEST_F(MailboxTest, APromptOfAnEarlierVersionIsAnsweredAsItSays) {
  std::stop_source stop;
  auto client = MakeMailboxClient(box(), clock_);
  {
    std::jthread caller([&] { (void)client->Complete(Ask(1), stop.get_token()); });
    ASSERT_EQ(Waiting(1).size(), 1U);
    stop.request_stop();
  }
  auto text = ReadFile(box() / "0001.prompt.md");
  ASSERT_TRUE(text);
  const std::string end = Waiting(1).at(0).end;
  text->replace(text->find("    " + end), end.size() + 4, "    <!-- end of reply -->");
  Write("0001.prompt.md", *text);
  Write("0001.reply.md", "old\n<!-- end of reply -->\n");
  const auto reply = MakeMailboxClient(box(), clock_)->Complete(Ask(1), {});
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->text, "old\n");
}

TEST_F(MailboxTest, AReplyIsCheckedBeforeItIsTaken) {
  std::filesystem::create_directories(box());
  const auto check = [&](Role role, const std::string& text) -> std::string {
    Write("r.md", text);
    const auto good = CheckReply(role, EndOfReply("ab"), box() / "r.md");
    return good ? "" : good.error().message;
  };
  const std::string end = "\n" + EndOfReply("ab") + "\n";
  EXPECT_EQ(check(Role::kIdea, "{\"ideas\": []}" + end), "");
  EXPECT_EQ(check(Role::kCode, "words\n```cuda\nx\n```\n```json\n{}\n```" + end), "");
  EXPECT_THAT(check(Role::kIdea, "{\"ideas\": []}"), HasSubstr("last line"));
  EXPECT_THAT(check(Role::kIdea, "none" + end), HasSubstr("no JSON object"));
  EXPECT_THAT(check(Role::kIdea, "{\"ideas\": }" + end), HasSubstr("cannot be parsed"));
  EXPECT_THAT(check(Role::kIdea, "{\"thoughts\": []}" + end), HasSubstr("\"ideas\""));
  EXPECT_THAT(check(Role::kRepair, "```cuda\nx\n```" + end), HasSubstr("```json"));
  EXPECT_THAT(check(Role::kCode, " " + end), HasSubstr("empty"));
  EXPECT_EQ(CheckReply(Role::kCode, "x", box() / "absent.md").error().code, ErrorCode::kNotFound);
}

TEST(RoleFrom, KnowsEveryRoleAndNoOther) {
  EXPECT_EQ(*RoleFrom("repair"), Role::kRepair);
  EXPECT_EQ(*RoleFrom("adviser"), Role::kAdviser);
  EXPECT_EQ(RoleFrom("poet").error().code, ErrorCode::kInvalidInput);
}

}  // namespace
}  // namespace grove::llm
