// A training step of a GPT that the ranks share out by tensor parallelism; on one rank that of the
// undivided model. benchmarks/compare_tensor_parallel.sh runs it beside PyTorch's
// parallelize_module (benchmarks/pytorch/tensor_parallel.py).
//   mpiexec -n 2 -bind-to core build/release/benchmarks/parallel/parallel.tensor_bench [STEPS]
// Environment (defaults): DEPTH (4), WINDOWS (4), CONTEXT (256), VOCABULARY (8192), SEQUENCE (0; 1
// cuts activations along the sequence). Width 768, 12 heads. Prints the median of the steps' times
// on the slowest rank.
#include <mpi.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include <lockstep/comm/mpi_group.hpp>
#include <lockstep/comm/objects.hpp>
#include <lockstep/nn/models/gpt.hpp>
#include <lockstep/nn/random.hpp>
#include <lockstep/optim/adam.hpp>
#include <lockstep/parallel/tensor/plans.hpp>
#include <lockstep/tensor/math_libraries.hpp>
#include <support/timing.hpp>

namespace lockstep {
namespace {

std::int64_t number(const char* name, std::int64_t otherwise) {
  const char* const text = std::getenv(name);
  return text ? std::atoll(text) : otherwise;
}

void measure(int steps) {
  const auto group = make_mpi_group(MPI_COMM_WORLD);
  const nn::GptOptions options{.vocabulary = number("VOCABULARY", 8192),
                               .context = number("CONTEXT", 256),
                               .width = 768,
                               .depth = number("DEPTH", 4),
                               .heads = 12};
  const std::int64_t windows = number("WINDOWS", 4);
  nn::manual_seed(1);
  nn::Gpt model(options);
  if (group->size() > 1) parallelize_gpt(model, group, {.sequence = number("SEQUENCE", 0) == 1});
  optim::AdamW optimizer(model.named_parameters(), {.lr = 3e-4});
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(windows * options.context));
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = static_cast<std::int64_t>(i * 7919 % static_cast<std::size_t>(options.vocabulary));
  const Tensor tokens = Tensor::from(numbers, {windows, options.context});
  std::vector<double> seconds;
  for (int step = 0; step < steps + 2; ++step) {
    group->barrier();
    const double mine = bench::seconds_of([&] {
      optimizer.zero_grad();
      model.loss(Variable(tokens), tokens).backward();
      optimizer.step();
    });
    const double slowest = all_reduce_scalar(*group, mine, ReduceOp::max);
    if (step >= 2) seconds.push_back(slowest);
  }
  if (group->rank() == 0) std::printf("step_ms %.1f\n", bench::median(seconds) * 1e3);
  group->close();
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  lockstep::set_math_threads(1);
  lockstep::measure(argc > 1 ? std::atoi(argv[1]) : 8);
  MPI_Finalize();
  return 0;
}
