#include "eval/cuda/protocol.h"

#include <algorithm>
#include <bit>

#include "base/wire.h"

namespace grove::cuda {
namespace {

using codegen::ResolvedArg;
using codegen::ResolvedGemm;
using codegen::ResolvedLaunch;
using codegen::ResolvedMatrix;
using codegen::ResolvedPlan;
using codegen::ResolvedTensorMap;
using codegen::ResolvedWorkspace;

// Writing and reading of one type stand side by side below, in the same order of fields.

void PutInt(WireWriter& out, int value) { out.I64(value); }
int GetInt(WireReader& in) { return static_cast<int>(in.I64()); }
void PutTime(WireWriter& out, Nanoseconds time) { out.F64(time.count()); }
Nanoseconds GetTime(WireReader& in) { return Nanoseconds(in.F64()); }

template <typename T, typename PutOne>
void PutList(WireWriter& out, const std::vector<T>& list, PutOne put) {
  out.U64(list.size());
  for (const T& item : list) put(out, item);
}
template <typename T, typename GetOne>
std::vector<T> GetList(WireReader& in, std::size_t least_bytes, GetOne get) {
  std::vector<T> list;
  const std::size_t count = in.Count(least_bytes);
  list.reserve(count);
  for (std::size_t i = 0; i < count && in.ok(); ++i) list.push_back(get(in));
  return list;
}

void PutI64(WireWriter& out, std::int64_t value) { out.I64(value); }
std::int64_t GetI64(WireReader& in) { return in.I64(); }

DType GetDType(WireReader& in, bool& valid) {
  const std::uint32_t value = in.U32();
  if (value > static_cast<std::uint32_t>(DType::kBool)) valid = false;
  return valid ? static_cast<DType>(value) : DType::kF32;
}
void PutDType(WireWriter& out, DType dtype) { out.U32(static_cast<std::uint32_t>(dtype)); }

void PutStored(WireWriter& out, const seeds::Stored& stored) {
  out.Text(stored.key);
  out.Text(stored.file);
  out.I64(stored.offset);
}
seeds::Stored GetStored(WireReader& in, bool& valid) {
  seeds::Stored stored;
  stored.key = in.Text();
  stored.file = in.Text();
  stored.offset = in.I64();
  valid = valid && stored.offset >= 0;
  return stored;
}

void PutCase(WireWriter& out, const seeds::Case& c) {
  out.Text(c.name);
  out.I64(c.row_elements);
  PutList(out, c.tensors, [](WireWriter& w, const seeds::Tensor& t) {
    w.Text(t.name);
    w.U32(t.role == seeds::TensorRole::kOutput ? 1 : 0);
    PutDType(w, t.dtype);
    PutList(w, t.shape, PutI64);
    w.U32(static_cast<std::uint32_t>(t.distribution.kind));
    w.F64(t.distribution.a);
    w.F64(t.distribution.b);
    w.U32(static_cast<std::uint32_t>(t.distribution.structure));
    PutStored(w, t.distribution.stored);
  });
  PutList(out, c.golden, PutStored);
  out.U32(static_cast<std::uint32_t>(c.checker));
  out.U32(static_cast<std::uint32_t>(c.profile));
}
seeds::Case GetCase(WireReader& in, bool& valid) {
  seeds::Case c;
  c.name = in.Text();
  c.row_elements = in.I64();
  c.tensors = GetList<seeds::Tensor>(in, 32, [&](WireReader& r) {
    seeds::Tensor t;
    t.name = r.Text();
    t.role = r.U32() == 1 ? seeds::TensorRole::kOutput : seeds::TensorRole::kInput;
    t.dtype = GetDType(r, valid);
    t.shape = GetList<std::int64_t>(r, 8, GetI64);
    t.distribution.kind = static_cast<seeds::Distribution::Kind>(r.U32());
    t.distribution.a = r.F64();
    t.distribution.b = r.F64();
    t.distribution.structure = static_cast<seeds::Distribution::Structure>(r.U32());
    t.distribution.stored = GetStored(r, valid);
    return t;
  });
  c.golden = GetList<seeds::Stored>(in, 24, [&](WireReader& r) { return GetStored(r, valid); });
  const auto outputs =
      std::count_if(c.tensors.begin(), c.tensors.end(),
                    [](const seeds::Tensor& t) { return t.role == seeds::TensorRole::kOutput; });
  valid = valid && (c.golden.empty() || c.golden.size() == static_cast<std::size_t>(outputs));
  const std::uint32_t checker = in.U32();
  const std::uint32_t profile = in.U32();
  valid = valid && checker <= static_cast<std::uint32_t>(seeds::Checker::kHouseholderQr) &&
          profile <= static_cast<std::uint32_t>(seeds::CheckerProfile::kCompetition);
  if (valid) {
    c.checker = static_cast<seeds::Checker>(checker);
    c.profile = static_cast<seeds::CheckerProfile>(profile);
  }
  return c;
}

void PutMatrix(WireWriter& out, const ResolvedMatrix& m) {
  out.U32(static_cast<std::uint32_t>(m.kind));
  out.U64(m.index);
  PutDType(out, m.dtype);
  for (const std::int64_t v : {m.offset, m.ld, m.stride}) out.I64(v);
  out.U32(m.transpose ? 1 : 0);
}
ResolvedMatrix GetMatrix(WireReader& in, bool& valid) {
  ResolvedMatrix m;
  m.kind = static_cast<ResolvedArg::Kind>(in.U32());
  m.index = in.U64();
  m.dtype = GetDType(in, valid);
  for (std::int64_t* v : {&m.offset, &m.ld, &m.stride}) *v = in.I64();
  m.transpose = in.U32() == 1;
  return m;
}

void PutGemm(WireWriter& out, const ResolvedGemm& gemm) {
  for (const std::int64_t v : {gemm.m, gemm.n, gemm.k, gemm.batch}) out.I64(v);
  out.F64(gemm.alpha);
  out.F64(gemm.beta);
  out.U32(static_cast<std::uint32_t>(gemm.compute));
  for (const ResolvedMatrix* m : {&gemm.a, &gemm.b, &gemm.c}) PutMatrix(out, *m);
}
std::shared_ptr<const ResolvedGemm> GetGemm(WireReader& in, bool& valid) {
  auto gemm = std::make_shared<ResolvedGemm>();
  for (std::int64_t* v : {&gemm->m, &gemm->n, &gemm->k, &gemm->batch}) *v = in.I64();
  gemm->alpha = in.F64();
  gemm->beta = in.F64();
  const std::uint32_t compute = in.U32();
  valid = valid && compute <= static_cast<std::uint32_t>(codegen::GemmCompute::kFp64);
  if (valid) gemm->compute = static_cast<codegen::GemmCompute>(compute);
  for (ResolvedMatrix* m : {&gemm->a, &gemm->b, &gemm->c}) *m = GetMatrix(in, valid);
  return gemm;
}

void PutLaunch(WireWriter& out, const ResolvedLaunch& launch) {
  out.Text(launch.kernel);
  for (std::int64_t v : launch.grid) out.I64(v);
  for (std::int64_t v : launch.block) out.I64(v);
  out.I64(launch.shared_bytes);
  out.U32(launch.cluster ? 1 : 0);
  for (std::size_t i = 0; i < 3; ++i) out.I64(launch.cluster ? (*launch.cluster)[i] : 1);
  out.U32(launch.cooperative ? 1 : 0);
  out.U32(launch.dependent ? 1 : 0);
  PutList(out, launch.args, [](WireWriter& w, const ResolvedArg& arg) {
    w.U32(static_cast<std::uint32_t>(arg.kind));
    w.U64(arg.index);
    w.U64(std::bit_cast<std::uint64_t>(arg.bytes));
    w.U64(arg.size);
  });
  out.Text(launch.place);
  out.U32(launch.gemm ? 1 : 0);
  if (launch.gemm) PutGemm(out, *launch.gemm);
}
ResolvedLaunch GetLaunch(WireReader& in, bool& valid) {
  ResolvedLaunch launch;
  launch.kernel = in.Text();
  for (std::int64_t& v : launch.grid) v = in.I64();
  for (std::int64_t& v : launch.block) v = in.I64();
  launch.shared_bytes = in.I64();
  const bool has_cluster = in.U32() == 1;
  std::array<std::int64_t, 3> cluster{};
  for (std::int64_t& v : cluster) v = in.I64();
  if (has_cluster) launch.cluster = cluster;
  launch.cooperative = in.U32() == 1;
  launch.dependent = in.U32() == 1;
  launch.args = GetList<ResolvedArg>(in, 28, [](WireReader& r) {
    ResolvedArg arg;
    arg.kind = static_cast<ResolvedArg::Kind>(r.U32());
    arg.index = r.U64();
    arg.bytes = std::bit_cast<std::array<std::byte, 8>>(r.U64());
    arg.size = r.U64();
    return arg;
  });
  launch.place = in.Text();
  if (in.U32() == 1) launch.gemm = GetGemm(in, valid);
  return launch;
}

void PutProgram(WireWriter& out, const Program& program) {
  out.Text(program.cubin);
  PutList(out, program.plan.workspaces, [](WireWriter& w, const ResolvedWorkspace& workspace) {
    w.Text(workspace.name);
    PutDType(w, workspace.dtype);
    w.I64(workspace.elements);
    w.U32(workspace.zero ? 1 : 0);
  });
  PutList(out, program.plan.tensor_maps, [](WireWriter& w, const ResolvedTensorMap& map) {
    w.Text(map.name);
    w.Text(map.tensor);
    PutDType(w, map.dtype);
    PutList(w, map.shape, PutI64);
    PutList(w, map.box, PutI64);
    PutList(w, map.element_strides, PutI64);
    w.Text(map.swizzle);
    w.Text(map.interleave);
    w.Text(map.l2_promotion);
  });
  PutList(out, program.plan.launches, PutLaunch);
}
Program GetProgram(WireReader& in, bool& valid) {
  Program program;
  program.cubin = in.Text();
  program.plan.workspaces = GetList<ResolvedWorkspace>(in, 24, [&](WireReader& r) {
    ResolvedWorkspace workspace;
    workspace.name = r.Text();
    workspace.dtype = GetDType(r, valid);
    workspace.elements = r.I64();
    workspace.zero = r.U32() == 1;
    if (workspace.elements < 0) valid = false;
    return workspace;
  });
  program.plan.tensor_maps = GetList<ResolvedTensorMap>(in, 68, [&](WireReader& r) {
    ResolvedTensorMap map;
    map.name = r.Text();
    map.tensor = r.Text();
    map.dtype = GetDType(r, valid);
    map.shape = GetList<std::int64_t>(r, 8, GetI64);
    map.box = GetList<std::int64_t>(r, 8, GetI64);
    map.element_strides = GetList<std::int64_t>(r, 8, GetI64);
    map.swizzle = r.Text();
    map.interleave = r.Text();
    map.l2_promotion = r.Text();
    return map;
  });
  program.plan.launches =
      GetList<ResolvedLaunch>(in, 100, [&](WireReader& r) { return GetLaunch(r, valid); });
  return program;
}

// Every index of a plan must lie in its list, since the executor uses them unchecked by name.
bool Sound(const ResolvedPlan& plan, std::size_t tensors) {
  const auto inside = [&](const ResolvedMatrix& m) {
    return m.kind == ResolvedArg::Kind::kTensor      ? m.index < tensors
           : m.kind == ResolvedArg::Kind::kWorkspace ? m.index < plan.workspaces.size()
                                                     : false;
  };
  for (const ResolvedLaunch& launch : plan.launches) {
    if (launch.gemm &&
        (!inside(launch.gemm->a) || !inside(launch.gemm->b) || !inside(launch.gemm->c))) {
      return false;
    }
    for (const ResolvedArg& arg : launch.args) {
      switch (arg.kind) {
        case ResolvedArg::Kind::kTensor:
          if (arg.index >= tensors) return false;
          break;
        case ResolvedArg::Kind::kWorkspace:
          if (arg.index >= plan.workspaces.size()) return false;
          break;
        case ResolvedArg::Kind::kTensorMap:
          if (arg.index >= plan.tensor_maps.size()) return false;
          break;
        case ResolvedArg::Kind::kScalar:
          break;
        default:
          return false;
      }
    }
  }
  return true;
}

void PutJob(WireWriter& out, const Job& job) {
  PutCase(out, job.task_case);
  PutProgram(out, job.reference);
  PutProgram(out, job.candidate);
  out.U64(job.seed);
  out.I64(job.deadline.count());
}
void GetJob(WireReader& in, Job& job, bool& valid) {
  job.task_case = GetCase(in, valid);
  job.reference = GetProgram(in, valid);
  job.candidate = GetProgram(in, valid);
  job.seed = in.U64();
  job.deadline = std::chrono::milliseconds(in.I64());
  valid = valid && Sound(job.reference.plan, job.task_case.tensors.size()) &&
          Sound(job.candidate.plan, job.task_case.tensors.size());
}

void PutLimits(WireWriter& out, const StoppingLimits& limits) {
  PutInt(out, limits.min_samples);
  PutInt(out, limits.max_samples);
  PutTime(out, limits.min_total);
  out.F64(limits.relative_stderr);
  PutInt(out, limits.noise_window);
  out.F64(limits.noise_stability);
  out.F64(limits.wall_limit.count());
}
StoppingLimits GetLimits(WireReader& in) {
  StoppingLimits limits;
  limits.min_samples = GetInt(in);
  limits.max_samples = GetInt(in);
  limits.min_total = GetTime(in);
  limits.relative_stderr = in.F64();
  limits.noise_window = GetInt(in);
  limits.noise_stability = in.F64();
  limits.wall_limit = Seconds(in.F64());
  return limits;
}

void PutFault(WireWriter& out, const std::optional<eval::ExecutionFault>& fault) {
  out.U32(fault ? 1 : 0);
  out.U32(fault ? static_cast<std::uint32_t>(fault->kind) : 0);
  out.Text(fault ? fault->message : std::string_view{});
}
eval::VerdictKind GetKind(WireReader& in, bool& valid) {
  const std::uint32_t kind = in.U32();
  if (kind > static_cast<std::uint32_t>(eval::VerdictKind::kInfrastructure)) valid = false;
  return valid ? static_cast<eval::VerdictKind>(kind) : eval::VerdictKind::kInfrastructure;
}
std::optional<eval::ExecutionFault> GetFault(WireReader& in, bool& valid) {
  const bool present = in.U32() == 1;
  eval::ExecutionFault fault;
  fault.kind = GetKind(in, valid);
  fault.message = in.Text();
  if (!present) return std::nullopt;
  return fault;
}

void PutReport(WireWriter& out, const eval::ErrorReport& report) {
  out.I64(report.elements);
  out.I64(report.rows);
  out.F64(report.worst_row_l2);
  out.I64(report.worst_row);
  out.F64(report.median_row_l2);
  out.F64(report.scaled_max);
  out.I64(report.worst_element);
  out.F64(report.expected);
  out.F64(report.got);
  out.I64(report.non_finite_mismatches);
}
eval::ErrorReport GetReport(WireReader& in) {
  eval::ErrorReport report;
  report.elements = in.I64();
  report.rows = in.I64();
  report.worst_row_l2 = in.F64();
  report.worst_row = in.I64();
  report.median_row_l2 = in.F64();
  report.scaled_max = in.F64();
  report.worst_element = in.I64();
  report.expected = in.F64();
  report.got = in.F64();
  report.non_finite_mismatches = in.I64();
  return report;
}
constexpr std::size_t kReportBytes = 80;

void PutGate(WireWriter& out, const eval::Gate& gate) {
  out.Text(gate.name);
  out.F64(gate.value);
  out.F64(gate.limit);
  out.U32(gate.decides ? 1 : 0);
  out.I64(gate.matrix);
  out.I64(gate.column);
}
eval::Gate GetGate(WireReader& in) {
  eval::Gate gate;
  gate.name = in.Text();
  gate.value = in.F64();
  gate.limit = in.F64();
  gate.decides = in.U32() == 1;
  gate.matrix = in.I64();
  gate.column = in.I64();
  return gate;
}
constexpr std::size_t kGateBytes = 40;

void PutMode(WireWriter& out, const eval::ModeTime& mode) {
  out.Text(mode.mode);
  PutList(out, mode.samples, PutTime);
  PutTime(out, mode.min);
  PutTime(out, mode.median);
  PutTime(out, mode.q3);
  out.F64(mode.relative_stderr);
  out.Text(mode.stopped);
  out.Text(mode.note);
}
eval::ModeTime GetMode(WireReader& in) {
  eval::ModeTime mode;
  mode.mode = in.Text();
  mode.samples = GetList<Nanoseconds>(in, 8, GetTime);
  mode.min = GetTime(in);
  mode.median = GetTime(in);
  mode.q3 = GetTime(in);
  mode.relative_stderr = in.F64();
  mode.stopped = in.Text();
  mode.note = in.Text();
  return mode;
}

void PutLaunchReport(WireWriter& out, const eval::LaunchReport& report) {
  out.Text(report.kernel);
  PutTime(out, report.time);
  PutInt(out, report.occupancy.blocks_per_sm);
  out.F64(report.occupancy.warps_share);
  out.Text(report.occupancy.limiter);
  out.Text(report.bound);
  out.F64(report.dram_bytes);
}
eval::LaunchReport GetLaunchReport(WireReader& in) {
  eval::LaunchReport report;
  report.kernel = in.Text();
  report.time = GetTime(in);
  report.occupancy.blocks_per_sm = GetInt(in);
  report.occupancy.warps_share = in.F64();
  report.occupancy.limiter = in.Text();
  report.bound = in.Text();
  report.dram_bytes = in.F64();
  return report;
}

void PutOutcome(WireWriter& out, const eval::TimeOutcome& outcome) {
  PutFault(out, outcome.fault);
  PutTime(out, outcome.time);
  PutTime(out, outcome.min);
  PutTime(out, outcome.q3);
  PutList(out, outcome.samples, PutTime);
  PutList(out, outcome.modes, PutMode);
  PutInt(out, outcome.throttled);
  out.F64(outcome.mean_clock_ghz);
  PutTime(out, outcome.empty_kernel);
  PutList(out, outcome.launches, PutLaunchReport);
  PutList(out, outcome.errors, PutReport);
  PutList(out, outcome.gates, PutGate);
  out.F64(outcome.checked_share);
  out.Text(outcome.note);
}
eval::TimeOutcome GetOutcome(WireReader& in, bool& valid) {
  eval::TimeOutcome outcome;
  outcome.fault = GetFault(in, valid);
  outcome.time = GetTime(in);
  outcome.min = GetTime(in);
  outcome.q3 = GetTime(in);
  outcome.samples = GetList<Nanoseconds>(in, 8, GetTime);
  outcome.modes = GetList<eval::ModeTime>(in, 56, GetMode);
  outcome.throttled = GetInt(in);
  outcome.mean_clock_ghz = in.F64();
  outcome.empty_kernel = GetTime(in);
  outcome.launches = GetList<eval::LaunchReport>(in, 56, GetLaunchReport);
  outcome.errors = GetList<eval::ErrorReport>(in, kReportBytes, GetReport);
  outcome.gates = GetList<eval::Gate>(in, kGateBytes, GetGate);
  outcome.checked_share = in.F64();
  outcome.note = in.Text();
  return outcome;
}

template <typename T>
Result<T> Checked(const WireReader& in, bool valid, T value, std::string_view name) {
  if (!in.AtEnd() || !valid) {
    return Fail(ErrorCode::kInternal, "malformed " + std::string(name) + " message");
  }
  return value;
}

}  // namespace

std::string Encode(const OpenMessage& message) {
  WireWriter out;
  out.U32(message.version);
  PutInt(out, message.ordinal);
  PutInt(out, message.lanes);
  out.I64(message.idle_memory.value);
  return std::move(out).Take();
}

Result<OpenMessage> DecodeOpen(std::string_view bytes) {
  WireReader in(bytes);
  OpenMessage message;
  message.version = in.U32();
  message.ordinal = GetInt(in);
  message.lanes = GetInt(in);
  message.idle_memory = Bytes(in.I64());
  const bool valid = message.lanes >= 1 && message.lanes <= 64;
  return Checked(in, valid, message, "open");
}

std::string Encode(const DeviceFacts& facts) {
  WireWriter out;
  out.Text(facts.name);
  out.Text(facts.uuid);
  for (int value : {facts.ordinal, facts.driver_version, facts.compute_major, facts.compute_minor,
                    facts.sm_count, facts.clock_khz, facts.memory_clock_khz, facts.memory_bus_bits,
                    facts.l2_bytes, facts.shared_per_sm, facts.shared_per_block,
                    facts.registers_per_sm, facts.threads_per_sm, facts.blocks_per_sm,
                    facts.max_threads_per_block, facts.virtual_memory ? 1 : 0}) {
    PutInt(out, value);
  }
  out.I64(facts.memory_bytes);
  return std::move(out).Take();
}

Result<DeviceFacts> DecodeFacts(std::string_view bytes) {
  WireReader in(bytes);
  DeviceFacts facts;
  facts.name = in.Text();
  facts.uuid = in.Text();
  for (int* value :
       {&facts.ordinal, &facts.driver_version, &facts.compute_major, &facts.compute_minor,
        &facts.sm_count, &facts.clock_khz, &facts.memory_clock_khz, &facts.memory_bus_bits,
        &facts.l2_bytes, &facts.shared_per_sm, &facts.shared_per_block, &facts.registers_per_sm,
        &facts.threads_per_sm, &facts.blocks_per_sm, &facts.max_threads_per_block}) {
    *value = GetInt(in);
  }
  facts.virtual_memory = GetInt(in) == 1;
  facts.memory_bytes = in.I64();
  return Checked(in, true, facts, "facts");
}

std::string Encode(const CheckJob& job) {
  WireWriter out;
  PutJob(out, job);
  PutInt(out, job.runs);
  return std::move(out).Take();
}

Result<CheckJob> DecodeCheckJob(std::string_view bytes) {
  WireReader in(bytes);
  CheckJob job;
  bool valid = true;
  GetJob(in, job, valid);
  job.runs = GetInt(in);
  return Checked(in, valid, std::move(job), "check");
}

std::string Encode(const TimeJob& job) {
  WireWriter out;
  PutJob(out, job);
  out.U32(job.base ? 1 : 0);
  PutProgram(out, job.base ? *job.base : Program{});
  PutLimits(out, job.limits);
  out.U32(job.all_modes ? 1 : 0);
  return std::move(out).Take();
}

Result<TimeJob> DecodeTimeJob(std::string_view bytes) {
  WireReader in(bytes);
  TimeJob job;
  bool valid = true;
  GetJob(in, job, valid);
  const bool has_base = in.U32() == 1;
  Program base = GetProgram(in, valid);
  if (has_base) {
    valid = valid && Sound(base.plan, job.task_case.tensors.size());
    job.base = std::move(base);
  }
  job.limits = GetLimits(in);
  job.all_modes = in.U32() == 1;
  return Checked(in, valid, std::move(job), "time");
}

std::string Encode(const CheckDone& done) {
  WireWriter out;
  PutFault(out, done.outcome.fault);
  out.U32(done.outcome.deterministic ? 1 : 0);
  PutList(out, done.outcome.errors, PutReport);
  PutList(out, done.outcome.gates, PutGate);
  out.U32(done.outcome.unwritten_tensor ? 1 : 0);
  out.U64(done.outcome.unwritten_tensor.value_or(0));
  out.I64(done.outcome.unwritten_element);
  PutTime(out, done.reference_time);
  return std::move(out).Take();
}

Result<CheckDone> DecodeCheckDone(std::string_view bytes) {
  WireReader in(bytes);
  CheckDone done;
  bool valid = true;
  done.outcome.fault = GetFault(in, valid);
  done.outcome.deterministic = in.U32() == 1;
  done.outcome.errors = GetList<eval::ErrorReport>(in, kReportBytes, GetReport);
  done.outcome.gates = GetList<eval::Gate>(in, kGateBytes, GetGate);
  const bool unwritten = in.U32() == 1;
  const std::uint64_t tensor = in.U64();
  if (unwritten) done.outcome.unwritten_tensor = tensor;
  done.outcome.unwritten_element = in.I64();
  done.reference_time = GetTime(in);
  return Checked(in, valid, std::move(done), "check outcome");
}

std::string Encode(const TimeDone& done) {
  WireWriter out;
  PutOutcome(out, done.outcome);
  out.U32(done.pair ? 1 : 0);
  if (done.pair) {
    const eval::PairOutcome& pair = *done.pair;
    PutFault(out, pair.fault);
    PutList(out, pair.base, PutTime);
    PutList(out, pair.challenger, PutTime);
    out.F64(pair.ratio);
    out.F64(pair.median_delta);
    out.F64(pair.delta_stderr);
    out.U32(static_cast<std::uint32_t>(pair.result));
  }
  return std::move(out).Take();
}

Result<TimeDone> DecodeTimeDone(std::string_view bytes) {
  WireReader in(bytes);
  TimeDone done;
  bool valid = true;
  done.outcome = GetOutcome(in, valid);
  if (in.U32() == 1) {
    eval::PairOutcome pair;
    pair.fault = GetFault(in, valid);
    pair.base = GetList<Nanoseconds>(in, 8, GetTime);
    pair.challenger = GetList<Nanoseconds>(in, 8, GetTime);
    pair.ratio = in.F64();
    pair.median_delta = in.F64();
    pair.delta_stderr = in.F64();
    const std::uint32_t result = in.U32();
    valid = valid && result <= static_cast<std::uint32_t>(eval::PairOutcome::Result::kTie);
    if (valid) pair.result = static_cast<eval::PairOutcome::Result>(result);
    done.pair = std::move(pair);
  }
  return Checked(in, valid, std::move(done), "time outcome");
}

std::string Encode(const FatalMessage& message) {
  WireWriter out;
  out.U32(static_cast<std::uint32_t>(message.kind));
  out.Text(message.message);
  return std::move(out).Take();
}

Result<FatalMessage> DecodeFatal(std::string_view bytes) {
  WireReader in(bytes);
  FatalMessage message;
  bool valid = true;
  message.kind = GetKind(in, valid);
  message.message = in.Text();
  return Checked(in, valid, std::move(message), "fatal");
}

std::string WithId(std::uint64_t id, std::string_view payload) {
  WireWriter out;
  out.U64(id);
  std::string bytes = std::move(out).Take();
  bytes += payload;
  return bytes;
}

Result<std::uint64_t> TakeId(std::string_view& payload) {
  if (payload.size() < 8) return Fail(ErrorCode::kInternal, "message without a request id");
  WireReader in(payload.substr(0, 8));
  const std::uint64_t id = in.U64();
  payload.remove_prefix(8);
  return id;
}

}  // namespace grove::cuda
