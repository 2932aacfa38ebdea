#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/deck/deck.hpp>
#include <lockstep/deck/deck_tree.hpp>

namespace lockstep::detail {

/// Values as TOML text that reads back as the same value of the same type: 1.0, not 1.
[[nodiscard]] std::string to_toml(bool value);
[[nodiscard]] std::string to_toml(std::int64_t value);
[[nodiscard]] std::string to_toml(double value);
[[nodiscard]] std::string to_toml(std::string_view value);
[[nodiscard]] std::string to_toml(const std::string& value);
[[nodiscard]] std::string to_toml(const char* value) =
    delete;  // overload, because a const char* would convert to bool
[[nodiscard]] std::string to_toml(const std::vector<std::int64_t>& value);
[[nodiscard]] std::string to_toml(const std::vector<double>& value);
[[nodiscard]] std::string to_toml(const std::vector<std::string>& value);
/// For messages; an Other as its description.
[[nodiscard]] std::string to_toml(const DeckValue& value);

/// Interprets a bare word: True is true, runs/x is "runs/x".
[[nodiscard]] std::string to_toml_from_word(std::string_view word);

/// The finite number, integer or double, that a whole word spells. Accepts forms that TOML refuses:
/// .1, 1., +.5 and 007.
[[nodiscard]] std::optional<DeckValue> number_from_word(std::string_view word);

/// At most 60 bytes of `text`. A longer text is cut between characters and ends with "...".
[[nodiscard]] std::string excerpt(std::string_view text);

/// `one of "a", "b"`; empty if there are no choices.
[[nodiscard]] std::string choices_in_words(std::span<const std::string_view> choices);

/// "above 0 and at most 1 s", or the choices in words; empty if the key has no limits.
[[nodiscard]] std::string range_in_words(const KeyInfo& info);

/// A key's type for the reference and for messages: "integer", "list of numbers".
template <class T>
inline constexpr std::string_view type_name = {};
template <>
inline constexpr std::string_view type_name<bool> = "boolean";
template <>
inline constexpr std::string_view type_name<std::int64_t> = "integer";
template <>
inline constexpr std::string_view type_name<double> = "number";
template <>
inline constexpr std::string_view type_name<std::string> = "string";
template <>
inline constexpr std::string_view type_name<std::vector<std::int64_t>> = "list of integers";
template <>
inline constexpr std::string_view type_name<std::vector<double>> = "list of numbers";
template <>
inline constexpr std::string_view type_name<std::vector<std::string>> = "list of strings";

}  // namespace lockstep::detail
