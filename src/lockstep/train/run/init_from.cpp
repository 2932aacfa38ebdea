#include <lockstep/train/run/init_from.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include <lockstep/base/error.hpp>
#include <lockstep/base/some_of.hpp>
#include <lockstep/checkpoint/weights/weights.hpp>
#include <lockstep/data/files/looked_for.hpp>
#include <lockstep/nn/init.hpp>
#include <lockstep/predict/predictor.hpp>
#include <lockstep/tensor/copy_part.hpp>
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

Shape whole_shape(const StateDict::Entry& entry) {
  return entry.placement.sharded ? entry.placement.global : entry.tensor.shape();
}

/// Whether `source` can become `entry`, or `entry` a part of it.
bool fits(const Tensor& source, const StateDict::Entry& entry) {
  const DType dtype = entry.tensor.dtype();
  const bool converts = is_floating(source.dtype()) && is_floating(dtype);
  return source.shape() == whole_shape(entry) && (source.dtype() == dtype || converts);
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
  for (const auto& entry : model) {
    const auto* source = weights.find(std::string(prefix) + entry.name);
    if (!source) {
      result.missing.push_back(entry.name);
      continue;
    }
    const DType dtype = entry.tensor.dtype(), given = source->tensor.dtype();
    if (!fits(source->tensor, entry)) {
      result.other_shape.push_back(fmt::format("{} {}{}, not {}{}", entry.name, name_of(dtype),
                                               to_string(whole_shape(entry)), name_of(given),
                                               to_string(source->tensor.shape())));
      continue;
    }
    const Tensor converted = source->tensor.to(dtype);
    if (given != dtype && !all_finite(converted)) {
      throw CheckpointError(
          fmt::format("{} has elements that are not finite in {}, the model's dtype (the file's is "
                      "{}): these weights cannot be used",
                      source->name, name_of(dtype), name_of(given)));
    }
    copy_part(converted, entry.placement, entry.tensor);
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
    const nn::SkipInit for_names_and_shapes;
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
  const Tensor is_taken = Tensor::empty({static_cast<std::int64_t>(model.size())}, DType::u8);
  auto* const taken = static_cast<std::uint8_t*>(is_taken.data());
  const std::string prefix(prefix_of(weights));
  const auto source_of = [&](const StateDict::Entry& entry) {
    const auto* source = group.rank() == 0 ? weights.find(prefix + entry.name) : nullptr;
    return source && fits(source->tensor, entry) ? source->tensor : Tensor();
  };
  std::size_t i = 0;
  for (const auto& entry : model) taken[i++] = source_of(entry).defined() ? 1 : 0;
  group.broadcast(is_taken, 0).wait();
  i = 0;
  for (const auto& entry : model) {
    const bool is_there = taken[i++] != 0;
    if (!entry.placement.sharded) {
      group.broadcast(entry.tensor, 0).wait();
    } else if (is_there) {  // one whole tensor at a time, of which each rank keeps its part
      const Device device = entry.tensor.device();
      const DType dtype = entry.tensor.dtype();
      const Tensor source = source_of(entry);
      const Tensor whole = source.defined() ? source.to(dtype).to(device)
                                            : Tensor::empty(entry.placement.global, dtype, device);
      group.broadcast(whole, 0).wait();
      copy_part(whole, entry.placement, entry.tensor);
    }
  }
  return result;
}

}  // namespace lockstep::train
