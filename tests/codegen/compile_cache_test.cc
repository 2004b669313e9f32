#include "codegen/compile_cache.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <fstream>
#include <mutex>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/files.h"
#include "tests/codegen/temporary_folder.h"

namespace grove::codegen {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr Bytes kLimit{std::int64_t{1} << 30};

CompileOutcome Sample(int seed = 1) {
  CompileOutcome outcome;
  outcome.status = CompileOutcome::Status::kOk;
  outcome.log = "kernel.cu(1): warning\n";
  outcome.ptx = "ptx " + std::to_string(seed);
  outcome.cubin = std::string(
                      "\x7f"
                      "ELF\0\xff",
                      6) +
                  std::string(static_cast<std::size_t>(seed % 977), 'c');
  outcome.entries = {{"k", {8, 8, 4}, 32, 1, 2, 3, 4096, 256}, {"second", {}, 8, 0, 0, 0, 0, 1024}};
  outcome.time = Milliseconds(12.5);
  return outcome;
}

CompileRequest Request(std::string source) { return {std::move(source), "sm_90", {}}; }

Hash KeyOf(int i) { return CompileCache::Key("NVRTC 13.0", Request(std::to_string(i)), {}); }

std::size_t CountFiles(const fs::path& folder) {
  std::size_t count = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    count += entry.is_regular_file() ? 1 : 0;
  }
  return count;
}

// As a dying machine would: no care, no rename.
void Overwrite(const fs::path& path, std::string_view content) {
  std::ofstream(path, std::ios::binary) << content;
}

class CompileCacheTest : public ::testing::Test {
 protected:
  CompileCache Make(Bytes limit = kLimit) {
    return CompileCache(folder_.path() / "cache", limit, [this](std::string_view text) {
      const std::lock_guard lock(mutex_);
      warnings_.emplace_back(text);
    });
  }
  TemporaryFolder folder_;
  std::mutex mutex_;
  std::vector<std::string> warnings_;
};

TEST_F(CompileCacheTest, AnOutcomeComesBackWholeAndMarked) {
  CompileCache cache = Make();
  EXPECT_FALSE(cache.Find(KeyOf(1)));
  cache.Store(KeyOf(1), Sample());
  const auto found = cache.Find(KeyOf(1));
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->from_cache);
  EXPECT_EQ(found->status, CompileOutcome::Status::kOk);
  EXPECT_EQ(found->log, Sample().log);
  EXPECT_EQ(found->ptx, Sample().ptx);
  EXPECT_EQ(found->cubin, Sample().cubin);
  EXPECT_EQ(found->time.count(), 12.5);
  ASSERT_EQ(found->entries.size(), 2u);
  EXPECT_EQ(found->entries[0].name, "k");
  EXPECT_EQ(found->entries[0].param_sizes, (std::vector<std::size_t>{8, 8, 4}));
  EXPECT_EQ(found->entries[0].registers, 32);
  EXPECT_EQ(found->entries[0].spill_stores, 1);
  EXPECT_EQ(found->entries[0].spill_loads, 2);
  EXPECT_EQ(found->entries[0].stack_bytes, 3);
  EXPECT_EQ(found->entries[0].static_shared, 4096);
  EXPECT_EQ(found->entries[0].max_threads, 256);
  EXPECT_EQ(found->entries[1].name, "second");
}

TEST_F(CompileCacheTest, EntriesLieUnderTheFirstTwoDigitsOfTheirKey) {
  CompileCache cache = Make();
  const std::string hex = KeyOf(1).Hex();
  EXPECT_EQ(cache.PathOf(KeyOf(1)), folder_.path() / "cache" / hex.substr(0, 2) / (hex + ".gkc"));
}

TEST_F(CompileCacheTest, CompileErrorsAreKept) {
  CompileCache cache = Make();
  CompileOutcome outcome;
  outcome.status = CompileOutcome::Status::kError;
  outcome.log = "kernel.cu(3): error: no\n";
  cache.Store(KeyOf(1), outcome);
  const auto found = cache.Find(KeyOf(1));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->status, CompileOutcome::Status::kError);
  EXPECT_EQ(found->log, "kernel.cu(3): error: no\n");
}

TEST_F(CompileCacheTest, TimeoutsMemoryAndCrashesAreNotKept) {
  CompileCache cache = Make();
  for (const auto status : {CompileOutcome::Status::kTimeout, CompileOutcome::Status::kMemory,
                            CompileOutcome::Status::kCrashed}) {
    CompileOutcome outcome = Sample();
    outcome.status = status;
    cache.Store(KeyOf(1), outcome);
    EXPECT_FALSE(cache.Find(KeyOf(1))) << Name(status);
  }
}

TEST_F(CompileCacheTest, TheKeyDependsOnEverythingThatCounts) {
  CompileRequest request{"source", "sm_90", {"-DA"}};
  const Hash key = CompileCache::Key("NVRTC 13.0", request, {"-v"});
  EXPECT_EQ(key, CompileCache::Key("NVRTC 13.0", request, {"-v"}));
  EXPECT_NE(key, CompileCache::Key("NVRTC 12.9", request, {"-v"}));
  EXPECT_NE(key, CompileCache::Key("NVRTC 13.0", request, {"-w"}));
  EXPECT_NE(key, CompileCache::Key("NVRTC 13.0", {"source2", "sm_90", {"-DA"}}, {"-v"}));
  EXPECT_NE(key, CompileCache::Key("NVRTC 13.0", {"source", "sm_90a", {"-DA"}}, {"-v"}));
  EXPECT_NE(key, CompileCache::Key("NVRTC 13.0", {"source", "sm_90", {"-DB"}}, {"-v"}));
  EXPECT_NE(key, CompileCache::Key("NVRTC 13.0", {"source", "sm_90", {}}, {"-v", "-DA"}));
}

TEST_F(CompileCacheTest, EveryFlippedByteIsAMissAndRemovesTheFile) {
  CompileCache cache = Make();
  const fs::path path = cache.PathOf(KeyOf(1));
  cache.Store(KeyOf(1), Sample());
  const std::string good = *ReadFile(path);
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x40);
    Overwrite(path, bad);
    EXPECT_FALSE(cache.Find(KeyOf(1))) << "byte " << i;
    EXPECT_FALSE(fs::exists(path)) << "byte " << i;
  }
}

TEST_F(CompileCacheTest, EveryCutFileIsAMiss) {
  CompileCache cache = Make();
  const fs::path path = cache.PathOf(KeyOf(1));
  cache.Store(KeyOf(1), Sample());
  const std::string good = *ReadFile(path);
  for (std::size_t size = 0; size < good.size(); ++size) {
    Overwrite(path, std::string_view(good).substr(0, size));
    EXPECT_FALSE(cache.Find(KeyOf(1))) << size;
  }
  cache.Store(KeyOf(1), Sample());
  EXPECT_TRUE(cache.Find(KeyOf(1)));
}

TEST_F(CompileCacheTest, AFileUnderTheWrongKeyIsAMiss) {
  CompileCache cache = Make();
  cache.Store(KeyOf(1), Sample());
  fs::create_directories(cache.PathOf(KeyOf(2)).parent_path());
  fs::copy_file(cache.PathOf(KeyOf(1)), cache.PathOf(KeyOf(2)));
  EXPECT_FALSE(cache.Find(KeyOf(2)));
  EXPECT_TRUE(cache.Find(KeyOf(1)));
}

TEST_F(CompileCacheTest, ManyWritersAndReadersShareOneFolder) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      CompileCache cache(folder_.path() / "cache", kLimit, nullptr);  // as another process has it
      for (int i = 0; i < 60; ++i) {
        const int id = i % 20;
        const auto found = cache.Find(KeyOf(id));
        if (found && found->ptx != "ptx " + std::to_string(id)) ++wrong;
        cache.Store(KeyOf(id), Sample(id));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  CompileCache cache = Make();
  for (int id = 0; id < 20; ++id) {
    const auto found = cache.Find(KeyOf(id));
    ASSERT_TRUE(found) << id;
    EXPECT_EQ(found->ptx, "ptx " + std::to_string(id));
  }
  EXPECT_EQ(CountFiles(folder_.path()), 20u);  // no temporary file is left
}

TEST_F(CompileCacheTest, AWriterKilledAtAnyInstantLeavesOnlyWholeEntries) {
  const fs::path folder = folder_.path() / "cache";
  for (int kill = 0; kill < 12; ++kill) {
    const pid_t writer = ::fork();
    ASSERT_GE(writer, 0);
    if (writer == 0) {
      CompileCache cache(folder, kLimit, nullptr);
      CompileOutcome large = Sample();
      large.cubin.resize(300000);
      for (std::size_t i = 0; i < large.cubin.size(); ++i) {
        large.cubin[i] = static_cast<char>(i * i >> 7);
      }
      for (int i = 0;; ++i) cache.Store(KeyOf(i % 50), large);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(3000 + 1700 * kill));
    ::kill(writer, SIGKILL);
    ::waitpid(writer, nullptr, 0);
  }
  CompileCache cache = Make();
  int found = 0;
  for (int i = 0; i < 50; ++i) {
    const bool exists = fs::exists(cache.PathOf(KeyOf(i)));
    EXPECT_EQ(cache.Find(KeyOf(i)).has_value(), exists) << i;
    found += exists ? 1 : 0;
  }
  EXPECT_GT(found, 0);
}

TEST_F(CompileCacheTest, TrimRemovesTheLongestUnusedFirst) {
  CompileCache cache = Make();
  const auto now = fs::file_time_type::clock::now();
  for (int i = 0; i < 10; ++i) {
    cache.Store(KeyOf(i), Sample());
    fs::last_write_time(cache.PathOf(KeyOf(i)), now - std::chrono::hours(20 - i));
  }
  ASSERT_TRUE(cache.Find(KeyOf(0)));  // used just now
  const auto one = static_cast<std::int64_t>(fs::file_size(cache.PathOf(KeyOf(0))));
  Make(Bytes(one * 5)).Trim();
  EXPECT_TRUE(fs::exists(cache.PathOf(KeyOf(0))));
  EXPECT_FALSE(fs::exists(cache.PathOf(KeyOf(1))));
  EXPECT_FALSE(fs::exists(cache.PathOf(KeyOf(5))));
  EXPECT_TRUE(fs::exists(cache.PathOf(KeyOf(9))));
  EXPECT_LE(CountFiles(folder_.path()), 5u);
}

TEST_F(CompileCacheTest, StoringKeepsTheFolderNearItsLimit) {
  CompileCache probe = Make();
  probe.Store(KeyOf(0), Sample());
  const auto one = static_cast<std::int64_t>(fs::file_size(probe.PathOf(KeyOf(0))));
  CompileCache cache = Make(Bytes(one * 8));
  for (int i = 0; i < 40; ++i) cache.Store(KeyOf(i), Sample());
  EXPECT_LE(CountFiles(folder_.path()), 9u);
  EXPECT_TRUE(cache.Find(KeyOf(39)));
}

TEST_F(CompileCacheTest, LeftoversOfKilledWritersGoAfterAnHour) {
  CompileCache cache = Make();
  cache.Store(KeyOf(1), Sample());
  fs::path old = cache.PathOf(KeyOf(1));
  old += ".tmp1.0";
  fs::path fresh = cache.PathOf(KeyOf(1));
  fresh += ".tmp2.0";
  std::ofstream(old) << "x";
  std::ofstream(fresh) << "x";
  fs::last_write_time(old, fs::file_time_type::clock::now() - std::chrono::hours(2));
  cache.Trim();
  EXPECT_FALSE(fs::exists(old));
  EXPECT_TRUE(fs::exists(fresh));
  EXPECT_TRUE(cache.Find(KeyOf(1)));
}

TEST_F(CompileCacheTest, AFolderThatCannotBeMadeIsToldOnceAndFailsNothing) {
  std::ofstream(folder_.path() / "cache") << "a file where the folder should be";
  CompileCache cache = Make();
  cache.Store(KeyOf(1), Sample());
  cache.Store(KeyOf(2), Sample());
  EXPECT_FALSE(cache.Find(KeyOf(1)));
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_THAT(warnings_[0], HasSubstr("the compile cache is not written"));
}

}  // namespace
}  // namespace grove::codegen
