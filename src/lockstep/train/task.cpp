#include <lockstep/train/task.hpp>

#include <lockstep/autograd/functional.hpp>
#include <lockstep/data/data_options.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/nn/models.hpp>
#include <lockstep/tensor/kernels/accuracy.hpp>
#include <lockstep/train/options.hpp>

namespace lockstep::train {

Classification::Classification(Deck& deck) : model_(deck.read<nn::ModelOptions>("model")) {
  const auto options = deck.read<DataOptions>("data");
  loading_ = {options.shuffle, options.prefetch};
  data_ = make_datasets(options, TargetKind::classes, deck.read<TrainOptions>("train").seed);
}

std::shared_ptr<nn::Module> Classification::make_model() const {
  return nn::make_model(model_, data_.train->sample_shape(), data_.train->classes());
}

Variable Classification::loss(const Variable& output, const Batch& batch) const {
  return nll_loss(output, batch.targets());
}

std::vector<Metric> Classification::metrics() const {
  const auto samples = static_cast<double>(data_.test->size());
  return {{"accuracy", ReduceOp::sum, [samples](double correct) { return correct / samples; }}};
}

void Classification::measure(const Tensor& output, const Batch& batch,
                             std::span<double> figures) const {
  figures[0] = static_cast<double>(count_correct(output, batch.targets()));
}

}  // namespace lockstep::train
