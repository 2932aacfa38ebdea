#include <algorithm>
#include <cstdio>
#include <lockstep/autograd/functional.hpp>
#include <lockstep/comm/mpi_group.hpp>
#include <lockstep/comm/objects.hpp>
#include <lockstep/data/batches/partitioner.hpp>
#include <lockstep/data/synthetic_dataset.hpp>
#include <lockstep/nn/models/convnet.hpp>
#include <lockstep/optim/sgd.hpp>
#include <lockstep/parallel/comm_hook.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>
#include <lockstep/tensor/kernels/elementwise/elementwise.hpp>
#include <lockstep/tensor/math_libraries.hpp>
#include <vector>

using namespace lockstep;

/// Gradients travel as bf16; what rounding took from them is added in the next step.
class RememberingHook final : public CommHook {
 public:
  std::string name() const override { return "bf16 that remembers"; }

  void prepare(ProcessGroup& group, std::span<const Bucket> buckets) override {
    for (const Bucket& bucket : buckets) {
      const Shape& shape = bucket.gradients.shape();
      lost_.push_back(Tensor::zeros(shape));
      rounded_.push_back(memory_to_reduce(group, shape, DType::bf16, {}));
    }
  }

  Work start(ProcessGroup& group, const Bucket& bucket, std::size_t index) override {
    const Tensor &lost = lost_[index], &rounded = rounded_[index];
    add_scaled(bucket.gradients, 1.0, lost);  // what should travel,
    convert(lost, rounded);                   // what does,
    convert(rounded, bucket.gradients);
    add_scaled(bucket.gradients, -1.0, lost);  // and the difference
    return group.all_reduce(rounded, ReduceOp::sum);
  }

  void finish(const Bucket& bucket, std::size_t index) override {
    convert(rounded_[index], bucket.gradients);
  }

  std::int64_t bytes_sent(const Bucket& /*bucket*/, std::size_t index) const override {
    return static_cast<std::int64_t>(rounded_[index].bytes());
  }

 private:
  std::vector<Tensor> lost_, rounded_;
};

int main(int argc, char** argv) {
  const MpiSession session(argc, argv);
  const std::shared_ptr<ProcessGroup> group = make_mpi_group(MPI_COMM_WORLD);
  set_math_threads(1);
  const int rank = group->rank(), size = group->size();

  const auto images = make_synthetic({.samples = 2048}, Split::train);
  const std::vector<double> fractions(static_cast<std::size_t>(size), 1.0 / size);
  const DataPartitioner partitioner(images->size(), fractions, 1234);
  const auto part = partitioner.part(static_cast<std::size_t>(rank));
  const auto batch_size = static_cast<std::size_t>(std::max(1, 128 / size));  // 128 over all ranks
  Batch batch(*images, static_cast<std::int64_t>(batch_size));

  const auto model = nn::convnet(images->sample_shape(), images->classes(), 0.0);
  DistributedDataParallel ddp(model, group, {}, std::make_shared<RememberingHook>());
  optim::SGD sgd(model->named_parameters(), {.lr = 0.05, .momentum = 0.9});
  for (int epoch = 0; epoch < 3; ++epoch) {
    double sum = 0;
    int steps = 0;
    for (std::size_t first = 0; first + batch_size <= part.size(); first += batch_size, ++steps) {
      images->load(part.subspan(first, batch_size), batch);
      const Variable loss = nll_loss(ddp.forward(Variable(batch.inputs())), batch.targets());
      sgd.zero_grad();
      loss.backward();  // the hook sums over the ranks
      sgd.step();
      sum += loss.data().item();
    }
    const double mean = all_reduce_scalar(*group, sum / steps, ReduceOp::avg);
    if (rank == 0) std::printf("epoch %d  loss %.4f\n", epoch + 1, mean);
  }
  const auto [sent, replaced] = ddp.stats().traffic;
  if (rank == 0) {
    std::printf("sent %.1f MB in place of %.1f MB\n", static_cast<double>(sent) / 1e6,
                static_cast<double>(replaced) / 1e6);
  }
  group->close();
}
