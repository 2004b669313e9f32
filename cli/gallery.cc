#include "cli/gallery.h"

#include <algorithm>
#include <system_error>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/share.h"
#include "base/suggest.h"

namespace grove::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::uintmax_t kLargestFile = std::uintmax_t{16} << 20;

Result<GalleryEntry> ReadEntry(const fs::path& folder) {
  GalleryEntry entry;
  entry.name = folder.filename().string();
  auto source = ReadFile(folder / "program.cu", kLargestFile);
  if (!source) return Failure(std::move(source.error()));
  auto plan = ReadFile(folder / "plan.json", kLargestFile);
  if (!plan) return Failure(std::move(plan.error()));
  auto text = ReadFile(folder / "result.json", kLargestFile);
  if (!text) return Failure(std::move(text.error()));
  entry.source = std::move(*source);
  entry.plan = std::move(*plan);
  const Json json = Json::parse(*text, nullptr, false);
  const auto bad = [&](std::string_view what) {
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("{}: expected {}", (folder / "result.json").string(), what));
  };
  if (!json.is_object()) return bad("one JSON object");
  const auto word = [&](const char* key, std::string& to) {
    const auto at = json.find(key);
    if (at == json.end() || !at->is_string()) return false;
    to = at->get<std::string>();
    return true;
  };
  if (!word("task", entry.task) || !word("suite", entry.suite) || !word("gpu", entry.gpu) ||
      !word("title", entry.title)) {
    return bad("the texts task, title, suite and gpu");
  }
  if (json.contains("demanded_instead") && !word("demanded_instead", entry.demanded)) {
    return bad("a text demanded_instead");
  }
  const auto score = json.find("score_ns");
  if (score == json.end() || !score->is_number() || score->get<double>() <= 0) {
    return bad("a positive number score_ns");
  }
  entry.score = Nanoseconds(score->get<double>());
  const auto cases = json.find("selected_cases");
  if (cases == json.end() || !cases->is_array()) return bad("a list selected_cases");
  for (const Json& one : *cases) {
    if (!one.is_string()) return bad("case names in selected_cases");
    entry.cases.push_back(one.get<std::string>());
  }
  const auto part = [](const Json& from, std::string_view key) -> const Json* {
    const auto at = from.is_object() ? from.find(key) : from.end();
    return at == from.end() ? nullptr : &*at;
  };
  const Json* lineage = part(json, "lineage");
  if (lineage != nullptr && lineage->is_array() && !lineage->empty()) {
    const Json* idea = part(lineage->back(), "idea");
    if (idea != nullptr && idea->is_string()) entry.idea = idea->get<std::string>();
  }
  if (const Json* environment = part(json, "environment"); environment != nullptr) {
    const Json* compiler = part(*environment, "compiler");
    if (compiler != nullptr && compiler->is_string()) entry.compiler = compiler->get<std::string>();
  }
  return entry;
}

}  // namespace

fs::path GalleryFolder(const fs::path& given) {
  return given.empty() ? ShareFolder("gallery") : given;
}

Result<std::vector<GalleryEntry>> ReadGallery(const fs::path& given,
                                              const std::vector<std::string>& names) {
  const fs::path folder = GalleryFolder(given);
  std::vector<std::string> there;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (at->is_directory()) there.push_back(at->path().filename().string());
  }
  if (error) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("no gallery at {}: {}", folder.string(), error.message()));
  }
  std::sort(there.begin(), there.end());
  for (const std::string& name : names) {
    if (std::find(there.begin(), there.end(), name) != there.end()) continue;
    return Fail(ErrorCode::kNotFound, UnknownName("gallery kernel", name, there));
  }
  std::vector<GalleryEntry> entries;
  for (const std::string& name : names.empty() ? there : names) {
    auto entry = ReadEntry(folder / name);
    if (!entry) return Failure(std::move(entry.error()));
    entries.push_back(std::move(*entry));
  }
  return entries;
}

}  // namespace grove::cli
