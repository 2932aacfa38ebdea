#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/deck/deck.hpp>
#include <lockstep/deck/deck_tree.hpp>

namespace lockstep::detail {

/// Turns the value of one declared key into its type, or throws the InputError that says where it
/// was written, what is wrong and what would be right.
class KeyReader {
 public:
  /// `default_text` is the default as TOML; it ends the messages.
  KeyReader(std::string_view table, std::string_view key, const KeyInfo& info,
            std::string default_text);

  /// `value` as the type of the second argument, the key's default. An infinite number is legal
  /// if the default or a limit of the key is infinite, NaN never.
  [[nodiscard]] bool read(const DeckValue& value, bool fallback) const;
  [[nodiscard]] std::int64_t read(const DeckValue& value, std::int64_t fallback) const;
  [[nodiscard]] double read(const DeckValue& value, double fallback) const;
  [[nodiscard]] std::string read(const DeckValue& value, const std::string& fallback) const;
  template <class T>
  [[nodiscard]] std::vector<T> read(const DeckValue& value, const std::vector<T>& fallback) const;

  /// The index of the string `value` in `names`, or of the boolean as its word.
  [[nodiscard]] std::size_t pick(const DeckValue& value,
                                 std::span<const std::string_view> names) const;

  /// Throws if the deck has a table where this key should be.
  void check_is_no_table(const DeckTree& tree, std::string_view type) const;

 private:
  [[noreturn]] void wrong_type(const DeckValue& value, std::string_view wanted) const;
  [[noreturn]] void refuse(const DeckValue& value, std::string_view reason) const;
  template <class T>
  T in_range(const DeckValue& value, T number) const;

  std::string table_, key_, path_;
  KeyInfo info_;
  std::string default_text_;
};

}  // namespace lockstep::detail
