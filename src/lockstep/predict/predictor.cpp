#include <lockstep/predict/predictor.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/autograd/functional.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/base/expect_given.hpp>
#include <lockstep/base/log.hpp>
#include <lockstep/checkpoint/folder_of_checkpoints.hpp>
#include <lockstep/checkpoint/reader.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/nn/models.hpp>
#include <lockstep/predict/fully_connected.hpp>
#include <lockstep/tensor/kernels/elementwise/math_functions.hpp>

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// Samples per forward pass, so that a model's activations stay small, and those of a PackedMlp
/// stay in cache.
constexpr std::int64_t samples_at_a_time = 128, packed_samples_at_a_time = 48;
/// Weights of a fully connected network that PackedMlp is better at
/// (docs/design/kernels.md).
constexpr std::int64_t most_packed_bytes = std::int64_t{4} << 20U;

/// Expands one number for all elements, or one per channel, to one per element.
std::vector<float> a_number_an_element(const std::vector<double>& values, const Shape& shape) {
  const std::int64_t elements = shape.numel(), count = std::ssize(values);
  std::vector<float> all(static_cast<std::size_t>(elements));
  for (std::int64_t i = 0; i < elements; ++i)
    all[static_cast<std::size_t>(i)] =
        static_cast<float>(values[static_cast<std::size_t>(i / (elements / count))]);
  return all;
}

/// The arithmetic of a TensorSignature, each operation rounded as in training.
class Scale {
 public:
  /// With `deviations`, standard deviations follow the values.
  explicit Scale(const TensorSignature& tensor, bool deviations = false)
      : divisor_(static_cast<float>(tensor.divisor)) {
    if (!tensor.is_scaled() && tensor.divisor == 1.0) return;
    const bool told = tensor.is_scaled();
    mean_ = a_number_an_element(told ? tensor.mean : std::vector{0.0}, tensor.shape);
    std_ = a_number_an_element(told ? tensor.std : std::vector{1.0}, tensor.shape);
    if (!deviations) return;
    mean_.resize(2 * mean_.size());
    std_.reserve(mean_.size());
    std_.insert(std_.end(), std_.begin(), std_.end());
  }

  [[nodiscard]] bool is_needed() const noexcept { return !mean_.empty(); }

  /// Converts raw inputs to the model's.
  void apply(std::span<const float> raw, float* out) const {
    const std::size_t width = mean_.size();
    for (std::size_t at = 0; at < raw.size(); at += width) {
      for (std::size_t i = 0; i < width; ++i)
        out[at + i] = (raw[at + i] / divisor_ - mean_[i]) / std_[i];
    }
  }
  /// Converts the model's outputs to the user's.
  void undo(std::span<float> values) const {
    const std::size_t width = mean_.size();
    for (std::size_t at = 0; at < values.size(); at += width) {
      for (std::size_t i = 0; i < width; ++i)
        values[at + i] = (values[at + i] * std_[i] + mean_[i]) * divisor_;
    }
  }

 private:
  float divisor_;
  std::vector<float> mean_, std_;
};

/// One of a model's inputs.
struct OneInput {
  explicit OneInput(const TensorSignature& said)
      : tensor(said), elements(said.shape.numel()), scale(said) {}

  TensorSignature tensor;
  std::int64_t elements;  ///< elements of a sample
  Scale scale;
};

void softmax_rows(std::span<float> values, std::int64_t width) {
  for (float* row = values.data(); row < values.data() + values.size(); row += width) {
    const float largest = *std::max_element(row, row + width);
    float sum = 0;
    for (std::int64_t i = 0; i < width; ++i) row[i] = math::exp(row[i] - largest);
    for (std::int64_t i = 0; i < width; ++i) sum += row[i];
    for (std::int64_t i = 0; i < width; ++i) row[i] /= sum;
  }
}

/// Computes standard deviations from the second halves of rows of ModelSignature::Output::gaussian.
void to_deviations(std::span<float> values, std::int64_t width) {
  for (float* row = values.data(); row < values.data() + values.size(); row += width) {
    for (std::int64_t i = width / 2; i < width; ++i) {
      const double s = row[i], softplus = std::max(s, 0.0) + std::log1p(std::exp(-std::abs(s)));
      row[i] = static_cast<float>(std::sqrt(softplus + ModelSignature::least_variance));
    }
  }
}

[[noreturn]] void refuse(const std::string& name, const std::string& why) {
  throw CheckpointError(name + " " + why);
}

ModelSignature known(const ModelSignature& in_file, const ModelSignature& told,
                     const std::string& name) {
  if (in_file.is_known()) return in_file;
  if (told.is_known()) return told;
  refuse(name,
         "has no description of its model's inputs and outputs: its task gave none, or it predates "
         "format 3. Resume the run for a step and take its new checkpoint, or give Predictor a "
         "ModelSignature.");
}

nn::Head head_of(ModelSignature::Output kind) {
  switch (kind) {
    case ModelSignature::Output::values:
      break;
    case ModelSignature::Output::log_probabilities:
      return nn::Head::log_probabilities;
    case ModelSignature::Output::gaussian:
      return nn::Head::gaussian;
  }
  return nn::Head::linear;
}

/// The network of the deck's [model] for that signature.
std::shared_ptr<nn::Module> model_of(const CheckpointContents& contents, const std::string& name) {
  Deck deck = Deck::parse(contents.deck, "the deck in " + name);
  const auto options = deck.read<nn::ModelOptions>("model");
  if (deck.where("model", "kind") == "the default") {
    refuse(name,
           "was written by a program with a model of its own: its deck has no model.kind. Give "
           "Predictor that model (docs/guide/predict.md).");
  }
  const ModelSignature& signature = contents.signature;
  return nn::make_model(options, signature.input.shape, signature.output.shape,
                        head_of(signature.kind));
}

/// `given` with the weights of the file; without `given`, the deck's network.
std::shared_ptr<nn::Module> with_weights(const std::shared_ptr<nn::Module>& given,
                                         const CheckpointContents& contents,
                                         const std::string& name) {
  try {
    auto loaded = given ? given : model_of(contents, name);
    loaded->load_state_dict(contents.model);
    return loaded;
  } catch (const CheckpointError&) {
    throw;
  } catch (const Error& error) {
    if (given) refuse(name, fmt::format("does not fit the given model: {}", error.what()));
    refuse(name,
           fmt::format("does not fit its deck's [model]. If a program with a model of "
                       "its own wrote it, give Predictor that model (docs/guide/predict.md). {}",
                       error.what()));
  }
}

}  // namespace

fs::path checkpoint_of(const fs::path& checkpoint_or_run) {
  if (!fs::is_directory(checkpoint_or_run)) return checkpoint_or_run;
  const fs::path inner = checkpoint_or_run / "checkpoints";
  const fs::path folder = fs::is_directory(inner) ? inner : checkpoint_or_run;
  if (auto newest = newest_good_checkpoint(folder)) return *newest;
  throw CheckpointError(
      fmt::format("there is no intact checkpoint in {}. Name a checkpoint, or another run folder.",
                  folder.string()));
}

namespace {

/// Loads a file, or the newest good checkpoint of a run folder. If a running job has removed that
/// one meanwhile, takes the next newest. `path` receives the choice.
CheckpointContents load_newest(const fs::path& checkpoint_or_run, fs::path& path) {
  constexpr int most_tries = 10;
  for (int tries = 1;; ++tries) {
    path = checkpoint_of(checkpoint_or_run);
    try {
      return load_checkpoint(path);
    } catch (const CheckpointError&) {
      std::error_code unknown;
      if (path == checkpoint_or_run || fs::exists(path, unknown) || tries == most_tries) throw;
    }
    log(LogLevel::warning, removed_meanwhile(path));
  }
}

}  // namespace

std::string removed_meanwhile(const fs::path& checkpoint) {
  return fmt::format(
      "{} was removed by its running job before it was read: the next newest is used",
      checkpoint.string());
}

struct Predictor::State {
  State(std::shared_ptr<nn::Module> given, ModelSignature said, Forward asked)
      : model(expect_given("Predictor", "the model", std::move(given))),
        signature(std::move(said)),
        forward(std::move(asked)),
        outputs(signature.model_outputs()),
        output_scale(signature.output, signature.kind == ModelSignature::Output::gaussian) {
    for (std::size_t k = 0; k < signature.input_count(); ++k)
      inputs.emplace_back(signature.input_at(k));
    if (inputs.size() > 1 && !forward) {
      throw Error(fmt::format("a model of {} inputs needs a Predictor::Forward that calls it",
                              inputs.size()));
    }
    model->eval();
    if (!forward) pack();
  }

  /// Uses the kernel for networks that it supports.
  void pack() {
    const auto network = fully_connected(*model);
    const bool probabilities = signature.kind == ModelSignature::Output::log_probabilities;
    if (!network || network->log_softmax != probabilities ||
        PackedMlp::packed_bytes(network->layers) > most_packed_bytes)
      return;
    packed.emplace(network->layers);
    // A Linear maps the last dimension. A sample may be several rows of it, which forward()
    // handles.
    const Shape& sample = inputs[0].tensor.shape;
    const std::int64_t rows = inputs[0].elements / packed->inputs();
    const bool is_one_row = inputs[0].elements == packed->inputs(),
               is_rows = !network->flattens && sample.dims() > 0 && sample[-1] == packed->inputs();
    if (!(is_one_row || is_rows) || rows * packed->outputs() != outputs) refuse_shapes();
    if (!is_one_row) packed.reset();
  }

  [[noreturn]] void refuse_shapes() const {
    std::string from;
    for (const OneInput& input : inputs) {
      from += fmt::format("{}{} of shape {}", from.empty() ? "" : " and ", input.tensor.name,
                          to_string(input.tensor.shape));
    }
    throw InputError(fmt::format("the model does not map {} to {} of shape {}", from,
                                 signature.output.name, to_string(signature.output.shape)));
  }

  /// Number of samples in `given`.
  [[nodiscard]] std::int64_t samples(std::span<const Input> given, std::size_t output) const {
    if (given.size() != inputs.size()) {
      throw InputError(
          fmt::format("the model takes {} inputs per sample, not {}", inputs.size(), given.size()));
    }
    const std::int64_t n = static_cast<std::int64_t>(output) / outputs;
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      const auto& [tensor, elements, scale] = inputs[k];
      const DType dtype = given[k].index() == 0 ? DType::f32 : DType::i64;
      if (dtype != tensor.dtype) {
        throw InputError(
            fmt::format("{} are {}, not {}", tensor.name, name_of(tensor.dtype), name_of(dtype)));
      }
      const std::size_t count = std::visit([](auto values) { return values.size(); }, given[k]);
      if (static_cast<std::int64_t>(count) != n * elements ||
          static_cast<std::int64_t>(output) != n * outputs) {
        throw InputError(
            fmt::format("{} elements of {} and {} of output are not the same number of samples of "
                        "{} and {} each",
                        count, tensor.name, output, elements, outputs));
      }
    }
    return n;
  }

  /// Samples [begin, begin + n) of an input, converted for the model.
  [[nodiscard]] Variable tensor_of(const Input& given, const OneInput& input, std::int64_t begin,
                                   std::int64_t n) const {
    const Shape& sample = input.tensor.shape;
    std::array<std::int64_t, Shape::max_dims> extents{n};
    std::ranges::copy(sample, extents.begin() + 1);
    Tensor x = Tensor::empty(Shape(std::span<const std::int64_t>(extents).first(
                                 static_cast<std::size_t>(sample.dims()) + 1)),
                             input.tensor.dtype);
    const auto part = [&](auto values) {
      return values.subspan(static_cast<std::size_t>(begin * input.elements),
                            static_cast<std::size_t>(n * input.elements));
    };
    if (const auto* indices = std::get_if<std::span<const std::int64_t>>(&given)) {
      std::ranges::copy(part(*indices), static_cast<std::int64_t*>(x.data()));
    } else if (input.scale.is_needed()) {
      input.scale.apply(part(std::get<std::span<const float>>(given)),
                        static_cast<float*>(x.data()));
    } else {
      std::ranges::copy(part(std::get<std::span<const float>>(given)),
                        static_cast<float*>(x.data()));
    }
    return Variable(std::move(x));
  }

  /// The model's output for samples [begin, begin + n).
  [[nodiscard]] Variable ask(std::span<const Input> given, std::int64_t begin,
                             std::int64_t n) const {
    if (!forward) return model->forward(tensor_of(given[0], inputs[0], begin, n));
    thread_local std::vector<Variable> memory;  // a nested call finds it empty
    std::vector<Variable> tensors = std::move(memory);
    for (std::size_t k = 0; k < inputs.size(); ++k)
      tensors.push_back(tensor_of(given[k], inputs[k], begin, n));
    Variable y = forward(*model, tensors);
    tensors.clear();
    memory = std::move(tensors);
    return y;
  }

  void predict_part(std::span<const Input> given, std::int64_t begin, std::int64_t n,
                    std::span<float> output) const {
    const NoGradGuard no_grad;
    const Variable y = ask(given, begin, n);
    if (y.data().numel() != n * outputs || y.data().dtype() != DType::f32) refuse_shapes();
    std::copy_n(static_cast<const float*>(y.data().data()), n * outputs, output.data());
    if (signature.kind == ModelSignature::Output::log_probabilities) {
      for (float& p : output) p = math::exp(p);
    }
  }

  void predict_packed(std::span<const float> input, std::int64_t n, std::span<float> output) const {
    const float* scaled = input.data();
    if (inputs[0].scale.is_needed()) {
      thread_local std::vector<float> memory;
      if (memory.size() < input.size()) memory.resize(input.size());
      inputs[0].scale.apply(input, memory.data());
      scaled = memory.data();
    }
    packed->run(scaled, n, output.data());
    if (signature.kind == ModelSignature::Output::log_probabilities) softmax_rows(output, outputs);
  }

  /// Converts the model's output for users, except probabilities.
  void finish(std::span<float> output) const {
    if (signature.kind == ModelSignature::Output::gaussian) to_deviations(output, outputs);
    if (output_scale.is_needed()) output_scale.undo(output);
  }

  /// Calls f(first, samples, part of the output) for at most so many samples at a time.
  template <class F>
  void in_parts(std::span<float> output, std::int64_t n, std::int64_t at_a_time, const F& f) const {
    for (std::int64_t begin = 0; begin < n; begin += at_a_time) {
      const std::int64_t now = std::min(at_a_time, n - begin);
      f(begin, now,
        output.subspan(static_cast<std::size_t>(begin * outputs),
                       static_cast<std::size_t>(now * outputs)));
    }
  }

  std::shared_ptr<nn::Module> model;
  ModelSignature signature;
  Forward forward;
  std::vector<OneInput> inputs;
  std::int64_t outputs;  ///< elements of a sample
  Scale output_scale;
  std::optional<PackedMlp> packed;
};

Predictor::Predictor(const fs::path& checkpoint_or_run) : Predictor(checkpoint_or_run, nullptr) {}

Predictor::Predictor(const fs::path& checkpoint_or_run, std::shared_ptr<nn::Module> model,
                     const ModelSignature& signature, Forward forward) {
  fs::path path;
  CheckpointContents contents = load_newest(checkpoint_or_run, path);
  const std::string name = "checkpoint " + path.string();
  contents.signature = known(contents.signature, signature, name);
  model = with_weights(model, contents, name);
  state_ =
      std::make_unique<State>(std::move(model), std::move(contents.signature), std::move(forward));
}

Predictor::Predictor(std::shared_ptr<nn::Module> model, ModelSignature signature, Forward forward)
    : state_(std::make_unique<State>(std::move(model), std::move(signature), std::move(forward))) {}
Predictor::Predictor(Predictor&&) noexcept = default;
Predictor::~Predictor() = default;

const ModelSignature& Predictor::signature() const noexcept { return state_->signature; }
std::int64_t Predictor::input_elements(std::size_t k) const {
  return state_->inputs.at(k).elements;
}
std::int64_t Predictor::output_elements() const noexcept { return state_->outputs; }
nn::Module& Predictor::model() const noexcept { return *state_->model; }

void Predictor::predict(std::span<const Input> inputs, std::span<float> output) const {
  const State& s = *state_;
  const std::int64_t n = s.samples(inputs, output.size());
  if (s.packed) {
    const auto input = std::get<std::span<const float>>(inputs[0]);
    const auto width = static_cast<std::size_t>(input_elements());
    s.in_parts(output, n, s.inputs[0].scale.is_needed() ? packed_samples_at_a_time : n,
               [&](std::int64_t begin, std::int64_t now, auto out) {
                 s.predict_packed(input.subspan(static_cast<std::size_t>(begin) * width,
                                                static_cast<std::size_t>(now) * width),
                                  now, out);
               });
  } else {
    s.in_parts(output, n, samples_at_a_time, [&](std::int64_t begin, std::int64_t now, auto out) {
      s.predict_part(inputs, begin, now, out);
    });
  }
  s.finish(output);
}

void Predictor::predict(std::span<const float> input, std::span<float> output) const {
  const Input one(input);
  predict({&one, 1}, output);
}

void Predictor::predict(std::span<const std::int64_t> input, std::span<float> output) const {
  const Input one(input);
  predict({&one, 1}, output);
}

}  // namespace lockstep
