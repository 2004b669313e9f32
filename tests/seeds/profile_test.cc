// Profiles as torch.profiler and nsys write them, whole and broken, and what is ranked of them.
#include <filesystem>
#include <fstream>
#include <string>

#include <SQLiteCpp/Database.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "seeds/profile/profile.h"
#include "seeds/profile/ranking.h"

namespace grove::profile {
namespace {

using ::testing::HasSubstr;

class ProfileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) /
              ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path Write(const std::string& name, std::string_view text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return folder_ / name;
  }
  std::filesystem::path folder_;
};

std::string KernelEvent(std::string_view name, double ts, double dur, int external_id = 0,
                        int device = 0, std::string_view category = "kernel") {
  return fmt::format(
      R"({{"ph": "X", "cat": "{}", "name": "{}", "pid": {}, "tid": 7, "ts": {:.3f}, "dur": {:.3f},)"
      R"( "args": {{"External id": {}, "device": {}, "stream": 7, "grid": [4, 2, 1],)"
      R"( "block": [256, 1, 1]}}}})",
      category, name, device, ts, dur, external_id, device);
}
std::string OperationEvent(std::string_view name, int external_id, std::string_view dims,
                           std::string_view types) {
  return fmt::format(
      R"({{"ph": "X", "cat": "cpu_op", "name": "{}", "pid": 1, "tid": 1, "ts": 1, "dur": 5,)"
      R"( "args": {{"External id": {}, "Input Dims": {}, "Input type": {}}}}})",
      name, external_id, dims, types);
}
std::string Trace(std::initializer_list<std::string> events) {
  std::string text = R"({"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H200",)"
                     R"( "numSms": 132}], "traceEvents": [)";
  bool first = true;
  for (const std::string& event : events) {
    text += (first ? "" : ",\n") + event;
    first = false;
  }
  return text + R"(], "traceName": "x"})";
}

Ranking RankOne(Profile profile, RankOptions options = {}) {
  std::vector<Profile> profiles;
  profiles.push_back(std::move(profile));
  auto ranking = Rank(profiles, options);
  EXPECT_TRUE(ranking) << ranking.error().message;
  return ranking ? std::move(*ranking) : Ranking();
}

TEST_F(ProfileTest, ATraceIsReadWithKernelsOperationsAndTheGpu) {
  const auto file =
      Write("t.json",
            Trace({OperationEvent("aten::mm", 5, "[[64, 32], [32, 16]]", R"(["float", "float"])"),
                   KernelEvent("sgemm", 100, 10, 5)}));
  const auto profile = ReadProfile(file);
  ASSERT_TRUE(profile) << profile.error().message;
  EXPECT_EQ(profile->gpu, "NVIDIA H200");
  ASSERT_EQ(profile->events.size(), 1U);
  EXPECT_EQ(profile->events[0].start_ns, 100000);
  EXPECT_EQ(profile->events[0].duration_ns, 10000);
  EXPECT_EQ(profile->kernels[0].name, "sgemm");
  EXPECT_EQ(profile->kernels[0].shape.grid, (std::array<std::int64_t, 3>{4, 2, 1}));
  const Operation& operation = profile->operations[profile->events[0].operation];
  EXPECT_EQ(operation.name, "aten::mm");
  EXPECT_EQ(operation.shapes, "[[64, 32], [32, 16]]");
  EXPECT_EQ(operation.types, R"(["float", "float"])");
}

TEST_F(ProfileTest, AnOperationThatComesAfterItsKernelIsFound) {
  const auto profile = ReadProfile(
      Write("t.json", Trace({KernelEvent("k", 100, 10, 5),
                             OperationEvent("aten::sum", 5, "[[8, 8]]", R"(["float"])")})));
  ASSERT_TRUE(profile);
  EXPECT_EQ(profile->operations[profile->events[0].operation].name, "aten::sum");
}

TEST_F(ProfileTest, ABareListAndAGzipFileAreReadAlike) {
  const std::string list = "[" + KernelEvent("k", 1.5, 2.25) + "]";
  const auto plain = ReadProfile(Write("t.json", list));
  ASSERT_TRUE(plain);
  const auto packed_file = folder_ / "t.json.gz";
  gzFile packed = gzopen(packed_file.c_str(), "wb");
  gzwrite(packed, list.data(), static_cast<unsigned>(list.size()));
  gzclose(packed);
  const auto packed_profile = ReadProfile(packed_file);
  ASSERT_TRUE(packed_profile) << packed_profile.error().message;
  for (const Profile* profile : {&*plain, &*packed_profile}) {
    ASSERT_EQ(profile->events.size(), 1U);
    EXPECT_EQ(profile->events[0].start_ns, 1500);
    EXPECT_EQ(profile->events[0].duration_ns, 2250);
  }
}

std::string HostEvent(std::string_view name, double ts, double dur, int thread,
                      std::string_view dims) {
  return fmt::format(R"({{"ph": "X", "cat": "cpu_op", "name": "{}", "pid": 1, "tid": {}, "ts": {},)"
                     R"( "dur": {}, "args": {{"Input Dims": {}}}}})",
                     name, thread, ts, dur, dims);
}

TEST_F(ProfileTest, WithoutAGpuTheOutermostOperationsAreCountedWhenAsked) {
  const auto file =
      Write("t.json", Trace({HostEvent("aten::_softmax", 12, 6, 1, "[[4, 128]]"),
                             HostEvent("aten::softmax", 10, 10, 1, "[[4, 128], [], []]"),
                             HostEvent("aten::linear", 20, 30, 1, "[[4, 64], [128, 64], [128]]"),
                             HostEvent("aten::addmm", 22, 20, 1, "[[128], [4, 64], [64, 128]]"),
                             HostEvent("aten::softmax", 25, 10, 2, "[[4, 128], [], []]")}));
  const auto unasked = ReadProfile(file);
  ASSERT_TRUE(unasked);
  EXPECT_TRUE(unasked->events.empty());
  auto profile = ReadProfile(file, Counted::kOperations);
  ASSERT_TRUE(profile) << profile.error().message;
  const Ranking ranking = RankOne(std::move(*profile));
  EXPECT_TRUE(ranking.on_cpu);
  EXPECT_EQ(ranking.events, 3);
  ASSERT_EQ(ranking.groups.size(), 2U);
  EXPECT_EQ(ranking.groups[0].name, "aten::linear");
  EXPECT_EQ(ranking.groups[0].total, Nanoseconds(30000));
  EXPECT_EQ(ranking.groups[1].name, "aten::softmax");
  EXPECT_EQ(ranking.groups[1].count, 2);
  ASSERT_TRUE(ranking.groups[1].task);
  EXPECT_EQ(ranking.groups[1].task->task, "softmax");
  // The roofline of a GPU says nothing of a CPU's times.
  EXPECT_TRUE(ranking.groups[1].bound.empty());
  EXPECT_FALSE(ranking.groups[1].floor);
}

TEST_F(ProfileTest, KernelsAreNotPassedOverForOperations) {
  const auto profile = ReadProfile(
      Write("t.json", Trace({HostEvent("aten::mm", 1, 5, 1, "[[4, 4]]"), KernelEvent("k", 3, 2)})),
      Counted::kOperations);
  ASSERT_FALSE(profile);
  EXPECT_EQ(profile.error().code, ErrorCode::kInvalidInput);
  EXPECT_THAT(profile.error().message, HasSubstr("1 kernels of a GPU"));
}

TEST_F(ProfileTest, ATraceThatIsCutOffIsOneErrorThatSaysWhere) {
  const std::string whole = Trace({KernelEvent("k", 1, 2), KernelEvent("k", 4, 2)});
  const auto profile = ReadProfile(Write("t.json", whole.substr(0, whole.size() - 60)));
  ASSERT_FALSE(profile);
  EXPECT_EQ(profile.error().code, ErrorCode::kInvalidInput);
  EXPECT_THAT(profile.error().message, HasSubstr("not a whole trace, byte"));
  EXPECT_THAT(profile.error().message, HasSubstr("after 1 events"));
}

TEST_F(ProfileTest, AGzipFileThatIsCutOffIsOneError) {
  std::string list = "[";
  for (int i = 0; i < 2000; ++i) list += KernelEvent(fmt::format("k{}", i * 7919), i, 1) + ",";
  list.back() = ']';
  const auto file = folder_ / "t.json.gz";
  gzFile packed = gzopen(file.c_str(), "wb");
  gzwrite(packed, list.data(), static_cast<unsigned>(list.size()));
  gzclose(packed);
  std::filesystem::resize_file(file, std::filesystem::file_size(file) / 2);
  const auto profile = ReadProfile(file);
  ASSERT_FALSE(profile);
  EXPECT_THAT(profile.error().message, HasSubstr("cut off"));
}

TEST_F(ProfileTest, ForeignTextIsRefusedInOneLine) {
  for (const char* text : {"", "hello", "{}", "[1, 2", "{\"traceEvents\": 3}", "\x1f\x8b\x01"}) {
    const auto profile = ReadProfile(Write("t.json", text));
    ASSERT_FALSE(profile) << text;
    EXPECT_EQ(profile.error().code, ErrorCode::kInvalidInput);
    EXPECT_EQ(profile.error().message.find('\n'), std::string::npos) << profile.error().message;
  }
  EXPECT_EQ(ReadProfile(folder_ / "nowhere.json").error().code, ErrorCode::kNotFound);
}

TEST_F(ProfileTest, NestingWithoutEndIsRefused) {
  const auto profile = ReadProfile(Write("t.json", "[" + std::string(100000, '[')));
  ASSERT_FALSE(profile);
  EXPECT_THAT(profile.error().message, HasSubstr("64 deep"));
}

TEST_F(ProfileTest, UnknownCategoriesAreCountedAndTimesThatCannotBeArePassedOver) {
  const auto profile = ReadProfile(Write(
      "t.json", Trace({KernelEvent("k", 1, 2), KernelEvent("x", 1, 2, 0, 0, "tpu_op"),
                       KernelEvent("y", 3, 2, 0, 0, "tpu_op"),
                       R"({"ph": "X", "cat": "kernel", "name": "z", "ts": 1e300, "dur": -5})"})));
  ASSERT_TRUE(profile);
  EXPECT_EQ(profile->events.size(), 1U);
  EXPECT_EQ(profile->unknown.at("tpu_op"), 2);
  EXPECT_EQ(profile->unknown.at("event with an impossible time"), 1);
}

TEST_F(ProfileTest, SharesAreOfTheWindowAndConcurrentStreamsCountOnceAsBusy) {
  // 0..10 and 5..15 overlap, then a gap to 20..30: window 30, busy 25.
  const auto ranking =
      RankOne(*ReadProfile(Write("t.json", Trace({KernelEvent("a", 0, 10), KernelEvent("b", 5, 10),
                                                  KernelEvent("a", 20, 10)}))));
  EXPECT_DOUBLE_EQ(ranking.window.count(), 30000);
  EXPECT_DOUBLE_EQ(ranking.busy.count(), 25000);
  EXPECT_NEAR(ranking.idle_share, 5.0 / 30, 1e-12);
  ASSERT_EQ(ranking.groups.size(), 2U);
  EXPECT_EQ(ranking.groups[0].name, "a");
  EXPECT_NEAR(ranking.groups[0].share, 20.0 / 30, 1e-12);
  EXPECT_NEAR(ranking.groups[0].limit, 3, 1e-9);
  EXPECT_NEAR(ranking.groups[0].gain, 1 / (1 - 2.0 / 3 + 1.0 / 3), 1e-9);
  EXPECT_FALSE(ranking.groups[0].stable);
}

TEST_F(ProfileTest, TheFirstStepIsWarmUp) {
  const auto step = [](int n, double ts) {
    return KernelEvent(fmt::format("ProfilerStep#{}", n), ts, 1, 0, 0, "gpu_user_annotation");
  };
  const auto ranking = RankOne(*ReadProfile(
      Write("t.json", Trace({step(0, 0), KernelEvent("slow", 1, 50), step(1, 100),
                             KernelEvent("k", 101, 5), step(2, 200), KernelEvent("k", 201, 5)}))));
  EXPECT_EQ(ranking.warmup, 1);
  EXPECT_EQ(ranking.events, 2);
  EXPECT_EQ(ranking.groups[0].name, "k");
}

TEST_F(ProfileTest, OperationsAreGroupedByShapeAndGetTheirTaskAndBound) {
  const auto mm = OperationEvent("aten::mm", 1, "[[4096, 4096], [4096, 4096]]",
                                 R"(["c10::Half", "c10::Half"])");
  const auto norm =
      OperationEvent("aten::native_layer_norm", 2, "[[512, 1024], [], [1024], [1024], []]",
                     R"(["float", "", "float", "float", ""])");
  const auto ranking = RankOne(
      *ReadProfile(Write("t.json", Trace({mm, norm, KernelEvent("h16816gemm", 0, 200, 1),
                                          KernelEvent("splitKreduce", 200, 10, 1),
                                          KernelEvent("vectorized_layer_norm", 210, 5, 2)}))));
  ASSERT_EQ(ranking.groups.size(), 2U);
  const Group& product = ranking.groups[0];
  ASSERT_TRUE(product.task);
  EXPECT_EQ(product.task->task, "matmul");
  EXPECT_EQ(product.task->dims, "M=4096, N=4096, K=4096");
  EXPECT_EQ(product.task->type, "fp16");
  EXPECT_EQ(product.bound, "compute");
  EXPECT_EQ(product.example, "h16816gemm");
  EXPECT_EQ(product.count, 2);
  ASSERT_TRUE(ranking.groups[1].task);
  EXPECT_EQ(ranking.groups[1].task->task, "layernorm");
  EXPECT_EQ(ranking.groups[1].task->dims, "rows=512, columns=1024");
  EXPECT_EQ(ranking.groups[1].bound, "memory");
}

TEST(GuessTask, EveryKindOfOperationHasItsTask) {
  const auto task = [](const char* name, const char* shapes) {
    const auto guess = GuessTask({name, shapes, R"(["float"])"}, "");
    return guess ? guess->task + " " + guess->dims : std::string("none");
  };
  EXPECT_EQ(task("aten::addmm", "[[8], [32, 64], [64, 8], [], []]"), "matmul M=32, N=8, K=64");
  EXPECT_EQ(task("aten::linear", "[[4, 32, 64], [8, 64], [8]]"), "matmul M=128, N=8, K=64");
  EXPECT_EQ(task("aten::bmm", "[[6, 32, 64], [6, 64, 8]]"), "matmul batch=6, M=32, N=8, K=64");
  EXPECT_EQ(task("aten::_softmax", "[[4, 8, 16]]"), "softmax rows=32, columns=16");
  EXPECT_EQ(task("aten::_log_softmax", "[[32, 1000]]"), "cross_entropy rows=32, columns=1000");
  EXPECT_EQ(task("aten::scaled_dot_product_attention", "[[2, 8, 512, 64], [2, 8, 512, 64]]"),
            "flash_attention B=2, H=8, L=512, D=64");
  EXPECT_EQ(task("aten::_flash_attention_forward", "[[2, 512, 8, 64], [2, 512, 8, 64]]"),
            "flash_attention B=2, H=8, L=512, D=64");
  EXPECT_EQ(task("aten::cudnn_convolution", "[[8, 3, 224, 224], [64, 3, 7, 7]]"),
            "conv2d N=8, C=3, H=224, W=224, filters=64 of 7x7");
  EXPECT_EQ(task("aten::sum", "[[128, 256]]"), "reduce rows=128, columns=256");
  EXPECT_EQ(task("aten::add", "[[4], [4]]"), "none");
  EXPECT_EQ(task("aten::mm", "[[-5, 3], [9999999999999999, 2]]"), "matmul ");
  EXPECT_EQ(task("aten::mm", "not json"), "matmul ");
}

TEST(GuessTask, WithoutAnOperationTheKernelsNameDecides) {
  const auto task = [](const char* kernel) {
    const auto guess = GuessTask({}, kernel);
    return guess ? guess->task : std::string("none");
  };
  EXPECT_EQ(task("sm90_xmma_gemm_f16f16"), "matmul");
  EXPECT_EQ(task("void cunn_SoftMaxForward<4, float>"), "softmax");
  EXPECT_EQ(task("void flash_fwd_kernel<gemm_traits>"), "flash_attention");
  EXPECT_EQ(task("vectorized_elementwise_kernel"), "none");
}

class NsysTest : public ProfileTest {
 protected:
  std::filesystem::path Make(const std::string& columns, const std::string& rows) {
    const auto file = folder_ / "p.sqlite";
    SQLite::Database database(file.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
    database.exec("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)");
    database.exec("INSERT INTO StringIds VALUES (1, 'void sgemm()'), (2, 'softmax')");
    database.exec("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (" + columns + ")");
    if (!rows.empty()) database.exec("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES " + rows);
    return file;
  }
};

TEST_F(NsysTest, KernelsAreReadByColumnNameInAnyOrder) {
  const auto file =
      Make("demangledName INT, \"end\" INT, start INT, gridX INT, blockX INT, deviceId INT",
           "(1, 1500, 1000, 7, 128, 0), (2, 1700, 1600, 3, 64, 0)");
  const auto profile = ReadProfile(file);
  ASSERT_TRUE(profile) << profile.error().message;
  ASSERT_EQ(profile->events.size(), 2U);
  EXPECT_EQ(profile->kernels[profile->events[0].kernel].name, "void sgemm()");
  EXPECT_EQ(profile->kernels[profile->events[0].kernel].shape.grid[0], 7);
  EXPECT_EQ(profile->events[0].duration_ns, 500);
  const auto ranking = RankOne(*profile);
  EXPECT_EQ(ranking.groups[0].task->task, "matmul");
  EXPECT_EQ(ranking.groups[1].task->task, "softmax");
}

TEST_F(NsysTest, MissingTablesAndColumnsAreNamed) {
  const auto without_end = ReadProfile(Make("start INT, demangledName INT", ""));
  ASSERT_FALSE(without_end);
  EXPECT_THAT(without_end.error().message, HasSubstr("has no column end"));
  std::filesystem::remove(folder_ / "p.sqlite");
  {
    SQLite::Database database((folder_ / "p.sqlite").string(),
                              SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
    database.exec("CREATE TABLE OTHER (x INT)");
  }
  const auto foreign = ReadProfile(folder_ / "p.sqlite");
  ASSERT_FALSE(foreign);
  EXPECT_THAT(foreign.error().message, HasSubstr("no table CUPTI_ACTIVITY_KIND_KERNEL"));
}

TEST_F(NsysTest, ADamagedFileIsOneError) {
  const auto file = Make("start INT, \"end\" INT, demangledName INT", "(1, 2, 1)");
  std::filesystem::resize_file(file, 6000);
  const auto profile = ReadProfile(file);
  ASSERT_FALSE(profile);
  EXPECT_EQ(profile.error().code, ErrorCode::kInvalidInput);
}

TEST_F(NsysTest, AProfileWithoutKernelsSaysSo) {
  const auto profile = ReadProfile(Make("start INT, \"end\" INT, demangledName INT", ""));
  ASSERT_TRUE(profile);
  const auto ranking = Rank({*profile}, {});
  ASSERT_FALSE(ranking);
  EXPECT_THAT(ranking.error().message, HasSubstr("holds no kernel"));
}

}  // namespace
}  // namespace grove::profile
