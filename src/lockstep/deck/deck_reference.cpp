#include <lockstep/deck/deck.hpp>

#include <fmt/format.h>

#include <algorithm>

#include <lockstep/deck/any_key.hpp>
#include <lockstep/deck/key_text.hpp>

namespace lockstep {

using namespace detail;

namespace {

struct Section {
  std::string name, description;
  std::vector<std::string> rows;
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
    const auto unit = std::exchange(info.unit, {});  // has a column of its own
    add_row(name, type_name<T>, unit, to_toml(field), range_in_words(info), info.doc);
  }

 private:
  std::size_t pick(std::string_view name, const std::vector<std::string_view>& names,
                   std::size_t chosen, std::string_view doc) override {
    add_row(name, type_name<std::string>, "", to_toml(names[chosen]), choices_in_words(names), doc);
    return chosen;
  }

  void add_row(std::string_view name, std::string_view type, std::string_view unit,
               const std::string& value, const std::string& range, std::string_view doc) {
    section_.rows.push_back(fmt::format("| `{}` | {} | {} | `{}` | {} | {} |", name, type,
                                        cell(unit), cell(value), cell(range), cell(doc)));
  }

  Section& section_;
};

}  // namespace

DeckReference::DeckReference() : state_(std::make_unique<State>()) {}
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
    for (const auto& row : section.rows) text += row + '\n';
  }
  return text;
}

}  // namespace lockstep
