#include "search/stages.h"

#include <algorithm>
#include <thread>
#include <utility>

#include <tbb/flow_graph.h>
#include <tbb/global_control.h>
#include <tbb/task_arena.h>

namespace grove::search {
namespace {

namespace flow = tbb::flow;

struct Job {
  eval::Evaluator::Steps steps;
  Stages::Done done;
  bool failed = false;
  Error error;  // when it failed
};
using JobPtr = std::shared_ptr<Job>;
using Node = flow::function_node<JobPtr, flow::continue_msg>;

// Notes an error of ours; whether the next step follows.
bool GoesOn(Job& job, Result<bool> ended) {
  if (!ended) {
    job.failed = true;
    job.error = std::move(ended.error());
    return false;
  }
  return !*ended;
}

}  // namespace

StageLimits LimitsFor(const eval::Device& device) {
  const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  const int gpus = static_cast<int>(device.gpus().size());
  return {cores, cores, gpus > 0 ? gpus : cores};
}

struct Stages::Impl {
  Impl(const eval::Evaluator& from, const StageLimits& limits, std::stop_token token)
      : evaluator(from),
        stop(std::move(token)),
        slots(limits.compile + limits.check + limits.time + 1),
        // Steps wait for compilers and GPUs, so there are more of them than cores.
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
        } else {
          job->done(job->steps.Take());
        }
        return flow::continue_msg();
      });
      time.emplace(*graph, limits.time, [this](const JobPtr& job) {
        Step(job, nullptr, [](Job& j) {
          auto timed = j.steps.Time();
          return GoesOn(j, timed.map([] { return true; }));
        });
        return flow::continue_msg();
      });
      check.emplace(*graph, limits.check, [this](const JobPtr& job) {
        Step(job, &*time, [](Job& j) { return GoesOn(j, j.steps.Check()); });
        return flow::continue_msg();
      });
      compile.emplace(*graph, limits.compile, [this](const JobPtr& job) {
        Step(job, &*check, [](Job& j) { return GoesOn(j, j.steps.Compile()); });
        return flow::continue_msg();
      });
    });
  }

  ~Impl() {
    arena.execute([&] { graph->wait_for_all(); });
  }

  template <typename F>
  void Step(const JobPtr& job, Node* next, F step) {
    bool goes_on = false;
    if (stop.stop_requested()) {
      job->failed = true;
      job->error = Error{ErrorCode::kCancelled, "interrupted"};
    } else {
      // A step that waits for its own parallel work must not pick up another program's step.
      tbb::this_task_arena::isolate([&] { goes_on = step(*job); });
    }
    if (goes_on && next != nullptr) {
      next->try_put(job);
      return;
    }
    finish->try_put(job);
  }

  const eval::Evaluator& evaluator;
  const std::stop_token stop;
  const int slots;
  tbb::global_control threads;
  tbb::task_arena arena;
  std::optional<flow::graph> graph;
  std::optional<Node> finish, time, check, compile;
};

Stages::Stages(const eval::Evaluator& evaluator, const StageLimits& limits, std::stop_token stop)
    : impl_(std::make_unique<Impl>(evaluator, limits, std::move(stop))) {}
Stages::~Stages() = default;

void Stages::Submit(codegen::KernelProgram program, Done done) {
  impl_->compile->try_put(std::make_shared<Job>(
      Job{impl_->evaluator.Begin(std::move(program)), std::move(done), false, {}}));
}

}  // namespace grove::search
