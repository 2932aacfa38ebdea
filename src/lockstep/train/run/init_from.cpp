#include <lockstep/train/run/init_from.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include <lockstep/base/error.hpp>
#include <lockstep/base/some_of.hpp>
#include <lockstep/checkpoint/weights/weights.hpp>
#include <lockstep/data/files/looked_for.hpp>
#include <lockstep/predict/predictor.hpp>
#include <lockstep/tensor/finite.hpp>
#include <lockstep/train/run/failures.hpp>

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view wrapper = "module.";

/// The common prefix of the weights' names that the model's names lack.
std::string_view prefix_of(const StateDict& weights) {
  const bool wrapped = weights.size() > 0 && std::ranges::all_of(weights, [](const auto& entry) {
                         return entry.name.starts_with(wrapper);
                       });
  return wrapped ? wrapper : std::string_view();
}

}  // namespace

std::string WeightsTaken::in_words() const {
  const auto of_model = taken + std::ssize(other_shape) + std::ssize(missing);
  std::string text = fmt::format("took {} of {} tensors", taken, of_model);
  const auto add = [&](std::string_view what, const std::vector<std::string>& names) {
    if (!names.empty()) text += fmt::format("; {}: {}", what, some_of(names));
  };
  add("of another shape, left as initialised", other_shape);
  add("missing, left as initialised", missing);
  add("unused", unused);
  return text;
}

bool WeightsTaken::are_another_models() const noexcept {
  return taken == 0 || std::ssize(unused) > 1000 + 9 * taken;
}

WeightsTaken take_weights(const StateDict& weights, const StateDict& model) {
  WeightsTaken result;
  const std::string_view prefix = prefix_of(weights);
  for (const auto& [name, tensor, placement] : model) {
    const auto* source = weights.find(std::string(prefix) + name);
    if (!source) {
      result.missing.push_back(name);
      continue;
    }
    const bool converts = is_floating(source->tensor.dtype()) && is_floating(tensor.dtype());
    const bool same_type = source->tensor.dtype() == tensor.dtype();
    if (source->tensor.shape() != tensor.shape() || !(same_type || converts)) {
      result.other_shape.push_back(
          fmt::format("{} {}{}, not {}{}", name, name_of(tensor.dtype()), to_string(tensor.shape()),
                      name_of(source->tensor.dtype()), to_string(source->tensor.shape())));
      continue;
    }
    const Tensor converted = source->tensor.to(tensor.dtype());
    if (!same_type && !all_finite(converted)) {
      throw CheckpointError(
          fmt::format("{} has elements that are not finite in {}, the model's dtype (the file's is "
                      "{}): these weights cannot be used",
                      source->name, name_of(tensor.dtype()), name_of(source->tensor.dtype())));
    }
    tensor.copy_from(converted);
    ++result.taken;
  }
  for (const auto& entry : weights) {
    if (!model.find(entry.name.substr(prefix.size()))) result.unused.push_back(entry.name);
  }
  return result;
}

StateDict read_init_from(ProcessGroup& group, const fs::path& path, const Task& task) {
  StateDict weights;
  agree(group, 0, [&] {
    if (!fs::exists(path)) {
      throw InputError(fmt::format("train.init_from: there is no {}", detail::looked_for(path)));
    }
    const fs::path file = checkpoint_of(path);
    weights = read_weights(file).model;
    const WeightsTaken fits = take_weights(weights, task.make_model()->state_dict());
    if (fits.are_another_models()) {
      throw InputError(fmt::format("train.init_from: {} in {} fits this model: {}",
                                   fits.taken == 0 ? "nothing" : "next to nothing", file.string(),
                                   fits.in_words()));
    }
  });
  return weights;
}

WeightsTaken init_from(ProcessGroup& group, const StateDict& weights, const StateDict& model) {
  WeightsTaken result;
  agree(group, 0, [&] { result = take_weights(weights, model); });
  for (const auto& entry : model) group.broadcast(entry.tensor, 0).wait();
  return result;
}

}  // namespace lockstep::train
