#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <lockstep/base/error.hpp>

namespace lockstep::detail {

/// Position of a table or value.
struct DeckPosition {
  std::string source;  ///< a file's path, or "--set"
  int line = 0;        ///< from 1; 0: a source without lines
};

/// "inputs/a.toml:12" or "--set".
[[nodiscard]] std::string to_string(const DeckPosition& position);

/// Makes the InputError "<position>: <sentences>".
[[nodiscard]] InputError deck_error(const DeckPosition& position, std::string_view sentences);

/// A value as written, before its type is known.
struct DeckValue {
  /// A value that no key can hold: a date, a time, or a table inside a list.
  struct Other {
    std::string text;  ///< with its article: "a date"
  };
  using List = std::vector<DeckValue>;
  std::variant<bool, std::int64_t, double, std::string, List, Other> data;
  DeckPosition position;
  int level = 0;  ///< of its source: a deck's level is above those of the decks it includes
};

/// A deck as written. Nested tables are flattened: `[a.b]` is the table "a.b". The top level is "".
struct DeckTree {
  struct Table {
    DeckPosition position;
    std::map<std::string, DeckValue, std::less<>> keys;
  };
  std::map<std::string, Table, std::less<>> tables;
  int level = 0;  ///< highest level of its values

  /// The value of `key` in `table`, or null.
  [[nodiscard]] const DeckValue* find(std::string_view table, std::string_view key) const;
  /// Adds the tables and keys of `over` one level above; they win.
  void merge(DeckTree over);
};

/// "optimizer.lr"; a part that is no bare key in TOML is quoted: `optimizer."l r"`.
[[nodiscard]] std::string join_path(std::string_view table, std::string_view key);

}  // namespace lockstep::detail
