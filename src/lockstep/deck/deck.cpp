#include <lockstep/deck/deck.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include <lockstep/base/hash.hpp>
#include <lockstep/deck/any_key.hpp>
#include <lockstep/deck/deck_source.hpp>
#include <lockstep/deck/deck_tree.hpp>
#include <lockstep/deck/key_reader.hpp>
#include <lockstep/deck/key_text.hpp>
#include <lockstep/deck/read_tables.hpp>

namespace lockstep {

using namespace detail;

struct Deck::State {
  DeckTree tree;
  std::vector<ReadTable> read;  // in order of declaration
};

namespace {

/// Collects the names of a kind's keys.
class KeyNames final : public AnyKey<KeyNames> {
 public:
  KeyNames(std::vector<ReadTable::KeyOfKind>& found, std::string_view kind)
      : found_(found), kind_(kind) {}

  template <class T>
  void any_key(std::string_view name, const T&, const KeyInfo&) {
    found_.push_back({std::string(name), kind_});
  }

 private:
  std::size_t pick(std::string_view name, const std::vector<std::string_view>&, std::size_t chosen,
                   std::string_view) override {
    found_.push_back({std::string(name), kind_});
    return chosen;
  }

  std::vector<ReadTable::KeyOfKind>& found_;
  std::string kind_;
};

class Reader final : public AnyKey<Reader> {
 public:
  Reader(const DeckTree& tree, std::vector<ReadTable>& read, std::string_view name)
      : tree_(tree), read_(read), name_(name) {
    if (std::ranges::find(read_, name_, &ReadTable::name) == read_.end()) {
      read_.push_back({.name = name_});
    }
  }

  template <class T>
  void any_key(std::string_view name, T& field, const KeyInfo& info) {
    const KeyReader reader(name_, name, info, to_toml(field));
    reader.check_is_no_table(tree_, type_name<T>);
    if (const auto* value = tree_.find(name_, name)) field = reader.read(*value, field);
    read_table().set(name, to_toml(field));
  }

 private:
  std::size_t pick(std::string_view name, const std::vector<std::string_view>& names,
                   std::size_t chosen, std::string_view doc) override {
    const KeyInfo info{.doc = doc};
    const KeyReader reader(name_, name, info, to_toml(names[chosen]));
    reader.check_is_no_table(tree_, type_name<std::string>);
    if (const auto* value = tree_.find(name_, name)) chosen = reader.pick(*value, names);
    read_table().set(name, to_toml(names[chosen]));
    return chosen;
  }

  void declare_kind(std::string_view key, const std::vector<Kind>& kinds, std::size_t chosen,
                    const std::function<void()>& declare_chosen) override {
    ReadTable& table = read_table();
    table.kind_key = key;
    table.of_other_kinds.clear();
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      if (i == chosen) continue;
      KeyNames names(table.of_other_kinds, kinds[i].name);
      kinds[i].declare(names);
    }
    declare_chosen();
  }

  ReadTable& read_table() { return *std::ranges::find(read_, name_, &ReadTable::name); }

  const DeckTree& tree_;
  std::vector<ReadTable>& read_;
  std::string name_;
};

/// Records the fields as they are.
class Recorder final : public AnyKey<Recorder> {
 public:
  explicit Recorder(ReadTable& table) : table_(table) {}

  template <class T>
  void any_key(std::string_view name, T& field, const KeyInfo&) {
    table_.set(name, to_toml(field));
  }

 private:
  std::size_t pick(std::string_view name, const std::vector<std::string_view>& names,
                   std::size_t chosen, std::string_view) override {
    table_.set(name, to_toml(names[chosen]));
    return chosen;
  }

  ReadTable& table_;
};

}  // namespace

Deck::Deck(std::unique_ptr<State> state) : state_(std::move(state)) {}
Deck::Deck(Deck&&) noexcept = default;
Deck& Deck::operator=(Deck&&) noexcept = default;
Deck::~Deck() = default;

Deck Deck::load(const std::filesystem::path& file, const std::vector<std::string>& overrides) {
  auto state = std::make_unique<State>(State{load_deck(file), {}});
  for (const auto& text : overrides) state->tree.merge(parse_override(text));
  return Deck(std::move(state));
}

Deck Deck::parse(std::string_view toml, std::string_view name,
                 const std::vector<std::string>& overrides) {
  auto state = std::make_unique<State>(State{load_deck_text(toml, std::string(name)), {}});
  for (const auto& text : overrides) state->tree.merge(parse_override(text));
  return Deck(std::move(state));
}

std::unique_ptr<DeckTable> Deck::open(std::string_view name) {
  // Reports "optimizer = 1" where a table is required, at any depth of "a.b.c".
  for (std::size_t end = 0; end < name.size();) {
    const auto begin = end == 0 ? 0 : end + 1;
    const auto parent = name.substr(0, end);
    end = std::min(name.find('.', begin), name.size());
    if (const auto* value = state_->tree.find(parent, name.substr(begin, end - begin))) {
      throw deck_error(value->position,
                       fmt::format("{0} = {1} is a value, but {0} must be a table. Write its keys "
                                   "below a line [{0}].",
                                   name.substr(0, end), excerpt(to_toml(*value))));
    }
  }
  return std::make_unique<Reader>(state_->tree, state_->read, name);
}

std::unique_ptr<DeckTable> Deck::recorder(std::string_view name) {
  const auto at = std::ranges::find(state_->read, name, &ReadTable::name);
  if (at == state_->read.end())
    throw Error(fmt::format("internal error: table [{}] was not read", name));
  return std::make_unique<Recorder>(*at);
}

void Deck::check_all_read(KeysOfOtherKinds of_other_kinds) const {
  check_all_known(state_->tree, state_->read, of_other_kinds);
}

std::string Deck::resolved() const {
  std::string top, tables;
  for (const auto& table : state_->read) {
    // TOML's top level ends at the first header, so its keys come first, whatever the order of
    // declaration.
    auto& text = table.name.empty() ? top : tables;
    if (!table.name.empty() && !table.keys.empty()) text += fmt::format("\n[{}]\n", table.name);
    for (const auto& [key, value] : table.keys) text += fmt::format("{} = {}\n", key, value);
  }
  auto text = top + tables;
  return text.starts_with('\n') ? text.substr(1) : text;
}

std::string Deck::hash() const {
  const auto text = resolved();
  return to_hex(hash64(text.data(), text.size()));
}

std::string Deck::where(std::string_view table, std::string_view key) const {
  const auto* value = state_->tree.find(table, key);
  return value ? to_string(value->position) : "the default";
}

}  // namespace lockstep
