#include <cstdio>
#include <lockstep/autograd/functional.hpp>
#include <lockstep/comm/mpi_group.hpp>
#include <lockstep/comm/objects.hpp>
#include <lockstep/data/batches/batch_plan.hpp>
#include <lockstep/data/batches/batch_source.hpp>
#include <lockstep/data/batches/loader.hpp>
#include <lockstep/data/synthetic_dataset.hpp>
#include <lockstep/nn/models/convnet.hpp>
#include <lockstep/nn/random.hpp>
#include <lockstep/optim/sgd.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>
#include <lockstep/tensor/math_libraries.hpp>

using namespace lockstep;

int main(int argc, char** argv) {
  const MpiSession session(argc, argv);
  const auto group = make_mpi_group(MPI_COMM_WORLD);
  set_math_threads(1);

  const auto images = make_synthetic({.samples = 2048}, Split::train);
  const BatchPlan plan(images->size(), 256, group->size());  // 256 samples a step over all ranks
  Loader loader(images, std::make_unique<TrainBatches>(plan, group->rank(), 1234));
  nn::manual_seed(1);
  DistributedDataParallel model(nn::convnet(images->sample_shape(), images->classes(), 0.0), group);
  optim::SGD sgd(model.module().named_parameters(), {.lr = 0.05, .momentum = 0.9});

  constexpr std::int64_t parts = 4;  // of a rank's share: a quarter of the memory
  for (int epoch = 0; epoch < 3; ++epoch) {
    double sum = 0;
    for (loader.start_epoch(epoch); loader.has_next();) {
      const Share share = plan.share(loader.next_step(), group->rank());
      const Batch& batch = loader.next();
      sgd.zero_grad();
      for (std::int64_t p = 0; p < parts; ++p) {
        const Range range = part_of(batch.size(), parts, p);
        const Batch part = batch.slice(range.begin, range.end);
        const double weight = double(part.size()) / double(share.batch_size);
        const auto backward = [&] {
          Variable loss;  // an empty part has none
          if (part.size() > 0)
            loss = nll_loss(model.forward(Variable(part.inputs())), part.targets());
          model.backward(loss, weight);
          if (loss.defined()) sum += loss.data().item() * weight;
        };
        if (p + 1 < parts) {
          const auto local = model.no_sync();  // adds up on this rank
          backward();
        } else {
          backward();  // sums what all ranks have added up
        }
      }
      sgd.step();
    }
    const double total = all_reduce_scalar(*group, sum, ReduceOp::sum);
    if (group->rank() == 0)
      std::printf("epoch %d  loss %.4f\n", epoch + 1, total / double(plan.steps()));
  }
  group->close();
}
