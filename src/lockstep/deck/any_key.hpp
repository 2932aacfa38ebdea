#pragma once
#include <lockstep/deck/deck.hpp>

namespace lockstep::detail {

/// A DeckTable that treats keys of all types alike: every key(name, field, info) calls
/// Table::any_key(name, field, info), a template over the field's type.
template <class Table>
class AnyKey : public DeckTable {
 public:
  void key(std::string_view name, bool& field, const KeyInfo& info) override {
    table().any_key(name, field, info);
  }
  void key(std::string_view name, std::int64_t& field, const KeyInfo& info) override {
    table().any_key(name, field, info);
  }
  void key(std::string_view name, double& field, const KeyInfo& info) override {
    table().any_key(name, field, info);
  }
  void key(std::string_view name, std::string& field, const KeyInfo& info) override {
    table().any_key(name, field, info);
  }
  void key(std::string_view name, std::vector<std::int64_t>& field, const KeyInfo& info) override {
    table().any_key(name, field, info);
  }
  void key(std::string_view name, std::vector<double>& field, const KeyInfo& info) override {
    table().any_key(name, field, info);
  }
  void key(std::string_view name, std::vector<std::string>& field, const KeyInfo& info) override {
    table().any_key(name, field, info);
  }

 private:
  friend Table;
  AnyKey() = default;
  Table& table() { return static_cast<Table&>(*this); }
};

}  // namespace lockstep::detail
