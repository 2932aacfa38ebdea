#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace lockstep {

/// The one of `known` that `given` is most likely a misspelling of: the fewest inserted, dropped,
/// changed or swapped neighbouring characters, where case does not matter and '-' is '_'. Nothing
/// if more than a third of the known name (at least one character) would have to change.
[[nodiscard]] std::optional<std::string_view> nearest_name(std::string_view given,
                                                           std::span<const std::string_view> known);

/// The same as a sentence that ends a message: "Did you mean lr?"; without a near name, "Known
/// are: lr, momentum." or, if `known` is empty, "None are known."
[[nodiscard]] std::string did_you_mean(std::string_view given,
                                       std::span<const std::string_view> known);

}  // namespace lockstep
