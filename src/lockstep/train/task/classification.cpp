#include <lockstep/train/task/classification.hpp>

#include <fmt/format.h>

#include <algorithm>

#include <lockstep/autograd/functional.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/data/batches/weighted_draws.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/tensor/kernels/loss/accuracy.hpp>
#include <lockstep/train/task/task_options.hpp>

namespace lockstep::train {
namespace {

LossOptions loss_options(const LossDeckOptions& read, const Deck& deck, std::int64_t classes) {
  if (!read.kind.get_if<MseLoss>()) {  // the default
    throw InputError(fmt::format(
        "{}: loss.kind is for values, but this program fits classes. Remove it, or use regress.",
        deck.where("loss", "kind")));
  }
  LossOptions options{.label_smoothing = read.label_smoothing};
  const auto count = std::ssize(read.class_weights);
  if (count == 0) return options;
  if (count != classes) {
    throw InputError(
        fmt::format("{}: loss.class_weights has {} entries, but the data have {} classes. Give one "
                    "per class, in order, or leave it out for equal weights.",
                    deck.where("loss", "class_weights"), count, classes));
  }
  options.class_weight = Tensor::from(read.class_weights, {count}).to(DType::f32);
  options.reduction = Reduction::sum;
  return options;
}

/// Weights that the deck derives from the training set are computed, and recorded in it.
LossDeckOptions with_counted_weights(LossDeckOptions options, const Dataset& train, Deck& deck) {
  if (!options.class_weights_from_counts) return options;
  if (!options.class_weights.empty()) {
    throw InputError(
        fmt::format("{}: loss.class_weights_from_counts and loss.class_weights both set the "
                    "weights. Leave out one of them.",
                    deck.where("loss", "class_weights_from_counts")));
  }
  const auto counts = count_labels(train.labels(), train.classes());
  const auto classes =
      static_cast<double>(std::ranges::count_if(counts, [](auto count) { return count > 0; }));
  for (const std::int64_t count : counts) {
    const auto present = static_cast<double>(std::max<std::int64_t>(1, count));
    options.class_weights.push_back(static_cast<double>(train.size()) / (classes * present));
  }
  options.class_weights_from_counts = false;
  deck.record("loss", options);
  return options;
}

}  // namespace

Classification::Classification(Deck& deck, Sets sets) {
  const TaskOptions options = read_task_options(deck);
  model_ = std::make_unique<const nn::ModelOptions>(options.model);
  loading_ = {options.data.shuffle, options.data.prefetch};
  data_ = load_sets(options.data, TargetKind::classes, sets, deck);
  const std::int64_t classes = (data_.train ? data_.train : data_.test)->classes();
  loss_ = loss_options(
      data_.train ? with_counted_weights(options.loss, *data_.train, deck) : options.loss, deck,
      classes);
  weight_there_ = loss_.class_weight;
  top_k_ = deck.read<EvalOptions>("eval").top_k;
  if (top_k_ >= classes) {
    throw InputError(fmt::format("{}: eval.top_k = {} of {} classes would always be 1. Use fewer.",
                                 deck.where("eval", "top_k"), top_k_, classes));
  }
}

Classification::~Classification() = default;

std::shared_ptr<nn::Module> Classification::make_model() const {
  return make_zoo_model(*model_, *data_.train, {data_.train->classes()});
}

Variable Classification::loss(const Variable& output, const Batch& batch) const {
  LossOptions options = loss_;
  if (options.class_weight.defined()) {
    if (weight_there_.device() != output.data().device())
      weight_there_ = loss_.class_weight.to(output.data().device());
    options.class_weight = weight_there_.to(output.data().dtype());
  }
  // The softmax of log-probabilities is their exponential, so cross_entropy takes them unchanged.
  Variable loss = options.label_smoothing > 0.0 ? cross_entropy(output, batch.targets(), options)
                                                : nll_loss(output, batch.targets(), options);
  if (options.reduction == Reduction::mean) return loss;
  return loss * (1.0 / static_cast<double>(batch.size()));
}

std::vector<Metric> Classification::metrics(const Dataset& data) const {
  const auto samples = static_cast<double>(data.size());
  const auto share = [samples](double correct) { return correct / samples; };
  std::vector<Metric> all{{"accuracy", ReduceOp::sum, share}};
  if (top_k_ > 0) all.push_back({fmt::format("top{}_accuracy", top_k_), ReduceOp::sum, share});
  return all;
}

void Classification::measure(const Tensor& output, const Batch& batch,
                             std::span<double> figures) const {
  figures[0] = static_cast<double>(count_correct(output, batch.targets()));
  if (top_k_ > 0) figures[1] = static_cast<double>(count_correct(output, batch.targets(), top_k_));
}

ModelSignature Classification::signature() const {
  ModelSignature signature = signature_of_data(data_);
  signature.output.shape = {data_.train->classes()};
  signature.kind = ModelSignature::Output::log_probabilities;
  signature.class_names = data_.facts.class_names;
  return signature;
}

}  // namespace lockstep::train
