#include <mpi.h>

#include <cstdio>
#include <lockstep/comm/mpi_group.hpp>
#include <lockstep/nn/models/gpt.hpp>
#include <lockstep/nn/random.hpp>
#include <lockstep/optim/adam.hpp>
#include <lockstep/parallel/context/context_parallel.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>
#include <lockstep/parallel/mesh/device_mesh.hpp>
#include <vector>

using namespace lockstep;

/// Sequences in which each token is 3 more than the one before, [rows, length].
Tensor sequences(std::int64_t rows, std::int64_t length, std::int64_t first) {
  std::vector<std::int64_t> tokens;
  for (std::int64_t b = 0; b < rows; ++b) {
    for (std::int64_t t = 0; t < length; ++t) tokens.push_back((first + b + 3 * t) % 10);
  }
  return Tensor::from(tokens, {rows, length});
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const auto world = make_mpi_group(MPI_COMM_WORLD);
  DeviceMesh mesh(world, {{"dp", 1}, {"cp", -1}});
  constexpr auto order = SequenceOrder::zigzag;
  const auto slice = [&](const Tensor& whole) {
    return sequence_slice(whole, mesh.local_rank("cp"), mesh.size("cp"), order);
  };

  nn::manual_seed(1);
  const auto model = std::make_shared<nn::Gpt>(
      nn::GptOptions{.vocabulary = 10, .context = 64, .width = 16, .depth = 1, .heads = 2});
  context_parallel(*model, mesh.group("cp"), order);
  DistributedDataParallel ddp(model, mesh.flatten({"dp", "cp"}));
  optim::AdamW optimizer(model->named_parameters(), {.lr = 1e-2});

  for (int step = 0; step < 40; ++step) {
    const Variable tokens(slice(sequences(4, 64, step)));
    const Tensor next = slice(sequences(4, 64, step + 3));
    optimizer.zero_grad();
    const Variable loss =
        ddp.forward([&](nn::Module& m) { return static_cast<nn::Gpt&>(m).loss(tokens, next); });
    loss.backward();  // the slices are equal, so the mean over ranks is that over tokens
    optimizer.step();
    const Tensor mean = loss.data().clone();
    world->all_reduce(mean, ReduceOp::avg).wait();
    if (world->rank() == 0 && (step + 1) % 20 == 0) {
      std::printf("step %d: loss %.2f, %lld tokens a rank\n", step + 1, mean.item(),
                  static_cast<long long>(tokens.shape()[1]));
    }
  }
  mesh.close();
  world->close();
  MPI_Finalize();
}
