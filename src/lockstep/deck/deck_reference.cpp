#include <lockstep/deck/deck.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include <lockstep/base/error.hpp>
#include <lockstep/deck/any_key.hpp>
#include <lockstep/deck/key_text.hpp>

namespace lockstep {

using namespace detail;

namespace {

struct Row {
  std::string name, type, unit, value, range, doc;
};

struct Section {
  std::string name, description;
  std::vector<Row> rows;
};

// A pipe would end the cell.
std::string cell(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '|') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

}  // namespace

struct DeckReference::State {
  std::vector<Section> sections;
};

namespace {

class Collector final : public AnyKey<Collector> {
 public:
  explicit Collector(Section& section) : section_(section) {}

  template <class T>
  void any_key(std::string_view name, const T& field, KeyInfo info) {
    const std::string unit(std::exchange(info.unit, {}));  // has a column of its own
    section_.rows.push_back({std::string(name), std::string(type_name<T>), unit, to_toml(field),
                             range_in_words(info), std::string(info.doc)});
  }

 private:
  std::size_t pick(std::string_view name, const std::vector<std::string_view>& names,
                   std::size_t chosen, std::string_view doc) override {
    section_.rows.push_back({std::string(name), std::string(type_name<std::string>), "",
                             to_toml(names[chosen]), choices_in_words(names), std::string(doc)});
    return chosen;
  }

  Section& section_;
};

}  // namespace

DeckReference::DeckReference() : state_(std::make_unique<State>()) {}
DeckReference::DeckReference(DeckReference&&) noexcept = default;
DeckReference::~DeckReference() = default;

std::unique_ptr<DeckTable> DeckReference::open(std::string_view name,
                                               std::string_view description) {
  auto& sections = state_->sections;
  auto found = std::ranges::find(sections, name, &Section::name);
  if (found == sections.end()) {
    sections.push_back({std::string(name), std::string(description), {}});
    found = std::prev(sections.end());
  } else {
    found->description.append(" ").append(description);
  }
  return std::make_unique<Collector>(*found);
}

std::string DeckReference::markdown() const {
  std::string text;
  for (const auto& section : state_->sections) {
    if (!text.empty()) text += '\n';
    const auto title =
        section.name.empty() ? std::string("Top level") : fmt::format("`[{}]`", section.name);
    text += fmt::format(
        "## {}\n\n{}\n\n| key | type | unit | default | range | meaning |\n"
        "|---|---|---|---|---|---|\n",
        title, section.description);
    for (const auto& [name, type, unit, value, range, doc] : section.rows)
      text += fmt::format("| `{}` | {} | {} | `{}` | {} | {} |\n", name, type, cell(unit),
                          cell(value), cell(range), cell(doc));
  }
  return text;
}

std::string DeckReference::commented_deck(const Settings& settings) const {
  std::string text;
  std::size_t used = 0;
  for (const auto& section : state_->sections) {
    text += fmt::format("\n[{}]  # {}\n", section.name, section.description);
    for (const auto& row : section.rows) {
      const auto set =
          std::ranges::find(settings, section.name + "." + row.name, &Settings::value_type::first);
      const bool is_set = set != settings.end();
      used += is_set ? 1 : 0;
      std::string notes = row.doc;
      if (!row.unit.empty()) notes += fmt::format(" [{}]", row.unit);
      if (!row.range.empty()) notes += "; " + row.range;
      text += fmt::format(
          "{:<34}  # {}\n",
          fmt::format("{}{} = {}", is_set ? "" : "#", row.name, is_set ? set->second : row.value),
          notes);
    }
  }
  if (used != settings.size()) throw Error("a deck was to begin with a key that there is not");
  return text;
}

}  // namespace lockstep
