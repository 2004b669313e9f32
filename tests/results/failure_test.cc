// Disks that are full or read-only, damaged files: clear errors, and the run as it was.
#include <csignal>
#include <cstdio>
#include <fstream>

#include <SQLiteCpp/Database.h>
#include <fmt/format.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/files.h"
#include "tests/results/sample_run.h"

namespace grove::results {
namespace {

using FailureTest = RunsFolder;

// Files of this process cannot grow beyond `bytes` while it lives, as on a full disk or quota.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : old_handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &old_);
    rlimit limit = old_;
    limit.rlim_cur = bytes;
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, old_handler_);
  }

 private:
  void (*old_handler_)(int);
  rlimit old_{};
};

// A tmpfs of one megabyte, where this process may mount one.
class SmallDisk {
 public:
  explicit SmallDisk(std::filesystem::path at) : at_(std::move(at)) {
    std::filesystem::create_directories(at_);
    mounted_ = ::mount("tmpfs", at_.c_str(), "tmpfs", 0, "size=2m") == 0;
  }
  ~SmallDisk() {
    if (mounted_) ::umount2(at_.c_str(), MNT_DETACH);
  }
  bool mounted() const { return mounted_; }
  bool MakeReadOnly() const {
    return ::mount("tmpfs", at_.c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, "size=2m") == 0;
  }

 private:
  std::filesystem::path at_;
  bool mounted_ = false;
};

// Text that zstd cannot make small.
std::string Noise(std::size_t bytes, std::uint64_t state) {
  std::string text(bytes, '\0');
  for (char& c : text) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    c = static_cast<char>(state >> 56);
  }
  return text;
}

// Records candidates with large programs until one fails; the error, and how many were stored.
std::pair<Error, int> FillUp(Store& store) {
  const RoundId round = store.BeginRound(0).value();
  const CandidateId seed = store.RecordSeed({0, "s", "{}", {}}).value();
  const IdeaId idea =
      store.RecordIdeas(round, seed, CallId(), std::vector<IdeaDraft>{{"t", "c", "r"}}).value()[0];
  for (int i = 1; i < 1000; ++i) {
    const auto id = store.RequestCandidate(idea, i);
    if (!id) return {id.error(), i - 1};
    const auto received =
        store.ReceiveProgram(*id, {0, Noise(50000, static_cast<std::uint64_t>(i)), "{}", {}});
    if (!received) return {received.error(), i - 1};
  }
  return {Error{ErrorCode::kInternal, "the disk never filled up"}, 1000};
}

void ExpectWhole(const RunData& data, int stored) {
  int received = 0;
  for (const CandidateRow& c : data.candidates) {
    if (c.idea && c.status == CandidateStatus::kReceived) ++received;
  }
  EXPECT_EQ(received, stored);
}

TEST_F(FailureTest, AFileThatCannotGrowIsAResourceErrorAndTheRunGoesOnAfterwards) {
  auto store = Create("a");
  std::pair<Error, int> end;
  {
    const FileSizeLimit limit(1 << 20);
    end = FillUp(*store);
  }
  EXPECT_EQ(end.first.code, ErrorCode::kResource) << end.first.message;
  EXPECT_NE(end.first.message.find("run.db"), std::string::npos) << end.first.message;
  EXPECT_GT(end.second, 0);
  ExpectWhole(Load("a"), end.second);
  const Status whole = CheckStore(runs_ / "a");
  EXPECT_TRUE(whole) << whole.error().message;
  // The same store object, once there is room again.
  EXPECT_TRUE(store->AddEvent("info", "space freed"));
  EXPECT_TRUE(RunSampleSearch(*store, {.rounds = 1}));
  store.reset();
  EXPECT_TRUE(CheckStore(runs_ / "a"));
  EXPECT_EQ(Load("a").run.status, RunStatus::kFinished);
}

TEST_F(FailureTest, AFullDiskSaysSoAndKeepsWhatWasStored) {
  const SmallDisk disk(runs_);
  if (!disk.mounted()) GTEST_SKIP() << "needs the right to mount a tmpfs";
  auto store = Create("a");
  const auto [error, stored] = FillUp(*store);
  EXPECT_EQ(error.code, ErrorCode::kResource) << error.message;
  EXPECT_NE(error.message.find("full"), std::string::npos) << error.message;
  EXPECT_GT(stored, 0);
  ExpectWhole(Load("a"), stored);
  const Status whole = CheckStore(runs_ / "a");
  EXPECT_TRUE(whole) << whole.error().message;
}

TEST_F(FailureTest, AReadOnlyDiskIsReadAndNotWritten) {
  const SmallDisk disk(runs_);
  if (!disk.mounted()) GTEST_SKIP() << "needs the right to mount a tmpfs";
  ASSERT_TRUE(RunSampleSearch(*Create("a"), {.rounds = 1}));
  ASSERT_TRUE(disk.MakeReadOnly());
  const auto made = Store::Create(runs_, SampleStart("b"), clock_);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::kResource);
  EXPECT_NE(made.error().message.find("Read-only"), std::string::npos) << made.error().message;
  const auto opened = Store::Open(runs_, "a", clock_);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, ErrorCode::kResource) << opened.error().message;
  EXPECT_EQ(Load("a").run.status, RunStatus::kFinished);
  EXPECT_TRUE(CheckStore(runs_ / "a"));
}

// Root may write everywhere but where the kernel makes the files.
TEST_F(FailureTest, AFolderThatTakesNoFilesIsAResourceError) {
  const auto made = Store::Create("/proc/self", SampleStart("a"), clock_);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::kResource);
  EXPECT_NE(made.error().message.find("/proc/self/a"), std::string::npos);
}

TEST_F(FailureTest, AFileInThePlaceOfTheRunsFolderIsAResourceError) {
  std::filesystem::create_directories(runs_);
  ASSERT_TRUE(WriteFileAtomic(runs_ / "file", "x"));
  const auto made = Store::Create(runs_ / "file", SampleStart("a"), clock_);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::kResource);
}

TEST_F(FailureTest, AFileThatIsNoDatabaseIsNamedAndLeftAlone) {
  std::filesystem::create_directories(runs_ / "a");
  const std::string content =
      "my diary, which happens to be called run.db " + std::string(5000, 'x');
  ASSERT_TRUE(WriteFileAtomic(runs_ / "a" / "run.db", content));
  const auto opened = Store::Open(runs_, "a", clock_);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, ErrorCode::kInvalidInput) << opened.error().message;
  EXPECT_FALSE(Store::Create(runs_, SampleStart("a"), clock_));
  EXPECT_FALSE(Reader::Open(runs_ / "a"));
  EXPECT_FALSE(CheckStore(runs_ / "a"));
  EXPECT_EQ(ReadFile(runs_ / "a" / "run.db").value(), content);
}

TEST_F(FailureTest, ADamagedPageIsFoundByTheCheck) {
  ASSERT_TRUE(RunSampleSearch(*Create("a"), {}));
  const auto file = runs_ / "a" / "run.db";
  ASSERT_TRUE(CheckStore(runs_ / "a"));
  const auto size = std::filesystem::file_size(file);
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  for (auto at = static_cast<std::streamoff>(size / 3); at < static_cast<std::streamoff>(size);
       at += 4096) {
    stream.seekp(at);
    stream << std::string(64, '\x5a');
  }
  stream.close();
  const Status check = CheckStore(runs_ / "a");
  ASSERT_FALSE(check);
  EXPECT_EQ(check.error().code, ErrorCode::kInternal) << check.error().message;
}

// Each statement breaks one promise behind the store's back; the check names it.
struct Damage {
  const char* name;
  const char* sql;
  const char* said;
};
class CheckTest : public RunsFolder, public ::testing::WithParamInterface<Damage> {
 protected:
  void SetUp() override {
    runs_ = std::filesystem::path(::testing::TempDir()) /
            fmt::format("CheckTest.{}.{}", GetParam().name, ::getpid());
    std::filesystem::remove_all(runs_);
  }
};

TEST_P(CheckTest, FindsIt) {
  ASSERT_TRUE(RunSampleSearch(*Create("a"), {}));
  ASSERT_TRUE(CheckStore(runs_ / "a"));
  {
    SQLite::Database database((runs_ / "a" / "run.db").string(), SQLite::OPEN_READWRITE);
    database.exec("PRAGMA ignore_check_constraints = 1");
    ASSERT_GT(database.exec(GetParam().sql), 0);
  }
  const Status check = CheckStore(runs_ / "a");
  ASSERT_FALSE(check);
  EXPECT_NE(check.error().message.find(GetParam().said), std::string::npos)
      << check.error().message;
}

INSTANTIATE_TEST_SUITE_P(
    Damages, CheckTest,
    ::testing::Values(
        Damage{"NoStages",
               "DELETE FROM stages WHERE candidate = (SELECT min(id) FROM candidates WHERE "
               "verdict IS NOT NULL AND parent IS NOT NULL)",
               "without any stage"},
        Damage{"Orphan", "INSERT INTO stages VALUES (999, 0, 'parse', '', 'pass', 1.0, 0, 0)",
               "refers to nothing in candidates"},
        Damage{"LostText", "DELETE FROM texts WHERE hash = (SELECT reply FROM calls WHERE id = 2)",
               "refers to nothing in texts"},
        Damage{"OtherText",
               "UPDATE texts SET content = (SELECT content FROM texts t WHERE t.size_bytes = "
               "texts.size_bytes AND t.hash <> texts.hash) WHERE hash = (SELECT a.hash FROM texts "
               "a JOIN texts b ON a.size_bytes = b.size_bytes AND a.hash < b.hash LIMIT 1)",
               "does not have this hash"},
        Damage{"BrokenText", "UPDATE texts SET content = x'00010203' WHERE rowid = 3",
               "is damaged"},
        Damage{"HugeText", "UPDATE texts SET size_bytes = 1 << 60 WHERE rowid = 3",
               "impossible size"},
        Damage{"HalfVerdict",
               "UPDATE candidates SET status = 'received', verdict = NULL WHERE id = (SELECT "
               "min(id) FROM candidates WHERE verdict IS NOT NULL AND parent IS NOT NULL)",
               "has stages without a verdict"},
        Damage{"NoReply", "UPDATE calls SET reply = NULL WHERE id = 1",
               "without a reply or its end"},
        Damage{"Renamed",
               "UPDATE candidates SET name = 'r9.i9.b9' WHERE id = (SELECT min(id) FROM "
               "candidates WHERE parent IS NOT NULL)",
               "not its place in the tree"},
        Damage{"LostSample", "DELETE FROM samples WHERE candidate = 1 AND ordinal = 1",
               "gaps in its samples"},
        Damage{"OpenLedger", "UPDATE ledger SET settled = NULL WHERE key LIKE 'idea %'",
               "reservation left open"},
        Damage{"UnknownWord", "UPDATE stages SET stage = 'mystery' WHERE candidate = 1",
               "unknown word 'mystery'"},
        Damage{"NoRun", "DELETE FROM run", "the run row is missing"}),
    [](const auto& damage) { return damage.param.name; });

}  // namespace
}  // namespace grove::results
