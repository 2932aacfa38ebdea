#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <variant>

#include <lockstep/checkpoint/signature.hpp>
#include <lockstep/nn/module.hpp>

namespace lockstep {

/// A trained network for inference: raw inputs in, predictions out, in the caller's memory.
/// Normalises inputs as the training did. Gives values in the target's units, or probabilities of
/// classes. For a model with uncertainties (ModelSignature::Output::gaussian) the values are the
/// means, followed by the standard deviation of each.
///   const Predictor predictor("runs/heat");
///   std::vector<float> field(64);
///   predictor.predict(parameters, field);
///
/// Any number of threads may predict at a time. No graph is recorded for a backward pass. A thread
/// allocates nothing once it has predicted as many samples before. A sample's bits do not depend on
/// the thread.
class Predictor {
 public:
  /// One input for all samples: numbers, or indices.
  using Input = std::variant<std::span<const float>, std::span<const std::int64_t>>;
  /// Calls a model that takes several inputs: these are [n, ...input shape] each, in the
  /// signature's order. May run on several threads at a time. By default model.forward(inputs[0]).
  using Forward = std::function<Variable(nn::Module& model, std::span<const Variable> inputs)>;

  /// From a checkpoint, or from a run folder, which a running job may use: its newest good
  /// checkpoint. The checkpoint's deck names the network. Throws CheckpointError for a file that is
  /// missing or damaged, or lacks information: a program with a model of its own wrote it, or it
  /// predates format 3. Use the next constructor for these.
  explicit Predictor(const std::filesystem::path& checkpoint_or_run);
  /// From a checkpoint of a program's own model; `model` receives its weights. `signature`
  /// describes inputs and outputs if the file has no signature; otherwise it is ignored.
  Predictor(const std::filesystem::path& checkpoint_or_run, std::shared_ptr<nn::Module> model,
            const ModelSignature& signature = {}, Forward forward = {});
  /// From a model in memory, which is put into evaluation mode and must no longer change.
  Predictor(std::shared_ptr<nn::Module> model, ModelSignature signature, Forward forward = {});
  Predictor(Predictor&&) noexcept;
  ~Predictor();

  /// Names, shapes and dtypes of the inputs and outputs, for one sample.
  [[nodiscard]] const ModelSignature& signature() const noexcept;
  /// Elements of one sample's input number k (std::out_of_range beyond the last) and of its output.
  /// With standard deviations the latter is twice the signature's.
  [[nodiscard]] std::int64_t input_elements(std::size_t k = 0) const;
  [[nodiscard]] std::int64_t output_elements() const noexcept;

  /// Predicts as many samples as `input` holds: input [n, ...input shape], output [n, ...output
  /// shape], row-major on the host; n may be 0. `output` is values, or the probability of each
  /// class; with standard deviations [n, 2, ...output shape], the means first. f32 is for inputs
  /// that are numbers, in the units of the training data (a pixel of images stored as bytes is 0 to
  /// 255); i64 for indices. Throws InputError for a wrong number of elements or of inputs, or
  /// inputs of the other kind.
  void predict(std::span<const float> input, std::span<float> output) const;
  void predict(std::span<const std::int64_t> input, std::span<float> output) const;
  /// For samples of several inputs: all of them, in the signature's order.
  void predict(std::span<const Input> inputs, std::span<float> output) const;

  /// The model itself.
  [[nodiscard]] nn::Module& model() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The file for a run folder: its newest good checkpoint; any other path itself. Throws
/// CheckpointError if a run folder has none.
[[nodiscard]] std::filesystem::path checkpoint_of(const std::filesystem::path& checkpoint_or_run);
/// The warning if a running job has removed that one before it was read.
[[nodiscard]] std::string removed_meanwhile(const std::filesystem::path& checkpoint);

}  // namespace lockstep
