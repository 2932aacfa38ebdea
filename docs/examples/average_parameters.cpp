#include <algorithm>
#include <cstdio>
#include <lockstep/autograd/functional.hpp>
#include <lockstep/comm/mpi_group.hpp>
#include <lockstep/comm/objects.hpp>
#include <lockstep/data/batches/partitioner.hpp>
#include <lockstep/data/synthetic_dataset.hpp>
#include <lockstep/nn/models/convnet.hpp>
#include <lockstep/nn/random.hpp>
#include <lockstep/optim/sgd.hpp>
#include <lockstep/tensor/math_libraries.hpp>
#include <vector>

using namespace lockstep;

/// Every parameter becomes the ranks' mean: what PeriodicModelAverager does when its time comes.
void average_parameters(const optim::Optimizer& optimizer, ProcessGroup& group) {
  for (const auto& parameter : optimizer.parameters()) {
    group.all_reduce(parameter.variable.data(), ReduceOp::avg).wait();
  }
}

int main(int argc, char** argv) {
  const MpiSession session(argc, argv);
  const auto group = make_mpi_group(MPI_COMM_WORLD);
  set_math_threads(1);
  const int rank = group->rank(), size = group->size();

  const auto images = make_synthetic({.samples = 2048}, Split::train);
  const std::vector<double> fractions(static_cast<std::size_t>(size), 1.0 / size);
  const DataPartitioner partitioner(images->size(), fractions, 1234);
  const auto part = partitioner.part(static_cast<std::size_t>(rank));
  const auto batch_size = static_cast<std::size_t>(std::max(1, 128 / size));  // 128 over all ranks
  Batch batch(*images, static_cast<std::int64_t>(batch_size));

  nn::manual_seed(1234);  // the same weights on every rank, to begin with
  const auto model = nn::convnet(images->sample_shape(), images->classes(), 0.0);
  optim::SGD sgd(model->named_parameters(), {.lr = 0.05, .momentum = 0.9});
  for (int epoch = 0; epoch < 3; ++epoch) {
    double sum = 0;
    int steps = 0;
    for (std::size_t first = 0; first + batch_size <= part.size(); first += batch_size) {
      images->load(part.subspan(first, batch_size), batch);
      sgd.zero_grad();
      const Variable loss = nll_loss(model->forward(Variable(batch.inputs())), batch.targets());
      loss.backward();
      sgd.step();  // along this rank's own gradients
      if (++steps % 4 == 0) average_parameters(sgd, *group);
      sum += loss.data().item();
    }
    const double mean = all_reduce_scalar(*group, sum / steps, ReduceOp::avg);
    if (rank == 0) std::printf("epoch %d  loss %.4f\n", epoch + 1, mean);
  }
  group->close();
}
