#include <lockstep/base/some_of.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace lockstep {

std::string some_of(std::span<const std::string> names) {
  constexpr std::size_t most = 8;
  const auto shown = names.first(std::min(most, names.size()));
  std::string text = fmt::format("{}", fmt::join(shown, ", "));
  if (names.size() > most) text += fmt::format(" and {} more", names.size() - most);
  return text;
}

}  // namespace lockstep
