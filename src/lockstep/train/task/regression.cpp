#include <lockstep/train/task/regression.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include <lockstep/autograd/functional.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/data/files/stored_samples.hpp>
#include <lockstep/data/normalisation.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/nn/models.hpp>
#include <lockstep/nn/models/head.hpp>
#include <lockstep/tensor/kernels/loss/accuracy.hpp>
#include <lockstep/train/run/run_plan.hpp>
#include <lockstep/train/task/task_options.hpp>

namespace lockstep::train {
namespace {

/// Reads [loss], so that all programs know the same decks, and refuses keys for classes.
void expect_no_class_loss(const LossDeckOptions& loss, const Deck& deck) {
  const char* key = loss.label_smoothing > 0.0       ? "label_smoothing"
                    : !loss.class_weights.empty()    ? "class_weights"
                    : loss.class_weights_from_counts ? "class_weights_from_counts"
                                                     : nullptr;
  if (!key) return;
  throw InputError(fmt::format(
      "{}: loss.{} is for classes, but this program fits values. Remove it, or use classify.",
      deck.where("loss", key), key));
}

/// The batch's targets in the shape of the model's output.
Tensor targets_like(const Tensor& output, const Batch& batch) {
  return batch.targets().reshape(output.shape());
}

/// The values in a model's output; for a gaussian the means.
Tensor values_of(const Tensor& said, bool gaussian) {
  return gaussian ? GaussianNllLoss::means(Variable(said)).data() : said;
}

/// A copy of x [N, ...], `change`d by a scale. The kernels take f32. The scale moves to x's device.
Tensor scaled(const Tensor& x, ChannelScale& scale,
              void (*change)(const Tensor&, const ChannelScale&)) {
  scale.mean = scale.mean.to(x.device());
  scale.std = scale.std.to(x.device());
  const Tensor copy = x.dtype() == DType::f32 ? x.clone() : x.to(DType::f32);
  change(copy, scale);
  return copy.to(x.dtype());
}

}  // namespace

/// One sample after another (Welford 1962): the same bits on every rank.
Regression::Targets Regression::look_at_targets(const Dataset& data) {
  const auto width = static_cast<std::size_t>(data.target_shape().numel());
  std::vector<double> means(width), squares(width);
  Batch batch(data, std::min<std::int64_t>(data.size(), 256));
  std::vector<std::int64_t> indices(static_cast<std::size_t>(batch.capacity()));
  double count = 0;
  Targets found;
  for (std::int64_t begin = 0; begin < data.size(); begin += batch.capacity()) {
    const auto size = std::min(batch.capacity(), data.size() - begin);
    const auto numbers = std::span(indices).first(static_cast<std::size_t>(size));
    std::iota(numbers.begin(), numbers.end(), begin);
    data.load(numbers, batch);
    const auto targets = batch.targets().to_vector<float>();
    for (std::size_t at = 0; at < targets.size(); at += width) {
      ++count;
      for (std::size_t k = 0; k < width; ++k) {
        const double target = static_cast<double>(targets[at + k]), delta = target - means[k];
        means[k] += delta / count;
        squares[k] += delta * (target - means[k]);
        found.squares += target * target;
      }
    }
  }
  found.spread = std::accumulate(squares.begin(), squares.end(), 0.0);
  found.elements = count * static_cast<double>(width);
  return found;
}

Regression::Regression(Deck& deck, Sets sets) {
  const TaskOptions options = read_task_options(deck);
  expect_no_class_loss(options.loss, deck);
  model_ = std::make_unique<const nn::ModelOptions>(options.model);
  loss_ = options.loss;
  loading_ = {options.data.shuffle, options.data.prefetch};
  data_ = load_sets(options.data, TargetKind::values, sets, deck);
  const DataFacts& facts = data_.facts;
  if (facts.target_mean.empty()) return;
  target_scale_ = channel_scale({facts.target_mean, facts.target_std},
                                (data_.train ? data_.train : data_.test)->target_shape(),
                                DType::f32, facts.target, "target_");
}

Regression::~Regression() = default;

std::shared_ptr<nn::Module> Regression::make_model() const {
  return make_zoo_model(*model_, *data_.train, data_.train->target_shape(),
                        is_gaussian() ? nn::Head::gaussian : nn::Head::linear);
}

Variable Regression::loss(const Variable& said, const Batch& batch) const {
  const Tensor in_units = targets_like(values_of(said.data(), is_gaussian()), batch);
  return loss_.kind.make(said,
                         target_scale_ ? scaled(in_units, *target_scale_, normalise) : in_units);
}

std::vector<Metric> Regression::metrics(const Dataset& data) const {
  auto known = targets_.find(&data);
  if (known == targets_.end()) known = targets_.emplace(&data, look_at_targets(data)).first;
  const Targets t = known->second;
  return {{"r2", ReduceOp::sum, [t](double squares) { return 1.0 - squares / t.spread; }},
          {"max_error", ReduceOp::max, [](double largest) { return largest; }, false},
          {"mae", ReduceOp::sum, [t](double absolute) { return absolute / t.elements; }, false},
          {"relative_l2", ReduceOp::sum,
           [t](double squares) { return std::sqrt(squares / t.squares); }, false}};
}

void Regression::measure(const Tensor& said, const Batch& batch, std::span<double> figures) const {
  const Tensor output = values_of(said, is_gaussian());
  const Tensor in_units = target_scale_ ? scaled(output, *target_scale_, denormalise) : output;
  const Errors errors = errors_of(in_units, targets_like(in_units, batch));
  figures[0] = errors.squares;
  figures[1] = errors.largest;
  figures[2] = errors.absolute;
  figures[3] = errors.squares;
}

ModelSignature Regression::signature() const {
  ModelSignature signature = signature_of_data(data_);
  signature.output.shape = data_.train->target_shape();
  signature.output.mean = data_.facts.target_mean;
  signature.output.std = data_.facts.target_std;
  signature.kind =
      is_gaussian() ? ModelSignature::Output::gaussian : ModelSignature::Output::values;
  return signature;
}

}  // namespace lockstep::train
