#include <lockstep/deck/deck.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include <lockstep/base/error.hpp>
#include <lockstep/deck/any_key.hpp>
#include <lockstep/deck/did_you_mean.hpp>
#include <lockstep/deck/key_text.hpp>

namespace lockstep {

using namespace detail;

namespace {

struct Row {
  std::string name, type, unit, value, range;
  std::string only_with;  ///< program, kind or value that needs the key; empty: all
  std::string doc;
};

struct SectionOfKind {
  std::string kind, description;
  std::vector<Row> rows;
};

struct Section {
  std::string name, description;
  std::vector<Row> rows;
  std::string kind_key;               ///< of a table that has kinds
  std::size_t rows_before_kinds = 0;  ///< the rows before it
  std::size_t chosen = 0;             ///< the default kind
  std::vector<SectionOfKind> kinds;
};

// A pipe would end the table cell.
std::string cell(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '|') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

// "classify only: share of ..." is the key of a program, a kind or a value.
std::pair<std::string, std::string> split_only(std::string_view doc) {
  constexpr std::string_view only = " only: ";
  const auto end = doc.find(only);
  if (end == std::string_view::npos) return {"", std::string(doc)};
  return {std::string(doc.substr(0, end)), std::string(doc.substr(end + only.size()))};
}

// Columns that no row fills are left out.
std::string table_of(const std::vector<Row>& rows) {
  struct Column {
    const char* title;
    std::string (*text_of)(const Row&);
  };
  const Column columns[] = {{"key", [](const Row& row) { return "`" + row.name + "`"; }},
                            {"type", [](const Row& row) { return row.type; }},
                            {"unit", [](const Row& row) { return cell(row.unit); }},
                            {"default", [](const Row& row) { return "`" + cell(row.value) + "`"; }},
                            {"range", [](const Row& row) { return cell(row.range); }},
                            {"only with", [](const Row& row) { return cell(row.only_with); }},
                            {"meaning", [](const Row& row) { return cell(row.doc); }}};
  std::string head = "|", line = "|";
  std::vector<std::string> lines(rows.size(), "|");
  for (const Column& column : columns) {
    const auto is_empty = [&](const Row& row) { return column.text_of(row).empty(); };
    if (std::ranges::all_of(rows, is_empty)) continue;
    head += fmt::format(" {} |", column.title);
    line += "---|";
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::string text = column.text_of(rows[i]);
      lines[i] += text.empty() ? " |" : fmt::format(" {} |", text);
    }
  }
  std::string table = head + "\n" + line + "\n";
  for (const std::string& row : lines) table += row + "\n";
  return table;
}

/// The rows of a deck with this kind, or with the default one, in the order of a resolved deck. The
/// kind is written as TOML. Throws InputError for a kind that the table does not have.
std::vector<Row> rows_with(const Section& section, const std::string& kind) {
  std::vector<Row> rows = section.rows;
  if (section.kinds.empty()) return rows;
  std::vector<std::string> names;
  for (const SectionOfKind& one : section.kinds) names.push_back(to_toml(one.kind));
  const auto found = kind.empty() ? names.begin() + static_cast<std::ptrdiff_t>(section.chosen)
                                  : std::ranges::find(names, kind);
  if (found == names.end()) {
    throw InputError(
        fmt::format("there is no {}.{} = {}. {}", section.name, section.kind_key, kind,
                    did_you_mean(kind, std::vector<std::string_view>(names.begin(), names.end()))));
  }
  const auto& own = section.kinds[static_cast<std::size_t>(found - names.begin())].rows;
  rows.insert(rows.begin() + static_cast<std::ptrdiff_t>(section.rows_before_kinds), own.begin(),
              own.end());
  return rows;
}

}  // namespace

struct DeckReference::State {
  std::vector<Section> sections;
};

namespace {

class Collector final : public AnyKey<Collector> {
 public:
  explicit Collector(Section& section) : section_(section), rows_(&section.rows) {}

  template <class T>
  void any_key(std::string_view name, const T& field, KeyInfo info) {
    const std::string unit(std::exchange(info.unit, {}));  // has a column of its own
    const auto [only_with, doc] = split_only(info.doc);
    rows_->push_back({std::string(name), std::string(type_name<T>), unit, to_toml(field),
                      range_in_words(info), only_with, doc});
  }

 private:
  std::size_t pick(std::string_view name, const std::vector<std::string_view>& names,
                   std::size_t chosen, std::string_view doc) override {
    const auto [only_with, meaning] = split_only(doc);
    rows_->push_back({std::string(name), std::string(type_name<std::string>), "",
                      to_toml(names[chosen]), choices_in_words(names), only_with, meaning});
    return chosen;
  }

  void declare_kind(std::string_view key, const std::vector<Kind>& kinds, std::size_t chosen,
                    const std::function<void()>& declare_chosen) override {
    section_.kind_key = key;
    section_.rows_before_kinds = section_.rows.size();
    section_.chosen = chosen;
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      SectionOfKind of_kind{std::string(kinds[i].name), std::string(kinds[i].doc), {}};
      rows_ = &of_kind.rows;
      if (i == chosen) {
        declare_chosen();
      } else {
        kinds[i].declare(*this);
      }
      rows_ = &section_.rows;
      section_.kinds.push_back(std::move(of_kind));
    }
  }

  Section& section_;
  std::vector<Row>* rows_;
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
    sections.push_back({.name = std::string(name), .description = std::string(description)});
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
    text += fmt::format("## {}\n\n{}\n\n{}", title, section.description, table_of(section.rows));
    for (const auto& [kind, description, rows] : section.kinds) {
      text += fmt::format("\n### {} with `{} = \"{}\"`\n\n{}\n", title, section.kind_key, kind,
                          rows.empty() ? description + "; no keys of its own" : description);
      if (!rows.empty()) text += "\n" + table_of(rows);
    }
  }
  return text;
}

std::string DeckReference::commented_deck(const Settings& settings) const {
  std::string text;
  std::size_t used = 0;
  const auto setting_of = [&](const Section& section, const std::string& key) {
    return std::ranges::find(settings, section.name + "." + key, &Settings::value_type::first);
  };
  for (const auto& section : state_->sections) {
    text += fmt::format("\n[{}]  # {}\n", section.name, section.description);
    const auto named = setting_of(section, section.kind_key);
    for (const auto& row : rows_with(section, named == settings.end() ? "" : named->second)) {
      const auto set = setting_of(section, row.name);
      const bool is_set = set != settings.end();
      used += is_set ? 1 : 0;
      std::string notes = row.only_with.empty() ? row.doc : row.only_with + " only: " + row.doc;
      if (!row.unit.empty()) notes += fmt::format(" [{}]", row.unit);
      if (!row.range.empty()) notes += "; " + row.range;
      text += fmt::format(
          "{:<34}  # {}\n",
          fmt::format("{}{} = {}", is_set ? "" : "#", row.name, is_set ? set->second : row.value),
          notes);
    }
  }
  if (used != settings.size()) throw Error("a starting deck sets a key that does not exist");
  return text;
}

}  // namespace lockstep
