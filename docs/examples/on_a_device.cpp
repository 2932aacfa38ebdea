#include <cstdio>
#include <lockstep/comm/nccl_group.hpp>
#include <lockstep/comm/node_layout.hpp>
#include <lockstep/lockstep.hpp>

using namespace lockstep;

struct Net : nn::Module {
  std::shared_ptr<nn::Linear> fc1 =
      register_module("fc1", std::make_shared<nn::Linear>(28 * 28, 64));
  std::shared_ptr<nn::Linear> fc2 = register_module("fc2", std::make_shared<nn::Linear>(64, 10));
  Variable forward(const Variable& x) override {
    return fc2->forward(relu(fc1->forward(flatten(x, 1))));
  }
};

int main(int argc, char** argv) {
  const MpiSession session(argc, argv);
  const auto world = make_mpi_group(MPI_COMM_WORLD);
  const int local_rank = node_layout(*world).local_rank(world->rank());
  const Device device{DeviceType::sim, local_rank};
  const nn::DeviceGuard models_are_on(device);
  const auto group = make_group(world, device);
  set_math_threads(1);  // one core
  nn::manual_seed(1);
  const auto images = make_synthetic({.samples = 4096}, Split::train);
  const DistributedSampler sampler(images->size(), group->size(), group->rank());
  Loader loader(images, std::make_unique<SampledBatches>(sampler, 128 / group->size()), 2, {},
                device);
  const auto model = std::make_shared<Net>();
  DistributedDataParallel ddp(model, group);
  optim::SGD sgd(model->named_parameters(), {.lr = 0.001, .momentum = 0.9});

  for (int epoch = 0; epoch < 3; ++epoch) {
    double sum = 0;
    loader.start_epoch(epoch);
    while (loader.has_next()) {
      const Batch& batch = loader.next();
      sgd.zero_grad();
      const Variable output = ddp.forward(Variable(batch.inputs()));
      const Variable loss = cross_entropy(output, batch.targets());
      loss.backward();
      sgd.step();
      sum += loss.item();
    }
    double mean = sum / static_cast<double>(loader.steps());
    mean = all_reduce_scalar(*group, mean, ReduceOp::avg);
    if (group->rank() == 0) std::printf("epoch %d  loss %.3f\n", epoch + 1, mean);
  }
  group->close();
}
