#include "halving.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include <lockstep/base/error.hpp>

namespace lockstep::sweep {

Halving parse_halving(const std::string& text, int eta) {
  const auto colon = text.find(':');
  const std::string unit = text.substr(0, colon);
  Halving halving{.eta = eta};
  const std::string number = colon == std::string::npos ? "" : text.substr(colon + 1);
  const char* const end = number.data() + number.size();
  const auto [rest, error] = std::from_chars(number.data(), end, halving.first);
  if ((unit != "epochs" && unit != "steps") || error != std::errc() || rest != end ||
      halving.first < 1) {
    throw InputError(fmt::format(
        "--halving {}: expected epochs:N or steps:N, the training of each trial in the first rung",
        text));
  }
  if (unit == "steps") halving.unit = Halving::Unit::steps;
  return halving;
}

std::vector<Rung> rungs(std::size_t trials, const Halving& halving, std::int64_t whole) {
  const auto eta = static_cast<std::size_t>(halving.eta);
  std::vector<Rung> all;
  std::int64_t budget = halving.first;
  for (std::size_t left = trials;; left /= eta, budget *= halving.eta) {
    const bool is_last = left < eta || (whole > 0 && budget >= whole);
    all.push_back({left, is_last ? 0 : budget});
    if (is_last) return all;
  }
}

std::vector<std::size_t> best(const std::vector<std::optional<double>>& metrics, Better better,
                              std::size_t count) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < metrics.size(); ++i) {
    if (metrics[i]) order.push_back(i);
  }
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    return better == Better::smaller ? *metrics[a] < *metrics[b] : *metrics[a] > *metrics[b];
  });
  if (order.size() > count) order.resize(count);
  return order;
}

}  // namespace lockstep::sweep
