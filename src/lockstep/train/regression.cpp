#include <lockstep/train/regression.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include <lockstep/autograd/functional.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/tensor/kernels/accuracy.hpp>
#include <lockstep/train/run_plan.hpp>

namespace lockstep::train {
namespace {

/// Sum over samples and elements of (t - mean over the samples of that element)^2, one sample after
/// another (Welford 1962): the same bits on every rank.
double spread_of_targets(const Dataset& data) {
  const auto width = static_cast<std::size_t>(data.target_shape().numel());
  std::vector<double> means(width), squares(width);
  Batch batch(data, std::min<std::int64_t>(data.size(), 256));
  std::vector<std::int64_t> indices(static_cast<std::size_t>(batch.capacity()));
  double count = 0;
  for (std::int64_t begin = 0; begin < data.size(); begin += batch.capacity()) {
    const auto size = std::min(batch.capacity(), data.size() - begin);
    const auto numbers = std::span(indices).first(static_cast<std::size_t>(size));
    std::iota(numbers.begin(), numbers.end(), begin);
    data.load(numbers, batch);
    const auto targets = batch.targets().to_vector<float>();
    for (std::size_t at = 0; at < targets.size(); at += width) {
      ++count;
      for (std::size_t k = 0; k < width; ++k) {
        const double delta = static_cast<double>(targets[at + k]) - means[k];
        means[k] += delta / count;
        squares[k] += delta * (static_cast<double>(targets[at + k]) - means[k]);
      }
    }
  }
  return std::accumulate(squares.begin(), squares.end(), 0.0);
}

/// [loss] is there, so that all programs know the same decks, and has only what classes need.
void expect_no_class_loss(const ClassLossOptions& loss, const Deck& deck) {
  const char* key = loss.label_smoothing > 0.0    ? "label_smoothing"
                    : !loss.class_weights.empty() ? "class_weights"
                                                  : nullptr;
  if (!key) return;
  throw InputError(fmt::format(
      "{}: loss.{} is of classes, but this program fits values. Remove it, or use classify.",
      deck.where("loss", key), key));
}

/// The batch's targets in the shape of the model's output.
Tensor targets_like(const Tensor& output, const Batch& batch) {
  return batch.targets().reshape(output.shape());
}

}  // namespace

Regression::Regression(Deck& deck) {
  const TaskOptions options = read_task_options(deck);
  expect_no_class_loss(options.loss, deck);
  model_ = options.model;
  loading_ = {options.data.shuffle, options.data.prefetch};
  data_ = make_datasets(options.data, TargetKind::values, deck.read<TrainOptions>("train").seed);
  spread_ = spread_of_targets(*data_.test);
}

std::shared_ptr<nn::Module> Regression::make_model() const {
  return make_zoo_model(model_, *data_.train, data_.train->target_shape().numel(),
                        nn::Head::linear);
}

Variable Regression::loss(const Variable& output, const Batch& batch) const {
  return mse_loss(output, targets_like(output.data(), batch));
}

std::vector<Metric> Regression::metrics() const {
  return {{"r2", ReduceOp::sum, [this](double squares) { return 1.0 - squares / spread_; }},
          {"max_error", ReduceOp::max, [](double largest) { return largest; }}};
}

void Regression::measure(const Tensor& output, const Batch& batch,
                         std::span<double> figures) const {
  const Errors errors = errors_of(output, targets_like(output, batch));
  figures[0] = errors.squares;
  figures[1] = errors.largest;
}

}  // namespace lockstep::train
