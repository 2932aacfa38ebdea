#include <lockstep/optim/make_optimizer.hpp>

#include <algorithm>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include <lockstep/base/error.hpp>
#include <lockstep/nn/name_pattern.hpp>
#include <lockstep/optim/clip.hpp>
#include <lockstep/optim/grouped_options.hpp>
#include <lockstep/optim/layer_wise.hpp>

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

OptimizerOptions with_patterns(const OptimizerOptions& options,
                               const std::function<bool(const std::string& pattern)>& wanted) {
  OptimizerOptions own = options;
  const auto is_unwanted = std::not_fn(wanted);
  if (auto* const lars = own.kind.get_if<LarsOptions>())
    std::erase_if(lars->not_adapted, is_unwanted);
  if (auto* const lamb = own.kind.get_if<LambOptions>())
    std::erase_if(lamb->not_adapted, is_unwanted);
  own.group_pattern.clear();
  own.group_lr_factor.clear();
  own.group_weight_decay.clear();
  for (std::size_t i = 0; i < options.group_pattern.size(); ++i) {
    const std::string& pattern = options.group_pattern[i];
    if (!wanted(pattern)) continue;
    own.group_pattern.push_back(pattern);
    if (!options.group_lr_factor.empty())
      own.group_lr_factor.push_back(options.group_lr_factor.at(i));
    if (!options.group_weight_decay.empty())
      own.group_weight_decay.push_back(options.group_weight_decay.at(i));
  }
  return own;
}

OptimizerOptions options_of_part(const OptimizerOptions& options,
                                 const std::vector<nn::NamedParameter>& whole,
                                 const std::vector<nn::NamedParameter>& part) {
  return with_patterns(options, [&](const std::string& pattern) {
    nn::expect_some_fit(pattern, whole);
    return std::ranges::any_of(part, [&](const nn::NamedParameter& parameter) {
      return nn::fits_pattern(pattern, parameter.name);
    });
  });
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
