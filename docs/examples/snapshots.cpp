#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <lockstep/comm/agreement.hpp>
#include <lockstep/lockstep.hpp>

using namespace lockstep;

/// Returns the program's exit code.
int train_in(const std::shared_ptr<ProcessGroup>& group, int argc, char** argv) {
  const std::filesystem::path folder = argc > 1 ? argv[1] : "snapshots";
  const std::int64_t signal_after = argc > 2 ? std::atoll(argv[2]) : 0;
  const int signal = argc > 3 ? std::atoi(argv[3]) : SIGKILL;
  const bool is_first = group->rank() == 0, is_last = group->rank() == group->size() - 1;
  train::StopRequest stop(*group, {.checkpoints = folder});
  set_math_threads(1);

  const auto images = make_synthetic({.samples = 2048}, Split::train);
  const BatchPlan plan(images->size(), 64, group->size());  // 64 samples a step over all ranks
  Loader loader(images, std::make_unique<TrainBatches>(plan, group->rank(), 1));
  nn::manual_seed(1);
  DistributedDataParallel ddp(nn::convnet(images->sample_shape(), images->classes()), group);
  optim::SGD sgd(ddp.module().named_parameters(), {.lr = 0.02, .momentum = 0.9});

  // Resume from the newest checkpoint that is whole.
  TrainState at{.seed = 1};
  if (const auto newest = newest_good_checkpoint(*group, folder)) {
    const CheckpointContents snapshot = load_checkpoint(*group, *newest);
    ddp.load_state_dict(snapshot.model);
    sgd.load_state_dict(snapshot.optimizer);
    at = snapshot.train;
    if (is_first) std::printf("resumed from step %lld\n", static_cast<long long>(at.step));
  }

  const auto save = [&] {
    ddp.broadcast_buffers();
    agree(*group, 0, [&] { std::filesystem::create_directories(folder); });
    const CheckpointContents snapshot{ddp.state_dict(), sgd.state_dict(), at, "", {}};
    static_cast<void>(CheckpointWriter().save(*group, checkpoint_path(folder, at.step), snapshot));
  };

  while (at.epoch < 3) {
    for (loader.start_epoch(at.epoch, at.position); loader.has_next();) {
      const Share share = plan.share(loader.next_step(), group->rank());
      const Batch& batch = loader.next();
      // Dropout draws by step and sample, so that a resumed run draws what an undisturbed one does.
      const nn::RandomContextGuard random({.seed = 1,
                                           .step = static_cast<std::uint32_t>(at.step),
                                           .first_sample = share.first_in_batch});
      sgd.zero_grad();
      Variable loss;  // a rank without samples has none
      if (share.size() > 0) loss = nll_loss(ddp.forward(Variable(batch.inputs())), batch.targets());
      ddp.backward(loss, double(share.size()) / double(share.batch_size));
      sgd.step();
      ++at.step;
      at.position = loader.has_next() ? at.position + 1 : 0;
      if (at.position == 0) ++at.epoch;

      const bool stops = stop.requested(at.step);  // the same on all ranks
      if (at.step % 10 == 0 || at.epoch == 3 || stops) save();
      if (stops && at.epoch < 3) {
        if (is_first) std::printf("stopped at step %lld\n", static_cast<long long>(at.step));
        return stop.exit_code(false);  // 75: "start me again"
      }
      if (at.step == signal_after && is_last) std::raise(signal);
    }
  }
  if (is_first) std::printf("complete after step %lld\n", static_cast<long long>(at.step));
  return stop.exit_code(true);  // 0
}

// snapshots FOLDER [STEP [SIGNAL]]: trains for 3 epochs, 96 steps. After step STEP the last rank
// gets the signal, by default SIGKILL.
int main(int argc, char** argv) {
  const MpiSession session(argc, argv);
  set_log_sink([](LogLevel, std::string_view text) {
    std::fprintf(stderr, "%.*s\n", static_cast<int>(text.size()), text.data());
  });
  const std::shared_ptr<ProcessGroup> group = make_mpi_group(MPI_COMM_WORLD);
  int code = 0;
  try {
    code = train_in(group, argc, argv);
  } catch (const AgreedFailure& failure) {  // on all ranks, as of a full disk
    if (group->rank() == 0)
      std::fprintf(stderr, "snapshots: %s%s\n", failure.prefix().c_str(), failure.message.c_str());
    code = static_cast<int>(failure.code);
  }
  group->close();
  return code;
}
