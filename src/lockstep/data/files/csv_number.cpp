#include <lockstep/data/files/csv_number.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <string>
#include <system_error>

namespace lockstep {
namespace {

/// Whether a well-formed number outside a double's range is too small, not too large.
bool is_too_small(std::string_view number) {
  const auto exponent_at = std::min(number.find_first_of("eE"), number.size());
  const std::string_view digits = number.substr(0, exponent_at);
  const auto point = std::min(digits.find('.'), digits.size());
  const auto first = std::min(digits.find_first_of("123456789"), digits.size());
  std::int64_t exponent = 0;
  if (exponent_at < number.size()) {
    std::string_view text = number.substr(exponent_at + 1);
    if (text.starts_with('+')) text.remove_prefix(1);
    const auto error = std::from_chars(text.data(), text.data() + text.size(), exponent).ec;
    if (error != std::errc()) return text.starts_with('-');
  }
  return exponent + static_cast<std::int64_t>(point) - static_cast<std::int64_t>(first) < 0;
}

std::optional<double> plain_number(std::string_view cell) {
  double number = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), number);
  if (end != cell.data() + cell.size()) return std::nullopt;
  if (error == std::errc::result_out_of_range)
    return is_too_small(cell) ? std::optional(0.0) : std::nullopt;
  if (error != std::errc() || !std::isfinite(static_cast<float>(number))) return std::nullopt;
  return number;
}

}  // namespace

std::optional<double> csv_number(std::string_view cell, char decimal) {
  if (cell.starts_with('+')) {
    cell.remove_prefix(1);
    if (cell.starts_with('-')) return std::nullopt;
  }
  const auto point = cell.find(decimal);
  const bool fortran =
      point != std::string_view::npos && cell.find_first_of("dD", point) != std::string_view::npos;
  if (decimal == '.' && !fortran) return plain_number(cell);
  if (decimal != '.' && cell.find('.') != std::string_view::npos) return std::nullopt;
  std::string written(cell);
  if (point != std::string_view::npos) written[point] = '.';
  if (fortran) written[written.find_first_of("dD", point)] = 'e';
  return plain_number(written);
}

}  // namespace lockstep
