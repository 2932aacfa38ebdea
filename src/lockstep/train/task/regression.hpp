#pragma once
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include <lockstep/tensor/kernels/data/gather.hpp>
#include <lockstep/train/options.hpp>
#include <lockstep/train/task/task.hpp>

namespace lockstep::nn {
struct ModelOptions;
}

namespace lockstep::train {

/// Regression of values: data with value targets from [data]; a model of the zoo from [model] that
/// ends in its last layer's outputs, as many as a target has elements; the mean over the elements
/// of the loss from [loss]. With data.normalise_targets the model fits (t - mean) / std, and the
/// loss is of that; all other figures are in the targets' units. With loss.kind = "gaussian_nll"
/// the model outputs twice as many numbers, ModelSignature::Output::gaussian, and the loss is
/// gaussian_nll_loss; the figures use the means.
///
/// Reports, over the whole test set and all elements k of its targets t with the outputs y,
///   r2 = 1 - sum (y - t)^2 / sum (t - mean of t_k)^2,
/// 1 for a perfect fit and 0 for the best constant (scikit-learn's r2_score, variance_weighted),
///   max_error = the largest |y - t|,
///   mae = the mean of |y - t|,
///   relative_l2 = sqrt(sum (y - t)^2 / sum t^2), the usual figure for fields.
class Regression : public Task {
 public:
  /// Reads the deck and loads the data. Throws InputError. Local.
  explicit Regression(Deck& deck, Sets sets = Sets::train_and_test);
  ~Regression() override;

  [[nodiscard]] const Datasets& data() const override { return data_; }
  [[nodiscard]] Loading loading() const override { return loading_; }
  [[nodiscard]] std::shared_ptr<nn::Module> make_model() const override;
  [[nodiscard]] Variable loss(const Variable& output, const Batch& batch) const override;
  /// Reads the targets of `data`, once, for their spread.
  [[nodiscard]] std::vector<Metric> metrics(const Dataset& data) const override;
  void measure(const Tensor& output, const Batch& batch, std::span<double> figures) const override;
  [[nodiscard]] ModelSignature signature() const override;

 private:
  std::unique_ptr<const nn::ModelOptions> model_;
  LossDeckOptions loss_;
  Loading loading_;
  Datasets data_;
  /// Sums over all samples of a data set.
  struct Targets {
    double spread = 0;   ///< sum of (t - mean of t_k)^2
    double squares = 0;  ///< sum of t^2
    double elements = 0;
  };
  [[nodiscard]] static Targets look_at_targets(const Dataset& data);
  [[nodiscard]] bool is_gaussian() const noexcept {
    return loss_.kind.get_if<GaussianNllLoss>() != nullptr;
  }

  mutable std::optional<ChannelScale> target_scale_;  ///< none: targets are not normalised
  mutable std::map<const Dataset*, Targets> targets_;
};

}  // namespace lockstep::train
