// A GPT that no rank holds whole: parameters, gradients and AdamW's moments are shared out.
//   mpiexec -n 2 build/release/docs/examples/fully_shard
#include <cstdio>
#include <lockstep/comm/mpi_group.hpp>
#include <lockstep/nn/models/gpt.hpp>
#include <lockstep/nn/random.hpp>
#include <lockstep/optim/adam.hpp>
#include <lockstep/optim/clip.hpp>
#include <lockstep/parallel/sharded/fully_shard.hpp>
#include <lockstep/tensor/math_libraries.hpp>
#include <memory>
#include <vector>

using namespace lockstep;

/// Sequences that count up: the next token can be learned.
static Tensor counting(std::int64_t rows, std::int64_t length, std::int64_t first) {
  std::vector<std::int64_t> tokens;
  for (std::int64_t i = 0; i < rows * length; ++i)
    tokens.push_back((first + i / length + i % length) % 16);
  return Tensor::from(tokens, {rows, length});
}

int main(int argc, char** argv) {
  const MpiSession session(argc, argv);
  const auto group = make_mpi_group(MPI_COMM_WORLD);
  set_math_threads(1);
  nn::manual_seed(1);
  const auto model = std::make_shared<nn::Gpt>(
      nn::GptOptions{.vocabulary = 16, .context = 8, .width = 32, .depth = 4, .heads = 4});
  const auto whole = model->parameter_count();

  FullyShardedDataParallel fsdp(model, group);
  optim::AdamW optimizer(fsdp.named_parameters(), {.lr = 1e-2});
  optimizer.take_placements(fsdp.state_dict());
  std::int64_t own = 0;
  for (const auto& piece : fsdp.named_parameters()) own += piece.variable.data().numel();

  const Tensor mine = counting(4, 8, 4 * group->rank());
  const Tensor next = counting(4, 8, 4 * group->rank() + 1);
  double last = 0;
  for (int step = 0; step < 30; ++step) {
    fsdp.zero_grad();
    const Variable loss =
        fsdp.forward([&](nn::Module&) { return model->loss(Variable(mine), next); });
    fsdp.backward(loss, 1.0 / group->size());
    optimizer.step(optim::clip_factor(fsdp.grad_norm(), 1.0));
    last = loss.item();
  }
  if (group->rank() == 0)
    std::printf("%lld of %lld parameters on rank 0, loss below 0.5: %s\n",
                static_cast<long long>(own), static_cast<long long>(whole),
                last < 0.5 ? "yes" : "no");
  group->close();
}
