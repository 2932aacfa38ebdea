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

  /// A category of each row, i64 [...]: another draw in every call on every rank, reproducible from
  /// manual_seed; under a RandomContextGuard the same for a sample whatever rank draws it, where
  /// rows are samples. Throws InputError for a row that is no distribution.
  [[nodiscard]] Tensor sample() const;
  /// The same with random numbers of the caller's own.
  [[nodiscard]] Tensor sample(const RandomKey& key) const;

  /// The logarithm of the probability of value (i64 [...], as sample() gives), [...].
  [[nodiscard]] Variable log_prob(const Tensor& value) const;
  /// -sum(p log p), [...].
  [[nodiscard]] Variable entropy() const;

  /// Normalised: [..., C]. For a weight of 0 it is the logarithm of the smallest normal number of
  /// the dtype, for a logit of -inf -inf.
  [[nodiscard]] const Variable& log_probs() const noexcept { return log_probs_; }

 private:
  explicit Categorical(Variable log_probs) : log_probs_(std::move(log_probs)) {}

  Variable log_probs_;
};

}  // namespace lockstep::nn
