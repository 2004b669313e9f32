#include "eval/evaluator.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <mutex>
#include <string_view>

#include <fmt/format.h>
#include <tbb/parallel_for.h>

#include "base/suggest.h"
#include "eval/check.h"
#include "eval/edge_shapes.h"
#include "eval/judgement.h"
#include "eval/live_reference.h"
#include "eval/tile_edges.h"
#include "seeds/live.h"

namespace grove::eval {
namespace {

using seeds::Case;
using seeds::CaseRole;

// The reference is compiled against the case with every output in f64.
Case InDoublePrecision(const Case& task_case) {
  Case result = task_case;
  for (seeds::Tensor& tensor : result.tensors) {
    if (tensor.role == seeds::TensorRole::kOutput) tensor.dtype = DType::kF64;
  }
  return result;
}

// Every draw of inputs differs: stage and repetition are part of the seed.
std::uint64_t DrawSeed(std::uint64_t seed, std::size_t case_index, Stage stage) {
  return seed * 0x9E3779B97F4A7C15ULL + case_index * 1024 + static_cast<std::uint64_t>(stage);
}

// What a generated shape may cost at most: a check, not a measurement.
constexpr std::int64_t kMostEdgeElements = std::int64_t{1} << 20;
constexpr double kMostEdgeFlops = 3e7;

class StopWatch {
 public:
  Milliseconds elapsed() const { return std::chrono::steady_clock::now() - start_; }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

VerdictKind KindOf(codegen::CompileOutcome::Status status) {
  using Status = codegen::CompileOutcome::Status;
  switch (status) {
    case Status::kOk:
      return VerdictKind::kPass;
    case Status::kError:
      return VerdictKind::kCompileError;
    case Status::kTimeout:
      return VerdictKind::kCompileTimeout;
    case Status::kMemory:
      return VerdictKind::kCompileMemory;
    case Status::kCrashed:
      return VerdictKind::kCompileError;
  }
  return VerdictKind::kInfrastructure;
}

}  // namespace

Evaluator::Evaluator(const seeds::Task& task, codegen::Compiler& compiler, Device& device,
                     EvaluatorOptions options)
    : task_(task), compiler_(compiler), device_(device), options_(std::move(options)) {}

Result<std::unique_ptr<Evaluator>> Evaluator::Create(const seeds::Task& task,
                                                     codegen::Compiler& compiler, Device& device,
                                                     EvaluatorOptions options) {
  std::vector<std::string> scored;
  for (const Case& task_case : task.cases) {
    if (task_case.role == CaseRole::kScored) scored.push_back(task_case.name);
  }
  for (const std::string& name : options.cases) {
    if (std::find(scored.begin(), scored.end(), name) == scored.end()) {
      return Fail(ErrorCode::kNotFound, UnknownName("scored case", name, scored));
    }
  }
  std::unique_ptr<Evaluator> evaluator(new Evaluator(task, compiler, device, std::move(options)));

  evaluator->contexts_.resize(task.cases.size());
  if (task.checker != seeds::Checker::kReference) {
    for (std::size_t i = 0; i < task.cases.size(); ++i) {
      evaluator->contexts_[i].task = &task;
      evaluator->contexts_[i].case_index = i;
    }
    return evaluator;
  }
  auto reference = codegen::MakeProgram(task.reference.source, task.reference.plan);
  if (!reference) {
    return Fail(std::move(reference.error()), fmt::format("reference of task {}", task.name));
  }
  std::mutex mutex;
  std::optional<Error> first_error;
  tbb::parallel_for(std::size_t{0}, task.cases.size(), [&](std::size_t i) {
    const Case promoted = InDoublePrecision(task.cases[i]);
    auto outcome = evaluator->Prepare(*reference, promoted);
    std::optional<Error> error;
    if (!outcome) {
      error = outcome.error();
    } else if (!outcome->prepared) {
      error = Error{ErrorCode::kInvalidInput,
                    fmt::format("reference of task {}, case {}: {}", task.name, task.cases[i].name,
                                outcome->verdict.message)};
    } else {
      evaluator->contexts_[i] = {&task, i, std::move(*outcome->prepared)};
    }
    if (error) {
      const std::scoped_lock lock(mutex);
      if (!first_error) first_error = std::move(error);
    }
  });
  if (first_error) return Failure(std::move(*first_error));
  return evaluator;
}

Evaluation Evaluator::ParseFailure(const Error& error) {
  Evaluation evaluation;
  evaluation.verdict.kind = VerdictKind::kParseError;
  evaluation.verdict.stage = Stage::kParse;
  evaluation.verdict.message = error.message;
  evaluation.stages.push_back({Stage::kParse, "", false, Milliseconds(0), 0, 0});
  return evaluation;
}

Result<Evaluator::PreparedOrVerdict> Evaluator::Prepare(const codegen::KernelProgram& program,
                                                        const Case& task_case) const {
  PreparedOrVerdict result;
  auto plan = codegen::ResolvePlan(program.plan, task_case, device_.limits());
  if (!plan) {
    result.verdict = Failed(VerdictKind::kPlanError, Stage::kParse, task_case,
                            "launch plan: " + plan.error().message);
    return result;
  }
  codegen::CompileRequest request;
  request.source = codegen::Prelude(task_case) + program.source;
  request.arch = options_.arch;
  auto compiled = compiler_.Compile(request);
  if (!compiled) return Failure(std::move(compiled.error()));
  result.compile_time = (*compiled)->time;
  if (!(*compiled)->ok()) {
    const VerdictKind kind = KindOf((*compiled)->status);
    std::string message = (*compiled)->log;
    if (kind != VerdictKind::kCompileError || message.empty()) {
      message = fmt::format("{}{}{}", codegen::Name((*compiled)->status),
                            message.empty() ? "" : ": ", message);
    }
    result.verdict = Failed(kind, Stage::kCompile, task_case, std::move(message));
    return result;
  }
  if (auto valid = codegen::ValidatePlan(*plan, (*compiled)->entries, device_.limits()); !valid) {
    result.verdict = Failed(VerdictKind::kPlanError, Stage::kCompile, task_case,
                            "launch plan: " + valid.error().message);
    return result;
  }
  result.prepared = Prepared{*compiled, std::move(*plan)};
  return result;
}

// The evaluation of one candidate in progress. Cases of the check stages run in parallel; what is
// reported is the first failure in stage order, whatever finished first.
struct Evaluator::Run {
  const Evaluator& self;
  const codegen::KernelProgram& program;
  Evaluation evaluation;
  // Set once a case has shown that the kernel is of a lower class than demanded: the class, and the
  // verdict that says where. It goes on as a kernel of that class.
  std::optional<seeds::PrecisionClass> granted;
  std::optional<Verdict> lower;

  // What Compile made for the case that is checked first.
  std::optional<PreparedOrVerdict> early{};
  std::size_t first_index = 0;

  // A case prepared before its turn; one entry per case of the task, or none at all.
  struct Ahead {
    PreparedOrVerdict prepared;
    Milliseconds took{0};
  };
  std::vector<std::optional<Ahead>> ahead{};

  // Shapes at the edges of this candidate's own tiles: each a task of one case, and its context.
  struct Edge {
    seeds::Task task;
    CaseContext context;
  };
  std::vector<std::unique_ptr<Edge>> edges{};

  // What one check of one case came to. Its errors are judged when it is absorbed: what a case may
  // err depends on the class that earlier ones have shown.
  struct CaseResult {
    const CaseContext* context = nullptr;
    std::vector<StageRecord> stages;  // compilation
    std::optional<Verdict> verdict;   // of the compilation
    std::optional<Prepared> prepared;
    std::optional<CheckOutcome> outcome;
    std::optional<Error> error;
    Milliseconds duration{0};
    std::uint64_t seed = 0;
    int runs = 1;
    bool detect = false;

    // Wrong whatever class the kernel is of: later cases need not be looked at.
    bool hopeless() const {
      if (verdict || error) return true;
      if (!outcome) return false;
      if (outcome->fault || outcome->unwritten_tensor) return true;
      const Stage stage = StageOf(context->task_case().role);
      return Judge(*context->task, context->case_index, stage, outcome->errors, outcome->gates,
                   seeds::PrecisionClass::kFp8)
          .failed();
    }
  };

  CaseResult CheckCase(const CaseContext& context, bool detect, int runs) const {
    const Case& task_case = context.task_case();
    CaseResult result;
    result.context = &context;
    result.detect = detect;
    result.runs = runs;

    const StopWatch compile_watch;
    auto prepared = early && &context == &self.contexts_[first_index]
                        ? Result<PreparedOrVerdict>(*early)
                        : self.Prepare(program, task_case);
    if (!prepared) {
      result.error = std::move(prepared.error());
      return result;
    }
    result.stages.push_back({Stage::kCompile, task_case.name, prepared->prepared.has_value(),
                             compile_watch.elapsed(), 0, 0});
    if (!prepared->prepared) {
      result.verdict = std::move(prepared->verdict);
      return result;
    }

    const StopWatch watch;
    CheckRequest request;
    request.context = &context;
    result.prepared = std::move(*prepared->prepared);
    request.candidate = &*result.prepared;
    request.seed = DrawSeed(self.options_.seed, context.case_index, StageOf(task_case.role));
    request.detect = detect;
    request.runs = runs;
    result.seed = request.seed;
    auto outcome = self.device_.Check(request);
    if (!outcome) {
      result.error = std::move(outcome.error());
      return result;
    }
    result.outcome = std::move(*outcome);
    result.duration = watch.elapsed();
    return result;
  }

  // Takes the judgement of a case in; true when the evaluation ends here.
  bool Absorb(Judgement& judgement, std::uint64_t seed) {
    if (!judgement.verdict) return false;
    judgement.verdict->seed = seed;
    if (judgement.failed()) {
      evaluation.verdict = std::move(*judgement.verdict);
      return true;
    }
    granted = std::max(granted.value_or(*judgement.achieved), *judgement.achieved);
    if (!lower) lower = std::move(judgement.verdict);
    return false;
  }

  // What a check found before values are compared.
  static std::optional<Verdict> FaultOf(CheckOutcome& outcome, Stage stage, const Case& task_case) {
    if (outcome.fault) {
      return Failed(outcome.fault->kind, stage, task_case, std::move(outcome.fault->message));
    }
    if (!outcome.unwritten_tensor) return std::nullopt;
    const seeds::Tensor& tensor = task_case.tensors[*outcome.unwritten_tensor];
    Verdict verdict =
        Failed(VerdictKind::kUnwritten, stage, task_case,
               fmt::format("{}[{}] was never written", tensor.name, outcome.unwritten_element));
    verdict.tensor = tensor.name;
    verdict.element = outcome.unwritten_element;
    return verdict;
  }

  // Adds to a verdict of wrong values whether runs on the same inputs agree, which tells a race
  // from a wrong formula; two more runs say it where it is not `known`.
  void SayWhetherRunsAgree(const CaseContext& context, const Prepared& candidate,
                           std::optional<bool> known) {
    Verdict& verdict = evaluation.verdict;
    const bool values =
        verdict.kind == VerdictKind::kWrongResult || verdict.kind == VerdictKind::kUnstable;
    if (!values || context.task->allow_nondeterminism) return;
    if (!known) {
      CheckRequest request;
      request.context = &context;
      request.candidate = &candidate;
      request.seed = verdict.seed;
      request.runs = 2;
      const auto again = self.device_.Check(request);
      if (!again || again->fault || again->unwritten_tensor) return;
      known = again->deterministic;
    }
    verdict.message += *known ? "; other runs on the same inputs give the same bits"
                              : "; runs on the same inputs differ in their bits: a race";
  }

  // Takes a case's result in; true when the evaluation ends here.
  bool Absorb(CaseResult&& result) {
    for (StageRecord& record : result.stages) evaluation.stages.push_back(std::move(record));
    if (result.verdict) {
      evaluation.verdict = std::move(*result.verdict);
      return true;
    }
    const CaseContext& context = *result.context;
    const Case& task_case = context.task_case();
    const Stage stage = StageOf(task_case.role);
    CheckOutcome& outcome = *result.outcome;
    Judgement judgement;
    judgement.verdict = FaultOf(outcome, stage, task_case);
    if (!judgement.verdict) {
      judgement =
          Judge(*context.task, context.case_index, stage, outcome.errors, outcome.gates, granted);
      for (Gate& gate : outcome.gates) {
        evaluation.gates.push_back({task_case.name, std::move(gate)});
      }
    }
    // A bf16 check says nothing of the class of an fp16 kernel.
    const seeds::PrecisionClass demanded = self.task_.demanded;
    if (stage != Stage::kStability && task_case.demanded.value_or(demanded) == demanded) {
      evaluation.worst_error = std::max(evaluation.worst_error, judgement.error);
    }
    evaluation.stages.push_back({stage, task_case.name, !judgement.failed(), result.duration,
                                 judgement.error, judgement.tolerance});
    if (Absorb(judgement, result.seed)) {
      const bool compared = result.runs > 1 && !outcome.fault && !outcome.unwritten_tensor;
      SayWhetherRunsAgree(context, *result.prepared,
                          compared ? std::optional(outcome.deterministic) : std::nullopt);
      return true;
    }
    if (result.runs > 1) {
      const bool fine = outcome.deterministic || context.task->allow_nondeterminism;
      evaluation.stages.push_back(
          {Stage::kDeterminism, task_case.name, fine, Milliseconds(0), 0, 0});
      if (!fine) {
        evaluation.verdict =
            Failed(VerdictKind::kNondeterministic, Stage::kDeterminism, task_case,
                   fmt::format("{} runs on the same inputs differ in their bits", result.runs));
        evaluation.verdict.seed = result.seed;
        return true;
      }
    }
    if (result.detect) {
      evaluation.stages.push_back({Stage::kIntegrity, task_case.name, true, Milliseconds(0), 0, 0});
    }
    return false;
  }

  // The screening in the emulator; true when it ended the evaluation.
  Result<bool> Screen(const std::vector<std::size_t>& checks) {
    const auto bytes = [&](std::size_t index) {
      std::int64_t sum = 0;
      for (const seeds::Tensor& tensor : self.task_.cases[index].tensors) {
        sum += tensor.bytes().value;
      }
      return sum;
    };
    const std::size_t smallest =
        *std::min_element(checks.begin(), checks.end(),
                          [&](std::size_t a, std::size_t b) { return bytes(a) < bytes(b); });
    const CaseContext& context = self.contexts_[smallest];
    const Case& task_case = context.task_case();
    auto prepared = self.Prepare(program, task_case);
    if (!prepared) return Failure(std::move(prepared.error()));
    if (!prepared->prepared) return false;  // the ordinary stages say what is wrong, and where
    const StopWatch watch;
    CheckRequest request;
    request.context = &context;
    request.candidate = &*prepared->prepared;
    request.seed = DrawSeed(self.options_.seed, smallest, Stage::kScreen);
    request.detect = true;
    auto outcome = self.options_.screen->Check(request);
    if (!outcome) return Fail(std::move(outcome.error()), "screening");
    StageRecord record{Stage::kScreen, task_case.name, true, watch.elapsed(), 0, 0, {}};
    const auto& fault = outcome->fault;
    if (fault &&
        (fault->kind == VerdictKind::kUnsupported || fault->kind == VerdictKind::kTimeout)) {
      record.undecided = fault->kind;
    } else if (fault) {
      record.passed = false;
      evaluation.verdict = Failed(fault->kind, Stage::kScreen, task_case, fault->message);
      evaluation.verdict.seed = request.seed;
    }
    evaluation.stages.push_back(record);
    return !record.passed;
  }

  // The indices of the check cases, in the order of their stages.
  std::vector<std::size_t> CheckOrder() const {
    const auto& cases = self.task_.cases;
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < cases.size(); ++i) {
      if (cases[i].role != CaseRole::kScored && cases[i].role != CaseRole::kExtra) {
        order.push_back(i);
      }
    }
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return StageOf(cases[a].role) < StageOf(cases[b].role);
    });
    return order;
  }

  // Compiles for the case that is checked first; true when that ended the evaluation.
  Result<bool> Compile() {
    evaluation.stages.push_back({Stage::kParse, "", true, Milliseconds(0), 0, 0});
    const auto order = CheckOrder();
    if (order.empty()) return false;
    first_index = order.front();
    const StopWatch watch;
    auto prepared = self.Prepare(program, self.task_.cases[first_index]);
    if (!prepared) return Failure(std::move(prepared.error()));
    early = std::move(*prepared);
    if (early->prepared) return false;
    evaluation.stages.push_back(
        {Stage::kCompile, self.task_.cases[first_index].name, false, watch.elapsed(), 0, 0});
    evaluation.verdict = early->verdict;
    return true;
  }

  // The check case that edge shapes are made like: with ordinary inputs and the tolerance of its
  // class, the smoke case before any other.
  std::optional<std::size_t> EdgeModel() const {
    const auto& cases = self.task_.cases;
    std::optional<std::size_t> model;
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const bool ordinary = cases[i].role == CaseRole::kSmoke || cases[i].role == CaseRole::kSweep;
      if (!ordinary || cases[i].tolerance) continue;
      if (!model || StageOf(cases[i].role) < StageOf(cases[*model].role)) model = i;
    }
    return model;
  }

  // Fills `edges`. An Error when the reference cannot be compiled for one.
  Status MakeEdges() {
    const auto model = EdgeModel();
    if (!model) return {};
    const auto free_dims = FreeDims(self.task_);
    const auto tiles =
        FindTiles(program.plan, self.task_.cases[*model], self.device_.limits(), free_dims);
    for (const auto& dims : EdgeDims(tiles, free_dims)) {
      auto task = Reshape(self.task_, *model, dims);
      if (!task) continue;
      const Case& made = task->cases.front();
      std::int64_t elements = 0;
      for (const seeds::Tensor& tensor : made.tensors) elements += tensor.elements();
      if (elements > kMostEdgeElements || made.flops > kMostEdgeFlops) continue;
      auto edge = std::make_unique<Edge>();
      edge->task = std::move(*task);
      edge->context.task = &edge->task;
      if (self.task_.checker == seeds::Checker::kReference) {
        // The compiler keeps what it compiled: candidates of the same tiles pay for it once.
        auto reference =
            codegen::MakeProgram(self.task_.reference.source, self.task_.reference.plan);
        if (!reference) return Failure(std::move(reference.error()));
        auto prepared = self.Prepare(*reference, InDoublePrecision(edge->task.cases.front()));
        if (!prepared) return Failure(std::move(prepared.error()));
        if (!prepared->prepared) continue;  // no shape of the task after all
        edge->context.reference = std::move(*prepared->prepared);
      }
      edges.push_back(std::move(edge));
    }
    return {};
  }

  // The check stages; true when one of them ended the evaluation.
  Result<bool> Check() {
    const auto& cases = self.task_.cases;
    const auto order = CheckOrder();
    if (order.empty()) return false;
    if (self.options_.screen != nullptr) {
      auto screened = Screen(order);
      if (!screened || *screened) return screened;
    }
    // The first case alone: most candidates that fail do so here, and cheaply.
    CaseResult first = CheckCase(self.contexts_[order[0]], true, self.options_.determinism_runs);
    if (first.error) return Failure(std::move(*first.error));
    if (Absorb(std::move(first))) return true;

    std::vector<const CaseContext*> checks;
    for (std::size_t i = 1; i < order.size(); ++i) checks.push_back(&self.contexts_[order[i]]);
    if (auto made = MakeEdges(); !made) return Failure(std::move(made.error()));
    for (const auto& edge : edges) checks.push_back(&edge->context);
    std::vector<CaseResult> results(checks.size());
    std::atomic<std::size_t> first_failure{checks.size()};
    // What is timed later is compiled beside the checks, so that the device never waits for it.
    std::vector<std::size_t> timed;
    for (std::size_t i = 0; i < cases.size(); ++i) {
      if (self.Timed(cases[i])) timed.push_back(i);
    }
    ahead.resize(cases.size());
    tbb::parallel_for(std::size_t{0}, checks.size() + timed.size(), [&](std::size_t i) {
      if (i >= checks.size()) {
        if (first_failure.load() < checks.size()) return;
        const std::size_t index = timed[i - checks.size()];
        const StopWatch watch;
        auto prepared = self.Prepare(program, cases[index]);
        if (prepared) ahead[index] = Ahead{std::move(*prepared), watch.elapsed()};
        return;
      }
      if (i > first_failure.load()) return;  // a failure in an earlier place decides already
      // The second case is the first of another shape: its runs must agree as well.
      const bool again = i == 0;
      results[i] = CheckCase(*checks[i], again, again ? self.options_.determinism_runs : 1);
      if (results[i].hopeless()) {
        std::size_t seen = first_failure.load();
        while (i < seen && !first_failure.compare_exchange_weak(seen, i)) {
        }
      }
    });
    for (CaseResult& result : results) {
      if (result.context == nullptr) break;  // skipped: an earlier one decides
      if (result.error) return Failure(std::move(*result.error));
      if (Absorb(std::move(result))) return true;
    }
    return false;
  }

  Status TimeAll() {
    double log_sum = 0;
    int scored = 0;
    for (std::size_t i = 0; i < self.task_.cases.size(); ++i) {
      const Case& task_case = self.task_.cases[i];
      if (!self.Timed(task_case)) continue;
      auto time = TimeCase(i);
      if (!time) return Failure(std::move(time.error()));
      if (!*time) return {};
      log_sum += std::log((*time)->count());
      ++scored;
    }
    if (lower) {
      evaluation.verdict = std::move(*lower);
    } else {
      evaluation.verdict.kind = VerdictKind::kPass;
      evaluation.verdict.stage = Stage::kRecheck;
      evaluation.verdict.case_name.clear();
      evaluation.verdict.message = LeastMargins(evaluation.gates);
    }
    if (scored > 0) evaluation.score = Nanoseconds(std::exp(log_sum / scored));
    std::int64_t longest = 1;
    for (const std::int64_t reduction : self.task_.reduction)
      longest = std::max(longest, reduction);
    evaluation.measured_class = ClassifyError(evaluation.worst_error, longest);
    if (granted && evaluation.measured_class) {
      evaluation.measured_class = std::max(*evaluation.measured_class, *granted);
    }
    return {};
  }

  // A scored case of a live reference before it is timed, all of its outputs; false when the
  // verdict is a failure. Values are judged with those of the timed execution.
  Result<bool> CheckWhole(const CaseContext& context, const Prepared& candidate,
                          CheckOutcome& whole) {
    const Case& task_case = context.task_case();
    const StopWatch watch;
    CheckRequest request;
    request.context = &context;
    request.candidate = &candidate;
    request.seed = DrawSeed(self.options_.seed, context.case_index, Stage::kRecheck);
    auto outcome = self.device_.Check(request);
    if (!outcome) return Failure(std::move(outcome.error()));
    whole = std::move(*outcome);
    auto verdict = FaultOf(whole, Stage::kRecheck, task_case);
    if (!verdict) return true;
    evaluation.stages.push_back({Stage::kRecheck, task_case.name, false, watch.elapsed(), 0, 0});
    verdict->seed = request.seed;
    evaluation.verdict = std::move(*verdict);
    return false;
  }

  // The time of one scored case; nullopt when the verdict is a failure.
  Result<std::optional<Nanoseconds>> TimeCase(std::size_t index) {
    const CaseContext& context = self.contexts_[index];
    const Case& task_case = context.task_case();
    const StopWatch compile_watch;
    Result<PreparedOrVerdict> prepared = PreparedOrVerdict{};
    Milliseconds compile_time{0};
    if (index < ahead.size() && ahead[index]) {
      prepared = std::move(ahead[index]->prepared);
      compile_time = ahead[index]->took;
    } else {
      prepared = self.Prepare(program, task_case);
      compile_time = compile_watch.elapsed();
    }
    if (!prepared) return Failure(std::move(prepared.error()));
    evaluation.stages.push_back(
        {Stage::kCompile, task_case.name, prepared->prepared.has_value(), compile_time, 0, 0, {}});
    if (!prepared->prepared) {
      evaluation.verdict = std::move(prepared->verdict);
      return std::optional<Nanoseconds>();
    }
    for (const codegen::EntryPoint& entry : prepared->prepared->compiled->entries) {
      std::optional<std::int64_t> shared;
      for (const codegen::ResolvedLaunch& launch : prepared->prepared->plan.launches) {
        if (launch.kernel == entry.name) {
          shared = std::max(shared.value_or(0), launch.shared_bytes);
        }
      }
      if (shared) evaluation.kernels.push_back({task_case.name, entry, *shared});
    }

    // What measures can afford it; the emulator asks the module where it executes a case whole.
    CheckOutcome whole;
    if (seeds::IsLive(task_case) && FitsLive(task_case) && !self.device_.gpus().empty()) {
      auto checked = CheckWhole(context, *prepared->prepared, whole);
      if (!checked) return Failure(std::move(checked.error()));
      if (!*checked) return std::optional<Nanoseconds>();
    }

    const DeviceSpec& spec = self.device_.spec();
    const Nanoseconds floor = ImpossibleFloor(spec, task_case.flops, task_case.min_bytes);
    const StopWatch watch;
    TimeRequest request;
    request.context = &context;
    request.candidate = &*prepared->prepared;
    request.seed = DrawSeed(self.options_.seed, index, Stage::kTiming);
    request.floor = floor;
    auto outcome = self.device_.Time(request);
    if (!outcome) return Failure(std::move(outcome.error()));

    std::optional<Verdict> verdict;
    Judgement judgement;
    Stage stage = Stage::kTiming;
    if (outcome->fault) {
      verdict = Failed(outcome->fault->kind, stage, task_case, std::move(outcome->fault->message));
    } else if (outcome->time < floor) {
      verdict = Failed(VerdictKind::kImpossible, stage, task_case,
                       fmt::format("{:.0f} ns is below the floor of {:.0f} ns on {}",
                                   outcome->time.count(), floor.count(), spec.name));
    }
    evaluation.stages.push_back({Stage::kTiming, task_case.name, !verdict, watch.elapsed(), 0, 0});
    if (!verdict && (!outcome->errors.empty() || !outcome->gates.empty())) {
      stage = Stage::kRecheck;
      for (std::size_t i = 0; i < std::min(whole.errors.size(), outcome->errors.size()); ++i) {
        if (!(whole.errors[i].worst_row_l2 <= outcome->errors[i].worst_row_l2)) {
          outcome->errors[i] = whole.errors[i];
        }
      }
      judgement = Judge(*context.task, index, stage, outcome->errors, outcome->gates, granted);
      for (const Gate& gate : outcome->gates) evaluation.gates.push_back({task_case.name, gate});
      evaluation.stages.push_back({stage, task_case.name, !judgement.failed(), Milliseconds(0),
                                   judgement.error, judgement.tolerance});
      evaluation.worst_error = std::max(evaluation.worst_error, judgement.error);
      if (Absorb(judgement, request.seed)) {
        // Where the whole case is executed in a moment.
        if (!self.device_.gpus().empty()) {
          SayWhetherRunsAgree(context, *prepared->prepared, std::nullopt);
        }
        return std::optional<Nanoseconds>();
      }
    }
    if (verdict) {
      verdict->seed = request.seed;
      evaluation.verdict = std::move(*verdict);
      return std::optional<Nanoseconds>();
    }
    CaseTime time;
    time.case_name = task_case.name;
    time.time = outcome->time;
    time.modelled = outcome->modelled;
    time.impossible_floor = floor;
    time.class_floor = ClassFloor(spec, task_case.demanded.value_or(self.task_.demanded),
                                  task_case.flops, task_case.min_bytes);
    time.checked_share = outcome->checked_share;
    time.note = std::move(outcome->note);
    if (!outcome->gates.empty()) time.note += "; margins " + DescribeMargins(outcome->gates);
    time.launches = std::move(outcome->launches);
    time.min = outcome->min;
    time.q3 = outcome->q3;
    time.samples = std::move(outcome->samples);
    time.modes = std::move(outcome->modes);
    time.throttled = outcome->throttled;
    time.mean_clock_ghz = outcome->mean_clock_ghz;
    time.empty_kernel = outcome->empty_kernel;
    time.gpu_uuid = std::move(outcome->gpu_uuid);
    evaluation.modelled = evaluation.modelled || outcome->modelled;
    evaluation.times.push_back(std::move(time));
    return std::optional<Nanoseconds>(outcome->time);
  }
};

struct Evaluator::Steps::Impl {
  codegen::KernelProgram program;
  Run run;
  Impl(const Evaluator& evaluator, codegen::KernelProgram text)
      : program(std::move(text)), run{evaluator, program, {}} {}
};
Evaluator::Steps::Steps(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Evaluator::Steps::Steps(Steps&&) noexcept = default;
Evaluator::Steps& Evaluator::Steps::operator=(Steps&&) noexcept = default;
Evaluator::Steps::~Steps() = default;
Result<bool> Evaluator::Steps::Compile() { return impl_->run.Compile(); }
Result<bool> Evaluator::Steps::Check() { return impl_->run.Check(); }
Status Evaluator::Steps::Time() { return impl_->run.TimeAll(); }
Evaluation Evaluator::Steps::Take() { return std::move(impl_->run.evaluation); }

Evaluator::Steps Evaluator::Begin(codegen::KernelProgram program) const {
  return Steps(std::make_unique<Steps::Impl>(*this, std::move(program)));
}

Result<Evaluation> Evaluator::Evaluate(const codegen::KernelProgram& program) const {
  Steps steps = Begin(program);
  auto ended = steps.Compile();
  if (ended && !*ended) ended = steps.Check();
  if (!ended) return Failure(std::move(ended.error()));
  if (!*ended) {
    if (auto timed = steps.Time(); !timed) return Failure(std::move(timed.error()));
  }
  return steps.Take();
}

bool Evaluator::Timed(const Case& task_case) const {
  if (task_case.role != CaseRole::kScored) return false;
  const auto& wanted = options_.cases;
  return wanted.empty() || std::find(wanted.begin(), wanted.end(), task_case.name) != wanted.end();
}

Result<std::vector<CasePair>> Evaluator::ComparePair(
    const codegen::KernelProgram& incumbent, const codegen::KernelProgram& challenger) const {
  std::vector<CasePair> pairs;
  for (std::size_t i = 0; i < task_.cases.size(); ++i) {
    const Case& task_case = task_.cases[i];
    if (!Timed(task_case)) continue;
    CasePair& pair = pairs.emplace_back();
    pair.case_name = task_case.name;
    Prepared prepared[2];
    const codegen::KernelProgram* programs[] = {&incumbent, &challenger};
    for (int k = 0; k < 2; ++k) {
      auto one = Prepare(*programs[k], task_case);
      if (!one) return Failure(std::move(one.error()));
      if (!one->prepared) {
        pair.outcome.fault = ExecutionFault{one->verdict.kind, std::move(one->verdict.message)};
        return pairs;
      }
      prepared[k] = std::move(*one->prepared);
    }
    PairRequest request;
    request.context = &contexts_[i];
    request.base = &prepared[0];
    request.challenger = &prepared[1];
    // Not the draw that the timing used: a winner must win on other inputs as well.
    request.seed = DrawSeed(~options_.seed, i, Stage::kTiming);
    auto outcome = device_.TimePair(request);
    if (!outcome) return Failure(std::move(outcome.error()));
    pair.outcome = std::move(*outcome);
    if (pair.outcome.fault) return pairs;
  }
  return pairs;
}

std::vector<std::string> Evaluator::timed_cases() const {
  std::vector<std::string> names;
  for (const Case& task_case : task_.cases) {
    if (Timed(task_case)) names.push_back(task_case.name);
  }
  return names;
}

const CaseContext* Evaluator::FindContext(std::string_view case_name) const {
  for (const CaseContext& context : contexts_) {
    if (context.task_case().name == case_name) return &context;
  }
  return nullptr;
}

Result<Prepared> Evaluator::PrepareFor(const codegen::KernelProgram& program,
                                       const CaseContext& context) const {
  auto done = Prepare(program, context.task_case());
  if (!done) return Failure(std::move(done.error()));
  if (!done->prepared) {
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("{}: {}", Name(done->verdict.kind), done->verdict.message));
  }
  return std::move(*done->prepared);
}

}  // namespace grove::eval
