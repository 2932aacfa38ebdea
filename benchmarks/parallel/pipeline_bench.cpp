// Pipelines of as many ranks as mpiexec starts.
//   bubble  the share of a step in which ranks wait, beside the schedule's formula: of stages that
//           sleep, so that it is the pipeline's and not the processors'
//   mlp     samples/s of training an MLP, for compare_pipeline.sh
//   mpiexec -n 2 -bind-to core build/release/benchmarks/parallel/parallel.pipeline_bench
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <lockstep/autograd/functional.hpp>
#include <lockstep/autograd/node.hpp>
#include <lockstep/comm/mpi_group.hpp>
#include <lockstep/nn/layers.hpp>
#include <lockstep/nn/random.hpp>
#include <lockstep/optim/sgd.hpp>
#include <lockstep/parallel/pipeline/pipeline.hpp>
#include <lockstep/parallel/pipeline/simulation.hpp>
#include <lockstep/parallel/pipeline/split.hpp>
#include <lockstep/tensor/math_libraries.hpp>
#include <memory>
#include <string>
#include <support/mpi_bench.hpp>
#include <support/sides.hpp>
#include <thread>
#include <vector>

namespace lockstep {
namespace {

using std::chrono::microseconds;

PipelineSchedule schedule_of(std::int64_t kind, int ranks, int microbatches) {
  switch (kind) {
    case 0:
      return gpipe(ranks, microbatches);
    case 1:
      return one_f_one_b(ranks, microbatches);
    case 2:
      return interleaved_1f1b(ranks, 2, microbatches);
    default:
      return zero_bubble_h1(ranks, microbatches);
  }
}

/// Hands on x; forward, the gradient of x and that of the weight take `time` each.
struct SleepNode : PooledNode<SleepNode> {
  explicit SleepNode(microseconds t) : time(t) {}
  void backward(const Tensor& grad_output) override {
    for (const int i : {0, 1}) {
      const GradTarget target = grad_target(i);
      if (!target.wanted) continue;
      std::this_thread::sleep_for(time);
      if (i == 0) {
        target.tensor.copy_from(grad_output);
      } else {
        target.tensor.fill(1.0);
      }
    }
  }
  [[nodiscard]] const char* name() const noexcept override { return "sleep"; }
  microseconds time;
};

struct Sleep : nn::Module {
  explicit Sleep(microseconds t) : time(t) {}
  Variable forward(const Variable& x) override {
    std::this_thread::sleep_for(time);
    // In the first stage, too, the gradient of the input takes time.
    const Variable in = x.requires_grad() ? x : x + zero;
    return record<SleepNode>(in.data().clone(), {&in, &weight}, time);
  }
  microseconds time;
  Variable weight = register_parameter("weight", Tensor::zeros({1}));
  Variable zero = register_parameter("zero", Tensor::zeros({1}));
};

/// Stages of this rank, with `time` a rank and micro-batch for each of the three parts.
std::vector<std::shared_ptr<nn::Module>> sleepers(const PipelineSchedule& schedule, int rank,
                                                  microseconds time) {
  std::vector<std::shared_ptr<nn::Module>> stages;
  const int stages_a_rank = schedule.stages() / schedule.ranks();
  for (const int owner : schedule.rank_of_stage) {
    if (owner == rank) stages.push_back(std::make_shared<Sleep>(time / stages_a_rank));
  }
  return stages;
}

constexpr int rounds = 4;

/// Seconds of one call, on the slowest rank.
template <class Call>
double slowest(const Call& call) {
  bench::world().barrier();
  const auto start = Clock::now();
  call();
  return all_reduce_scalar(bench::world(), seconds_since(start), ReduceOp::max);
}

void bubble(benchmark::State& state) {
  const auto group = make_mpi_group(MPI_COMM_WORLD);
  const int ranks = group->size(), microbatches = 4 * ranks;
  const PipelineSchedule schedule = schedule_of(state.range(0), ranks, microbatches);
  const PipelineSchedule alone = schedule_of(state.range(0), 1, microbatches);
  constexpr microseconds time{20000};
  const auto loss = [](const Variable& y, const Tensor&) { return mean(y); };
  Pipeline pipeline(sleepers(schedule, group->rank(), time), group, schedule, loss);
  const auto one = group->split(group->rank(), 0);
  Pipeline without_waiting(sleepers(alone, 0, time), one, alone, loss);
  const Tensor x = Tensor::zeros({microbatches, 1024});
  for (auto _ : state) {
    // The fastest round of each: a sleep may take longer, never shorter.
    double step = std::numeric_limits<double>::infinity(), work = step;
    for (int round = 0; round < rounds; ++round) {
      step = std::min(step, slowest([&] { pipeline.step(x, x); }));
      work = std::min(work, slowest([&] { without_waiting.step(x, x); }));
    }
    state.SetIterationTime(step);
    state.counters["bubble"] = 1.0 - work / step;
    state.counters["formula"] = simulate(schedule).bubble;
  }
  state.SetLabel(schedule.name);
  one->close();
  group->close();
}

constexpr std::int64_t width = 1024, rows = 256;
constexpr int layers = 8, microbatches = 8;

std::shared_ptr<nn::Sequential> make_mlp() {
  nn::manual_seed(1);
  auto model = std::make_shared<nn::Sequential>();
  for (int i = 0; i < layers; ++i) {
    model->push_back("fc" + std::to_string(i), std::make_shared<nn::Linear>(width, width));
    model->push_back("relu" + std::to_string(i), std::make_shared<nn::ReLU>());
  }
  return model;
}

void mlp(benchmark::State& state) {
  set_math_threads(1);
  const auto group = make_mpi_group(MPI_COMM_WORLD);
  const auto schedule = schedule_of(state.range(0), group->size(), microbatches);
  const auto all = split_into_stages(*make_mlp(), schedule.stages());
  std::vector<std::shared_ptr<nn::Module>> own;
  for (std::size_t s = 0; s < all.size(); ++s) {
    if (schedule.rank_of_stage[s] == group->rank()) own.push_back(all[s]);
  }
  Pipeline pipeline(own, group, schedule,
                    [](const Variable& y, const Tensor& target) { return mse_loss(y, target); });
  optim::SGD sgd(pipeline.named_parameters(), {.lr = 0.01});
  const Tensor x = nn::Linear(rows, width, false).weight().data().reshape({rows, width}).clone();
  for (auto _ : state) {
    bench::Sides sides;
    sides.add("step", [&] {
      sgd.zero_grad();
      pipeline.step(x, x);
      sgd.step();
    });
    sides.run(2);
    sides.report(state);
    state.counters["samples/s"] = static_cast<double>(rows) / sides.median_us("step") * 1e6;
  }
  state.SetLabel(schedule.name);
  group->close();
}

BENCHMARK(bubble)
    ->UseManualTime()
    ->Iterations(1)
    ->Unit(benchmark::kMicrosecond)
    ->ArgName("schedule")
    ->DenseRange(0, 3);
BENCHMARK(mlp)
    ->UseManualTime()
    ->Iterations(1)
    ->Unit(benchmark::kMicrosecond)
    ->ArgName("schedule")
    ->DenseRange(0, 3);

}  // namespace
}  // namespace lockstep
