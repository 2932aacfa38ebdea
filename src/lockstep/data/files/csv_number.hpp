#pragma once
#include <optional>
#include <string_view>

namespace lockstep {

/// The finite number within f32's range that a cell of a table holds; nothing for other text.
/// `decimal` is the sign before the fraction, '.' or ','. Fortran's exponents (1.5D-03) are read
/// too; what is too small for a double is 0.
[[nodiscard]] std::optional<double> csv_number(std::string_view cell, char decimal = '.');

}  // namespace lockstep
