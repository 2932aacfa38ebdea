#include <mpi.h>

#include <cstdio>
#include <lockstep/lockstep.hpp>

using namespace lockstep;

struct Net : nn::Module {
  std::shared_ptr<nn::Conv2d> conv = register_module("conv", std::make_shared<nn::Conv2d>(1, 8, 5));
  std::shared_ptr<nn::Linear> fc =
      register_module("fc", std::make_shared<nn::Linear>(8 * 12 * 12, 10));
  Variable forward(const Variable& x) override {
    return log_softmax(fc->forward(flatten(relu(max_pool2d(conv->forward(x), 2)), 1)));
  }
};

int main(int argc, char** argv) {
  MPI_Init(&argc,
           &argv);  // your program's own MPI: Lockstep duplicates the communicator you give it
  const auto group = make_mpi_group(MPI_COMM_WORLD);
  set_math_threads(1);  // one core a rank; without it oneDNN takes every core of the machine
  {
    const auto images = make_synthetic({.samples = 4096}, Split::train);
    const BatchPlan plan(images->size(), 128, group->size());  // 128 samples a step over all ranks
    Loader loader(images, std::make_unique<TrainBatches>(plan, group->rank(), 1234));

    nn::manual_seed(1234);
    DistributedDataParallel model(std::make_shared<Net>(), group);
    optim::SGD sgd(model.module().named_parameters(), {.lr = 0.05, .momentum = 0.9});

    for (int epoch = 0; epoch < 3; ++epoch) {
      double sum = 0;
      for (loader.start_epoch(epoch); loader.has_next(); sgd.step()) {
        const Share share = plan.share(loader.next_step(), group->rank());
        const Batch& batch = loader.next();
        model.zero_grad();
        Variable loss;  // stays undefined on a rank that has no samples in this step
        if (batch.size() > 0)
          loss = nll_loss(model.forward(Variable(batch.inputs())), batch.targets());
        model.backward(loss,
                       static_cast<double>(share.size()) / static_cast<double>(share.batch_size));
        if (loss.defined()) sum += loss.data().item() * static_cast<double>(share.size());
      }
      const double mean =
          all_reduce_scalar(*group, sum, ReduceOp::sum) / static_cast<double>(images->size());
      if (group->rank() == 0) std::printf("epoch %d  loss %.4f\n", epoch + 1, mean);
    }
  }
  group->close();
  MPI_Finalize();
}
