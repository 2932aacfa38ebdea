#pragma once
#include <cstdint>

#include <lockstep/nn/module.hpp>

namespace lockstep::nn {

/// x[..., in] -> [..., out]; parameters weight[out, in], bias[out].
class Linear : public Module {
 public:
  Linear(std::int64_t in_features, std::int64_t out_features, bool bias = true);
  /// A layer with these parameters; without a bias if it is undefined.
  explicit Linear(Tensor weight, Tensor bias = {});
  Variable forward(const Variable& x) override;
  /// For backward only: see linear_without_values.
  [[nodiscard]] Variable forward_without_values(const Variable& x);

  [[nodiscard]] const Variable& weight() const noexcept { return weight_; }
  [[nodiscard]] const Variable& bias() const noexcept { return bias_; }

 private:
  Variable weight_, bias_;
};

}  // namespace lockstep::nn
