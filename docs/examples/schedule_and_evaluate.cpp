#include <cstdio>
#include <lockstep/lockstep.hpp>
#include <lockstep/optim/schedules.hpp>
#include <lockstep/tensor/kernels/loss/accuracy.hpp>

using namespace lockstep;

int main(int argc, char** argv) {
  const MpiSession session(argc, argv);
  const auto group = make_mpi_group(MPI_COMM_WORLD);
  set_math_threads(1);  // one core a rank

  const auto images = make_synthetic({.samples = 2048}, Split::train);
  const auto unseen = make_synthetic({.samples = 1000}, Split::test);
  const BatchPlan plan(images->size(), 256, group->size());
  Loader loader(images, std::make_unique<TrainBatches>(plan, group->rank(), 1234));
  // Every sample once, in the same batches of 100 on any number of ranks.
  const EvalPlan eval_plan(unseen->size(), 100, group->size());
  Loader eval_loader(unseen, std::make_unique<EvalBatches>(eval_plan, group->rank()));

  nn::manual_seed(1);
  DistributedDataParallel ddp(nn::convnet(images->sample_shape(), images->classes(), 0.0), group);
  optim::SGD sgd(ddp.module().named_parameters(), {.lr = 0.05, .momentum = 0.9});

  constexpr int epochs = 3;
  const auto schedule = optim::make_schedule({.kind = optim::StepLR{.step_size = 2, .gamma = 0.1}},
                                             epochs, plan.steps());
  for (int epoch = 0; epoch < epochs; ++epoch) {
    for (loader.start_epoch(epoch); loader.has_next();) {
      const std::int64_t step = loader.next_step();
      const Share share = plan.share(step, group->rank());
      const Batch& batch = loader.next();
      optim::apply_schedule(*schedule, sgd.initial_lr(), epoch, epoch * plan.steps() + step, sgd);
      sgd.zero_grad();
      Variable loss;  // a rank may have no sample of the last batch
      if (batch.size() > 0) loss = nll_loss(ddp.forward(Variable(batch.inputs())), batch.targets());
      ddp.backward(loss, double(batch.size()) / double(share.batch_size));
      sgd.step();
    }

    ddp.broadcast_buffers();  // BatchNorm's running statistics become rank 0's
    const NoGradGuard no_grad;
    const nn::ModeGuard evaluating(ddp.module(), false);  // and back at the end of the scope
    double right = 0;
    for (eval_loader.start_epoch(0); eval_loader.has_next();) {
      const Batch& batch = eval_loader.next();
      const Variable scores = ddp.module()(Variable(batch.inputs()));
      right += double(count_correct(scores.data(), batch.targets()));
    }
    right = all_reduce_scalar(*group, right, ReduceOp::sum);
    if (group->rank() == 0) {
      std::printf("epoch %d  lr %g  accuracy %.3f\n", epoch + 1, sgd.lr(),
                  right / double(unseen->size()));
    }
  }
  group->close();
}
