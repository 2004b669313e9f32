#include "eval/live_reference.h"

#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tbb/task_arena.h>

#include "base/files.h"
#include "base/framing.h"
#include "base/process.h"
#include "base/temporary_folder.h"
#include "eval/inputs.h"
#include "seeds/importers/torch_python.h"
#include "seeds/live.h"
#include "seeds/safetensors_text.h"

namespace grove::eval {
namespace {

using seeds::Case;
using seeds::Distribution;
using seeds::Stored;
using seeds::Tensor;
using seeds::TensorRole;
using Kind = FrameError::Kind;

enum Message : std::uint16_t { kReady = 1, kQuestion = 2, kAnswer = 3, kNoAnswer = 4 };

constexpr std::int64_t kMostBytes = std::int64_t{2} << 30;  // of inputs, and of outputs
constexpr std::size_t kMostHeader = 64 << 10;               // around the data of an answer
constexpr std::size_t kMostWords = 600;                     // of one foreign sentence
constexpr std::chrono::milliseconds kLastWords{2000};       // for a process that has closed

// Foreign text as one printable line.
std::string Line(std::string_view text) {
  std::string line;
  for (const char c : text.substr(0, kMostWords)) {
    const auto u = static_cast<unsigned char>(c);
    line += u < 0x20 || u == 0x7f ? ' ' : c;
  }
  return line;
}

// The last line of what a process has written to its standard error.
std::string LastLine(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return Line(std::string_view(text).substr(text.rfind('\n') + 1));
}

bool IsDrawn(const Tensor& tensor) {
  return tensor.role == TensorRole::kInput && tensor.distribution.kind != Distribution::Kind::kFile;
}

std::int64_t InDouble(const Tensor& tensor) {
  return tensor.elements() * static_cast<std::int64_t>(sizeof(double));
}

// The process of one task.
class Helper {
 public:
  Helper(std::filesystem::path folder, const LiveOptions& options)
      : folder_(std::move(folder)), options_(options) {}

  // The text of an answer: safetensors with every output of the case.
  Result<std::string> Ask(const Case& c, std::uint64_t seed) {
    if (!FitsLive(c)) {
      return Fail(ErrorCode::kInvalidInput,
                  fmt::format("more than {} GiB to be sent or answered", kMostBytes >> 30));
    }
    std::vector<Tensor> drawn;
    std::vector<std::string> contents;
    std::int64_t answer_bytes = 0;
    for (std::size_t i = 0; i < c.tensors.size(); ++i) {
      const Tensor& tensor = c.tensors[i];
      if (tensor.role == TensorRole::kOutput) answer_bytes += InDouble(tensor);
      if (!IsDrawn(tensor)) continue;
      std::string& bytes = contents.emplace_back(static_cast<std::size_t>(tensor.bytes().value), 0);
      if (auto made = MakeInput(tensor, seed, i, std::as_writable_bytes(std::span(bytes))); !made) {
        return Failure(std::move(made.error()));
      }
      drawn.push_back(tensor);
    }
    const std::string question = seeds::SafetensorsText(drawn, contents, {{"case", c.name}});
    contents.clear();
    if (auto started = Start(); !started) return Failure(std::move(started.error()));
    const Deadline deadline = After(options_.deadline);
    if (auto sent = WriteFrame(process_->channel(), kQuestion, question, deadline); !sent) {
      return Ended(sent.error(), "take the question", options_.deadline);
    }
    const auto limit = static_cast<std::size_t>(answer_bytes) + kMostHeader;
    auto answer = ReadFrame(process_->channel(), limit, deadline);
    if (!answer) return Ended(answer.error(), "answer", options_.deadline);
    if (answer->type == kNoAnswer) return Fail(ErrorCode::kInvalidInput, Line(answer->payload));
    if (answer->type != kAnswer) {
      return Ended({Kind::kMalformed, fmt::format("a message of type {}", answer->type)}, "answer",
                   options_.deadline);
    }
    return std::move(answer->payload);
  }

 private:
  Status Start() {
    if (process_) return {};
    if (python_.empty()) {
      auto python = importers::FindTorchPython(options_.python);
      if (!python) return Failure(std::move(python.error()));
      python_ = std::move(*python);
    }
    auto script = importers::TorchScript("live_reference.py");
    if (!script) return Failure(std::move(script.error()));
    ProcessOptions process;
    process.program = python_;
    process.arguments = {script->string(), folder_.string()};
    process.environment = importers::TorchEnvironment(options_.gpu);
    if (options_.gpu.empty()) {
      process.limits.address_space =
          options_.memory.value > 0 ? options_.memory : importers::TorchMemory();
    }
    auto started = Process::Start(process);
    if (!started) return Failure(std::move(started.error()));
    process_ = std::move(*started);
    auto ready = ReadFrame(process_->channel(), kMostHeader, After(options_.start));
    if (!ready) return Ended(ready.error(), "start", options_.start);
    if (ready->type == kNoAnswer) {
      process_.reset();
      return Fail(ErrorCode::kInvalidInput, Line(ready->payload));
    }
    return {};
  }

  // What is said of a helper that is of no use any more; it is gone afterwards.
  Failure Ended(const FrameError& error, std::string_view what, std::chrono::seconds limit) {
    std::string message;
    if (error.kind == Kind::kClosed) {
      auto status = process_->WaitFor(kLastWords);
      if (!status) status = process_->Kill();
      message = "its process ended: " + status->Describe();
    } else {
      process_->Kill();
      message = error.kind == Kind::kTimeout
                    ? fmt::format("it did not {} in {} s and was killed", what, limit.count())
                    : fmt::format("it was killed: {}", error.message);
    }
    if (const std::string said = LastLine(process_->ErrorText()); !said.empty()) {
      message += ": " + said;
    }
    process_.reset();
    return Fail(ErrorCode::kUnavailable, std::move(message));
  }

  const std::filesystem::path folder_;
  const LiveOptions& options_;
  std::filesystem::path python_;
  std::optional<Process> process_;
};

}  // namespace

struct LiveReference::Impl {
  explicit Impl(LiveOptions given) : options(std::move(given)) {}

  // The answer's own bytes are the file.
  Result<std::vector<Stored>> Keep(const Case& c, const std::string& answer) {
    auto header = seeds::ReadSafetensorsText(answer);
    if (!header) return Fail(std::move(header.error()), "its answer");
    std::vector<Stored> outputs;
    for (const Tensor& tensor : c.tensors) {
      if (tensor.role != TensorRole::kOutput) continue;
      const seeds::StoredTensor* found = header->Find(tensor.name);
      if (found == nullptr || found->dtype != DType::kF64 || found->shape != tensor.shape) {
        return Fail(ErrorCode::kInvalidInput,
                    fmt::format("its answer has {} {}, not f64 of shape [{}]",
                                found == nullptr ? "no" : "another", tensor.name,
                                fmt::join(tensor.shape, ", ")));
      }
      outputs.push_back({tensor.name, "", found->offset});
    }
    if (!files) {
      auto fresh = TemporaryFolder::Make("grove-live");
      if (!fresh) return Failure(std::move(fresh.error()));
      files.emplace(std::move(*fresh));
    }
    // Never a name twice: GPU workers keep what they have read by its file.
    const auto file = files->path() / fmt::format("{}.safetensors", ++made);
    if (auto written = WriteFileAtomic(file, answer); !written) {
      return Failure(std::move(written.error()));
    }
    for (Stored& output : outputs) output.file = file.string();
    return outputs;
  }

  const LiveOptions options;
  std::mutex mutex;                       // guards what follows
  std::map<std::string, Helper> helpers;  // by the folder of the task
  std::optional<TemporaryFolder> files;
  int made = 0;
  using Key = std::tuple<std::string, std::string, std::uint64_t>;  // folder, case, seed
  std::map<Key, std::vector<Stored>> answers;
};

LiveReference::LiveReference(LiveOptions options)
    : impl_(std::make_unique<Impl>(std::move(options))) {}
LiveReference::~LiveReference() = default;

Result<std::vector<Stored>> LiveReference::Outputs(const Case& c, std::uint64_t seed) {
  const std::scoped_lock lock(impl_->mutex);
  const std::string& folder = c.golden.front().file;
  const Impl::Key key(folder, c.name, seed);
  if (const auto kept = impl_->answers.find(key); kept != impl_->answers.end()) {
    return kept->second;
  }
  Helper& helper = impl_->helpers.try_emplace(folder, folder, impl_->options).first->second;
  // Isolated: drawing inputs works in parallel, and the lock is held meanwhile.
  auto answer = tbb::this_task_arena::isolate([&] { return helper.Ask(c, seed); });
  Result<std::vector<Stored>> stored =
      answer ? impl_->Keep(c, *answer) : Failure(std::move(answer.error()));
  if (!stored) {
    return Fail(std::move(stored.error()),
                fmt::format("live reference in {}, case {}", folder, c.name));
  }
  return impl_->answers.emplace(key, std::move(*stored)).first->second;
}

bool FitsLive(const Case& task_case) {
  std::int64_t inputs = 0, outputs = 0;
  for (const Tensor& tensor : task_case.tensors) {
    if (tensor.role == TensorRole::kOutput) outputs += InDouble(tensor);
    if (IsDrawn(tensor)) inputs += tensor.bytes().value;
  }
  return inputs <= kMostBytes && outputs <= kMostBytes;
}

}  // namespace grove::eval
