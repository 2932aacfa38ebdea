// A GPT whose layers the ranks share out: each holds a part of every block, and all see the same
// text. Then a model of one's own by a plan.
//   mpiexec -n 2 build/release/docs/examples/tensor_parallel
#include <mpi.h>

#include <cstdio>
#include <memory>
#include <vector>

#include <lockstep/autograd/functional.hpp>
#include <lockstep/comm/mpi_group.hpp>
#include <lockstep/nn/layers.hpp>
#include <lockstep/nn/models/gpt.hpp>
#include <lockstep/nn/random.hpp>
#include <lockstep/optim/adam.hpp>
#include <lockstep/parallel/tensor/grad_norm.hpp>
#include <lockstep/parallel/tensor/plans.hpp>

using namespace lockstep;

// [gpt]
void train_a_gpt(const std::shared_ptr<ProcessGroup>& group) {
  nn::manual_seed(1);
  nn::Gpt model({.vocabulary = 64, .context = 16, .width = 32, .depth = 2, .heads = 4});
  const auto whole = model.parameter_count();
  parallelize_gpt(model, group, {.sequence = true});
  optim::AdamW optimizer(model.named_parameters(), {.lr = 0.01});
  const TensorParallelGradNorm norm(model, group);

  std::vector<std::int64_t> text(4 * 16);
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<std::int64_t>(i * i % 64);
  const Tensor tokens = Tensor::from(text, {4, 16});
  double loss = 0.0;
  for (int step = 0; step < 20; ++step) {
    optimizer.zero_grad();
    const Variable mean = model.loss(Variable(tokens), tokens);
    mean.backward();
    norm.clip(1.0);
    optimizer.step();
    loss = mean.item();
  }
  if (group->rank() == 0)
    std::printf("gpt: %s of the parameters on rank 0, loss %.1f\n",
                2 * model.parameter_count() < whole + whole / 4 ? "about half" : "all", loss);
}
// [gpt]

// [plan]
struct FeedForward : nn::Module {
  Variable forward(const Variable& x) override { return (*down)(gelu((*up)(x))); }
  std::shared_ptr<nn::Linear> up = register_module("up", std::make_shared<nn::Linear>(8, 32));
  std::shared_ptr<nn::Linear> down = register_module("down", std::make_shared<nn::Linear>(32, 8));
};

void share_out_a_module(const std::shared_ptr<ProcessGroup>& group) {
  FeedForward model;
  parallelize_module(
      model, group,
      {{"up", std::make_shared<ColwiseParallel>()}, {"down", std::make_shared<RowwiseParallel>()}});
  const Variable y = model(Variable(Tensor::full({3, 8}, 1.0)));
  if (group->rank() == 0)
    std::printf("module: up.weight is %s here, y is %s\n",
                to_string(model.up->weight().shape()).c_str(), to_string(y.shape()).c_str());
}
// [plan]

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  {
    const auto group = make_mpi_group(MPI_COMM_WORLD);
    train_a_gpt(group);
    share_out_a_module(group);
    group->close();
  }
  MPI_Finalize();
  return 0;
}
