#include <lockstep/checkpoint/signature.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include <lockstep/base/error.hpp>
#include <lockstep/deck/deck.hpp>

namespace lockstep {
namespace {

void declare_tensor(DeckTable& table, TensorSignature& tensor) {
  table.key("name", tensor.name, {.doc = "of the tensor"});
  table.choice("dtype", tensor.dtype, {{"f32", DType::f32}, {"i64", DType::i64}},
               "of its elements");
  std::vector<std::int64_t> shape(tensor.shape.begin(), tensor.shape.end());
  table.key("shape", shape, {.doc = "of one sample", .min = 1});
  if (std::ssize(shape) >= Shape::max_dims) {
    throw InputError(fmt::format("shape has {} dimensions; a sample has {} at most", shape.size(),
                                 Shape::max_dims - 1));
  }
  tensor.shape = Shape(std::span<const std::int64_t>(shape));
  table.key(
      "divisor", tensor.divisor,
      {.doc = "of raw numbers: 255 for bytes that are pixels", .min = 0.0, .above_min = true});
  table.key("mean", tensor.mean, {.doc = "one, or one a channel"});
  table.key("std", tensor.std, {.doc = "likewise", .min = 0.0, .above_min = true});
  const std::int64_t channels = tensor.shape.dims() > 0 ? tensor.shape[0] : 1;
  for (const auto* list : {&tensor.mean, &tensor.std}) {
    const auto count = std::ssize(*list);
    if (count > 1 && count != channels) {
      throw InputError(fmt::format("mean and std have {} numbers for the {} channels of {}", count,
                                   channels, to_string(tensor.shape)));
    }
  }
  if (tensor.mean.empty() != tensor.std.empty())
    throw InputError("there is a mean without a std, or a std without a mean");
}

}  // namespace

// The type that a Deck reads, by its name.
namespace signature_tables {
struct Input {
  TensorSignature tensor;
};
struct Output {
  TensorSignature tensor;
  ModelSignature::Output kind;
  std::vector<std::string> class_names;
};
void declare(DeckTable& table, Input& input) { declare_tensor(table, input.tensor); }
std::string name_of_input(std::size_t k) {
  return k == 0 ? "input" : fmt::format("input_{}", k + 1);
}
void declare(DeckTable& table, Output& output) {
  declare_tensor(table, output.tensor);
  using Kind = ModelSignature::Output;
  table.choice("kind", output.kind,
               {{"values", Kind::values},
                {"log_probabilities", Kind::log_probabilities},
                {"gaussian", Kind::gaussian}},
               "what the model's outputs are");
  table.key("class_names", output.class_names, {.doc = "one a class, or none"});
}
}  // namespace signature_tables

std::string ModelSignature::to_text() const {
  Deck deck = Deck::parse("", "a signature");
  for (std::size_t k = 0; k < input_count(); ++k) {
    static_cast<void>(
        deck.read(signature_tables::name_of_input(k), signature_tables::Input{input_at(k)}));
  }
  static_cast<void>(deck.read("output", signature_tables::Output{output, kind, class_names}));
  return deck.resolved();
}

ModelSignature ModelSignature::parse(std::string_view text, std::string_view name) {
  ModelSignature signature;
  try {
    Deck deck = Deck::parse(text, name);
    signature.input = deck.read<signature_tables::Input>("input").tensor;
    for (std::size_t k = 1;; ++k) {
      auto other = deck.read<signature_tables::Input>(signature_tables::name_of_input(k)).tensor;
      if (other.name.empty()) break;
      signature.other_inputs.push_back(std::move(other));
    }
    auto output = deck.read<signature_tables::Output>("output");
    signature.output = std::move(output.tensor);
    signature.kind = output.kind;
    signature.class_names = std::move(output.class_names);
  } catch (const InputError& error) {
    throw CheckpointError(fmt::format("{}: {}", name, error.what()));
  }
  const auto names = std::ssize(signature.class_names);
  if (names > 0 && names != signature.classes()) {
    throw CheckpointError(
        fmt::format("{}: {} class names for {} classes", name, names, signature.classes()));
  }
  return signature;
}

}  // namespace lockstep
