#include <lockstep/optim/optimizer_options.hpp>

#include <fmt/format.h>

#include <optional>
#include <string_view>

#include <lockstep/base/error.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/optim/grouped_options.hpp>

namespace lockstep::optim {
namespace {

/// Throws unless list `key` has `wanted` elements.
void expect_length(const Deck& deck, const char* key, std::size_t count, std::size_t wanted,
                   std::string_view why) {
  if (count == wanted) return;
  throw InputError(fmt::format("{}: optimizer.{} has {} entries, but must have {}: {}.",
                               deck.where("optimizer", key), key, count, wanted, why));
}

}  // namespace

double OptimizerOptions::lr() const {
  std::optional<double> lr;
  OptimizerKind own = kind;
  visit_numbers([&](DeckTable& table) { own.declare_keys(table); },
                [&](std::string_view name, double& value) {
                  if (name == "lr") lr = value;
                });
  if (lr) return *lr;
  throw Error(
      fmt::format("the options of optimizer \"{}\" declare no key \"lr\", from which schedules "
                  "start. Declare it with their other keys.",
                  kind.name()));
}

void declare(DeckTable& table, OptimizerOptions& options) {
  declare_kind(table, options.kind, "update rule");
  table.key("clip_norm", options.clip_norm,
            {.doc = "clip the norm of all gradients together to this; 0: off", .min = 0.0});
  table.key("clip_value", options.clip_value,
            {.doc = "clip each element of a gradient to this absolute value; 0: off", .min = 0.0});
  table.key("group_pattern", options.group_pattern,
            {.doc = "parameter groups: name patterns such as [\"*.bias\", \"conv?.*\"]; the first "
                    "match counts"});
  table.key("group_lr_factor", options.group_lr_factor,
            {.doc = "factor of the learning rate in each group; empty: 1", .min = 0.0});
  table.key("group_weight_decay", options.group_weight_decay,
            {.doc = "weight decay in each group; empty: weight_decay", .min = 0.0});
}

OptimizerOptions read_optimizer_options(Deck& deck) {
  auto options = deck.read<OptimizerOptions>("optimizer");
  if (options.clip_norm > 0.0 && options.clip_value > 0.0) {
    throw InputError(fmt::format(
        "{}: optimizer.clip_norm and optimizer.clip_value (set at {}) clip the same gradients "
        "twice. Keep one of them.",
        deck.where("optimizer", "clip_norm"), deck.where("optimizer", "clip_value")));
  }
  const std::size_t groups = options.group_pattern.size();
  const auto expect_parallel = [&](const char* key, const std::vector<double>& list) {
    if (!list.empty())
      expect_length(deck, key, list.size(), groups, "one for each pattern in group_pattern");
  };
  expect_parallel("group_lr_factor", options.group_lr_factor);
  expect_parallel("group_weight_decay", options.group_weight_decay);
  return options;
}

}  // namespace lockstep::optim
