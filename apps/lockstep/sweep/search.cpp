#include "search.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <optional>
#include <set>
#include <string_view>

#include <lockstep/base/error.hpp>
#include <lockstep/base/hash.hpp>
#include <lockstep/base/philox.hpp>

namespace lockstep::sweep {
namespace {

/// "TABLE.KEY=REST" in two parts; throws InputError.
std::pair<std::string, std::string> split_key(const std::string& text, const char* option,
                                              const char* example) {
  const auto equals = text.find('=');
  const std::string key = text.substr(0, equals);
  if (equals == std::string::npos || equals + 1 == text.size() ||
      key.find('.') == std::string::npos) {
    throw InputError(
        fmt::format("{} {}: expected TABLE.KEY=VALUES, for example {}", option, text, example));
  }
  return {key, text.substr(equals + 1)};
}

/// The parts of `text` between commas outside of quotes and brackets.
std::vector<std::string> split_values(const std::string& text) {
  std::vector<std::string> values{""};
  char quote = 0;
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote == '"' && c == '\\' && i + 1 < text.size()) {
      (values.back() += c) += text[++i];
      continue;
    }
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '[') {
      ++depth;
    } else if (c == ']') {
      --depth;
    } else if (c == ',' && depth == 0) {
      values.emplace_back();
      continue;
    }
    values.back() += c;
  }
  return values;
}

std::optional<double> number(std::string_view text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || rest != end || !std::isfinite(value)) return std::nullopt;
  return value;
}

}  // namespace

std::string in_words(const Settings& settings) {
  std::string text;
  for (const auto& [key, value] : settings)
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", key, value);
  return text;
}

Axis parse_grid(const std::string& text) {
  const auto [key, rest] = split_key(text, "--grid", "--grid optimizer.lr=0.1,0.01");
  Axis axis{.key = key, .values = split_values(rest)};
  for (const std::string& value : axis.values) {
    if (value.find_first_not_of(" \t") == std::string::npos)
      throw InputError(fmt::format("--grid {}: a value between two commas is missing", text));
  }
  return axis;
}

Distribution parse_random(const std::string& text) {
  const auto [key, rest] = split_key(text, "--random", "--random optimizer.lr=log:1e-4:1e-1");
  const auto first = rest.find(':');
  const auto second = first == std::string::npos ? first : rest.find(':', first + 1);
  std::optional<double> low, high;
  if (second != std::string::npos) {
    low = number(std::string_view(rest).substr(first + 1, second - first - 1));
    high = number(std::string_view(rest).substr(second + 1));
  }
  const std::string kind = rest.substr(0, first);
  if ((kind != "log" && kind != "uniform" && kind != "int") || !low || !high) {
    throw InputError(fmt::format(
        "--random {}: expected KEY=log:LOW:HIGH, uniform:LOW:HIGH or int:LOW:HIGH", text));
  }
  if (!(*low < *high)) throw InputError(fmt::format("--random {}: LOW is not below HIGH", text));
  Distribution random{.key = key, .low = *low, .high = *high};
  if (kind == "log") {
    random.kind = Distribution::Kind::log;
    if (*low <= 0) throw InputError(fmt::format("--random {}: log needs LOW above 0", text));
  } else if (kind == "int") {
    random.kind = Distribution::Kind::integer;
    constexpr double largest = 9'007'199'254'740'992;  // 2^53: doubles hold whole numbers to there
    if (std::floor(*low) != *low || std::floor(*high) != *high ||
        std::max(std::abs(*low), std::abs(*high)) > largest)
      throw InputError(fmt::format("--random {}: int needs whole numbers", text));
  }
  return random;
}

std::string Distribution::value(std::uint64_t seed, int draw) const {
  const std::uint64_t stream = hash64(key.data(), key.size());
  const Philox::Block words =
      Philox(seed)(static_cast<std::uint32_t>(draw), 0, static_cast<std::uint32_t>(stream),
                   static_cast<std::uint32_t>(stream >> 32U));
  // 53 bits: u in [0, 1), exactly.
  const std::uint64_t bits = (std::uint64_t{words[0]} << 32U | words[1]) >> 11U;
  const double u = static_cast<double>(bits) * 0x1.0p-53;
  if (kind == Kind::integer) {
    const double value = std::min(high, low + std::floor(u * (high - low + 1)));
    return fmt::format("{}", static_cast<std::int64_t>(value));
  }
  // Six digits hide the last bits, in which the exp() of two machines may differ.
  const double value = kind == Kind::log
                           ? std::exp(std::log(low) + u * (std::log(high) - std::log(low)))
                           : low + u * (high - low);
  std::string text = fmt::format("{:.6g}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";  // TOML's mark of a float
  return text;
}

std::vector<Settings> all_settings(const std::vector<Axis>& grid,
                                   const std::vector<Distribution>& random, int draws,
                                   std::uint64_t seed) {
  std::set<std::string> keys;
  const auto add_key = [&](const std::string& key) {
    if (!keys.insert(key).second)
      throw InputError(fmt::format("{} is given twice: --grid or --random sets a key once", key));
  };
  std::int64_t count = 1;
  for (const Axis& axis : grid) {
    add_key(axis.key);
    count = std::min(most_trials + 1, count * static_cast<std::int64_t>(axis.values.size()));
  }
  for (const Distribution& one : random) add_key(one.key);
  if (keys.empty())
    throw InputError("name the keys to vary, for example --grid optimizer.lr=0.1,0.01");
  if (random.empty() && draws > 0)
    throw InputError("--trials is the number of draws of --random, and there is no --random");
  if (!random.empty() && draws < 1)
    throw InputError("--random needs --trials N, the number of draws");
  if (count * std::max(1, draws) > most_trials)
    throw InputError(fmt::format("these are more than {} trials: vary less", most_trials));

  std::vector<Settings> all{{}};
  for (const Axis& axis : grid) {
    std::vector<Settings> longer;
    for (const Settings& settings : all) {
      for (const std::string& value : axis.values) {
        longer.push_back(settings);
        longer.back().emplace_back(axis.key, value);
      }
    }
    all = std::move(longer);
  }
  if (random.empty()) return all;
  std::vector<Settings> drawn;
  for (const Settings& settings : all) {
    for (int draw = 0; draw < draws; ++draw) {
      drawn.push_back(settings);
      for (const Distribution& one : random)
        drawn.back().emplace_back(one.key, one.value(seed, draw));
    }
  }
  return drawn;
}

}  // namespace lockstep::sweep
