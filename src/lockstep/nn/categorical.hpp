#pragma once
#include <lockstep/autograd/variable.hpp>
#include <lockstep/nn/random.hpp>

namespace lockstep::nn {

/// torch.distributions.Categorical: distributions over the last dimension's categories 0, ...,
/// C - 1, one for each row of [..., C].
class Categorical {
 public:
  /// From logarithms of weights, or from weights that need not add up to 1. Throws InputError for
  /// a row that is no distribution: negative weights, NaN, infinite ones, none above 0.
  [[nodiscard]] static Categorical from_logits(const Variable& logits);
  [[nodiscard]] static Categorical from_probs(const Variable& probs);

  /// Samples one category per row, i64 [...]: every call on every rank draws new ones, reproducible
  /// from manual_seed. Under a RandomContextGuard, where rows are samples, a sample's draw does not
  /// depend on the rank that makes it. Throws InputError for a row that is no distribution.
  [[nodiscard]] Tensor sample() const;
  /// The same with random numbers of the caller's own.
  [[nodiscard]] Tensor sample(const RandomKey& key) const;

  /// The logarithm of the probability of value (i64 [...], as sample() gives), [...].
  [[nodiscard]] Variable log_prob(const Tensor& value) const;
  /// -sum(p log p), [...].
  [[nodiscard]] Variable entropy() const;

  /// Normalised: [..., C]. For a weight of 0 it is the logarithm of the smallest normal number of
  /// the dtype; for a logit of -inf it is -inf.
  [[nodiscard]] const Variable& log_probs() const noexcept { return log_probs_; }

 private:
  explicit Categorical(Variable log_probs) : log_probs_(std::move(log_probs)) {}

  Variable log_probs_;
};

}  // namespace lockstep::nn
