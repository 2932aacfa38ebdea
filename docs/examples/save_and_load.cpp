#include <cstdio>
#include <lockstep/autograd/functional.hpp>
#include <lockstep/checkpoint/reader.hpp>
#include <lockstep/checkpoint/save/writer.hpp>
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

using namespace lockstep;

/// What trains, and what of it is kept.
struct Training {
  std::shared_ptr<ProcessGroup> group;
  std::shared_ptr<const Dataset> images = make_synthetic({.samples = 2048}, Split::train);
  BatchPlan plan{images->size(), 128, group->size()};  // 128 samples a step over all ranks
  Loader loader{images, std::make_unique<TrainBatches>(plan, group->rank(), 1234)};
  DistributedDataParallel model{nn::convnet(images->sample_shape(), images->classes(), 0.0), group};
  optim::SGD sgd{model.module().named_parameters(), {.lr = 0.02, .momentum = 0.9}};

  /// Loss of the last step.
  double epoch(std::int64_t number) {
    double last = 0;
    for (loader.start_epoch(number); loader.has_next();) {
      const Share share = plan.share(loader.next_step(), group->rank());
      const Batch& batch = loader.next();
      sgd.zero_grad();
      Variable loss;  // a rank without samples has none
      if (share.size() > 0)
        loss = nll_loss(model.forward(Variable(batch.inputs())), batch.targets());
      model.backward(loss, double(share.size()) / double(share.batch_size));
      sgd.step();
      last = loss.defined() ? loss.data().item() : 0.0;
    }
    return last;
  }

  void save(const char* path, std::int64_t epochs) {
    model.broadcast_buffers();  // every rank writes its part of one state
    CheckpointContents contents{model.state_dict(), sgd.state_dict(), {.epoch = epochs}, "", {}};
    static_cast<void>(CheckpointWriter().save(*group, path, contents));
  }

  /// Returns the epochs that are behind it.
  std::int64_t load(const char* path) {
    const CheckpointContents contents = load_checkpoint(*group, path);
    model.load_state_dict(contents.model);
    sgd.load_state_dict(contents.optimizer);
    return contents.train.epoch;
  }
};

int main(int argc, char** argv) {
  const MpiSession session(argc, argv);
  const auto group = make_mpi_group(MPI_COMM_WORLD);
  const char* path = argc > 1 ? argv[1] : "save_and_load.h5";
  set_math_threads(1);
  {
    nn::manual_seed(1);
    Training first{.group = group};
    first.epoch(0);
    first.save(path, 1);
    const double went_on = first.epoch(1);

    nn::manual_seed(2);  // another network, until it is loaded
    Training second{.group = group};
    const double resumed = second.epoch(second.load(path));
    if (group->rank() == 0) {
      std::printf("loss %.6f, after loading %.6f: %s\n", went_on, resumed,
                  went_on == resumed ? "the same bits" : "different");
    }
  }
  group->close();
}
