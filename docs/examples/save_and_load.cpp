#include <cstdio>
#include <cstdlib>
#include <lockstep/autograd/functional.hpp>
#include <lockstep/checkpoint/folder_of_checkpoints.hpp>
#include <lockstep/checkpoint/reader.hpp>
#include <lockstep/checkpoint/run_checkpoints.hpp>
#include <lockstep/checkpoint/save/writer.hpp>
#include <lockstep/comm/agreement.hpp>
#include <lockstep/comm/mpi_group.hpp>
#include <lockstep/data/batches/batch_plan.hpp>
#include <lockstep/data/batches/batch_source.hpp>
#include <lockstep/data/batches/loader.hpp>
#include <lockstep/data/synthetic_dataset.hpp>
#include <lockstep/nn/models/convnet.hpp>
#include <lockstep/nn/random.hpp>
#include <lockstep/optim/sgd.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>
#include <lockstep/tensor/math_libraries.hpp>
#include <lockstep/train/elastic.hpp>

using namespace lockstep;

/// The same bits on any number of ranks that divides this: 1, 2, 3, 4, 6, 12.
constexpr int shards = 12;

/// What trains, and what of it is kept.
struct Training {
  std::shared_ptr<ProcessGroup> group;
  std::shared_ptr<const Dataset> images =
      make_synthetic({.samples = 2048, .noise = 0.9}, Split::train);
  BatchPlan plan{images->size(), 128, group->size(), false, shards};  // 128 samples a step
  Loader loader{images, std::make_unique<TrainBatches>(plan, group->rank(), 1234)};
  DistributedDataParallel model{nn::convnet(images->sample_shape(), images->classes()), group,
                                DdpOptions{.shards = shards}};
  optim::SGD sgd{model.module().named_parameters(), {.lr = 0.02, .momentum = 0.9}};
  TrainState at = {};

  /// One step; returns the mean loss of this rank's last shard.
  double step() {
    if (!loader.has_next()) loader.start_epoch(at.epoch, at.position);
    const std::int64_t number = loader.next_step();
    const Share mine = plan.share(number, group->rank());
    const Batch& batch = loader.next();
    double last = 0;
    sgd.zero_grad();
    model.for_each_shard([&](std::int64_t shard) {
      const Share part = plan.shard(number, shard);
      const std::int64_t row = part.first_in_batch - mine.first_in_batch;
      const Batch samples = batch.slice(row, row + part.size());
      // Dropout draws by step and sample: the same numbers after a restart.
      const nn::RandomContextGuard random({.seed = 1,
                                           .step = static_cast<std::uint32_t>(at.step),
                                           .first_sample = part.first_in_batch});
      Variable loss;  // a shard without samples has none
      if (part.size() > 0)
        loss = nll_loss(model.forward(Variable(samples.inputs())), samples.targets());
      model.backward(loss, double(part.size()) / double(part.batch_size));
      if (loss.defined()) last = loss.data().item();
    });
    sgd.step();
    ++at.step;
    at.position = loader.has_next() ? at.position + 1 : 0;
    if (at.position == 0) ++at.epoch;
    return last;
  }

  void save(const std::filesystem::path& path) {
    model.broadcast_buffers();  // every rank writes its part of one state
    CheckpointContents contents{model.state_dict(), sgd.state_dict(), at, "", {}};
    static_cast<void>(CheckpointWriter().save(*group, path, contents));
  }

  void load(const std::filesystem::path& path) {
    const CheckpointContents contents = load_checkpoint(*group, path);
    model.load_state_dict(contents.model);
    sgd.load_state_dict(contents.optimizer);
    at = contents.train;
  }
};

// save_and_load FOLDER [EPOCHS]: trains, and goes on from the newest checkpoint in FOLDER.
int main(int argc, char** argv) {
  const MpiSession session(argc, argv);
  const auto group = make_mpi_group(MPI_COMM_WORLD);
  const std::filesystem::path folder = argc > 1 ? argv[1] : "save_and_load";
  const std::int64_t epochs = argc > 2 ? std::atoll(argv[2]) : 3;
  const bool is_first = group->rank() == 0;
  if (epochs < 1) {
    if (is_first) std::puts("save_and_load [FOLDER [EPOCHS, from 1 on]]");
    group->close();
    return 2;
  }
  set_math_threads(1);
  nn::manual_seed(1);
  int code = 0;
  try {
    train::StopRequest stop(*group, {.checkpoints = folder});
    Training training{.group = group};
    RunCheckpoints kept(folder, {.keep = 3});
    const auto newest = newest_good_checkpoint(*group, folder);
    agree(*group, 0, [&] { kept.begin(newest); });
    if (newest) training.load(*newest);
    if (newest && is_first)
      std::printf("goes on from step %lld\n", static_cast<long long>(training.at.step));

    double loss = 0;
    while (training.at.epoch < epochs) {
      loss = training.step();
      const bool stops = stop.requested(training.at.step);  // the same on all ranks
      if (stops || training.at.position == 0 || training.at.step % 5 == 0) {
        const auto path = checkpoint_path(folder, training.at.step);
        training.save(path);
        if (is_first) kept.saved(path);
      }
      if (stops) break;
    }
    if (is_first)
      std::printf("step %lld, loss %.6f\n", static_cast<long long>(training.at.step), loss);
    code = stop.exit_code(training.at.epoch >= epochs);
  } catch (const AgreedFailure& failure) {  // on all ranks, as of a full disk
    if (is_first)
      std::fprintf(stderr, "save_and_load: %s%s\n", failure.prefix().c_str(),
                   failure.message.c_str());
    code = static_cast<int>(failure.code);
  }
  group->close();
  return code;
}
