#pragma once
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <lockstep/nn/module.hpp>

namespace lockstep::optim {

/// Parameters by name, and what is different for them:
///   optim::AdamW(model.named_parameters(), {.lr = 1e-3},
///                {{.pattern = "*.bias", .weight_decay = 0.0}, {.pattern = "head.*", .lr_factor =
///                10}})
/// A parameter belongs to the first group whose pattern fits its name, and to none if no pattern
/// does. Groups change neither the order nor the names of the state in checkpoints.
struct ParameterGroup {
  std::string pattern;     ///< a whole name, where '*' is any characters and '?' is any one
  double lr_factor = 1.0;  ///< of the optimizer's learning rate, which a schedule may move
  std::optional<double> weight_decay = {};  ///< empty: the optimizer's
};

/// For each parameter the index of its group, or groups.size() for none. Throws InputError for a
/// factor or decay that is negative or not finite, and for a pattern that fits no parameter, naming
/// the nearest names.
[[nodiscard]] std::vector<std::size_t> group_of_each(
    const std::vector<nn::NamedParameter>& parameters, std::span<const ParameterGroup> groups);

}  // namespace lockstep::optim
