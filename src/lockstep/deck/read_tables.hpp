#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lockstep/deck/deck.hpp>
#include <lockstep/deck/deck_tree.hpp>

namespace lockstep::detail {

/// A table that a component has read, with its keys in order of declaration.
struct ReadTable {
  std::string name;
  std::vector<std::pair<std::string, std::string>> keys;  ///< name and value as TOML
  /// For a table with kinds: the key that names the kind, and the keys of the other kinds.
  std::string kind_key;
  struct KeyOfKind {
    std::string key, kind;
  };
  std::vector<KeyOfKind> of_other_kinds;

  [[nodiscard]] bool has(std::string_view key) const;
  /// A key that is read again keeps its place.
  void set(std::string_view key, std::string value);
};

/// Throws one InputError for all unread tables and keys of `tree`, in order of file and line. Each
/// comes with the nearest known name, or with the kinds that have it.
void check_all_known(const DeckTree& tree, const std::vector<ReadTable>& read,
                     KeysOfOtherKinds of_other_kinds);

}  // namespace lockstep::detail
