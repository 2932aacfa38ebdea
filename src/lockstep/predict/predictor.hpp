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

/// A trained network for use: raw inputs in, predictions out, in the caller's memory. Normalises
/// inputs as the training did; gives values in the target's units, or probabilities of classes.
/// Of a model that knows how sure it is (ModelSignature::Output::gaussian) values are the means,
/// and then, of each, the standard deviation.
///   const Predictor predictor("runs/heat");
///   std::vector<float> field(64);
///   predictor.predict(parameters, field);
///
/// Any number of threads may predict at a time. Nothing is recorded for a backward pass, and a
/// thread that has predicted so many samples before allocates nothing. A sample's bits do not
/// depend on the thread.
class Predictor {
 public:
  /// One of the inputs, of all samples: numbers, or indices.
  using Input = std::variant<std::span<const float>, std::span<const std::int64_t>>;
  /// How a model that takes several inputs is asked: these are [n, ...input shape] each, in the
  /// signature's order. May run on several threads at a time. By default model.forward(inputs[0]).
  using Forward = std::function<Variable(nn::Module& model, std::span<const Variable> inputs)>;

  /// Of a checkpoint, or of a run folder, also of a run that is alive: its newest good checkpoint.
  /// The network is the one that the checkpoint's deck names. Throws CheckpointError for a file
  /// that is missing or damaged, or says too little: one of a program with a model of its own, or
  /// from before format 3, for which there is the next.
  explicit Predictor(const std::filesystem::path& checkpoint_or_run);
  /// Of a checkpoint of a program's own model, whose weights `model` gets. Without a signature in
  /// the file, `signature` says what goes in and comes out; else it is not looked at.
  Predictor(const std::filesystem::path& checkpoint_or_run, std::shared_ptr<nn::Module> model,
            const ModelSignature& signature = {}, Forward forward = {});
  /// Of a model in memory, which is put into evaluation mode and must not change any more.
  Predictor(std::shared_ptr<nn::Module> model, ModelSignature signature, Forward forward = {});
  Predictor(Predictor&&) noexcept;
  ~Predictor();

  /// Names, shapes and dtypes of what goes in and comes out, of one sample.
  [[nodiscard]] const ModelSignature& signature() const noexcept;
  /// Elements of one sample's input number k (std::out_of_range beyond the last) and output; the
  /// latter are twice those of the signature where there are standard deviations.
  [[nodiscard]] std::int64_t input_elements(std::size_t k = 0) const;
  [[nodiscard]] std::int64_t output_elements() const noexcept;

  /// Predicts as many samples as `input` holds: input [n, ...input shape], output [n, ...output
  /// shape], row-major on the host; n may be 0. `output` is values, or the probability of each
  /// class; with standard deviations [n, 2, ...output shape], the means first. f32 is for inputs
  /// that are numbers, in the units of the training data (a pixel of images stored as bytes is 0 to
  /// 255); i64 for indices. Throws InputError for another number of elements or of inputs, or
  /// inputs of the other kind.
  void predict(std::span<const float> input, std::span<float> output) const;
  void predict(std::span<const std::int64_t> input, std::span<float> output) const;
  /// Of samples of several inputs: all of them, in the signature's order.
  void predict(std::span<const Input> inputs, std::span<float> output) const;

  /// The model itself.
  [[nodiscard]] nn::Module& model() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The file that stands for a run folder: its newest good checkpoint; any other path itself. Throws
/// CheckpointError where a run folder has none.
[[nodiscard]] std::filesystem::path checkpoint_of(const std::filesystem::path& checkpoint_or_run);
/// The warning where a run that is alive has removed that one before it was read.
[[nodiscard]] std::string removed_meanwhile(const std::filesystem::path& checkpoint);

}  // namespace lockstep
