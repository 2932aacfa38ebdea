#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <lockstep/autograd/backward.hpp>
#include <lockstep/autograd/functional.hpp>
#include <lockstep/base/philox.hpp>
#include <lockstep/comm/mpi_group.hpp>
#include <lockstep/comm/objects.hpp>
#include <lockstep/nn/models/mlp.hpp>
#include <lockstep/nn/random.hpp>
#include <lockstep/optim/adam.hpp>
#include <lockstep/optim/schedules.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>
#include <lockstep/tensor/math_libraries.hpp>
#include <numbers>
#include <vector>

using namespace lockstep;

// u_t = a u_xx on 0 < x < 1, 0 < t < 1 with u(x, 0) = sin(pi x) and u = 0 at both ends. A network
// u(x, t) learns it from the equation alone: the exact solution is used to judge it only.
constexpr double a = 0.1;

double exact(double x, double t) {
  constexpr double pi = std::numbers::pi;
  return std::exp(-a * pi * pi * t) * std::sin(pi * x);
}

/// Points (x, t), one a row of each.
struct Points {
  std::vector<float> x, t;

  void add(float at_x, float at_t) {
    x.push_back(at_x);
    t.push_back(at_t);
  }
  static Variable column(const std::vector<float>& values, bool requires_grad = false) {
    return Variable(Tensor::from(values, {static_cast<std::int64_t>(values.size()), 1}),
                    requires_grad);
  }
};

/// Where a step looks: the inside, the beginning and the ends. Point i of a step is the same
/// whatever rank takes it.
struct Samples {
  Points inside, start, ends;

  Samples(std::uint32_t step, int first, int last) {
    const Philox random(1234);
    for (int i = first; i < last; ++i) {
      const auto words = random(static_cast<std::uint32_t>(i), step, 0, 0);
      const auto number = [&](std::size_t k) { return Philox::uniform(words[k]); };
      inside.add(number(0), number(1));
      start.add(number(2), 0.0F);
      ends.add(i % 2 == 0 ? 0.0F : 1.0F, number(3));
    }
  }
};

Variable evaluate(DistributedDataParallel& net, const Variable& x, const Variable& t) {
  return net.forward(concat(std::vector{x, t}, 1));
}

Variable loss_of(DistributedDataParallel& net, const Samples& samples) {
  // The residual: derivatives of the network's output by its inputs, to be differentiated again.
  const Variable x = Points::column(samples.inside.x, true);
  const Variable t = Points::column(samples.inside.t, true);
  const Variable u = evaluate(net, x, t);
  const auto slopes = grad(sum(u), std::vector{x, t}, {.create_graph = true});
  const Variable u_xx = grad(sum(slopes[0]), x, {.create_graph = true});
  const Variable residual = slopes[1] - a * u_xx;

  const Variable x0 = Points::column(samples.start.x);
  const Variable at_start = evaluate(net, x0, Points::column(samples.start.t));
  const Variable at_ends =
      evaluate(net, Points::column(samples.ends.x), Points::column(samples.ends.t));
  return mean(pow(residual, 2.0)) + 10.0 * mean(pow(at_start - sin(std::numbers::pi * x0), 2.0)) +
         10.0 * mean(pow(at_ends, 2.0));
}

/// ||u - exact|| / ||exact|| over a grid.
double relative_error(nn::Module& net) {
  const NoGradGuard no_grad;
  Points grid;
  for (int i = 0; i <= 100; ++i) {
    for (int j = 0; j <= 100; ++j)
      grid.add(0.01F * static_cast<float>(i), 0.01F * static_cast<float>(j));
  }
  const std::array columns{Points::column(grid.x), Points::column(grid.t)};
  const auto u = net.forward(concat(columns, 1)).data().to_vector<float>();
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < u.size(); ++i) {
    const double truth = exact(grid.x[i], grid.t[i]);
    difference += (u[i] - truth) * (u[i] - truth);
    size += truth * truth;
  }
  return std::sqrt(difference / size);
}

int main(int argc, char** argv) {
  const MpiSession session(argc, argv);
  const auto group = make_mpi_group(MPI_COMM_WORLD);
  set_math_threads(1);
  const int steps = argc > 1 ? std::atoi(argv[1]) : 5000,
            points = 256;  // of all ranks, of each kind
  if (steps < 1) {
    if (group->rank() == 0) std::puts("heat_residual [STEPS, from 1 on]");
    group->close();
    return 2;
  }
  const int first = points * group->rank() / group->size();
  const int last = points * (group->rank() + 1) / group->size();

  nn::manual_seed(1234);
  const auto net = nn::mlp({2}, 1, {32, 32, 32}, nn::Head::linear,
                           {.activation = nn::MlpLayers::Activation::tanh});
  DistributedDataParallel ddp(net, group);
  optim::Adam adam(net->named_parameters(), {.lr = 5e-3});
  const auto schedule = optim::make_schedule(
      {.kind = optim::WarmupCosine(), .unit = optim::ScheduleUnit::step}, 1, steps);
  const auto begin = std::chrono::steady_clock::now();
  for (int step = 0; step < steps; ++step) {
    apply_schedule(*schedule, 5e-3, 0, step, adam);
    Variable loss;  // stays undefined on a rank without points
    if (first < last) loss = loss_of(ddp, Samples(static_cast<std::uint32_t>(step), first, last));
    const double share = static_cast<double>(last - first) / points;
    adam.zero_grad();
    ddp.backward(loss, share);
    adam.step();
    if ((step + 1) % 500 != 0) continue;
    const double mine = loss.defined() ? loss.data().item() * share : 0.0;
    const double mean = all_reduce_scalar(*group, mine, ReduceOp::sum);
    if (group->rank() == 0) std::printf("step %d  loss %.2e\n", step + 1, mean);
  }
  const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - begin;
  if (group->rank() == 0) {
    std::printf("relative L2 error %.1e, %.2f ms a step\n", relative_error(*net),
                time.count() / steps);
  }
  group->close();
}
