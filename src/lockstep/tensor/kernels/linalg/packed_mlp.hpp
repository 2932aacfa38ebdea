#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include <lockstep/tensor/tensor.hpp>

namespace lockstep {

/// Fully connected layers for inference on the host: y = relu(W x + b) each, with relu if the layer
/// has one. Weights are packed once, for vectors; a few samples at a time pass all layers while
/// they are in cache. Each output is a sum in the order of the inputs, starting with the bias: a
/// sample's bits do not depend on other samples or on their number.
///
/// For weights that fit a core's cache: use oneDNN, with its blocked products, for wider layers
/// (see docs/reference/performance.md).
class PackedMlp {
 public:
  /// One linear layer, given to the constructor.
  struct Layer {
    Tensor weight;      ///< f32 [out, in]
    Tensor bias;        ///< f32 [out], or undefined
    bool relu = false;  ///< behind it
  };
  /// Copies weights and biases. Throws ShapeError unless there is at least one layer and each fits
  /// the one before.
  explicit PackedMlp(const std::vector<Layer>& layers);
  ~PackedMlp();

  [[nodiscard]] std::int64_t inputs() const noexcept;
  [[nodiscard]] std::int64_t outputs() const noexcept;
  /// Weights and biases as they are arranged.
  [[nodiscard]] static std::int64_t packed_bytes(const std::vector<Layer>& layers);

  /// `input` f32 [samples, inputs()], `output` f32 [samples, outputs()], which may not overlap. Any
  /// thread at any time; a thread allocates in its first calls, not later.
  void run(const float* input, std::int64_t samples, float* output) const;

 private:
  struct Packed;
  std::vector<Packed> layers_;
  std::int64_t widest_ = 0;  ///< features of a sample between layers
};

}  // namespace lockstep
