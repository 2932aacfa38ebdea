#pragma once
#include <cstdint>

#include <lockstep/autograd/functional/linear_cross_entropy.hpp>
#include <lockstep/autograd/variable.hpp>
#include <lockstep/tensor/kernels/elementwise/dropout.hpp>
#include <lockstep/tensor/kernels/loss/loss.hpp>

namespace lockstep::nn {

/// How the ranks of a group share out a module's computation (Module::set_partition): this rank's
/// part, and the collectives around it. A layer that has one calls these functions in place of the
/// operations of the same name. By default they are those operations.
/// parallelize_module (parallel/tensor/parallelize_module.hpp) makes them.
class Partition {
 public:
  Partition() = default;
  virtual ~Partition() = default;
  Partition(const Partition&) = delete;
  Partition& operator=(const Partition&) = delete;

  /// The input of this rank's part: of MultiheadAttention, of TransformerEncoder, and of Gpt's
  /// blocks.
  [[nodiscard]] virtual Variable enter(const Variable& x) const { return x; }
  /// The output, from that of this rank's part: of TransformerEncoder.
  [[nodiscard]] virtual Variable leave(const Variable& y) const { return y; }
  /// A parameter that all ranks hold, as their parts use it: of LayerNorm and RMSNorm.
  [[nodiscard]] virtual Variable use(const Variable& parameter) const { return parameter; }
  /// Of Linear, and of Gpt's logits. `bias` may be undefined.
  [[nodiscard]] virtual Variable linear(const Variable& x, const Variable& weight,
                                        const Variable& bias) const;
  [[nodiscard]] virtual Variable linear_without_values(const Variable& x, const Variable& weight,
                                                       const Variable& bias) const;
  /// Of Embedding.
  [[nodiscard]] virtual Variable embedding(const Tensor& index, const Variable& weight,
                                           std::int64_t padding_idx) const;
  /// Of Dropout.
  [[nodiscard]] virtual Variable dropout(const Variable& x, double p, const RandomKey& key) const;
  /// Of Gpt's loss.
  [[nodiscard]] virtual Variable linear_cross_entropy(const Variable& x, const Variable& weight,
                                                      const Tensor& target,
                                                      const LossOptions& options,
                                                      LossGradients when) const;
};

}  // namespace lockstep::nn
