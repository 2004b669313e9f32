// The Chrome trace of torch.profiler (Kineto): docs/rank.md says what is read of it.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <istream>
#include <limits>
#include <optional>
#include <streambuf>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <zlib.h>
#include <nlohmann/json.hpp>

#include "seeds/profile/builder.h"

namespace grove::profile {
namespace {

constexpr std::size_t kMaxText = 4096;  // of a name or a list of shapes; the rest is dropped
constexpr std::int64_t kMaxTime = std::int64_t{1} << 62;

// Plain or gzip-compressed text, read in pieces: zlib tells them apart.
class GzipBuffer : public std::streambuf {
 public:
  explicit GzipBuffer(const std::filesystem::path& file) : file_(gzopen(file.c_str(), "rb")) {
    if (file_ != nullptr) gzbuffer(file_, 1 << 18);
  }
  ~GzipBuffer() override {
    if (file_ != nullptr) gzclose(file_);
  }
  GzipBuffer(const GzipBuffer&) = delete;
  GzipBuffer& operator=(const GzipBuffer&) = delete;
  bool open() const { return file_ != nullptr; }
  // Of the compressed stream; empty when there is none.
  std::string error() const {
    int code = Z_OK;
    const char* text = gzerror(file_, &code);
    return code == Z_OK || code == Z_STREAM_END ? std::string() : std::string(text);
  }

 protected:
  int_type underflow() override {
    const int got = gzread(file_, data_.data(), static_cast<unsigned>(data_.size()));
    if (got <= 0) return traits_type::eof();
    setg(data_.data(), data_.data(), data_.data() + got);
    return traits_type::to_int_type(*gptr());
  }

 private:
  gzFile file_;
  std::vector<char> data_ = std::vector<char>(1 << 18);
};

// What is kept of one event while it is read.
struct RawEvent {
  std::string phase, category, name;
  std::optional<double> time_us, duration_us;
  std::int64_t device = 0, thread = 0;
  std::optional<std::int64_t> external_id;
  std::string shapes, types;
  LaunchShape shape;
};

// Follows the text with a stack of keys; builds one event at a time and a little of the rest.
class Handler : public nlohmann::json_sax<nlohmann::json> {
 public:
  Handler(Builder& builder, Counted counted) : builder_(builder), counted_(counted) {}

  std::int64_t events() const { return events_; }
  bool saw_list() const { return saw_list_; }
  const std::string& problem() const { return problem_; }

  bool null() override { return Scalar("null"); }
  bool boolean(bool value) override { return Scalar(value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override {
    return Number(static_cast<double>(value), fmt::to_string(value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    return Number(static_cast<double>(value), fmt::to_string(value));
  }
  bool number_float(number_float_t value, const string_t& text) override {
    return Number(value, text);
  }
  bool string(string_t& value) override {
    if (in_event_ && depth_ == event_depth_) {
      if (key_ == "ph") {
        event_.phase = Short(value);
      } else if (key_ == "cat") {
        event_.category = Short(value);
      } else if (key_ == "name") {
        event_.name = Short(value);
      } else if (key_ == "ts" || key_ == "dur") {
        // Some writers quote numbers.
        try {
          return Number(std::stod(value), value);
        } catch (const std::exception&) {
          return true;
        }
      }
    } else if (!in_event_ && key_ == "name" && in_devices_) {
      if (builder_.profile().gpu.empty()) builder_.profile().gpu = Short(value);
    }
    return Scalar(
        nlohmann::json(value).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  }
  bool binary(binary_t&) override { return true; }

  bool start_object(std::size_t) override {
    Open('{');
    ++depth_;
    if (!in_event_ && list_depth_ != 0 && depth_ == list_depth_ + 1) {
      in_event_ = true;
      event_depth_ = depth_;
      event_ = RawEvent();
    }
    return depth_ < 64 || TooDeep();
  }
  bool end_object() override {
    Close('}');
    if (in_event_ && depth_ == event_depth_) {
      in_event_ = false;
      Finish();
    }
    --depth_;
    return true;
  }
  bool start_array(std::size_t) override {
    Open('[');
    ++depth_;
    if (list_depth_ == 0 && (depth_ == 1 || (depth_ == 2 && key_ == "traceEvents"))) {
      list_depth_ = depth_;
      saw_list_ = true;
    }
    if (depth_ == 2 && key_ == "deviceProperties") in_devices_ = true;
    if (in_event_ && depth_ == event_depth_ + 2) numbers_.clear();
    return depth_ < 64 || TooDeep();
  }
  bool end_array() override {
    Close(']');
    if (list_depth_ == depth_) list_depth_ = 0;
    if (depth_ == 2) in_devices_ = false;
    if (in_event_ && depth_ == event_depth_ + 2 && numbers_.size() == 3) {
      std::array<std::int64_t, 3> extent{numbers_[0], numbers_[1], numbers_[2]};
      if (array_key_ == "grid") event_.shape.grid = extent;
      if (array_key_ == "block") event_.shape.block = extent;
    }
    --depth_;
    return true;
  }
  bool key(string_t& value) override {
    key_ = Short(value);
    if (in_event_ && depth_ == event_depth_ + 1) array_key_ = key_;
    if (capture_ != nullptr) {
      Comma();
      Capture(nlohmann::json(value).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) +
              ": ");
      after_key_ = true;
    }
    return true;
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    std::string why = error.what();
    if (const auto colon = why.rfind(": "); colon != std::string::npos) why = why.substr(colon + 2);
    problem_ = fmt::format("byte {}: {}", position, why);
    return false;
  }

  // Makes events of the operations that no other one on their thread encloses.
  void CountOperations() {
    std::sort(host_.begin(), host_.end(), [](const HostOperation& a, const HostOperation& b) {
      return std::tuple(a.thread, a.start_ns, -a.duration_ns) <
             std::tuple(b.thread, b.start_ns, -b.duration_ns);
    });
    Profile& profile = builder_.profile();
    const HostOperation* outer = nullptr;
    for (const HostOperation& operation : host_) {
      if (outer != nullptr && outer->thread == operation.thread &&
          operation.start_ns < outer->start_ns + std::max<std::int64_t>(outer->duration_ns, 1)) {
        continue;
      }
      outer = &operation;
      const std::string name = profile.operations[operation.operation].name;
      profile.events.push_back({operation.start_ns, operation.duration_ns,
                                builder_.KernelIndex({name, {}, Kernel::Kind::kKernel}),
                                operation.operation, 0});
    }
    profile.on_cpu = true;
  }

  // Kernels whose operation came later in the file.
  void Link() {
    for (const auto& [index, external_id] : pending_) {
      const auto found = by_external_id_.find(external_id);
      if (found != by_external_id_.end()) {
        builder_.profile().events[index].operation = found->second;
      }
    }
    auto& steps = gpu_steps_.size() >= 2 ? gpu_steps_ : host_steps_;
    std::sort(steps.begin(), steps.end());
    builder_.profile().steps_ns = std::move(steps);
  }

 private:
  struct HostOperation {
    std::int64_t thread = 0, start_ns = 0, duration_ns = 0;
    std::uint32_t operation = 0;
  };

  static std::string Short(const std::string& text) { return text.substr(0, kMaxText); }

  bool TooDeep() {
    problem_ = "nested more than 64 deep";
    return false;
  }

  // --- shapes and types are kept as text ---
  void Open(char bracket) {
    const bool argument = in_event_ && depth_ == event_depth_ + 1 && bracket == '[';
    if (capture_ == nullptr && argument && (key_ == "Input Dims" || key_ == "Input type")) {
      capture_ = key_ == "Input Dims" ? &event_.shapes : &event_.types;
      capture_depth_ = depth_ + 1;
      capture_->clear();
      first_ = true;
      after_key_ = false;
      *capture_ += bracket;
      return;
    }
    if (capture_ != nullptr) {
      Comma();
      Capture(std::string(1, bracket));
      first_ = true;
    }
  }
  void Close(char bracket) {
    if (capture_ == nullptr) return;
    Capture(std::string(1, bracket));
    first_ = false;
    if (depth_ == capture_depth_) capture_ = nullptr;
  }
  void Comma() {
    if (!first_ && !after_key_) Capture(", ");
    first_ = after_key_ = false;
  }
  void Capture(const std::string& text) {
    if (capture_->size() < kMaxText) *capture_ += text;
  }
  bool Scalar(const std::string& text) {
    if (capture_ != nullptr) {
      Comma();
      Capture(text);
    }
    return true;
  }
  bool Number(double value, const std::string& text) {
    if (in_event_ && std::isfinite(value)) {
      const auto whole = [&] {
        return std::abs(value) < 9e18 ? static_cast<std::int64_t>(value) : 0;
      };
      if (depth_ == event_depth_) {
        if (key_ == "ts") event_.time_us = value;
        if (key_ == "dur") event_.duration_us = value;
        if (key_ == "pid") event_.device = whole();
        if (key_ == "tid") event_.thread = whole();
      } else if (depth_ == event_depth_ + 1) {
        if (key_ == "External id" || key_ == "external id") event_.external_id = whole();
        if (key_ == "device") event_.device = whole();
      } else if (depth_ == event_depth_ + 2 && numbers_.size() < 3) {
        numbers_.push_back(whole());
      }
    }
    return Scalar(text);
  }

  static std::optional<Kernel::Kind> GpuKind(std::string_view category) {
    if (category == "kernel" || category == "Kernel") return Kernel::Kind::kKernel;
    if (category == "gpu_memcpy" || category == "Memcpy") return Kernel::Kind::kCopy;
    if (category == "gpu_memset" || category == "Memset") return Kernel::Kind::kFill;
    return std::nullopt;
  }

  void Finish() {
    ++events_;
    if (event_.phase != "X" || !event_.time_us || !event_.duration_us) return;
    const double start = *event_.time_us * 1000, length = *event_.duration_us * 1000;
    if (!(std::abs(start) < static_cast<double>(kMaxTime)) || !(length >= 0) ||
        !(length < static_cast<double>(kMaxTime))) {
      ++builder_.profile().unknown["event with an impossible time"];
      return;
    }
    const auto start_ns = static_cast<std::int64_t>(std::llround(start));
    if (const auto kind = GpuKind(event_.category)) {
      Event event;
      event.start_ns = start_ns;
      event.duration_ns = static_cast<std::int64_t>(std::llround(length));
      event.device = static_cast<std::int32_t>(event_.device & 0x7fffffff);
      event.kernel = builder_.KernelIndex({event_.name, event_.shape, *kind});
      if (event_.external_id) {
        const auto found = by_external_id_.find(*event_.external_id);
        if (found != by_external_id_.end()) {
          event.operation = found->second;
        } else {
          pending_.emplace_back(builder_.profile().events.size(), *event_.external_id);
        }
      }
      builder_.profile().events.push_back(event);
      return;
    }
    const std::string_view category = event_.category;
    if (category == "cpu_op" || category == "Operator") {
      if (counted_ == Counted::kOperations) {
        host_.push_back({event_.thread, start_ns, static_cast<std::int64_t>(std::llround(length)),
                         builder_.OperationIndex({event_.name, event_.shapes, event_.types})});
      }
      if (event_.external_id) {
        by_external_id_[*event_.external_id] =
            builder_.OperationIndex({event_.name, event_.shapes, event_.types});
      }
    } else if (event_.name.starts_with("ProfilerStep#")) {
      (category == "gpu_user_annotation" ? gpu_steps_ : host_steps_).push_back(start_ns);
    } else if (category != "cuda_runtime" && category != "cuda_driver" &&
               category != "user_annotation" && category != "gpu_user_annotation" &&
               category != "python_function" && category != "cuda_sync" &&
               category != "cuda_event" && category != "overhead" && category != "Trace" &&
               category != "ac2g" && category != "fwdbwd" && category != "Runtime") {
      auto& unknown = builder_.profile().unknown;
      // A file full of made-up categories must not fill memory.
      if (unknown.size() < 100 || unknown.contains(event_.category)) ++unknown[event_.category];
    }
  }

  Builder& builder_;
  const Counted counted_;
  std::vector<HostOperation> host_;  // kOperations only
  RawEvent event_;
  std::string key_, array_key_;
  std::vector<std::int64_t> numbers_;
  int depth_ = 0, list_depth_ = 0, event_depth_ = 0, capture_depth_ = 0;
  bool in_event_ = false, in_devices_ = false, saw_list_ = false;
  std::string* capture_ = nullptr;
  bool first_ = true, after_key_ = false;
  std::int64_t events_ = 0;
  std::unordered_map<std::int64_t, std::uint32_t> by_external_id_;
  std::vector<std::pair<std::size_t, std::int64_t>> pending_;
  std::vector<std::int64_t> host_steps_, gpu_steps_;
  std::string problem_;
};

}  // namespace

Result<Profile> ReadChromeTrace(const std::filesystem::path& file, Counted counted) {
  GzipBuffer buffer(file);
  if (!buffer.open()) {
    return Fail(ErrorCode::kNotFound, fmt::format("{}: cannot be opened", file.string()));
  }
  std::istream stream(&buffer);
  Builder builder;
  Handler handler(builder, counted);
  const bool read = nlohmann::json::sax_parse(stream, &handler);
  if (const std::string broken = buffer.error(); !broken.empty()) {
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("{}: the compressed file is cut off or damaged after {} events ({}); "
                            "export the profile again",
                            file.string(), handler.events(), broken));
  }
  if (!read) {
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("{}: not a whole trace, {} (after {} events)", file.string(),
                            handler.problem(), handler.events()));
  }
  if (!handler.saw_list()) {
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("{}: JSON, but no trace: neither \"traceEvents\" nor a list of events",
                            file.string()));
  }
  handler.Link();
  if (counted == Counted::kOperations) {
    if (!builder.profile().events.empty()) {
      return Fail(ErrorCode::kInvalidInput,
                  fmt::format("{}: it holds {} kernels of a GPU, which say more than operations on "
                              "the CPU: rank it without --cpu",
                              file.string(), builder.profile().events.size()));
    }
    handler.CountOperations();
  }
  return std::move(builder.profile());
}

}  // namespace grove::profile
