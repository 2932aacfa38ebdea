#pragma once
#include <cstdint>
#include <memory>

#include <lockstep/autograd/variable.hpp>
#include <lockstep/data/dataset.hpp>
#include <lockstep/nn/models.hpp>

namespace lockstep {
class Deck;
}

namespace lockstep::train {

/// How the training data are fetched.
struct Loading {
  bool shuffle = true;        ///< a new order every epoch
  std::int64_t prefetch = 2;  ///< batches that the loader holds
};

/// What is trained: the data, the model, and what its output is worth. An application gives
/// train::App one of these; the same object on every rank.
class Task {
 public:
  virtual ~Task() = default;

  [[nodiscard]] virtual const Datasets& data() const = 0;
  [[nodiscard]] virtual Loading loading() const { return {}; }
  /// A new model. Called once, after nn::manual_seed(train.seed).
  [[nodiscard]] virtual std::shared_ptr<nn::Module> make_model() const = 0;
  /// Mean loss, one element, over the samples of `batch` (at least one); `output` is the model's.
  [[nodiscard]] virtual Variable loss(const Variable& output, const Batch& batch) const = 0;
  /// How many samples of `batch` the model's `output` gets right.
  [[nodiscard]] virtual std::int64_t correct(const Tensor& output, const Batch& batch) const = 0;
};

/// Classes from samples: data from [data], a model of the zoo from [model] that ends in
/// log-probabilities, negative log-likelihood.
class Classification : public Task {
 public:
  /// Reads the deck and loads the data. Throws InputError. Local.
  explicit Classification(Deck& deck);

  [[nodiscard]] const Datasets& data() const override { return data_; }
  [[nodiscard]] Loading loading() const override { return loading_; }
  [[nodiscard]] std::shared_ptr<nn::Module> make_model() const override;
  [[nodiscard]] Variable loss(const Variable& output, const Batch& batch) const override;
  [[nodiscard]] std::int64_t correct(const Tensor& output, const Batch& batch) const override;

 private:
  nn::ModelOptions model_;
  Loading loading_;
  Datasets data_;
};

}  // namespace lockstep::train
