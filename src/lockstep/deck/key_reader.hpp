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

/// Converts the value of one declared key to its type. Otherwise throws InputError with the
/// position, the error and a remedy.
class KeyReader {
 public:
  /// `default_text` is the default as TOML, for the end of messages.
  KeyReader(std::string_view table, std::string_view key, const KeyInfo& info,
            std::string default_text);

  /// Converts `value` to the type of the second argument, the key's default. Infinity is allowed if
  /// the default or a limit of the key is infinite; NaN never is.
  [[nodiscard]] bool read(const DeckValue& value, bool fallback) const;
  [[nodiscard]] std::int64_t read(const DeckValue& value, std::int64_t fallback) const;
  [[nodiscard]] double read(const DeckValue& value, double fallback) const;
  [[nodiscard]] std::string read(const DeckValue& value, const std::string& fallback) const;
  template <class T>
  [[nodiscard]] std::vector<T> read(const DeckValue& value, const std::vector<T>& fallback) const;

  /// The index in `names` of the string `value`, or of the boolean's word.
  [[nodiscard]] std::size_t pick(const DeckValue& value,
                                 std::span<const std::string_view> names) const;

  /// Throws if the deck has a table in place of this key.
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
