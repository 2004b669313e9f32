#include "codegen/plan_json.h"

#include <algorithm>
#include <limits>
#include <unordered_set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "codegen/text.h"

namespace grove::codegen {
namespace {

constexpr std::size_t kMaxDepth = 32;

// Builds JsonValues from the parser's events; an event that returns false stops the parser.
class Builder : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return Add({}); }
  bool boolean(bool value) override {
    JsonValue v;
    v.kind = JsonValue::Kind::kBool;
    v.boolean = value;
    return Add(std::move(v));
  }
  bool number_integer(number_integer_t value) override {
    JsonValue v;
    v.kind = JsonValue::Kind::kInteger;
    v.integer = value;
    v.real = static_cast<double>(value);
    return Add(std::move(v));
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (value <= static_cast<number_unsigned_t>(std::numeric_limits<std::int64_t>::max())) {
      return number_integer(static_cast<number_integer_t>(value));
    }
    return number_float(static_cast<double>(value), {});
  }
  bool number_float(number_float_t value, const string_t&) override {
    JsonValue v;
    v.kind = JsonValue::Kind::kReal;
    v.real = value;
    return Add(std::move(v));
  }
  bool string(string_t& value) override {
    JsonValue v;
    v.kind = JsonValue::Kind::kString;
    v.string = std::move(value);
    return Add(std::move(v));
  }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return Open(JsonValue::Kind::kObject); }
  bool start_array(std::size_t) override { return Open(JsonValue::Kind::kArray); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }
  bool key(string_t& value) override {
    if (!open_.back().keys.insert(value).second) {
      complaint_ = "the key " + Quoted(value) + " is written twice";
      return false;
    }
    open_.back().key = std::move(value);
    return true;
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    offset_ = position == 0 ? 0 : position - 1;
    // "[json.exception...] parse error at line 1, column 2: what": the last part says it.
    std::string_view what = error.what();
    if (const auto end = what.find("] "); end != std::string_view::npos)
      what.remove_prefix(end + 2);
    if (what.starts_with("parse error at")) {
      if (const auto colon = what.find(": "); colon != std::string_view::npos) {
        what.remove_prefix(colon + 2);
      }
    }
    const std::string quoted = Quoted(what, 200);
    complaint_ = "not JSON: " + quoted.substr(1, quoted.size() - 2);
    return false;
  }

  JsonValue& root() { return root_; }
  const std::string& complaint() const { return complaint_; }
  std::size_t offset() const { return offset_; }

 private:
  struct Level {
    JsonValue value;
    std::string key;
    std::unordered_set<std::string> keys;
  };

  bool Open(JsonValue::Kind kind) {
    if (open_.size() >= kMaxDepth) {
      complaint_ = fmt::format("nested deeper than {} levels", kMaxDepth);
      return false;
    }
    open_.emplace_back().value.kind = kind;
    return true;
  }
  bool Close() {
    JsonValue value = std::move(open_.back().value);
    open_.pop_back();
    return Add(std::move(value));
  }
  bool Add(JsonValue value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return true;
    }
    Level& level = open_.back();
    if (level.value.kind == JsonValue::Kind::kObject) {
      level.value.keys.push_back(std::move(level.key));
    }
    level.value.items.push_back(std::move(value));
    return true;
  }

  JsonValue root_;
  std::vector<Level> open_;
  std::string complaint_;
  std::size_t offset_ = std::string::npos;
};

}  // namespace

const JsonValue* JsonValue::Find(std::string_view name) const {
  const auto found = std::find(keys.begin(), keys.end(), name);
  return found == keys.end() ? nullptr : &items[static_cast<std::size_t>(found - keys.begin())];
}

std::string JsonValue::Describe() const {
  switch (kind) {
    case Kind::kNull:
      return "null";
    case Kind::kBool:
      return boolean ? "true" : "false";
    case Kind::kInteger:
      return fmt::format("the number {}", integer);
    case Kind::kReal:
      return fmt::format("the number {}", real);
    case Kind::kString:
      return "the string " + Quoted(string);
    case Kind::kArray:
      return fmt::format("a list of {}", items.size());
    case Kind::kObject:
      return "an object";
  }
  return "nothing";
}

Result<JsonValue> ReadJson(std::string_view text) {
  if (text.size() > kMaxPlanBytes) {
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("{} bytes of JSON; at most {} are read", text.size(), kMaxPlanBytes));
  }
  Builder builder;
  bool ok = false;
  try {
    ok = nlohmann::json::sax_parse(text.begin(), text.end(), &builder);
  } catch (const std::exception& error) {
    return Fail(ErrorCode::kInternal, fmt::format("the JSON reader failed: {}", error.what()));
  }
  if (!ok) {
    std::string message = builder.complaint().empty() ? "not JSON" : builder.complaint();
    if (builder.offset() != std::string::npos) {
      message = Place(PositionOf(text, builder.offset())) + ": " + message;
    }
    return Fail(ErrorCode::kInvalidInput, std::move(message));
  }
  return std::move(builder.root());
}

}  // namespace grove::codegen
