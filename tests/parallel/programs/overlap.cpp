// The time that DistributedDataParallel's ranks wait at the end of backward, compared with the same
// sums begun only there: over a slow link (comm/slow_link.sh starts it), also with rank 1 delayed
// by 20 ms at the beginning of backward. Without an argument: two ranks of one machine.
#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include <comm/programs/program.hpp>
#include <lockstep/autograd/functional.hpp>
#include <lockstep/autograd/node.hpp>
#include <lockstep/base/clock.hpp>
#include <lockstep/comm/mpi_group.hpp>
#include <lockstep/comm/node_layout.hpp>
#include <lockstep/comm/objects.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>

using namespace lockstep;
using test::expect;

namespace {

constexpr std::int64_t width = 512;  // a layer's gradient: 1 MiB
constexpr int layers = 40;
constexpr std::int64_t gradient_bytes = layers * width * width * 4;
constexpr double delay_s = 0.020;

void compute(double seconds) {
  const auto start = Clock::now();
  while (seconds_since(start) < seconds) {
  }
}

/// Passes x on; backward computes for this long.
struct SpinNode : PooledNode<SpinNode> {
  explicit SpinNode(double s) : seconds(s) {}
  void backward(const Tensor& grad_output) override {
    compute(seconds);
    pass_grad(0, grad_output);
  }
  [[nodiscard]] const char* name() const noexcept override { return "compute"; }
  double seconds;
};

Variable computed(const Variable& x, double seconds) {
  return record<SpinNode>(x.data(), {&x}, seconds);
}

/// Layers whose gradients cost `backward_s` together.
struct Layers : nn::Module {
  explicit Layers(double s) : backward_s(s) {
    for (int i = 0; i < layers; ++i) {
      weights.push_back(register_parameter(
          "weight" + std::to_string(i), Variable(Tensor::full({width, width}, 1e-3), true).data()));
    }
  }
  Variable forward(const Variable& x) override {
    Variable y = x;
    for (const Variable& weight : weights)
      y = computed(linear(y, weight, Variable()), backward_s / layers);
    return computed(y, delay_s_of_this_rank);
  }
  double backward_s;
  double delay_s_of_this_rank = 0.0;
  std::vector<Variable> weights;
};

/// The result of the quiet rounds on a busy machine: others only increase it.
double first_quartile(std::vector<double> values) {
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 4);
  std::ranges::nth_element(values, at);
  return *at;
}

class Measurement {
 public:
  Measurement(const std::shared_ptr<ProcessGroup>& group, double backward_s)
      : model_(std::make_shared<Layers>(backward_s)), ddp_(model_, group, {.buckets = {1, 1}}) {}

  /// Seconds that the longest waiting rank waits for sums; with a delay, the late rank's: the other
  /// waits for it in any case. Collective.
  double wait(bool overlap, double delay_s) {
    ProcessGroup& group = ddp_.group();
    const bool late = group.rank() == 1;
    model_->delay_s_of_this_rank = late ? delay_s : 0.0;
    const Variable loss = mean(ddp_.forward(Variable(Tensor::full({1, width}, 1.0))));
    group.barrier();
    const double before = ddp_.stats().wait_s;
    ddp_.zero_grad();
    if (overlap) {
      ddp_.backward(loss, 0.5);
    } else {
      {
        const auto local = ddp_.no_sync();
        ddp_.backward(loss, 0.5);
      }
      ddp_.backward({}, 0.0);
    }
    const double waited = (delay_s > 0.0 && !late) ? 0.0 : ddp_.stats().wait_s - before;
    return all_reduce_scalar(group, std::max(waited, 0.0), ReduceOp::max);
  }

 private:
  std::shared_ptr<Layers> model_;
  DistributedDataParallel ddp_;
};

/// The reduction of waiting by overlap, which must be at least `claim`. Collective.
void compare(const std::shared_ptr<ProcessGroup>& group, const char* moved, double delay,
             double claim) {
  // Backward takes twice as long as the communication to be hidden.
  double sums_s = 0.0;
  for (int round = 0; round < 5; ++round) sums_s = Measurement(group, 0.0).wait(false, 0.0);
  Measurement training(group, 2.0 * sums_s);

  // On a busy machine few rounds prove nothing.
  constexpr int fewest = 6, most = 60;
  std::vector<double> with, without;
  const auto saved = [&] { return 1.0 - first_quartile(with) / first_quartile(without); };
  for (int round = 0; round < fewest || (round < most && saved() < claim); ++round) {
    without.push_back(training.wait(false, delay));
    with.push_back(training.wait(true, delay));
  }
  if (group->rank() == 0) {
    std::printf(
        "moved on %s, rank 1 late by %2.0f ms: %lld MiB are waited for %5.1f ms after backward, "
        "%5.1f with overlap: %.0f %% less (first quartiles of %zu rounds)\n",
        moved, 1e3 * delay, static_cast<long long>(gradient_bytes >> 20),
        1e3 * first_quartile(without), 1e3 * first_quartile(with), 100.0 * saved(), with.size());
  }
  expect(saved() >= claim, "overlap hides too little");
}

}  // namespace

int main(int argc, char** argv) {
  const MpiSession session(argc, argv);
  const bool over_a_link = argc > 1;
  const auto calls = make_mpi_group(MPI_COMM_WORLD);
  const auto thread = make_mpi_group(MPI_COMM_WORLD, {.progress = Progress::thread});
  expect(calls->size() == 2, "this is for two ranks");
  expect(node_layout(*calls).hosts().size() == (over_a_link ? 2U : 1U), "the ranks are elsewhere");

  compare(calls, "between layers", 0.0, over_a_link ? 0.65 : 0.8);
  if (over_a_link) {
    compare(calls, "between layers", delay_s, 0.65);
    compare(thread, "by a thread", 0.0, 0.8);
    compare(thread, "by a thread", delay_s, 0.8);
  }
  calls->close();
  thread->close();
  return test::failures ? 1 : 0;
}
