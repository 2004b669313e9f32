// The tutorial in docs/tasks.md, run as it stands: fences with file=PATH are written, lines "$
// grove
// ..." of console fences are run, and the lines below them must appear in what they print. A page
// that no longer works fails here.
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/program.h"

namespace grove {
namespace {

struct Fence {
  std::string info;
  std::vector<std::string> lines;
};

std::vector<Fence> FencesOf(const std::filesystem::path& page) {
  std::ifstream in(page);
  std::vector<Fence> fences;
  bool open = false;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("```")) {
      open = !open;
      if (open) fences.push_back({line.substr(3), {}});
    } else if (open) {
      fences.back().lines.push_back(line);
    }
  }
  return fences;
}

std::string Option(const std::string& info, const std::string& name) {
  const std::size_t at = info.find(" " + name + "=");
  if (at == std::string::npos) return "";
  const std::size_t begin = at + name.size() + 2;
  return info.substr(begin, info.find(' ', begin) - begin);
}

TEST(Tutorial, TheTasksPageDoesWhatItSays) {
  const testing::ScratchFolder folder;
  const std::string cache = "GROVE_CACHE=" + ::testing::TempDir() + "grove-test-cache";
  int files = 0, commands = 0, expected = 0;
  for (const Fence& fence : FencesOf(std::string(GROVE_SOURCE_DIR) + "/docs/tasks.md")) {
    if (const std::string file = Option(fence.info, "file"); !file.empty()) {
      const std::filesystem::path path = folder.path() / file;
      std::filesystem::create_directories(path.parent_path());
      std::ofstream out(path);
      for (const std::string& line : fence.lines) out << line << "\n";
      ++files;
      continue;
    }
    if (!fence.info.starts_with("console")) continue;
    const std::string exit_code = Option(fence.info, "exit");
    testing::ProgramResult result;
    std::string command;
    for (const std::string& line : fence.lines) {
      if (line.starts_with("$ ")) {
        command = line.substr(2);
        std::istringstream words(command);
        std::string program, word;
        words >> program;
        ASSERT_EQ(program, "grove") << command;
        std::vector<std::string> arguments;
        while (words >> word) arguments.push_back(word);
        testing::ProgramOptions options;
        options.folder = folder.path();
        options.environment.push_back(cache);
        result = testing::RunProgram(program, arguments, options);
        EXPECT_EQ(result.exit_code, exit_code.empty() ? 0 : std::stoi(exit_code))
            << command << "\n"
            << result.out << result.err;
        ++commands;
      } else if (!line.empty()) {
        EXPECT_NE(result.out.find(line), std::string::npos)
            << "after: " << command << "\nexpected: " << line << "\nin: " << result.out;
        ++expected;
      }
    }
  }
  // The page still has its tutorial.
  EXPECT_GE(files, 6);
  EXPECT_GE(commands, 5);
  EXPECT_GE(expected, 6);
}

}  // namespace
}  // namespace grove
