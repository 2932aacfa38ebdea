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

/// What a key's declaration says beside its name and field.
struct KeyInfo {
  std::string_view doc;                      ///< one line; "X only: ..." if only X needs the key
  std::string_view unit = {};                ///< "s", "bytes"; empty: a plain number
  std::optional<double> min = {}, max = {};  ///< inclusive limits of numbers (of each, in lists)
  bool above_min = false;                    ///< min itself is not allowed
  std::size_t count = 0;                     ///< entries that a list must have; 0: any number
  std::initializer_list<std::string_view> choices = {};  ///< legal strings; empty: any
};

/// One table of a deck while an options struct declares itself on it. A component writes, beside
/// its struct and in x_deck.cpp, one function:
///   void declare(DeckTable& table, SgdOptions& options) {
///     table.key("lr", options.lr, {.doc = "learning rate", .min = 0.0, .above_min = true});
///   }
/// From it come parsing, range errors with file and line, did-you-mean, the reference and --help:
/// the field's value before the call is the default, the value after it the deck's.
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

  /// A key whose string values stand for enumerators.
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

  /// One of several kinds of what a table describes, such as "adam" of [optimizer], with keys of
  /// its own.
  struct Kind {
    std::string_view name;                    ///< what the deck says
    std::string_view doc;                     ///< one line for the reference
    std::function<void(DeckTable&)> declare;  ///< its keys, on options that nobody reads
  };
  /// A key whose values are the names of `kinds`, of which number `chosen` is the default.
  /// declare_chosen(i) declares the keys of the kind that the deck chooses. A key that only other
  /// kinds have is an error that names them (Deck::check_all_read), and the resolved deck holds
  /// none. lockstep/deck/kinds.hpp keeps the list of kinds.
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
  /// `key` is of kind `chosen`, whose keys `declare_chosen` declares.
  virtual void declare_kind(std::string_view /*key*/, const std::vector<Kind>& /*kinds*/,
                            std::size_t /*chosen*/, const std::function<void()>& declare_chosen) {
    declare_chosen();
  }
};

/// What check_all_read() makes of a key that another kind has than the deck's.
enum class KeysOfOtherKinds : std::uint8_t {
  refused,
  passed_over,  ///< for decks in files of earlier versions, which held the keys of all kinds
};

/// A typed input deck: a TOML file, the files it includes (`include = ["base.toml"]`, relative to
/// the including file; the including file wins) and overrides ("table.key=value", value in TOML;
/// the last wins). Every key must be read by somebody: check_all_read() says which were not.
/// All errors are InputError with file, line and remedy.
class Deck {
 public:
  /// Throws if the file is missing, a folder, not text, not TOML, has a key twice, or includes
  /// itself; and if an override does not parse.
  [[nodiscard]] static Deck load(const std::filesystem::path& file,
                                 const std::vector<std::string>& overrides = {});
  /// The same from memory; `name` stands for the file in messages. Includes are relative to the
  /// working directory.
  [[nodiscard]] static Deck parse(std::string_view toml, std::string_view name,
                                  const std::vector<std::string>& overrides = {});
  Deck(Deck&&) noexcept;
  Deck& operator=(Deck&&) noexcept;
  ~Deck();

  /// Options declared on table `name` ("optimizer"; "" is the top level), defaults where the deck
  /// is silent. Throws for a wrong type, a value out of range, not a number, or an unknown choice.
  template <class Options>
  [[nodiscard]] Options read(std::string_view name, Options options = {}) {
    const auto table = open(name);
    declare(*table, options);
    return options;
  }

  /// What was found out takes the place of what the deck left to it: of table `name`, which was
  /// read, resolved() tells these values from now on, whatever the deck says. `options` must be
  /// what read() would accept.
  template <class Options>
  void record(std::string_view name, Options options) {
    declare(*recorder(name), options);
  }

  /// Throws if the deck has a key or table that no read() declared, naming the nearest known one,
  /// or the kinds that have the key. Keys of an included deck are passed over where they belong to
  /// the kind that it names, and the including deck or --set names another.
  void check_all_read(KeysOfOtherKinds of_other_kinds = KeysOfOtherKinds::refused) const;

  /// The deck as read so far, every declared key with its value, as TOML in order of declaration:
  /// what --dry-run prints and run folders and checkpoints store. Reading it back gives the same.
  [[nodiscard]] std::string resolved() const;
  /// XXH3 of resolved(), 16 hexadecimal digits.
  [[nodiscard]] std::string hash() const;

  /// "inputs/a.toml:12" where `key` of `table` was set, or "the default" / "--set": for messages
  /// about values that only another component can judge.
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
  /// Markdown: one section a table, one row a key (name, type, unit, default, range, doc); the keys
  /// that a kind has of its own in a section below.
  [[nodiscard]] std::string markdown() const;
  /// A deck to begin with: every key on a line with its meaning behind it, those of `settings`
  /// ("train.epochs", a value in TOML) set, all others commented out with their defaults. Of kinds,
  /// the keys of the one that is set. Throws Error for a setting that is no key, InputError for a
  /// kind that there is not.
  using Settings = std::vector<std::pair<std::string, std::string>>;
  [[nodiscard]] std::string commented_deck(const Settings& settings) const;

 private:
  struct State;
  std::unique_ptr<DeckTable> open(std::string_view name, std::string_view description);
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
