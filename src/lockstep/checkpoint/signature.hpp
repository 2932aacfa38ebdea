#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/tensor/dtype.hpp>
#include <lockstep/tensor/shape.hpp>

namespace lockstep {

class DeckTable;

/// One sample's tensor, as users of a model hold it, and how it becomes the model's: raw numbers x
/// are to the model (x / divisor - mean) / std in f32, with one mean and std for all or one a
/// channel, the leading dimension. Of an output the other way: what the model says times std plus
/// mean. Empty: as it is.
struct TensorSignature {
  std::string name;
  DType dtype = DType::f32;  ///< i64: indices, which are never scaled
  Shape shape;
  double divisor = 1;
  std::vector<double> mean = {}, std = {};

  [[nodiscard]] bool is_scaled() const noexcept { return !mean.empty(); }
  friend bool operator==(const TensorSignature&, const TensorSignature&) = default;
};

/// What goes into a model and what comes out: with the deck's [model] and the weights, all that
/// predictions from raw inputs need. Checkpoints hold it (docs/reference/checkpoint_format.md).
struct ModelSignature {
  /// What the model's outputs are: values; log-probabilities of classes; or, gaussian, the means of
  /// all values and then, of each, s: its variance is softplus(s) + least_variance, before scaling
  /// (Lakshminarayanan et al. 2017, arXiv:1612.01474, section 2.2.1).
  enum class Output : std::uint8_t { values, log_probabilities, gaussian };
  static constexpr double least_variance = 1e-6;

  TensorSignature input, output;  ///< log-probabilities are [classes]
  /// Of samples of several inputs those behind `input`, in the order of Batch::inputs(k).
  std::vector<TensorSignature> other_inputs = {};
  Output kind = Output::values;
  std::vector<std::string> class_names = {};  ///< one a class, or none

  /// Checkpoints of tasks that do not say, and of Lockstep before format 3, have none.
  [[nodiscard]] bool is_known() const noexcept { return !output.name.empty(); }
  [[nodiscard]] std::int64_t classes() const noexcept {
    return kind == Output::log_probabilities ? output.shape.numel() : 0;
  }

  /// Number k of a sample's inputs; 0 is `input`. Throws std::out_of_range.
  [[nodiscard]] const TensorSignature& input_at(std::size_t k) const {
    return k == 0 ? input : other_inputs.at(k - 1);
  }
  [[nodiscard]] std::size_t input_count() const noexcept { return 1 + other_inputs.size(); }

  /// Of what the model says of a sample.
  [[nodiscard]] std::int64_t model_outputs() const noexcept {
    return output.shape.numel() * (kind == Output::gaussian ? 2 : 1);
  }

  /// TOML: tables [input], of others [input_2] and so on, and [output].
  [[nodiscard]] std::string to_text() const;
  /// Throws CheckpointError for what to_text does not write; `name` stands for the text in
  /// messages.
  [[nodiscard]] static ModelSignature parse(std::string_view text, std::string_view name);
  friend bool operator==(const ModelSignature&, const ModelSignature&) = default;
};

}  // namespace lockstep
