#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include <lockstep/optim/optimizer.hpp>
#include <lockstep/optim/sgd.hpp>

namespace lockstep {
class DeckTable;
}

namespace lockstep::optim {

/// Which optimizer, and its hyper-parameters.
struct OptimizerOptions {
  enum class Kind : std::uint8_t { sgd };
  Kind kind = Kind::sgd;
  SgdOptions sgd;
};
void declare(DeckTable& table, SgdOptions& options);
void declare(DeckTable& table, OptimizerOptions& options);

/// The optimizer that `options` names, over `parameters` (model.named_parameters()).
/// Throws InputError if the options do not fit together.
[[nodiscard]] std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options,
                                                        std::vector<nn::NamedParameter> parameters);

}  // namespace lockstep::optim
