// Models as a user meets them: a search against an endpoint, its ledger, its replay, its mailbox,
// its configuration; and that no key is to be found anywhere.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "llm/mailbox_client.h"
#include "tests/cli/models_fixture.h"

namespace grove {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::ProgramOptions;
using testing::ProgramResult;
using testing::ScriptedAnswer;
using testing::SeenRequest;

TEST_F(ModelsTest, ASearchAgainstAnEndpointIsBookedReplayedAndShowsNoKey) {
  auto server = std::make_unique<PlaybookServer>();
  server->refuse = 1;
  ProgramOptions options;
  options.environment = {std::string("OPENAI_API_KEY=") + kKey};
  const ProgramResult run =
      Grove(Small("served", {"--model", "openai:scripted", "--base-url", server->url()}), options);
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(server->seen().at(1).header("authorization"), std::string("Bearer ") + kKey);
  const auto verdicts = Verdicts(Load("served"));
  EXPECT_GT(std::count_if(verdicts.begin(), verdicts.end(),
                          [](const auto& entry) { return entry.second == "pass"; }),
            1)
      << "the seed and what the model wrote";

  // Usage to the token: the refused attempt (a 500 may have been billed) at its reservation.
  const ProgramResult ledger = Grove({"ledger", "served", "--json"});
  const json booked = json::parse(ledger.out);
  double in = 0;
  double out = 0;
  int calls = 0;
  double retried = 0;
  for (const auto& row : Load("served").ledger) {
    if (row.key.ends_with("#1") && row.kind == results::LedgerKind::kTokens && row.settled != 47) {
      retried = *row.settled;
    }
  }
  for (const json& row : booked["models"]) {
    in += row["tokens_in"].get<double>();
    out += row["tokens_out"].get<double>();
    calls += row["calls"].get<int>();
    EXPECT_EQ(row["dollars"], "unknown") << "a server of one's own has no price in the table";
  }
  EXPECT_EQ(calls, 3);
  EXPECT_GT(retried, 0);
  EXPECT_EQ(in + out, 47 * calls + retried);
  EXPECT_EQ(booked["spent"]["tokens"], in + out);

  // Every call is stored whole: what was asked to the letter, what came, who said it was it, how
  // long it took and how often it was tried.
  auto store = results::Reader::Open(folder_.path() / "runs" / "served");
  ASSERT_TRUE(store);
  int retries = 0;
  for (const auto& call : Load("served").calls) {
    const json asked = json::parse(*(*store)->Request(call.request));
    bool sent = false;
    for (const SeenRequest& seen : server->seen()) {
      sent = sent || json::parse(seen.body)["messages"].back()["content"] ==
                         asked["messages"].back()["text"];
    }
    EXPECT_TRUE(sent) << "the stored prompt is the one that was sent";
    ASSERT_TRUE(call.reply);
    EXPECT_FALSE((*store)->Text(*call.reply)->empty());
    EXPECT_EQ(call.reply_model, "scripted-1");
    EXPECT_EQ(call.usage.prompt, Tokens(40));
    EXPECT_EQ(call.usage.cached, Tokens(32));
    EXPECT_EQ(call.usage.reasoning, Tokens(3));
    EXPECT_GT(call.latency.count(), 0);
    retries += call.retries;
  }
  EXPECT_EQ(retries, 1);

  // The key: in no output, no file, no stored text.
  std::string all =
      run.out + run.err + ledger.out +
      Grove({"models", "--model", "openai:scripted", "--base-url", server->url()}, options).out;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.path() / "runs")) {
    if (entry.is_regular_file()) all += ReadFile(entry.path()).value_or("");
  }
  auto reader = results::Reader::Open(folder_.path() / "runs" / "served");
  for (const auto& call : Load("served").calls) {
    all += *(*reader)->Request(call.request) + call.error;
    if (call.reply) all += *(*reader)->Text(*call.reply);
  }
  for (const auto& event : Load("served").events) all += event.text;
  EXPECT_EQ(all.find(kKey), std::string::npos);
  EXPECT_NE(all.find("***"), std::string::npos) << "the refusal that carried it was shown, masked";

  // Replayed with nobody to ask and no key: the same tree.
  server.reset();
  const ProgramResult replay = Grove({"run", "--replay", "served", "--name", "again"});
  ASSERT_EQ(replay.exit_code, 0) << replay.err;
  EXPECT_EQ(Verdicts(Load("again")), verdicts);
  // Asked for more than was recorded, a branch ends there and the run does not.
  const ProgramResult more =
      Grove({"run", "--replay", "served", "--name", "more", "--branches", "2"});
  ASSERT_EQ(more.exit_code, 0) << more.err;
  const auto data = Load("more");
  const auto* second = data.FindCandidate("r1.i1.b2");
  ASSERT_NE(second, nullptr);
  EXPECT_THAT(second->evaluation->verdict.message, HasSubstr("not recorded"));
}

TEST_F(ModelsTest, ABudgetEndsTheRunCleanlyAndIsNeverOverdrawn) {
  std::vector<std::string> arguments = Small("poor", {"--budget", "12k"});
  *std::next(std::find(arguments.begin(), arguments.end(), "--ideas")) = "6";
  const ProgramResult run = Grove(arguments);
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("the run's limit of 12000 tokens is reached"));
  const auto data = Load("poor");
  EXPECT_EQ(data.run.status, results::RunStatus::kFinished);
  const json ledger = json::parse(Grove({"ledger", "poor", "--json"}).out);
  EXPECT_LE(ledger["spent"]["tokens"].get<double>(), 12000);
  EXPECT_EQ(ledger["reserved"]["tokens"], 0);
  EXPECT_THAT(Grove({"ledger", "poor"}).out, HasSubstr("12,000"));
}

TEST_F(ModelsTest, AnEndpointThatIsDownLeavesTheRunResumable) {
  const ProgramResult run =
      Grove(Small("down", {"--model", "openai:m", "--base-url", "http://127.0.0.1:1/v1"}));
  EXPECT_EQ(run.exit_code, 3);
  EXPECT_THAT(run.err, HasSubstr("grove resume down"));
  EXPECT_THAT(run.err, HasSubstr("http://127.0.0.1:1"));
  EXPECT_EQ(Load("down").run.status, results::RunStatus::kInterrupted);
  for (const auto& row : Load("down").ledger) {
    if (row.kind == results::LedgerKind::kTokens) {
      EXPECT_EQ(row.settled, 0) << row.key;
    }
  }
}

TEST_F(ModelsTest, FlagsComeBeforeTheEnvironmentBeforeTheFile) {
  std::ofstream(folder_.path() / "grove.toml") << "rounds = 5\nideas = 5\nbranches = 5\n"
                                                  "[budget]\ntokens = \"1M\"\n";
  ProgramOptions options;
  options.environment = {"GROVE_IDEAS=4", "GROVE_BRANCHES=4"};
  const auto estimate = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = {
        "run", "softmax_small", "--tasks", kTasks,      "--frontier",
        "1",   "--repairs",     "0",       "--dry-run", "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProgramResult result = Grove(arguments, options);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return json::parse(result.out);
  };
  // rounds of the file, ideas of the environment, branches of the flag
  EXPECT_EQ(estimate({"--branches", "3"})["expected"]["evaluations"], 5 * 4 * 3);
  EXPECT_LE(estimate({})["largest"]["tokens"].get<double>(), 1e6) << "cut to the file's budget";
  EXPECT_GT(estimate({"--budget", "1G"})["largest"]["tokens"].get<double>(), 1e6);
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "runs")) << "a dry run leaves nothing";
}

TEST_F(ModelsTest, WhatIsWrongInAConfigurationIsSaidWithItsPlace) {
  const auto complaint = [&](const std::string& text) {
    std::ofstream(folder_.path() / "c.toml") << text;
    const ProgramResult result = Grove({"run", "softmax_small", "--config", "c.toml", "--dry-run"});
    EXPECT_EQ(result.exit_code, 2);
    return result.err;
  };
  EXPECT_THAT(complaint("\nronds = 3\n"), HasSubstr("c.toml:2: unknown setting 'ronds'"));
  EXPECT_THAT(complaint("ronds = 3\n"), HasSubstr("'rounds'"));
  EXPECT_THAT(complaint("[budget]\ntokns = 3\n"), HasSubstr("'budget.tokens'"));
  EXPECT_THAT(complaint("[[model]]\nname = \"playbook\"\nwieght = 2\n"), HasSubstr("'weight'"));
  EXPECT_THAT(complaint("[[model]]\nname = \"playbook\"\nrole = \"cod\"\n"), HasSubstr("'code'"));
  EXPECT_THAT(complaint("rounds = \n"), HasSubstr("c.toml:1"));
  const ProgramResult no_key = Grove(Small("x", {"--model", "anthropic:m"}));
  EXPECT_EQ(no_key.exit_code, 2);
  EXPECT_THAT(no_key.err, HasSubstr("ANTHROPIC_API_KEY"));
  const ProgramResult no_price =
      Grove(Small("x", {"--model", "openai:unheard-of", "--budget-dollars", "5"}));
  EXPECT_EQ(no_price.exit_code, 2);
  EXPECT_THAT(no_price.err, HasSubstr("price of openai:unheard-of is unknown"));
}

TEST_F(ModelsTest, InitWritesAFileThatIsReadAndNeverReplacesOne) {
  EXPECT_EQ(Grove({"init"}).exit_code, 0);
  std::string text = *ReadFile(folder_.path() / "grove.toml");
  EXPECT_THAT(text, HasSubstr("#rounds = 3"));
  EXPECT_EQ(Grove({"init"}).exit_code, 2);
  // With every comment mark in front of a setting taken away it is a configuration still.
  std::istringstream lines(text);
  std::ofstream file(folder_.path() / "all.toml");
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("#[[model]]")) break;
    const bool setting = line.size() > 1 && line[0] == '#' && line[1] != ' ' &&
                         line.find("= \"\"") == std::string::npos;
    file << (setting ? line.substr(1) : line) << "\n";
  }
  file.close();
  const ProgramResult run =
      Grove({"run", "softmax_small", "--tasks", kTasks, "--config", "all.toml", "--dry-run"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
}

TEST_F(ModelsTest, AMailboxListsWhatWaitsAndChecksReplies) {
  ProgramOptions options;
  options.interrupt_on = "round 1/1";
  const ProgramResult run = Grove(Small("letters", {"--model", "mailbox"}), options);
  EXPECT_EQ(run.exit_code, 130) << run.err;
  const auto folder = folder_.path() / "runs" / "letters" / "mailbox";
  // The interrupt may have come before the question: it is asked when the run goes on, and waits
  // through a kill.
  for (int seconds = 1; seconds < 60 && !std::filesystem::exists(folder / "0001.prompt.md");
       seconds *= 2) {
    ProgramOptions killed;
    killed.kill_after = std::chrono::seconds(seconds);
    Grove({"resume", "letters"}, killed);
  }
  ASSERT_TRUE(std::filesystem::exists(folder / "0001.prompt.md"));
  const json waiting = json::parse(Grove({"mailbox", "letters", "--json"}).out);
  ASSERT_EQ(waiting.size(), 1U);
  EXPECT_EQ(waiting[0]["role"], "idea");
  const auto check = [&](const std::string& text) {
    std::ofstream(folder / "0001.reply.md") << text;
    return Grove({"mailbox", "letters", "--check", (folder / "0001.reply.md").string()});
  };
  const std::string good = R"({"ideas": [{"title": "Two rows per block"}]})";
  const auto prompt = llm::ReadMailboxEntry(folder / "0001.prompt.md");
  ASSERT_TRUE(prompt);
  const std::string end = "\n" + prompt->end + "\n";
  EXPECT_EQ(check(good).exit_code, 1) << "its closing line is missing";
  EXPECT_EQ(check(good + "\n" + llm::EndOfReply("12345678") + "\n").exit_code, 1)
      << "an answer to another prompt";
  EXPECT_EQ(check("no ideas" + end).exit_code, 1);
  EXPECT_EQ(check(good + end).exit_code, 0);
  EXPECT_EQ(Grove({"mailbox", "letters", "--check", "0001.reply.md"}).exit_code, 0)
      << "by its name";
  EXPECT_EQ(json::parse(Grove({"mailbox", "letters", "--json"}).out).size(), 0U);
  EXPECT_EQ(Grove({"mailbox", "letters", "--check", "9999.reply.md"}).exit_code, 2);
}

}  // namespace
}  // namespace grove
