#include "llm/playbook/catalogue.h"

#include <deque>
#include <filesystem>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "base/files.h"
#include "base/share.h"

namespace grove::llm::playbook {
namespace {

const Catalogue& Shipped() {
  static const Catalogue catalogue = [] {
    auto loaded = Catalogue::Load(ShareFolder("playbook"));
    EXPECT_TRUE(loaded) << loaded.error().message;
    return loaded ? std::move(*loaded) : Catalogue();
  }();
  return catalogue;
}

struct Shape {
  std::string op;
  Facts facts;
};
// Scored shapes, and others that bring the remaining entries to bear.
const std::vector<Shape>& Shapes() {
  static const std::vector<Shape> shapes = {
      {"softmax",
       {{"rows", 4096}, {"row", 65536}, {"rows_max", 4096}, {"row_max", 65536}, {"row_kb", 256}}},
      {"softmax",
       {{"rows", 8192}, {"row", 1024}, {"rows_max", 8192}, {"row_max", 1024}, {"row_kb", 4}}},
      {"softmax",
       {{"rows", 8}, {"row", 1 << 20}, {"rows_max", 8}, {"row_max", 1 << 20}, {"row_kb", 4096}}},
      {"layernorm",
       {{"rows", 16},
        {"row", 4194304},
        {"rows_max", 130},
        {"row_max", 4194304},
        {"row_kb", 16384}}},
      {"layernorm",
       {{"rows", 4096}, {"row", 8192}, {"rows_max", 4096}, {"row_max", 8192}, {"row_kb", 32}}},
      {"matmul", {{"m", 4096}, {"n", 4096}, {"k", 4096}, {"rows", 4096}, {"row", 4096}}},
      {"qr",
       {{"batch", 20}, {"n", 32}, {"rows", 20}, {"row", 32}, {"rows_max", 640}, {"row_max", 4096}}},
      {"matmul",
       {{"m", 2048}, {"n", 2048}, {"k", 2048}, {"rows", 2048}, {"row", 2048}, {"bits", 16}}},
      {"matmul",
       {{"m", 4096},
        {"n", 4096},
        {"k", 4096},
        {"rows", 4096},
        {"row", 4096},
        {"bits", 32},
        {"class_bits", 24},
        {"hopper", 1}}},
      {"fused_mlp",
       {{"b", 2048},
        {"d", 2048},
        {"h", 5504},
        {"rows", 2048},
        {"row", 2048},
        {"bits", 16},
        {"hopper", 1}}},
      {"fused_mlp",
       {{"b", 2048}, {"d", 2048}, {"h", 5504}, {"rows", 2048}, {"row", 2048}, {"bits", 16}}},
      {"rmsnorm",
       {{"rows", 4096}, {"row", 4096}, {"rows_max", 4096}, {"row_max", 40001}, {"bits", 16}}},
      {"reduce",
       {{"rows", 8192}, {"row", 8192}, {"rows_max", 8192}, {"row_max", 32768}, {"bits", 16}}},
      {"cross_entropy",
       {{"rows", 4096}, {"row", 32000}, {"rows_max", 4096}, {"row_max", 50257}, {"bits", 16}}},
      {"rotary_embedding", {{"d", 128}, {"rows", 65536}, {"row", 128}, {"bits", 16}}},
      {"attention", {{"d", 128}, {"rows", 524288}, {"row", 128}, {"bits", 16}}},
      {"attention",
       {{"s", 512}, {"d", 1024}, {"rows", 524288}, {"row", 1024}, {"bits", 16}, {"hopper", 1}}},
      {"flash_attention", {{"d", 64}, {"rows", 65536}, {"row", 64}, {"bits", 16}}},
      {"flash_attention", {{"d", 64}, {"rows", 65536}, {"row", 64}, {"bits", 16}, {"hopper", 1}}},
      {"conv2d",
       {{"b", 100},
        {"c", 3},
        {"h", 224},
        {"w", 224},
        {"f", 96},
        {"r", 11},
        {"s", 4},
        {"p", 2},
        {"rows", 100},
        {"row", 96},
        {"bits", 32},
        {"class_bits", 24},
        {"hopper", 1}}},
      {"conv2d", {{"f", 96}, {"rows", 100}, {"row", 96}, {"bits", 32}}},
      {"conv2d_relu_maxpool", {{"f", 96}, {"rows", 100}, {"row", 96}, {"bits", 32}}},
  };
  return shapes;
}

// All traits reachable from a seed by at most `depth` transformations.
std::set<Traits> Reachable(const Shape& shape, int depth, std::set<std::string>* used) {
  std::set<Traits> seen;
  std::deque<std::pair<Traits, int>> queue;
  for (const char* start : {"naive", "block", "tile"}) {
    queue.push_back({Traits{{"op", shape.op}, {"strategy", start}}, 0});
  }
  while (!queue.empty()) {
    const auto [traits, steps] = queue.front();
    queue.pop_front();
    if (steps == depth) continue;
    for (const Entry& entry : Shipped().entries()) {
      if (!Shipped().Applies(entry, traits, shape.facts)) continue;
      if (used != nullptr) used->insert(entry.id);
      for (const Traits& next : Shipped().Apply(entry, traits, shape.facts)) {
        if (seen.insert(next).second) queue.push_back({next, steps + 1});
      }
    }
  }
  return seen;
}

TEST(Catalogue, EveryEntryAppliesSomewhere) {
  std::set<std::string> used;
  for (const Shape& shape : Shapes()) Reachable(shape, 5, &used);
  for (const Entry& entry : Shipped().entries()) EXPECT_TRUE(used.contains(entry.id)) << entry.id;
}

TEST(Catalogue, EveryReachableProgramRendersAndCarriesItsTraits) {
  for (const Shape& shape : Shapes()) {
    const int depth = shape.facts.contains("hopper") ? 2 : 3;  // which has the others' besides
    for (const Traits& traits : Reachable(shape, depth, nullptr)) {
      const auto program = Shipped().Render(traits, shape.facts);
      ASSERT_TRUE(program) << program.error().message;
      EXPECT_EQ(TraitsOf(program->source, ""), traits);
      EXPECT_EQ(program->source.find("{{"), std::string::npos) << TraitsLine(traits);
      EXPECT_EQ(program->plan.find("{{"), std::string::npos) << TraitsLine(traits);
      EXPECT_NE(program->source.find("extern \"C\" __global__"), std::string::npos);
    }
  }
}

// Round after round the first applicable transformation: the winner of one is the parent of the
// next.
TEST(Catalogue, TransformationsComposeAtLeastFourDeep) {
  for (const Shape& shape : Shapes()) {
    Traits traits = {{"op", shape.op}, {"strategy", "naive"}};
    std::set<std::string> steps;
    for (int round = 0; round < 8; ++round) {
      for (const Entry& entry : Shipped().entries()) {
        if (steps.contains(entry.id) || !Shipped().Applies(entry, traits, shape.facts)) continue;
        traits = Shipped().Apply(entry, traits, shape.facts).front();
        steps.insert(entry.id);
        break;
      }
    }
    EXPECT_GE(steps.size(), 4u) << shape.op << " row " << shape.facts.at("row");
  }
}

TEST(Catalogue, ATemplateThatIsWrittenForFp32IsNotOfferedFor16Bits) {
  const Facts facts = {{"m", 2048}, {"n", 2048}, {"k", 2048}, {"bits", 16}};
  for (const Traits& traits : Reachable({"matmul", facts}, 4, nullptr)) {
    EXPECT_EQ(traits.at("strategy"), "mma") << TraitsLine(traits);
  }
}

// TMA and wgmma are for a GPU of compute capability 9.0 and for rows of whole 16 bytes.
TEST(Catalogue, HopperProgramsAreOfferedOnlyWhereTheyCanRun) {
  const auto offered = [](const std::string& op, Facts facts) {
    std::size_t count = 0;
    for (const Traits& traits : Reachable({op, std::move(facts)}, 3, nullptr)) {
      count += traits.at("strategy") == "wgmma" ? 1 : 0;
    }
    return count;
  };
  const Facts product = {{"m", 2048}, {"n", 2048}, {"k", 2048}, {"bits", 16}, {"hopper", 1}};
  const Facts layer = {{"b", 2048}, {"d", 2048}, {"h", 5504}, {"bits", 16}, {"hopper", 1}};
  const auto with = [](Facts facts, const char* name, std::int64_t value) {
    facts[name] = value;
    return facts;
  };
  EXPECT_GT(offered("matmul", product), 10u);
  EXPECT_GT(offered("fused_mlp", layer), 10u);
  EXPECT_EQ(offered("matmul", with(product, "hopper", 0)), 0u);
  EXPECT_EQ(offered("fused_mlp", with(layer, "hopper", 0)), 0u);
  EXPECT_EQ(offered("matmul", with(product, "bits", 32)), 0u);
  EXPECT_EQ(offered("matmul", with(product, "n", 2047)), 0u);
  EXPECT_EQ(offered("matmul", with(product, "k", 2044)), 0u);
  EXPECT_GT(offered("matmul", with(product, "m", 2047)), 10u);
  EXPECT_EQ(offered("fused_mlp", with(layer, "h", 5500)), 0u);
  const Facts heads = {{"d", 128}, {"bits", 16}, {"hopper", 1}};
  EXPECT_GT(offered("attention", heads), 2u);
  EXPECT_GT(offered("flash_attention", heads), 4u);
  EXPECT_EQ(offered("attention", with(heads, "hopper", 0)), 0u);
  EXPECT_EQ(offered("attention", with(heads, "d", 1024)), 0u);
  EXPECT_EQ(offered("attention", with(heads, "d", 100)), 0u);
}

// Heads above 128 columns have a Hopper program of their own, while all scores of a query fit the
// registers; those above 256 no transformation that changes only the kernel of narrower ones.
TEST(Catalogue, WideHeadsAreOfferedWhatServesThem) {
  const auto offered = [](const Facts& facts) {
    std::map<std::string, std::size_t> count;
    for (const Traits& traits : Reachable({"attention", facts}, 3, nullptr)) {
      ++count[traits.at("strategy")];
    }
    return count;
  };
  const Facts wide = {{"s", 512}, {"d", 1024}, {"bits", 16}, {"hopper", 1}};
  const auto with = [&](const char* name, std::int64_t value) {
    Facts facts = wide;
    facts[name] = value;
    return facts;
  };
  EXPECT_GT(offered(wide)["wgmma_wide"], 2u);
  EXPECT_EQ(offered(wide)["mma"], 1u);
  EXPECT_EQ(offered(wide)["wgmma"], 0u);
  EXPECT_EQ(offered(with("hopper", 0)).size(), 1u);
  EXPECT_EQ(offered(with("s", 513))["wgmma_wide"], 0u);
  EXPECT_EQ(offered(with("d", 1020))["wgmma_wide"], 0u);
  EXPECT_EQ(offered(with("d", 128))["wgmma_wide"], 0u);
  EXPECT_GT(offered(with("d", 136))["wgmma_wide"], 2u);
  EXPECT_GT(offered(with("d", 136))["mma"], 4u);
}

// Operands in two fp16 parts: for fp32 products that are worth two more launches, up to class fp32.
TEST(Catalogue, SplitOperandsAreOfferedForLargeFp32ProductsOfClassFp32) {
  const auto offered = [](Facts facts) {
    std::size_t count = 0;
    for (const Traits& traits : Reachable({"matmul", std::move(facts)}, 3, nullptr)) {
      count += traits.at("strategy") == "wgmma_split" ? 1 : 0;
    }
    return count;
  };
  const Facts product = {{"m", 4095},   {"n", 4093},  {"k", 4097},        {"rows", 4095},
                         {"row", 4093}, {"bits", 32}, {"class_bits", 24}, {"hopper", 1}};
  const auto with = [&](const char* name, std::int64_t value) {
    Facts facts = product;
    facts[name] = value;
    return facts;
  };
  EXPECT_GT(offered(product), 5u);
  EXPECT_GT(offered(with("class_bits", 11)), 5u);
  EXPECT_EQ(offered(with("class_bits", 53)), 0u);
  EXPECT_EQ(offered(with("hopper", 0)), 0u);
  EXPECT_EQ(offered(with("bits", 16)), 0u);
  EXPECT_EQ(offered(with("k", 64)), 0u);
  EXPECT_EQ(offered(with("rows", 100)), 0u);
}

TEST(Catalogue, SplitPatchesAreOfferedOnHopperWhereTheLinesOfAnImageFit) {
  const auto offered = [](const char* name, std::int64_t value) {
    Facts facts = {{"b", 100}, {"c", 3}, {"h", 224},   {"w", 224},         {"f", 96},    {"r", 11},
                   {"s", 4},   {"p", 2}, {"bits", 32}, {"class_bits", 24}, {"hopper", 1}};
    facts[name] = value;
    std::size_t count = 0;
    for (const Traits& traits : Reachable({"conv2d", facts}, 2, nullptr)) {
      count += traits.at("strategy") == "wgmma_split" ? 1 : 0;
    }
    return count;
  };
  EXPECT_GT(offered("b", 64), 2u);
  EXPECT_EQ(offered("hopper", 0), 0u);
  EXPECT_EQ(offered("class_bits", 53), 0u);
  EXPECT_EQ(offered("f", 16), 0u);
  EXPECT_EQ(offered("c", 64), 0u);
}

TEST(Catalogue, AChildNeverEqualsItsParent) {
  for (const Shape& shape : Shapes()) {
    for (const Traits& traits : Reachable(shape, 2, nullptr)) {
      for (const Entry& entry : Shipped().entries()) {
        if (!Shipped().Applies(entry, traits, shape.facts)) continue;
        for (const Traits& child : Shipped().Apply(entry, traits, shape.facts))
          EXPECT_NE(child, traits);
      }
    }
  }
}

TEST(Catalogue, AnEarlierGainIsKeptByLaterTransformations) {
  const Shape& shape = Shapes()[0];
  const auto apply = [&](const char* id, const Traits& traits) {
    for (const Entry& entry : Shipped().entries()) {
      if (entry.id == id) return Shipped().Apply(entry, traits, shape.facts).at(0);
    }
    return Traits();
  };
  Traits traits = apply("row.vectorise", {{"op", "softmax"}, {"strategy", "naive"}});
  traits = apply("softmax.fast_exponential", traits);
  traits = apply("row.resident", traits);
  EXPECT_EQ(traits.at("strategy"), "resident");
  EXPECT_EQ(traits.at("vec"), "4");
  EXPECT_EQ(traits.at("fastexp"), "1");
}

TEST(Catalogue, SharedMemoryStaysWithinTheLimitOfABlock) {
  const Shape& shape = Shapes()[0];
  for (const Traits& traits : Reachable(shape, 4, nullptr)) {
    if (traits.at("strategy") != "resident") continue;
    const int threads = std::stoi(traits.at("threads")), held = std::stoi(traits.at("held"));
    EXPECT_LE((65536 / threads - held) * threads * 4, 232448 - 1024) << TraitsLine(traits);
  }
}

TEST(Catalogue, RationalesAreFilledWithTheTasksNumbers) {
  for (const Entry& entry : Shipped().entries()) {
    const Facts facts = {{"rows", 7}, {"row", 13}, {"row_kb", 1}, {"k", 5}};
    EXPECT_EQ(Shipped().Rationale(entry, facts).find("{{"), std::string::npos);
    EXPECT_EQ(Shipped().GeneralRationale(entry).find("{{"), std::string::npos);
    EXPECT_GT(entry.rationale.size(), 100u) << entry.id;
  }
}

// --- broken catalogues
// ------------------------------------------------------------------------------

class BrokenCatalogue : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) /
              ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::create_directories(folder_);
    ASSERT_TRUE(WriteFileAtomic(folder_ / "t.cu.mustache", "x\n"));
    ASSERT_TRUE(WriteFileAtomic(folder_ / "t.json.mustache", "{}\n"));
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static constexpr const char* kHead = R"(
[[op]]
name = "o"
family = "f"
tensors = ["x"]
rows = ["M"]
row = ["N"]
[[template]]
op = "o"
strategy = "s"
file = "t"
traits = { a = 1 }
)";
  static constexpr const char* kEntry = R"(
[[entry]]
id = "i"
ops = ["o"]
title = "T"
category = "memory access"
rationale = "r"
expected_gain = 2
needs = ["strategy=naive"]
sets = { strategy = "s" }
choices = [{ a = 2 }]
)";
  // The message of loading `text`; empty when it loads.
  std::string Problem(const std::string& text) {
    EXPECT_TRUE(WriteFileAtomic(folder_ / "c.toml", text));
    const auto loaded = Catalogue::Load(folder_);
    return loaded ? std::string() : loaded.error().message;
  }
  static std::string Replace(std::string text, const std::string& from, const std::string& to) {
    return text.replace(text.find(from), from.size(), to);
  }
  std::filesystem::path folder_;
};

TEST_F(BrokenCatalogue, TheUnbrokenOneLoads) {
  EXPECT_EQ(Problem(std::string(kHead) + kEntry), "");
}

TEST_F(BrokenCatalogue, ASyntaxErrorNamesFileAndLine) {
  EXPECT_NE(Problem("[[op]\n").find("c.toml: line 1"), std::string::npos);
}

TEST_F(BrokenCatalogue, AnUnknownFieldIsNamedWithTheNearest) {
  const std::string problem = Problem(kHead + Replace(kEntry, "needs =", "need ="));
  EXPECT_NE(problem.find("need"), std::string::npos) << problem;
  EXPECT_NE(problem.find("needs"), std::string::npos) << problem;
}

TEST_F(BrokenCatalogue, WrongValuesAreNamed) {
  EXPECT_NE(Problem(kHead + Replace(kEntry, "memory access", "magic")).find("magic"),
            std::string::npos);
  EXPECT_NE(Problem(kHead + Replace(kEntry, "[\"o\"]", "[\"p\"]")).find("unknown op"),
            std::string::npos);
  EXPECT_NE(Problem(kHead + Replace(kEntry, "{ a = 2 }", "{ b = 2 }")).find("\"b\""),
            std::string::npos);
  EXPECT_NE(
      Problem(kHead + Replace(kEntry, "expected_gain = 2", "expected_gain = 1")).find("above 1"),
      std::string::npos);
  EXPECT_NE(Problem(kHead + Replace(kEntry, "strategy=naive", "strategy")).find("condition"),
            std::string::npos);
  EXPECT_NE(Problem(std::string(kHead) + kEntry + kEntry).find("twice"), std::string::npos);
}

TEST_F(BrokenCatalogue, ATensorMayNameItsOwnType) {
  const std::string text = Replace(kHead, "[\"x\"]", "[\"x\", \"target:i64\"]") + kEntry;
  ASSERT_EQ(Problem(text), "");
  const auto loaded = Catalogue::Load(folder_);
  ASSERT_TRUE(loaded);
  const Op& op = loaded->ops().at(0);
  ASSERT_EQ(op.tensors.size(), 2u);
  EXPECT_EQ(op.tensors[0].type, "");
  EXPECT_EQ(op.tensors[1].name, "target");
  EXPECT_EQ(op.tensors[1].type, "i64");
  EXPECT_EQ(op.types, std::vector<std::string>{"f32"});  // when none are named
}

TEST_F(BrokenCatalogue, AMissingTemplateFileIsNotFound) {
  EXPECT_NE(Problem(Replace(kHead, "\"t\"", "\"gone\"")).find("gone.cu.mustache"),
            std::string::npos);
}

TEST_F(BrokenCatalogue, AFolderWithoutCatalogueIsNotFound) {
  EXPECT_EQ(Catalogue::Load(folder_).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(Catalogue::Load(folder_ / "no").error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace grove::llm::playbook
