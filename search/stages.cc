#include "search/stages.h"

#include <algorithm>
#include <thread>
#include <utility>

#include <tbb/flow_graph.h>
#include <tbb/global_control.h>
#include <tbb/task_arena.h>

#include "search/elsewhere.h"

namespace grove::search {
namespace {

namespace flow = tbb::flow;

struct Job {
  std::string name;
  codegen::KernelProgram program;
  eval::Evaluator::Steps steps;
  Stages::Done done;
  bool failed = false;
  Error error;  // when it failed
  bool away = false;
  std::optional<eval::Evaluation> found;  // by another machine
};
using JobPtr = std::shared_ptr<Job>;
// A job that is at its end goes to the last node at once, and none goes on in its place. What goes
// on is the next thing that its own thread does, so that no other thread is woken for it.
using Node = flow::function_node<JobPtr, JobPtr>;

// Notes an error of ours; whether the next step follows.
bool GoesOn(Job& job, Result<bool> ended) {
  if (!ended) {
    job.failed = true;
    job.error = std::move(ended.error());
    return false;
  }
  return !*ended;
}

// What a screen cannot tell is no verdict.
bool Undecided(const eval::Verdict& verdict) {
  return verdict.kind == eval::VerdictKind::kUnsupported ||
         verdict.kind == eval::VerdictKind::kTimeout ||
         verdict.kind == eval::VerdictKind::kOutOfMemory ||
         verdict.kind == eval::VerdictKind::kInfrastructure;
}

}  // namespace

StageLimits LimitsFor(const eval::Device& device) {
  const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  const int gpus = static_cast<int>(device.gpus().size());
  if (gpus > 0) return {cores, cores, gpus};
  return {cores, cores, cores, cores};
}

struct Stages::Impl {
  Impl(const eval::Evaluator& from, const StageLimits& limits, std::stop_token token,
       Elsewhere* other, bool screened)
      : evaluator(from),
        stop(std::move(token)),
        elsewhere(other),
        screen(screened),
        // One more for what a verdict leads to. A slot too many costs: the threads of an arena are
        // all woken by work, and look for more of it again and again before they sleep.
        slots(1 + (limits.all > 0 ? limits.all : limits.compile + limits.check + limits.time)),
        // Steps wait for compilers and GPUs, so there may be more of them than cores.
        threads(tbb::global_control::max_allowed_parallelism,
                std::max<std::size_t>(static_cast<std::size_t>(slots) + 1,
                                      tbb::global_control::active_value(
                                          tbb::global_control::max_allowed_parallelism))),
        arena(slots, 0) {
    arena.execute([&] {
      graph.emplace();
      // Apart, so that what a verdict leads to never holds a step up.
      finish.emplace(*graph, flow::unlimited, [](const JobPtr& job) {
        if (job->failed) {
          job->done(Failure(std::move(job->error)));
        } else if (job->away) {
          job->done(std::move(job->found));
        } else {
          job->done(job->steps.Take());
        }
        return flow::continue_msg();
      });
      compile.emplace(*graph, limits.compile, [this](const JobPtr& job) {
        return Step(job, [](Job& j) { return GoesOn(j, j.steps.Compile()); });
      });
      check.emplace(*graph, limits.check, [this](const JobPtr& job) {
        return Step(job, [this](Job& j) {
          return elsewhere == nullptr ? GoesOn(j, j.steps.Check()) : LookUp(j);
        });
      });
      time.emplace(*graph, limits.time, [this](const JobPtr& job) {
        return Step(job, [](Job& j) {
          auto timed = j.steps.Time();
          return GoesOn(j, timed.map([] { return true; }));
        });
      });
      flow::make_edge(*compile, *check);
      flow::make_edge(*check, *time);
    });
  }

  ~Impl() {
    arena.execute([&] { graph->wait_for_all(); });
  }

  // Whether the program goes on here: never. Its verdict is that of the screen, what another
  // machine found, or awaited.
  bool LookUp(Job& job) {
    if (screen && elsewhere->Where(job.program.identity()) == Elsewhere::Place::kNew) {
      auto screened = job.steps.Check();
      if (!screened) return GoesOn(job, std::move(screened));
      if (*screened) {
        auto evaluation = job.steps.Take();
        if (!Undecided(evaluation.verdict)) {
          job.away = true;
          job.found = std::move(evaluation);
          return false;
        }
      }
    }
    job.away = true;
    job.found = elsewhere->Find(job.name, job.program);
    return false;
  }

  // What the next node gets.
  template <typename F>
  JobPtr Step(const JobPtr& job, F step) {
    if (!job) return nullptr;
    bool goes_on = false;
    if (stop.stop_requested()) {
      job->failed = true;
      job->error = Error{ErrorCode::kCancelled, "interrupted"};
    } else {
      // A step that waits for its own parallel work must not pick up another program's step.
      tbb::this_task_arena::isolate([&] { goes_on = step(*job); });
    }
    if (goes_on) return job;
    finish->try_put(job);
    return nullptr;
  }

  const eval::Evaluator& evaluator;
  const std::stop_token stop;
  Elsewhere* const elsewhere;
  const bool screen;
  const int slots;
  tbb::global_control threads;
  tbb::task_arena arena;
  std::optional<flow::graph> graph;
  std::optional<flow::function_node<JobPtr>> finish;
  std::optional<Node> time, check, compile;
};

Stages::Stages(const eval::Evaluator& evaluator, const StageLimits& limits, std::stop_token stop,
               Elsewhere* elsewhere, bool screen)
    : impl_(std::make_unique<Impl>(evaluator, limits, std::move(stop), elsewhere, screen)) {}
Stages::~Stages() = default;

void Stages::Submit(std::string name, codegen::KernelProgram program, Done done) {
  auto steps = impl_->evaluator.Begin(program);
  impl_->compile->try_put(std::make_shared<Job>(
      Job{std::move(name), std::move(program), std::move(steps), std::move(done), false, {}}));
}

}  // namespace grove::search
