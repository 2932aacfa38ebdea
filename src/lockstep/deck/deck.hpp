#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {

/// A key's declaration, apart from its name and field.
struct KeyInfo {
  std::string_view doc;                      ///< one line; "X only: ..." if only X needs the key
  std::string_view unit = {};                ///< "s", "bytes"; empty: a plain number
  std::optional<double> min = {}, max = {};  ///< inclusive limits of a number (of each, in lists)
  bool above_min = false;                    ///< min itself is excluded
  std::size_t count = 0;                     ///< required length of a list; 0: any
  std::initializer_list<std::string_view> choices = {};  ///< allowed strings; empty: any
};

/// One table of a deck while an options struct declares its keys. A component writes one function
/// beside its struct, in x_deck.cpp:
///   void declare(DeckTable& table, SgdOptions& options) {
///     table.key("lr", options.lr, {.doc = "learning rate", .min = 0.0, .above_min = true});
///   }
/// This one declaration serves parsing, range errors with file and line, suggestions, the reference
/// and --help. The field's value before the call is the default; after the call it is the deck's.
class DeckTable {
 public:
  virtual ~DeckTable() = default;
  virtual void key(std::string_view name, bool& field, const KeyInfo& info) = 0;
  virtual void key(std::string_view name, std::int64_t& field, const KeyInfo& info) = 0;
  virtual void key(std::string_view name, double& field,
                   const KeyInfo& info) = 0;  ///< 1 is read as 1.0
  virtual void key(std::string_view name, std::string& field, const KeyInfo& info) = 0;
  virtual void key(std::string_view name, std::vector<std::int64_t>& field,
                   const KeyInfo& info) = 0;
  virtual void key(std::string_view name, std::vector<double>& field, const KeyInfo& info) = 0;
  virtual void key(std::string_view name, std::vector<std::string>& field, const KeyInfo& info) = 0;

  /// A key whose strings stand for enumerators.
  template <class Enum>
  void choice(std::string_view name, Enum& field,
              std::initializer_list<std::pair<std::string_view, Enum>> values,
              std::string_view doc) {
    std::vector<std::string_view> names;
    std::size_t chosen = 0;
    for (const auto& [text, value] : values) {
      if (value == field) chosen = names.size();
      names.push_back(text);
    }
    field = values.begin()[pick(name, names, chosen, doc)].second;
  }

  /// One kind of a table, such as "adam" of [optimizer], with keys of its own.
  struct Kind {
    std::string_view name;  ///< its name in the deck
    std::string_view doc;   ///< one line for the reference
    std::function<void(DeckTable&)>
        declare;  ///< its keys, declared on options that are then dropped
  };
  /// A key whose values are the names of `kinds`; number `chosen` is the default. declare_chosen(i)
  /// declares the keys of the deck's kind. A key that only other kinds have is an error that names
  /// them (Deck::check_all_read). The resolved deck holds no such key. lockstep/deck/kinds.hpp
  /// keeps the list of kinds.
  void kind(std::string_view name, const std::vector<Kind>& kinds, std::size_t chosen,
            std::string_view doc, const std::function<void(std::size_t)>& declare_chosen) {
    std::vector<std::string_view> names;
    for (const Kind& one : kinds) names.push_back(one.name);
    chosen = pick(name, names, chosen, doc);
    declare_kind(name, kinds, chosen, [&] { declare_chosen(chosen); });
  }

 private:
  virtual std::size_t pick(std::string_view name, const std::vector<std::string_view>& names,
                           std::size_t chosen, std::string_view doc) = 0;
  /// `key` chooses kind `chosen`; `declare_chosen` declares the keys of that kind.
  virtual void declare_kind(std::string_view /*key*/, const std::vector<Kind>& /*kinds*/,
                            std::size_t /*chosen*/, const std::function<void()>& declare_chosen) {
    declare_chosen();
  }
};

/// How check_all_read() treats a key that another kind than the deck's has.
enum class KeysOfOtherKinds : std::uint8_t {
  refused,
  passed_over,  ///< for decks stored by earlier versions, which hold the keys of all kinds
};

/// A typed input deck: a TOML file, the files it includes (`include = ["base.toml"]`, relative to
/// the including file, which wins) and overrides ("table.key=value", value in TOML; the last wins).
/// Every key must be read: check_all_read() reports the others. All errors are InputError with
/// file, line and remedy.
class Deck {
 public:
  /// Throws if the file is missing, is a folder, is not TOML text, gives a key twice or includes
  /// itself, and if an override does not parse.
  [[nodiscard]] static Deck load(const std::filesystem::path& file,
                                 const std::vector<std::string>& overrides = {});
  /// The same from memory; `name` is the file's name in messages. Includes are relative to the
  /// working directory.
  [[nodiscard]] static Deck parse(std::string_view toml, std::string_view name,
                                  const std::vector<std::string>& overrides = {});
  Deck(Deck&&) noexcept;
  Deck& operator=(Deck&&) noexcept;
  ~Deck();

  /// Reads the options declared on table `name` ("optimizer"; "" is the top level). Keys missing
  /// from the deck keep their defaults. Throws for a wrong type, a value out of range, not a
  /// number, or an unknown choice.
  template <class Options>
  [[nodiscard]] Options read(std::string_view name, Options options = {}) {
    const auto table = open(name);
    declare(*table, options);
    return options;
  }

  /// Replaces values of table `name`, already read, in resolved(): for settings that the deck left
  /// open and the program then determined. read() must accept `options`.
  template <class Options>
  void record(std::string_view name, Options options) {
    declare(*recorder(name), options);
  }

  /// Throws for a key or table that no read() declared, naming the nearest known one, or the kinds
  /// that have the key. A key of an included deck is accepted if it belongs to the kind chosen
  /// there and the including deck or --set chooses another.
  void check_all_read(KeysOfOtherKinds of_other_kinds = KeysOfOtherKinds::refused) const;

  /// The deck as read so far: every declared key with its value, as TOML in order of declaration.
  /// --dry-run prints it; run folders and checkpoints store it. Reading it back gives the same.
  [[nodiscard]] std::string resolved() const;
  /// XXH3 of resolved(), 16 hexadecimal digits.
  [[nodiscard]] std::string hash() const;

  /// Where `key` of `table` was set: "inputs/a.toml:12", "the default" or "--set". For messages
  /// about values that only another component can check.
  [[nodiscard]] std::string where(std::string_view table, std::string_view key) const;

 private:
  struct State;
  explicit Deck(std::unique_ptr<State> state);
  std::unique_ptr<DeckTable> open(std::string_view name);
  std::unique_ptr<DeckTable> recorder(std::string_view name);
  std::unique_ptr<State> state_;
};

/// Collects declarations without a deck, for documentation.
class DeckReference {
 public:
  DeckReference();
  DeckReference(DeckReference&&) noexcept;
  ~DeckReference();
  /// Adds a table with its one-line description and the struct's defaults.
  template <class Options>
  void add(std::string_view name, std::string_view description, Options options = {}) {
    const auto table = open(name, description);
    declare(*table, options);
  }
  /// Markdown: one section per table, one row per key (name, type, unit, default, range, doc). Keys
  /// of one kind only are in a section below.
  [[nodiscard]] std::string markdown() const;
  /// A starting deck: one line per key, with its meaning after it. Keys in `settings`
  /// ("train.epochs", a value in TOML) are set; all others are commented out with their defaults.
  /// Only keys of the chosen kinds appear. Throws Error for an unknown key in `settings`,
  /// InputError for an unknown kind.
  using Settings = std::vector<std::pair<std::string, std::string>>;
  [[nodiscard]] std::string commented_deck(const Settings& settings) const;

 private:
  struct State;
  std::unique_ptr<DeckTable> open(std::string_view name, std::string_view description);
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
