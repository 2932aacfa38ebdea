#include <lockstep/deck/key_text.hpp>

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <type_traits>

namespace lockstep::detail {
namespace {

template <class T>
std::string list_text(const std::vector<T>& values) {
  std::string text = "[";
  for (const auto& value : values) {
    if (text.size() > 1) text += ", ";
    text += to_toml(value);
  }
  return text + "]";
}

// A limit in usual notation: 4096, not 4096.0.
std::string limit_text(double limit) {
  if (limit == std::trunc(limit) && std::abs(limit) < 1e15) return fmt::format("{:.0f}", limit);
  return fmt::format("{}", limit);
}

template <class T>
std::optional<DeckValue> parsed_as(std::string_view word) {
  const char* const end = word.data() + word.size();
  T number{};
  const auto [rest, error] = std::from_chars(word.data(), end, number);
  if (error != std::errc() || rest != end) return std::nullopt;
  return DeckValue{number, {}};
}

}  // namespace

std::string to_toml(bool value) { return value ? "true" : "false"; }

std::string to_toml(std::int64_t value) { return fmt::format("{}", value); }

std::string to_toml(double value) {
  // fmt's shortest text that reads back as the same bits. "1" alone would read back as an integer.
  std::string text = fmt::format("{}", value);
  if (text.find_first_not_of("0123456789-") == std::string::npos) text += ".0";
  return text;
}

std::string to_toml(std::string_view value) {
  std::string text = "\"";
  for (const char c : value) {
    switch (c) {
      case '"':
        text += "\\\"";
        break;
      case '\\':
        text += "\\\\";
        break;
      case '\n':
        text += "\\n";
        break;
      case '\r':
        text += "\\r";
        break;
      case '\t':
        text += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
          text += fmt::format("\\u{:04X}", static_cast<unsigned>(c));
        } else {
          text += c;
        }
    }
  }
  return text + '"';
}

std::string to_toml(const std::string& value) { return to_toml(std::string_view(value)); }
std::string to_toml(const std::vector<std::int64_t>& value) { return list_text(value); }
std::string to_toml(const std::vector<double>& value) { return list_text(value); }
std::string to_toml(const std::vector<std::string>& value) { return list_text(value); }

std::string to_toml(const DeckValue& value) {
  return std::visit(
      [](const auto& data) {
        using Data = std::decay_t<decltype(data)>;
        if constexpr (std::is_same_v<Data, DeckValue::List>) {
          return list_text(data);
        } else if constexpr (std::is_same_v<Data, DeckValue::Other>) {
          return data.text;
        } else {
          return to_toml(data);
        }
      },
      value.data);
}

std::string to_toml_from_word(std::string_view word) {
  std::string lower(word);
  for (auto& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  if (lower == "true" || lower == "yes" || lower == "on") return "true";
  if (lower == "false" || lower == "no" || lower == "off") return "false";
  return to_toml(word);
}

std::optional<DeckValue> number_from_word(std::string_view word) {
  // Without inf and nan: TOML knows them, but they are words too.
  if (word.find_first_not_of("0123456789+-.eE") != std::string_view::npos) return std::nullopt;
  if (word.starts_with('+') && !word.starts_with("+-")) word.remove_prefix(1);
  const auto integer = parsed_as<std::int64_t>(word);
  return integer ? integer : parsed_as<double>(word);
}

std::string excerpt(std::string_view text) {
  constexpr std::size_t most = 60;
  if (text.size() <= most) return std::string(text);
  std::size_t end = most - 3;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return std::string(text.substr(0, end)) + "...";
}

std::string choices_in_words(std::span<const std::string_view> choices) {
  std::string words;
  for (const auto choice : choices) words += (words.empty() ? "one of " : ", ") + to_toml(choice);
  return words;
}

std::string range_in_words(const KeyInfo& info) {
  if (info.choices.size() > 0) return choices_in_words({info.choices.begin(), info.choices.end()});
  std::string words;
  if (info.min) words = (info.above_min ? "above " : "at least ") + limit_text(*info.min);
  if (info.max) words += (words.empty() ? "at most " : " and at most ") + limit_text(*info.max);
  if (!words.empty() && !info.unit.empty()) words.append(" ").append(info.unit);
  return words;
}

}  // namespace lockstep::detail
