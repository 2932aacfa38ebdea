// A simulation that trains a network on its own communicator and then continues as before.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <vector>

#include <mpi.h>
#include <lockstep/lockstep.hpp>

namespace nn = lockstep::nn;

/// Learns on which side of a circle a point is; returns the last loss.
double train(MPI_Comm comm) {
  const auto group = lockstep::make_mpi_group(comm);
  nn::manual_seed(1);
  auto model = std::make_shared<nn::Sequential>();
  model->push_back(std::make_shared<nn::Linear>(2, 32));
  model->push_back(std::make_shared<nn::ReLU>());
  model->push_back(std::make_shared<nn::Linear>(32, 2));
  lockstep::DistributedDataParallel ddp(model, group);
  lockstep::optim::SGD sgd(model->named_parameters(), {.lr = 0.2, .momentum = 0.9});

  const std::int64_t samples = 128;  // this rank's points: a spiral, each rank's turned a little
  std::vector<float> points;
  std::vector<std::int64_t> sides;
  for (std::int64_t i = 0; i < samples; ++i) {
    const double radius = static_cast<double>(i) / samples, angle = 2.4 * i + group->rank();
    points.push_back(static_cast<float>(radius * std::cos(angle)));
    points.push_back(static_cast<float>(radius * std::sin(angle)));
    sides.push_back(radius < 0.5 ? 0 : 1);
  }
  const lockstep::Variable x(lockstep::Tensor::from(points, {samples, 2}));
  const auto side = lockstep::Tensor::from(sides, {samples});
  double last = 0;
  for (int step = 0; step < 200; ++step) {
    ddp.zero_grad();
    const auto loss = lockstep::cross_entropy(ddp.forward(x), side);
    ddp.backward(loss, 1.0 / group->size());
    sgd.step();
    last = loss.data().item();
  }
  group->close();
  return last;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int world_rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  MPI_Comm mine = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, 0, -world_rank, &mine);  // the other way round: any one will do

  const double loss = train(mine);

  // MPI is the simulation's still: its communicator works, with the error handler it had.
  double sum = 0;
  MPI_Allreduce(&loss, &sum, 1, MPI_DOUBLE, MPI_SUM, mine);
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  MPI_Comm_get_errhandler(mine, &handler);
  int size = 0;
  MPI_Comm_size(mine, &size);
  if (world_rank == 0) {
    std::printf("%s after training on %d ranks, error handler %s\n",
                sum / size < 0.1 ? "learned" : "NOT learned", size,
                handler == MPI_ERRORS_ARE_FATAL ? "as before" : "CHANGED");
  }
  MPI_Comm_free(&mine);
  MPI_Finalize();
}
