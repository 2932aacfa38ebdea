#include <lockstep/deck/key_reader.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <lockstep/deck/did_you_mean.hpp>
#include <lockstep/deck/key_text.hpp>

namespace lockstep::detail {
namespace {

std::string_view with_article(std::string_view type) {
  if (type == "boolean") return "true or false";
  if (type == "integer") return "an integer";
  if (type == "number") return "a number";
  if (type == "string") return "a string";
  if (type == "list of integers") return "a list of integers";
  if (type == "list of numbers") return "a list of numbers";
  return "a list of strings";
}

std::string what_it_is(const DeckValue& value) {
  struct Words {
    std::string operator()(bool) const { return "a boolean"; }
    std::string operator()(std::int64_t) const { return "an integer"; }
    std::string operator()(double) const { return "a number with a point or exponent"; }
    std::string operator()(const std::string&) const { return "a string"; }
    std::string operator()(const DeckValue::List&) const { return "a list"; }
    std::string operator()(const DeckValue::Other& other) const { return other.text; }
  };
  return std::visit(Words{}, value.data);
}

/// Reads a single value as a list of one where the key is a list.
template <class T>
bool may_stand_alone(const DeckValue& value) {
  return std::holds_alternative<T>(value.data) ||
         (std::is_same_v<T, double> && std::holds_alternative<std::int64_t>(value.data));
}

// The value converted to the wanted type if the intent is clear; else nothing. For suggestions.
std::string meant(const DeckValue& value, std::string_view wanted) {
  if (const auto* text = std::get_if<std::string>(&value.data)) {
    if (wanted == "boolean") {
      const auto word = to_toml_from_word(*text);
      return word == "true" || word == "false" ? word : "";
    }
    const auto number = number_from_word(*text);
    if (!number || wanted == "string") return "";
    const bool fits = wanted == "number" || wanted == "list of numbers" ||
                      std::holds_alternative<std::int64_t>(number->data);
    return fits ? to_toml(*number) : meant(*number, wanted);
  }
  if (const auto* integer = std::get_if<std::int64_t>(&value.data)) {
    if (wanted == "string") return to_toml(std::to_string(*integer));
    if (wanted == "boolean" && (*integer == 0 || *integer == 1)) return to_toml(*integer == 1);
  }
  if (const auto* number = std::get_if<double>(&value.data)) {
    if (wanted == "string") return to_toml(to_toml(*number));
    if (wanted == "integer" && std::abs(*number) < 0x1p53 && *number == std::trunc(*number)) {
      return to_toml(static_cast<std::int64_t>(*number));
    }
  }
  if (std::holds_alternative<bool>(value.data) && wanted == "string") {
    return to_toml(to_toml(value));
  }
  return "";
}

}  // namespace

KeyReader::KeyReader(std::string_view table, std::string_view key, const KeyInfo& info,
                     std::string default_text)
    : table_(table),
      key_(key),
      path_(join_path(table, key)),
      info_(info),
      default_text_(std::move(default_text)) {}

void KeyReader::wrong_type(const DeckValue& value, std::string_view wanted) const {
  const auto better = meant(value, wanted);
  const auto remedy = better.empty() ? fmt::format("{} is: {}; its default is {}.", key_, info_.doc,
                                                   excerpt(default_text_))
                                     : fmt::format("Write {}", excerpt(better));
  throw deck_error(value.position,
                   fmt::format("{} = {} is {}, but must be {}. {}", path_, excerpt(to_toml(value)),
                               what_it_is(value), with_article(wanted), remedy));
}

void KeyReader::refuse(const DeckValue& value, std::string_view reason) const {
  throw deck_error(value.position,
                   fmt::format("{} = {} {} Correct it, or leave {} out for its default, {}.", path_,
                               excerpt(to_toml(value)), reason, key_, excerpt(default_text_)));
}

template <class T>
T KeyReader::in_range(const DeckValue& value, T number) const {
  const auto x = static_cast<double>(number);
  const bool low = info_.min && (info_.above_min ? !(x > *info_.min) : !(x >= *info_.min));
  const bool high = info_.max && !(x <= *info_.max);
  if (low || high) {
    refuse(value, fmt::format("is out of range: it must be {}.", range_in_words(info_)));
  }
  return number;
}

bool KeyReader::read(const DeckValue& value, bool) const {
  if (const auto* found = std::get_if<bool>(&value.data)) return *found;
  wrong_type(value, type_name<bool>);
}

std::int64_t KeyReader::read(const DeckValue& value, std::int64_t) const {
  if (const auto* found = std::get_if<std::int64_t>(&value.data)) return in_range(value, *found);
  wrong_type(value, type_name<std::int64_t>);
}

double KeyReader::read(const DeckValue& value, double fallback) const {
  double number = 0;
  if (const auto* integer = std::get_if<std::int64_t>(&value.data)) {
    number = static_cast<double>(*integer);
  } else if (const auto* found = std::get_if<double>(&value.data)) {
    number = *found;
  } else {
    wrong_type(value, type_name<double>);
  }
  const bool infinity_is_legal = std::isinf(fallback) || (info_.min && std::isinf(*info_.min)) ||
                                 (info_.max && std::isinf(*info_.max));
  if (std::isnan(number) || (std::isinf(number) && !infinity_is_legal)) {
    refuse(value, "is not a finite number.");
  }
  return in_range(value, number);
}

std::string KeyReader::read(const DeckValue& value, const std::string&) const {
  const auto* found = std::get_if<std::string>(&value.data);
  if (!found) wrong_type(value, type_name<std::string>);
  if (found->find('\0') != std::string::npos) refuse(value, "holds a NUL character.");
  if (info_.choices.size() > 0 && std::ranges::find(info_.choices, *found) == info_.choices.end()) {
    (void)pick(value, {info_.choices.begin(), info_.choices.end()});
  }
  return *found;
}

template <class T>
std::vector<T> KeyReader::read(const DeckValue& value, const std::vector<T>& fallback) const {
  const auto expect_count = [&](std::size_t count) {
    if (info_.count == 0 || count == info_.count) return;
    refuse(value, fmt::format("must have {} entries, not {}.", info_.count, count));
  };
  if (may_stand_alone<T>(value)) {
    expect_count(1);
    return {read(value, T{})};
  }
  const auto* list = std::get_if<DeckValue::List>(&value.data);
  if (!list) wrong_type(value, type_name<std::vector<T>>);
  expect_count(list->size());
  T element_fallback{};
  if constexpr (std::is_same_v<T, double>) {
    const auto infinite = std::ranges::find_if(fallback, [](double x) { return std::isinf(x); });
    if (infinite != fallback.end()) element_fallback = *infinite;
  }
  std::vector<T> result;
  result.reserve(list->size());
  for (const auto& element : *list) {
    KeyReader reader(table_, key_, info_, default_text_);
    reader.path_ += fmt::format("[{}]", result.size());
    result.push_back(reader.read(element, element_fallback));
  }
  return result;
}

template std::vector<std::int64_t> KeyReader::read(const DeckValue&,
                                                   const std::vector<std::int64_t>&) const;
template std::vector<double> KeyReader::read(const DeckValue&, const std::vector<double>&) const;
template std::vector<std::string> KeyReader::read(const DeckValue&,
                                                  const std::vector<std::string>&) const;

std::size_t KeyReader::pick(const DeckValue& value, std::span<const std::string_view> names) const {
  if (const auto* boolean = std::get_if<bool>(&value.data)) {
    // Among the choices "auto", "true" and "false" the last two may be given as TOML booleans.
    const auto found = std::ranges::find(names, to_toml(*boolean));
    if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  }
  const auto* text = std::get_if<std::string>(&value.data);
  if (!text) {
    throw deck_error(value.position,
                     fmt::format("{} = {} is {}, but must be {}.", path_, excerpt(to_toml(value)),
                                 what_it_is(value), choices_in_words(names)));
  }
  const auto found = std::ranges::find(names, *text);
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  const auto near = nearest_name(*text, names);
  const auto remedy = near ? fmt::format("Did you mean {}?", to_toml(*near))
                           : fmt::format("Its default is {}.", default_text_);
  throw deck_error(value.position,
                   fmt::format("{} = {} is not {}. {}", path_, excerpt(to_toml(*text)),
                               choices_in_words(names), remedy));
}

void KeyReader::check_is_no_table(const DeckTree& tree, std::string_view type) const {
  const auto found = tree.tables.find(path_);
  if (found == tree.tables.end()) return;
  throw deck_error(found->second.position,
                   fmt::format("{} is a table, but must be {}. Write {} = ... {}", path_,
                               with_article(type), key_,
                               table_.empty() ? std::string("above the first [table].")
                                              : fmt::format("below [{}].", table_)));
}

}  // namespace lockstep::detail
