// What the tests of models at the command line share: a server that answers as the playbook would,
// small runs, and what their stores hold.
#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "llm/playbook_client.h"
#include "results/store.h"
#include "tests/support/program.h"
#include "tests/support/scripted_server.h"

namespace grove {

inline const std::string kTasks = std::string(GROVE_SOURCE_DIR) + "/tests/data/tasks";
inline constexpr const char* kKey = "sk-test-0123456789-secret";

// Answers as the playbook would, over HTTP.
class PlaybookServer {
 public:
  PlaybookServer()
      : playbook_(*llm::MakePlaybookClient()),
        server_([this](const testing::SeenRequest& seen) { return Answer(seen); }) {}

  std::string url() const { return server_.url() + "/v1"; }
  std::vector<testing::SeenRequest> seen() const { return server_.seen(); }
  // The first so many requests are refused, with the key in the refusal.
  int refuse = 0;

 private:
  testing::ScriptedAnswer Answer(const testing::SeenRequest& seen) {
    if (seen.number <= refuse) {
      return testing::ScriptedAnswer::Json(
          R"({"error": {"message": "no thanks to )" + seen.header("authorization") + R"("}})", 500);
    }
    const nlohmann::json body = nlohmann::json::parse(seen.body);
    llm::Request request;
    for (const nlohmann::json& message : body["messages"]) {
      request.messages.push_back({message["role"] == "system" ? llm::Message::Author::kSystem
                                                              : llm::Message::Author::kUser,
                                  message["content"].get<std::string>()});
    }
    request.role =
        seen.body.find("\\\"ideas\\\"") != std::string::npos ? llm::Role::kIdea : llm::Role::kCode;
    request.seed = body.value("seed", 0);
    const auto reply = playbook_->Complete(request, {});
    return testing::ChatStream({reply ? reply->text : "nothing"});
  }

  const std::unique_ptr<llm::Client> playbook_;
  testing::ScriptedServer server_;
};

class ModelsTest : public ::testing::Test {
 protected:
  testing::ProgramResult Grove(std::vector<std::string> arguments,
                               testing::ProgramOptions options = {}) {
    options.folder = folder_.path();
    options.environment.push_back("GROVE_CACHE=" + ::testing::TempDir() + "grove-test-cache");
    return testing::RunProgram("grove", arguments, options);
  }
  static std::vector<std::string> Small(const std::string& name, std::vector<std::string> more) {
    std::vector<std::string> arguments = {
        "run",      "softmax_small", "--tasks", kTasks,       "--name", name,        "--rounds",
        "1",        "--ideas",       "2",       "--branches", "1",      "--repairs", "0",
        "--device", "emulator"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  results::RunData Load(const std::string& name) {
    auto reader = results::Reader::Open(folder_.path() / "runs" / name);
    EXPECT_TRUE(reader) << reader.error().message;
    return *(*reader)->Load();
  }
  static std::map<std::string, std::string> Verdicts(const results::RunData& data) {
    std::map<std::string, std::string> verdicts;
    for (const auto& candidate : data.candidates) {
      verdicts[candidate.name] =
          candidate.evaluation ? std::string(eval::Name(candidate.evaluation->verdict.kind)) : "";
    }
    return verdicts;
  }
  testing::ScratchFolder folder_;
};

}  // namespace grove
