#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace lockstep {

/// The one of `known` that `given` most likely misspells: the fewest inserted, dropped, changed or
/// swapped neighbouring characters. Case does not matter, and '-' equals '_'. Nothing if more than
/// a third of the known name (at least one character) would have to change.
[[nodiscard]] std::optional<std::string_view> nearest_name(std::string_view given,
                                                           std::span<const std::string_view> known);

/// The same as a sentence to end a message: "Did you mean lr?". Without a near name: "Known are:
/// lr, momentum.", or "None are known." if `known` is empty.
[[nodiscard]] std::string did_you_mean(std::string_view given,
                                       std::span<const std::string_view> known);

}  // namespace lockstep
