#include "tests/support/fakes.h"

#include <algorithm>
#include <sstream>

namespace grove::testing {
namespace {

struct Directive {
  std::string word;
  std::vector<std::string> arguments;
};

std::vector<Directive> DirectivesOf(const std::string& source) {
  std::vector<Directive> directives;
  std::istringstream lines(source);
  for (std::string line; std::getline(lines, line);) {
    const auto at = line.find("// @");
    if (at == std::string::npos) continue;
    std::istringstream words(line.substr(at + 4));
    Directive directive;
    words >> directive.word;
    for (std::string word; words >> word;) directive.arguments.push_back(word);
    directives.push_back(std::move(directive));
  }
  return directives;
}

bool Concerns(const Directive& directive, const std::string& case_name) {
  return !directive.arguments.empty() &&
         (directive.arguments[0] == "*" || directive.arguments[0] == case_name);
}

eval::ErrorReport ReportOf(double error) {
  eval::ErrorReport report;
  report.worst_row_l2 = error;
  report.worst_row = 0;
  report.scaled_max = error;
  report.worst_element = 0;
  report.expected = 1;
  report.got = 1 + error;
  return report;
}

}  // namespace

Result<std::shared_ptr<const codegen::CompileOutcome>> FakeCompiler::Compile(
    const codegen::CompileRequest& request) {
  const int call = ++calls_;
  if (fail_from_ > 0 && call >= fail_from_) {
    return Fail(ErrorCode::kUnavailable, "no compiler can be had");
  }
  auto outcome = std::make_shared<codegen::CompileOutcome>();
  using Status = codegen::CompileOutcome::Status;
  outcome->status = Status::kOk;
  outcome->ptx = request.source;
  for (const Directive& directive : DirectivesOf(request.source)) {
    if (directive.word != "compile") continue;
    const std::string& how = directive.arguments.at(0);
    outcome->status = how == "timeout"   ? Status::kTimeout
                      : how == "memory"  ? Status::kMemory
                      : how == "crashed" ? Status::kCrashed
                                         : Status::kError;
    outcome->log = "kernel.cu(1): error: as asked";
  }
  const std::string marker = "__global__ void ";
  for (auto at = request.source.find(marker); at != std::string::npos;
       at = request.source.find(marker, at + 1)) {
    const auto begin = at + marker.size();
    const auto open = request.source.find('(', begin);
    const auto close = request.source.find(')', open);
    codegen::EntryPoint entry;
    entry.name = request.source.substr(begin, open - begin);
    const std::string parameters = request.source.substr(open + 1, close - open - 1);
    if (!parameters.empty()) {
      entry.param_sizes.assign(
          static_cast<std::size_t>(std::count(parameters.begin(), parameters.end(), ',') + 1), 8);
    }
    entry.registers = 32;
    outcome->entries.push_back(std::move(entry));
  }
  return outcome;
}

FakeDevice::FakeDevice() { spec_ = *eval::FindDevice("H200"); }

std::vector<eval::GpuIdentity> FakeDevice::gpus() const {
  if (!measures) return {};
  return {{uuid, spec_.name, "1.0", 0}};
}

Result<eval::CheckOutcome> FakeDevice::Check(const eval::CheckRequest& request) {
  if (gone) return Fail(ErrorCode::kUnavailable, device_name + " is gone");
  if (on_check) on_check();
  const seeds::Case& task_case = request.context->task_case();
  {
    const std::scoped_lock lock(mutex_);
    checked_.push_back(task_case.name);
  }
  eval::CheckOutcome outcome;
  outcome.errors.push_back(ReportOf(1e-8));
  for (const Directive& directive : DirectivesOf(request.candidate->compiled->ptx)) {
    if (!Concerns(directive, task_case.name)) continue;
    if (directive.word == "fail") {
      outcome.fault =
          eval::ExecutionFault{*eval::VerdictKindFromName(directive.arguments.at(1)), "as asked"};
    } else if (directive.word == "error") {
      outcome.errors[0] = ReportOf(std::stod(directive.arguments.at(1)));
    } else if (directive.word == "unwritten") {
      outcome.unwritten_tensor = 1;
      outcome.unwritten_element = 3;
    } else if (directive.word == "random") {
      outcome.deterministic = request.runs < 2;
    }
  }
  return outcome;
}

Result<eval::TimeOutcome> FakeDevice::Time(const eval::TimeRequest& request) {
  if (gone) return Fail(ErrorCode::kUnavailable, device_name + " is gone");
  eval::TimeOutcome outcome;
  outcome.time = Nanoseconds(1000);
  outcome.modelled = !measures;
  if (measures) outcome.gpu_uuid = uuid;
  outcome.errors.push_back(ReportOf(1e-8));
  outcome.checked_share = 1;
  const std::string& name = request.context->task_case().name;
  for (const Directive& directive : DirectivesOf(request.candidate->compiled->ptx)) {
    if (directive.word == "time") outcome.time = Nanoseconds(std::stod(directive.arguments.at(0)));
    if (directive.word == "error" && Concerns(directive, name)) {
      outcome.errors[0] = ReportOf(std::stod(directive.arguments.at(1)));
    }
  }
  return outcome;
}

Result<eval::PairOutcome> FakeDevice::TimePair(const eval::PairRequest& request) {
  if (!measures) return Device::TimePair(request);
  ++pairs_;
  eval::PairOutcome pair;
  pair.gpu_uuid = uuid;
  Nanoseconds times[2];
  const eval::Prepared* programs[] = {request.base, request.challenger};
  for (int k = 0; k < 2; ++k) {
    eval::TimeRequest one;
    one.context = request.context;
    one.candidate = programs[k];
    auto time = Time(one);
    if (!time) return Failure(std::move(time.error()));
    times[k] = time->time;
    for (const Directive& directive : DirectivesOf(programs[k]->compiled->ptx)) {
      if (directive.word == "pairtime")
        times[k] = Nanoseconds(std::stod(directive.arguments.at(0)));
      if (directive.word != "pair") continue;
      pair.fault =
          eval::ExecutionFault{*eval::VerdictKindFromName(directive.arguments.at(0)), "as asked"};
    }
  }
  if (pair.fault) return pair;
  pair.base.assign(10, times[0]);
  pair.challenger.assign(10, times[1]);
  pair.ratio = times[1] / times[0];
  pair.median_delta = pair.ratio - 1;
  pair.delta_stderr = pair_noise;
  using Result = eval::PairOutcome::Result;
  const double least = std::max(0.005, 2 * pair_noise);
  pair.result = pair.median_delta < -least  ? Result::kFaster
                : pair.median_delta > least ? Result::kSlower
                                            : Result::kTie;
  return pair;
}

std::vector<std::string> FakeDevice::checked() const {
  const std::scoped_lock lock(mutex_);
  return checked_;
}

Result<llm::Reply> ScriptedClient::Complete(const llm::Request& request, std::stop_token stop) {
  if (stop.stop_requested()) return Fail(ErrorCode::kCancelled, "stopped");
  {
    const std::scoped_lock lock(mutex_);
    requests_.push_back(request);
  }
  auto text = script_(request);
  if (!text) return Failure(std::move(text.error()));
  llm::Reply reply;
  reply.text = std::move(*text);
  for (const llm::Message& message : request.messages) {
    reply.usage.prompt = reply.usage.prompt + llm::EstimateTokens(message.text);
  }
  reply.usage.completion = llm::EstimateTokens(reply.text);
  reply.model = "scripted";
  return reply;
}

std::vector<llm::Request> ScriptedClient::requests() const {
  const std::scoped_lock lock(mutex_);
  return requests_;
}

void RecordingObserver::Line(std::string_view text) {
  const std::scoped_lock lock(mutex_);
  lines_.emplace_back(text);
}

void RecordingObserver::Update(const search::LiveState& state) {
  const std::scoped_lock lock(mutex_);
  last_ = state;
}

std::vector<std::string> RecordingObserver::lines() const {
  const std::scoped_lock lock(mutex_);
  return lines_;
}

search::LiveState RecordingObserver::last() const {
  const std::scoped_lock lock(mutex_);
  return last_;
}

seeds::Task TinyTask() {
  seeds::Task task;
  task.name = "tiny";
  task.title = "copy of a vector";
  task.family = "row_reduction";
  task.contract = "y[i] = x[i]";
  task.demanded = seeds::PrecisionClass::kFp32;
  const auto add = [&](const char* name, seeds::CaseRole role, std::int64_t n) {
    seeds::Case task_case;
    task_case.name = name;
    task_case.role = role;
    task_case.dims = {{"N", n}};
    task_case.tensors = {{"x", seeds::TensorRole::kInput, DType::kF32, {n}, {}},
                         {"y", seeds::TensorRole::kOutput, DType::kF32, {n}, {}}};
    task_case.flops = static_cast<double>(n);
    task_case.min_bytes = Bytes(8 * n);
    task.cases.push_back(std::move(task_case));
    task.reduction.push_back(1);
    task.reference_elements_per_block.push_back(0);
  };
  add("smoke", seeds::CaseRole::kSmoke, 16);
  add("sweep", seeds::CaseRole::kSweep, 100);
  add("stability", seeds::CaseRole::kStability, 32);
  add("edge", seeds::CaseRole::kEdge, 33);
  add("scored", seeds::CaseRole::kScored, 1024);
  task.reference = {TinySource(""), TinyPlan()};
  task.seed = {TinySource("// @time 1000\n"), TinyPlan()};
  return task;
}

std::string TinySource(const std::string& directives) {
  // The number keeps programs apart whose directives alone differ: comments do not count for a
  // program's identity.
  return directives +
         "extern \"C\" __global__ void copy(const float* x, float* y) {\n"
         "  const int variant = " +
         std::to_string(std::hash<std::string>{}(directives) % 1000003) +
         ";\n"
         "  const int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
         "  if (i < dim::N && variant >= 0) y[i] = x[i];\n"
         "}\n";
}

std::string TinyPlan() {
  return R"json({"version": 1, "launches": [{"kernel": "copy", "grid": ["ceil_div(N, 256)"],
             "block": [256], "args": ["x", "y"]}]})json";
}

}  // namespace grove::testing
