#include <lockstep/optim/make_optimizer.hpp>

#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include <lockstep/base/error.hpp>
#include <lockstep/optim/clip.hpp>
#include <lockstep/optim/grouped_options.hpp>

namespace lockstep::optim {
namespace {

std::vector<ParameterGroup> groups_of(const OptimizerOptions& options) {
  const auto& [patterns, factors, decays] =
      std::tie(options.group_pattern, options.group_lr_factor, options.group_weight_decay);
  for (const auto* list : {&factors, &decays}) {
    if (list->empty() || list->size() == patterns.size()) continue;
    throw InputError(fmt::format("{} parameter groups have {} learning rates or weight decays",
                                 patterns.size(), list->size()));
  }
  std::vector<ParameterGroup> groups;
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    ParameterGroup& group = groups.emplace_back(ParameterGroup{patterns[i]});
    if (!factors.empty()) group.lr_factor = factors[i];
    if (!decays.empty()) group.weight_decay = decays[i];
  }
  return groups;
}

}  // namespace

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options,
                                          std::vector<nn::NamedParameter> parameters) {
  return options.kind.make(std::move(parameters), groups_of(options));
}

Clipping clip_gradients(const OptimizerOptions& options,
                        const std::vector<nn::NamedParameter>& parameters) {
  return clip_gradients(options, parameters,
                        [&](const Tensor& norm) { grad_norm(parameters, norm); });
}

Clipping clip_gradients(const OptimizerOptions& options,
                        const std::vector<nn::NamedParameter>& parameters,
                        const std::function<void(const Tensor& norm)>& take_norm) {
  if (options.clip_value > 0.0) clip_grad_value(parameters, options.clip_value);
  if (options.clip_norm <= 0.0) return {};
  const Device device = parameters.front().variable.data().device();
  Clipping clipping{Tensor::empty({1}, DType::f64, device), Tensor::empty({1}, DType::f64, device)};
  take_norm(clipping.norm);
  clip_factor(clipping.norm, options.clip_norm, clipping.factor);
  return clipping;
}

}  // namespace lockstep::optim
