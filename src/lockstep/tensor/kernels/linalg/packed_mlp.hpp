#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include <lockstep/tensor/tensor.hpp>

namespace lockstep {

/// A row of fully connected layers for inference on the host: y = relu(W x + b) each, the relu
/// where the layer has one. Weights are arranged once, for vectors; some samples at a time go
/// through all layers while they are in cache. Each output is a sum in the order of the inputs,
/// begun with the bias: a sample's bits depend neither on the others nor on their number.
///
/// For weights that a core's cache holds: wider layers belong to oneDNN, whose products go through
/// memory in blocks (see docs/reference/performance.md).
class PackedMlp {
 public:
  /// One linear layer, given to the constructor.
  struct Layer {
    Tensor weight;      ///< f32 [out, in]
    Tensor bias;        ///< f32 [out], or undefined
    bool relu = false;  ///< behind it
  };
  /// Copies weights and biases. Throws ShapeError unless there is a layer and each fits the one
  /// before.
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
