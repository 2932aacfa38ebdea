#include <lockstep/deck/read_tables.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <tuple>

#include <lockstep/deck/did_you_mean.hpp>
#include <lockstep/deck/key_text.hpp>

namespace lockstep::detail {
namespace {

struct Problem {
  DeckPosition position;
  std::string sentences;
};

class Checker {
 public:
  Checker(const DeckTree& tree, const std::vector<ReadTable>& read, KeysOfOtherKinds of_other_kinds)
      : tree_(tree), read_(read), of_other_kinds_(of_other_kinds) {
    for (const auto& table : read) {
      if (!table.name.empty()) table_names_.push_back(table.name);
    }
  }

  std::vector<Problem> problems() {
    for (const auto& [name, table] : tree_.tables) {
      const auto known = std::ranges::find(read_, name, &ReadTable::name);
      if (known != read_.end()) {
        check_keys(*known, table);
      } else if (name.empty() || leads_to_read_table(name)) {
        check_keys(ReadTable{.name = name}, table);
      } else if (!table.keys.empty() || !has_inner_tables(name)) {
        problems_.push_back({table.position, fmt::format("unknown table [{}]. {}", excerpt(name),
                                                         did_you_mean(name, table_names_))});
      }
    }
    std::ranges::stable_sort(problems_, {}, [](const Problem& problem) {
      return std::tie(problem.position.source, problem.position.line);
    });
    return std::move(problems_);
  }

 private:
  void check_keys(const ReadTable& known, const DeckTree::Table& table) {
    for (const auto& [key, value] : table.keys) {
      if (known.has(key)) continue;
      const auto kinds = other_kinds_with(known, key);
      if (kinds.empty()) {
        problems_.push_back({value.position, unknown_key(known, key)});
      } else if (!is_passed_over(known, value)) {
        problems_.push_back({value.position, of_another_kind(known, key, kinds)});
      }
    }
  }

  static std::vector<std::string> other_kinds_with(const ReadTable& table, const std::string& key) {
    std::vector<std::string> kinds;
    for (const auto& other : table.of_other_kinds) {
      if (other.key == key) kinds.push_back(to_toml(other.kind));
    }
    return kinds;
  }

  /// Whether the key belongs to a kind chosen by an included deck, and `value` comes from that
  /// deck.
  bool is_passed_over(const ReadTable& table, const DeckValue& value) const {
    if (of_other_kinds_ == KeysOfOtherKinds::passed_over) return true;
    const auto* kind = tree_.find(table.name, table.kind_key);
    return kind && kind->level > value.level && kind->position.source != value.position.source;
  }

  std::string of_another_kind(const ReadTable& table, const std::string& key,
                              const std::vector<std::string>& kinds) const {
    const auto* kind = tree_.find(table.name, table.kind_key);
    const auto kind_path = join_path(table.name, table.kind_key);
    const auto chosen =
        std::ranges::find(table.keys, table.kind_key, &std::pair<std::string, std::string>::first);
    return fmt::format("{} is a key of {} = {}, but {} is {}{}. Remove the key, or choose {}.",
                       excerpt(join_path(table.name, key)), kind_path, fmt::join(kinds, ", "),
                       kind_path, chosen->second, kind ? "" : ", the default",
                       kinds.size() == 1 ? "that kind" : "one of those kinds");
  }

  std::string unknown_key(const ReadTable& table, const std::string& key) const {
    const auto path = excerpt(join_path(table.name, key));
    if (key == "include") {
      return fmt::format("unknown key {}. Includes belong above the first [table].", path);
    }
    std::vector<std::string_view> names;
    for (const auto& [name, value] : table.keys) names.push_back(name);
    const auto elsewhere =
        std::ranges::find_if(read_, [&](const ReadTable& other) { return other.has(key); });
    const bool is_elsewhere = elsewhere != read_.end() && !nearest_name(key, names);
    const auto remedy =
        is_elsewhere ? fmt::format("Did you mean {}?", join_path(elsewhere->name, key))
        : names.empty() && !table_names_.empty()
            ? fmt::format("Keys belong in tables: {}.", fmt::join(table_names_, ", "))
            : did_you_mean(key, names);
    return fmt::format("unknown key {}. {}", path, remedy);
  }

  bool leads_to_read_table(const std::string& name) const {
    return std::ranges::any_of(
        table_names_, [&](std::string_view other) { return other.starts_with(name + "."); });
  }

  bool has_inner_tables(const std::string& name) const {
    const auto inner = tree_.tables.lower_bound(name + ".");
    return inner != tree_.tables.end() && inner->first.starts_with(name + ".");
  }

  const DeckTree& tree_;
  const std::vector<ReadTable>& read_;
  KeysOfOtherKinds of_other_kinds_;
  std::vector<std::string_view> table_names_;
  std::vector<Problem> problems_;
};

}  // namespace

bool ReadTable::has(std::string_view key) const {
  return std::ranges::any_of(keys, [&](const auto& entry) { return entry.first == key; });
}

void ReadTable::set(std::string_view key, std::string value) {
  const auto found =
      std::ranges::find_if(keys, [&](const auto& entry) { return entry.first == key; });
  if (found == keys.end()) {
    keys.emplace_back(key, std::move(value));
  } else {
    found->second = std::move(value);
  }
}

void check_all_known(const DeckTree& tree, const std::vector<ReadTable>& read,
                     KeysOfOtherKinds of_other_kinds) {
  constexpr std::size_t most = 10;
  const auto problems = Checker(tree, read, of_other_kinds).problems();
  if (problems.empty()) return;
  std::string message;
  for (const auto& [position, sentences] :
       std::span(problems).first(std::min(most, problems.size()))) {
    if (!message.empty()) message += '\n';
    message += to_string(position) + ": " + sentences;
  }
  if (problems.size() > most) message += fmt::format("\nand {} more.", problems.size() - most);
  throw InputError(message);
}

}  // namespace lockstep::detail
