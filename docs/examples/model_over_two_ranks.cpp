#include <algorithm>
#include <cstdio>
#include <lockstep/autograd/functional.hpp>
#include <lockstep/comm/mpi_group.hpp>
#include <lockstep/data/batches/partitioner.hpp>
#include <lockstep/data/synthetic_dataset.hpp>
#include <lockstep/nn/layers.hpp>
#include <lockstep/nn/random.hpp>
#include <lockstep/nn/sequential.hpp>
#include <lockstep/optim/sgd.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>
#include <lockstep/tensor/math_libraries.hpp>
#include <memory>
#include <vector>

using namespace lockstep;

// Ranks 2k and 2k + 1 hold the first and the second half of replica k. Activations go up, their
// gradients come back; the replicas' first halves are one DistributedDataParallel, the second
// halves another.
constexpr std::int64_t width = 256;

std::shared_ptr<nn::Module> half(bool first, std::int64_t pixels, std::int64_t classes) {
  if (first) {
    return std::make_shared<nn::Sequential>(std::initializer_list<std::shared_ptr<nn::Module>>{
        std::make_shared<nn::Flatten>(), std::make_shared<nn::Linear>(pixels, width),
        std::make_shared<nn::ReLU>()});
  }
  return std::make_shared<nn::Sequential>(std::initializer_list<std::shared_ptr<nn::Module>>{
      std::make_shared<nn::Linear>(width, classes), std::make_shared<nn::LogSoftmax>()});
}

int main(int argc, char** argv) {
  const MpiSession session(argc, argv);
  const auto world = make_mpi_group(MPI_COMM_WORLD);
  set_math_threads(1);
  const int rank = world->rank(), replicas = world->size() / 2;
  if (world->size() % 2 != 0) {
    if (rank == 0) std::puts("start an even number of ranks: a model takes two");
    world->close();
    return 2;
  }
  const bool is_first = rank % 2 == 0;
  const int partner = is_first ? rank + 1 : rank - 1;
  const auto same_half = world->split(is_first ? 0 : 1, rank);
  {
    const auto images = make_synthetic({.samples = 2048}, Split::train);
    const DataPartitioner partitioner(
        images->size(), std::vector<double>(static_cast<std::size_t>(replicas), 1.0 / replicas), 1);
    const auto part = partitioner.part(static_cast<std::size_t>(rank / 2));
    const std::int64_t samples = std::max(1, 128 / replicas);  // 128 a step over all replicas
    Batch batch(*images, samples);

    nn::manual_seed(1234);
    DistributedDataParallel model(half(is_first, images->sample_shape().numel(), images->classes()),
                                  same_half);
    optim::SGD sgd(model.module().named_parameters(), {.lr = 0.05, .momentum = 0.9});
    const Tensor activations = Tensor::empty({samples, width}),
                 gradient = Tensor::empty({samples, width});

    double last = 0;
    for (int epoch = 0; epoch < 3; ++epoch) {
      for (std::size_t at = 0; at + samples <= part.size();
           at += static_cast<std::size_t>(samples)) {
        images->load(part.subspan(at, static_cast<std::size_t>(samples)), batch);
        sgd.zero_grad();
        if (is_first) {
          const Variable output = model.forward(Variable(batch.inputs()));
          world->send(output.data(), partner);
          world->recv(gradient, partner);
          // What has `gradient` as its gradient with respect to output: backward goes on here. The
          // partner has weighed it.
          model.backward(sum(mul(output, Variable(gradient))), 1.0);
        } else {
          world->recv(activations, partner);
          const Variable input(activations, /*requires_grad=*/true);
          const Variable loss = nll_loss(model.forward(input), batch.targets());
          model.backward(loss, 1.0 / replicas);
          world->send(input.grad(), partner);
          last = loss.data().item();
        }
        sgd.step();
      }
      if (rank == 1) std::printf("epoch %d  loss %.4f\n", epoch + 1, last);
    }
  }
  same_half->close();
  world->close();
}
