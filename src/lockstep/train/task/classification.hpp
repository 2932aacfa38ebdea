#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <lockstep/tensor/kernels/loss/loss.hpp>
#include <lockstep/train/task/task.hpp>

namespace lockstep::nn {
struct ModelOptions;
}

namespace lockstep::train {

/// Classification of samples: data from [data], a model of the zoo from [model] that ends in
/// log-probabilities p, cross-entropy with the options of [loss]; accuracy is the fraction of
/// correct samples. With e = label_smoothing and the C classes' weights w, a sample of class t adds
///   -(1 - e) w[t] p[t] - (e / C) sum_c w[c] p[c]
/// to a sum that is divided by the number of samples. (PyTorch divides by the summed weights of the
/// samples, which on several ranks would be those of each rank's own share.)
class Classification : public Task {
 public:
  /// Reads the deck and loads the data. Throws InputError, also if [loss] does not fit the data.
  /// Local.
  explicit Classification(Deck& deck, Sets sets = Sets::train_and_test);
  ~Classification() override;

  [[nodiscard]] const Datasets& data() const override { return data_; }
  [[nodiscard]] Loading loading() const override { return loading_; }
  [[nodiscard]] std::shared_ptr<nn::Module> make_model() const override;
  [[nodiscard]] Variable loss(const Variable& output, const Batch& batch) const override;
  [[nodiscard]] std::vector<Metric> metrics(const Dataset& data) const override;
  void measure(const Tensor& output, const Batch& batch, std::span<double> figures) const override;
  [[nodiscard]] ModelSignature signature() const override;

 private:
  std::unique_ptr<const nn::ModelOptions> model_;
  Loading loading_;
  Datasets data_;
  LossOptions loss_;
  mutable Tensor weight_there_;  ///< loss_.class_weight, on the device of the last output
  std::int64_t top_k_ = 0;
};

}  // namespace lockstep::train
