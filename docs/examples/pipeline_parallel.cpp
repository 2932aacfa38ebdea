#include <cmath>
#include <cstdint>
#include <cstdio>
#include <lockstep/autograd/functional.hpp>
#include <lockstep/comm/mpi_group.hpp>
#include <lockstep/comm/objects.hpp>
#include <lockstep/nn/models/mlp.hpp>
#include <lockstep/nn/random.hpp>
#include <lockstep/optim/adam.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>
#include <lockstep/parallel/mesh/device_mesh.hpp>
#include <lockstep/parallel/pipeline/pipeline.hpp>
#include <lockstep/parallel/pipeline/simulation.hpp>
#include <lockstep/parallel/pipeline/split.hpp>
#include <lockstep/tensor/math_libraries.hpp>
#include <memory>
#include <vector>

using namespace lockstep;

// Up to two ranks are the stages of a pipeline; more are replicas of it.
int main(int argc, char** argv) {
  const MpiSession session(argc, argv);
  const auto group = make_mpi_group(MPI_COMM_WORLD);
  set_math_threads(1);
  const int stages = group->size() % 2 == 0 ? 2 : 1;
  DeviceMesh mesh(group, {{"dp", -1}, {"pp", stages}});
  const int replica = mesh.local_rank("dp"), stage = mesh.local_rank("pp");

  nn::manual_seed(1);  // the same model on every rank, of which each keeps its stage
  const auto model = nn::mlp({8}, 4, {32, 32, 32});
  const std::shared_ptr<nn::Module> mine =
      split_into_stages(*model, stages)[static_cast<std::size_t>(stage)];
  const auto ddp = std::make_shared<DistributedDataParallel>(mine, mesh.group("dp"));

  const PipelineSchedule schedule = one_f_one_b(stages, 4);
  if (group->rank() == 0) std::printf("%s", to_string(schedule).c_str());
  Pipeline pipeline({mine}, mesh.group("pp"), schedule,
                    [](const Variable& y, const Tensor& target) { return nll_loss(y, target); },
                    {.tied = {}, .data_parallel = {ddp}});
  optim::Adam adam(pipeline.named_parameters(), {.lr = 0.02});

  // This replica's share of the global batch. The first stage takes the inputs, the last one the
  // targets.
  constexpr std::int64_t rows = 32, features = 8;
  std::vector<float> inputs;
  std::vector<std::int64_t> targets;
  for (std::int64_t i = 0; i < rows * features; ++i)
    inputs.push_back(std::sin(static_cast<float>(i * i)));
  for (std::int64_t i = 0; i < rows; ++i) targets.push_back(i % 4);
  const std::int64_t begin = rows * replica / mesh.size("dp");
  const std::int64_t end = rows * (replica + 1) / mesh.size("dp");
  const Tensor x = Tensor::from(inputs, {rows, features}).slice(begin, end);
  const Tensor t = Tensor::from(targets, {rows}).slice(begin, end);

  for (int step = 1; step <= 60; ++step) {
    adam.zero_grad();
    const double loss = pipeline.step(x, t);
    adam.step();
    if (step % 20 != 0) continue;
    const double mean = all_reduce_scalar(*mesh.group("dp"), loss, ReduceOp::avg);
    if (group->rank() == 0) std::printf("step %d  loss %.4f\n", step, mean);
  }
  pipeline.close();
  mesh.close();
  group->close();
}
