#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/tensor/dtype.hpp>
#include <lockstep/tensor/shape.hpp>

namespace lockstep {

class DeckTable;

/// A tensor of one sample in the user's form, and its scaling for the model. The model gets (x /
/// divisor - mean) / std in f32 for raw numbers x, with one mean and std for all or one per
/// channel, the leading dimension. For an output the other way: the model's output times std plus
/// mean. Empty: unscaled.
struct TensorSignature {
  std::string name;
  DType dtype = DType::f32;  ///< i64: indices, which are never scaled
  Shape shape;
  double divisor = 1;
  std::vector<double> mean = {}, std = {};

  [[nodiscard]] bool is_scaled() const noexcept { return !mean.empty(); }
  friend bool operator==(const TensorSignature&, const TensorSignature&) = default;
};

/// Inputs and outputs of a model: with the deck's [model] and the weights, all that predictions
/// from raw inputs need. Checkpoints hold it (docs/reference/checkpoint_format.md).
struct ModelSignature {
  /// Meaning of the model's outputs. values; log_probabilities of classes; or gaussian: the means
  /// of all values, then for each an s with variance softplus(s) + least_variance, before scaling
  /// (Lakshminarayanan et al. 2017, arXiv:1612.01474, section 2.2.1).
  enum class Output : std::uint8_t { values, log_probabilities, gaussian };
  static constexpr double least_variance = 1e-6;

  TensorSignature input, output;  ///< log-probabilities are [classes]
  /// For samples with several inputs: those after `input`, in the order of Batch::inputs(k).
  std::vector<TensorSignature> other_inputs = {};
  Output kind = Output::values;
  std::vector<std::string> class_names = {};  ///< one per class, or none

  /// None in checkpoints of tasks without a signature, and of Lockstep before format 3.
  [[nodiscard]] bool is_known() const noexcept { return !output.name.empty(); }
  [[nodiscard]] std::int64_t classes() const noexcept {
    return kind == Output::log_probabilities ? output.shape.numel() : 0;
  }

  /// Input number k of a sample; 0 is `input`. Throws std::out_of_range.
  [[nodiscard]] const TensorSignature& input_at(std::size_t k) const {
    return k == 0 ? input : other_inputs.at(k - 1);
  }
  [[nodiscard]] std::size_t input_count() const noexcept { return 1 + other_inputs.size(); }

  /// Of the model's output for a sample.
  [[nodiscard]] std::int64_t model_outputs() const noexcept {
    return output.shape.numel() * (kind == Output::gaussian ? 2 : 1);
  }

  /// TOML: tables [input], further inputs as [input_2] and so on, and [output].
  [[nodiscard]] std::string to_text() const;
  /// Throws CheckpointError for text that to_text does not write; `name` names the text in
  /// messages.
  [[nodiscard]] static ModelSignature parse(std::string_view text, std::string_view name);
  friend bool operator==(const ModelSignature&, const ModelSignature&) = default;
};

}  // namespace lockstep
