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
#include <lockstep/parallel/distributed_data_parallel.hpp>
#include <lockstep/tensor/math_libraries.hpp>
#include <vector>

using namespace lockstep;

int main(int argc, char** argv) {
  const MpiSession session(argc, argv);
  const auto group = make_mpi_group(MPI_COMM_WORLD);
  set_math_threads(1);
  const int rank = group->rank(), size = group->size();
  {
    // Rank r has r + 1 times as many images as rank 0, and the last of its batches is a smaller
    // one.
    const auto images = make_synthetic({.samples = 2048}, Split::train);
    std::vector<double> fractions;
    for (int r = 0; r < size; ++r) fractions.push_back(2.0 * (r + 1) / (size * (size + 1)));
    const DataPartitioner partitioner(images->size(), fractions, 1234);
    const auto part = partitioner.part(static_cast<std::size_t>(rank));
    const std::size_t batch_size = 64;
    Batch batch(*images, batch_size);

    nn::manual_seed(1234);
    DistributedDataParallel model(nn::convnet(images->sample_shape(), images->classes(), 0.0),
                                  group);
    optim::SGD sgd(model.module().named_parameters(), {.lr = 0.02, .momentum = 0.9});
    Join join({model}, {.after_shadow = [&] { sgd.step(); }});

    for (int epoch = 0; epoch < 3; ++epoch) {
      double sum = 0;
      int steps = 0;
      for (std::size_t first = 0; first < part.size(); first += batch_size, ++steps) {
        images->load(part.subspan(first, std::min(batch_size, part.size() - first)), batch);
        const auto samples = static_cast<double>(batch.size());
        const double weight = join.step(samples);  // of all ranks' samples in this step
        const Variable loss = nll_loss(model.forward(Variable(batch.inputs())), batch.targets());
        sgd.zero_grad();
        model.backward(loss, weight);
        sgd.step();
        sum += loss.data().item() * samples;
      }
      join.finish();  // without it this rank would leave the others waiting
      const double total = all_reduce_scalar(*group, sum, ReduceOp::sum);
      const double most = all_reduce_scalar(*group, steps, ReduceOp::max);
      const double least = all_reduce_scalar(*group, steps, ReduceOp::min);
      if (rank == 0) {
        std::printf("epoch %d  steps %.0f to %.0f a rank  loss %.4f\n", epoch + 1, least, most,
                    total / static_cast<double>(images->size()));
      }
    }
  }
  group->close();
}
