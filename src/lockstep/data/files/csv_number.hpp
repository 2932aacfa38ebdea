#pragma once
#include <optional>
#include <string_view>

namespace lockstep {

/// The finite number within f32's range in a cell of a table; nothing for other text. `decimal` is
/// the decimal sign, '.' or ','. Also reads Fortran's exponents (1.5D-03). Numbers too small for a
/// double are 0.
[[nodiscard]] std::optional<double> csv_number(std::string_view cell, char decimal = '.');

}  // namespace lockstep
