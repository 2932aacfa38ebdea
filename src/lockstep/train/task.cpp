#include <lockstep/train/task.hpp>

#include <fmt/format.h>

#include <lockstep/autograd/functional.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/tensor/kernels/accuracy.hpp>
#include <lockstep/train/run_plan.hpp>

namespace lockstep::train {
namespace {

LossOptions loss_options(const ClassLossOptions& read, const Deck& deck, std::int64_t classes) {
  LossOptions options{.label_smoothing = read.label_smoothing};
  const auto count = std::ssize(read.class_weights);
  if (count == 0) return options;
  if (count != classes) {
    throw InputError(fmt::format(
        "{}: loss.class_weights has {} entries, but the data have {} classes. Give one for each "
        "class, in their order, or leave it out for equal weights.",
        deck.where("loss", "class_weights"), count, classes));
  }
  options.class_weight = Tensor::from(read.class_weights, {count}).to(DType::f32);
  options.reduction = Reduction::sum;
  return options;
}

}  // namespace

std::shared_ptr<nn::Module> make_zoo_model(const nn::ModelOptions& options, const Dataset& data,
                                           std::int64_t outputs, nn::Head head) {
  if (data.input_dtype() != DType::f32) {
    throw InputError(
        "data.indices = true gives the model integers, but no model.kind looks them up. Leave it "
        "out to train on them as numbers, or write a task whose model begins with an Embedding "
        "(docs/write_an_app.md).");
  }
  return nn::make_model(options, data.sample_shape(), outputs, head);
}

Classification::Classification(Deck& deck) {
  const TaskOptions options = read_task_options(deck);
  model_ = options.model;
  loading_ = {options.data.shuffle, options.data.prefetch};
  data_ = make_datasets(options.data, TargetKind::classes, deck.read<TrainOptions>("train").seed);
  loss_ = loss_options(options.loss, deck, data_.train->classes());
}

std::shared_ptr<nn::Module> Classification::make_model() const {
  return make_zoo_model(model_, *data_.train, data_.train->classes());
}

Variable Classification::loss(const Variable& output, const Batch& batch) const {
  LossOptions options = loss_;
  if (options.class_weight.defined())
    options.class_weight = options.class_weight.to(output.data().dtype());
  // The softmax of log-probabilities is their exponential: cross_entropy takes them as they are.
  Variable loss = options.label_smoothing > 0.0 ? cross_entropy(output, batch.targets(), options)
                                                : nll_loss(output, batch.targets(), options);
  if (options.reduction == Reduction::mean) return loss;
  return loss * (1.0 / static_cast<double>(batch.size()));
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
