#pragma once
#include <string>
#include <vector>

#include <lockstep/optim/optimizer_kind.hpp>

namespace lockstep::optim {

/// The deck's [optimizer] table: an optimizer of one kind, and the options of all kinds.
///   optim::make_optimizer({.kind = optim::AdamWOptions{.lr = 1e-3}, .clip_norm = 1.0}, parameters)
struct OptimizerOptions {
  OptimizerKind kind;       ///< SgdOptions, AdamOptions ... or a user-defined optimizer's options
  double clip_norm = 0.0;   ///< largest norm of all gradients together; 0: no limit
  double clip_value = 0.0;  ///< largest size of a gradient's element; 0: no limit
  /// Parameter groups, an entry a group; the other lists are as long, or empty for the optimizer's
  /// own values.
  std::vector<std::string> group_pattern;
  std::vector<double> group_lr_factor;
  std::vector<double> group_weight_decay;

  /// The kind's learning rate. Throws Error for a user-defined kind whose options declare none.
  [[nodiscard]] double lr() const;
};
/// The key `kind`, the keys of that kind, and the common keys.
void declare(DeckTable& table, OptimizerOptions& options);

/// Reads [optimizer]. Throws InputError, with file and line; also if the lengths of lists disagree.
[[nodiscard]] OptimizerOptions read_optimizer_options(Deck& deck);

}  // namespace lockstep::optim
