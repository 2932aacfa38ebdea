#include <cmath>
#include <cstdio>
#include <lockstep/autograd/functional.hpp>
#include <lockstep/comm/mpi_group.hpp>
#include <lockstep/comm/objects.hpp>
#include <lockstep/data/batches/batch_plan.hpp>
#include <lockstep/nn/layers.hpp>
#include <lockstep/nn/random.hpp>
#include <lockstep/nn/sequential.hpp>
#include <lockstep/optim/lbfgs.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>
#include <lockstep/tensor/math_libraries.hpp>
#include <vector>

using namespace lockstep;

int main(int argc, char** argv) {
  const MpiSession session(argc, argv);
  const auto group = make_mpi_group(MPI_COMM_WORLD);
  set_math_threads(1);

  // This rank's part of 400 points of a curve.
  constexpr std::int64_t points = 400;
  const Range mine = part_of(points, group->size(), group->rank());
  std::vector<float> x, y;
  for (std::int64_t i = mine.begin; i < mine.end; ++i) {
    x.push_back(static_cast<float>(i) / points);
    y.push_back(std::sin(6 * x.back()) + x.back());
  }
  const Tensor inputs = Tensor::from(x, {mine.size(), 1}),
               targets = Tensor::from(y, {mine.size(), 1});

  nn::manual_seed(1);
  DistributedDataParallel model(
      std::make_shared<nn::Sequential>(std::initializer_list<std::shared_ptr<nn::Module>>{
          std::make_shared<nn::Linear>(1, 20), std::make_shared<nn::Tanh>(),
          std::make_shared<nn::Linear>(20, 1)}),
      group);
  optim::LBFGS lbfgs(model.module().named_parameters(),
                     {.line_search_fn = optim::LbfgsOptions::LineSearch::strong_wolfe});

  // Every rank returns the loss of all points, and has the gradient of that.
  const double weight = static_cast<double>(mine.size()) / points;
  const auto closure = [&] {
    lbfgs.zero_grad();
    const Variable loss = mse_loss(model.forward(Variable(inputs)), targets);
    model.backward(loss, weight);
    return all_reduce_scalar(*group, loss.data().item() * weight, ReduceOp::sum);
  };
  for (int step = 1; step <= 10; ++step) {
    const double loss = lbfgs.step(closure);
    if (group->rank() == 0)
      std::printf("step %d  loss %.2e  %lld calls\n", step, loss,
                  static_cast<long long>(lbfgs.func_evals()));
  }
  const double loss = closure(), most = all_reduce_scalar(*group, loss, ReduceOp::max);
  if (group->rank() == 0)
    std::printf("%.1e on all ranks%s\n", loss, most == loss ? ", the same" : ", NOT the same");
  group->close();
}
