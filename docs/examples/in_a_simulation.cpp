#include <mpi.h>

#include <cmath>
#include <cstdio>
#include <lockstep/lockstep.hpp>
#include <numbers>

using namespace lockstep;

/// A simulation that knows nothing of Lockstep: a fuel that burns in a ring, each rank with a part
/// of its points. How fast it burns is the expensive part of a real one.
struct Simulation {
  MPI_Comm comm;
  int left, right;
  std::vector<float> heat, fuel, rate;  // heat has a neighbour's value at either end
  double place;                         // of the first point in the ring, which is 1 long
  double width;                         // between two points
  double time = 0;

  Simulation(MPI_Comm world, std::size_t points)
      : comm(world), heat(points + 2), fuel(points, 1.0F), rate(points) {
    int rank = 0, size = 0;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    left = (rank + size - 1) % size;
    right = (rank + 1) % size;
    width = 1.0 / (size * static_cast<double>(points));
    place = static_cast<double>(rank) / size;
  }

  void step() {
    const std::size_t n = fuel.size();
    MPI_Sendrecv(&heat[n], 1, MPI_FLOAT, right, 0, heat.data(), 1, MPI_FLOAT, left, 0, comm,
                 MPI_STATUS_IGNORE);
    MPI_Sendrecv(&heat[1], 1, MPI_FLOAT, left, 1, &heat[n + 1], 1, MPI_FLOAT, right, 1, comm,
                 MPI_STATUS_IGNORE);
    float before = heat[0];
    for (std::size_t i = 0; i < n; ++i) {
      const float here = heat[i + 1];
      const double x = place + width * static_cast<double>(i);
      const auto spark = static_cast<float>(std::sin(6 * std::numbers::pi * (x - time)));
      rate[i] = fuel[i] * std::exp(here);
      heat[i + 1] += 0.2F * (before - 2 * here + heat[i + 2]) + 0.01F * (rate[i] + spark - here);
      fuel[i] += 0.01F * (1 - fuel[i] - rate[i]);
      before = here;
    }
    time += 0.003;
  }
};

/// Learns the rate from heat and fuel while the simulation runs.
class Surrogate {
 public:
  explicit Surrogate(MPI_Comm comm) : group_(make_mpi_group(comm)) {}

  /// One step of the optimizer along the points of all ranks. Collective. Returns the relative
  /// error over all of them.
  double learn(const Tensor& inputs, const Tensor& rates) {
    adam_.zero_grad();
    const Variable loss = mse_loss(ddp_.forward(Variable(inputs)), rates);
    loss.backward();
    adam_.step();
    const double size = mean(Variable(rates) * Variable(rates)).item();
    return std::sqrt(all_reduce_scalar(*group_, loss.item(), ReduceOp::sum) /
                     all_reduce_scalar(*group_, size, ReduceOp::sum));
  }
  /// What to use in place of the expensive part. Local.
  Tensor rates(const Tensor& inputs) {
    const NoGradGuard no_grad;
    return ddp_.module().forward(Variable(inputs)).data();
  }
  void close() { group_->close(); }

 private:
  std::shared_ptr<ProcessGroup> group_;
  DistributedDataParallel ddp_{
      std::make_shared<nn::Sequential>(std::initializer_list<std::shared_ptr<nn::Module>>{
          std::make_shared<nn::Linear>(2, 32), std::make_shared<nn::Tanh>(),
          std::make_shared<nn::Linear>(32, 1)}),
      group_};
  optim::Adam adam_{ddp_.module().named_parameters(), {.lr = 5e-3}};
};

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  set_math_threads(1);
  nn::manual_seed(1);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  constexpr std::int64_t points = 128;
  {
    Simulation simulation(MPI_COMM_WORLD, points);
    Surrogate surrogate(MPI_COMM_WORLD);  // duplicates the communicator
    const Tensor inputs = Tensor::empty({points, 2}), rates = Tensor::empty({points, 1});
    for (int step = 1; step <= 1000; ++step) {
      std::vector<float> heat_and_fuel;
      for (std::size_t i = 0; i < points; ++i) {
        heat_and_fuel.push_back(simulation.heat[i + 1]);
        heat_and_fuel.push_back(simulation.fuel[i]);
      }
      simulation.step();
      inputs.copy_from_host<float>(heat_and_fuel);
      rates.copy_from_host<float>(simulation.rate);

      const double error = surrogate.learn(inputs, rates);
      if (rank == 0 && (step == 1 || step == 100 || step == 1000))
        std::printf("step %4d  relative error %.3f\n", step, error);
    }
    const double last = surrogate.rates(inputs)[0].item();
    if (rank == 0) std::printf("point 0: rate %.4f, surrogate %.4f\n", rates[0].item(), last);
    surrogate.close();
  }
  MPI_Finalize();
}
