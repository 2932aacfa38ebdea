#pragma once
#include <concepts>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/deck/kinds.hpp>

namespace lockstep::nn {
struct NamedParameter;
}

namespace lockstep::optim {

class Optimizer;
struct ParameterGroup;

/// Optimizers by their names in decks. Made of the parameters and their groups.
using OptimizerKinds = Kinds<std::unique_ptr<Optimizer>(std::vector<nn::NamedParameter>,
                                                        const std::vector<ParameterGroup>&)>;

/// All values of `[optimizer] kind`: Lockstep's own, then those of register_optimizer.
[[nodiscard]] OptimizerKinds& optimizer_kinds();

/// The options of one of them: an SgdOptions, an AdamOptions ... By default SGD's.
using OptimizerKind = KindOf<optimizer_kinds>;

/// Adds `Algorithm`, which is made as Algorithm(parameters, options, groups). Its options declare
/// their keys, "lr" among them, which decks then have below `[optimizer]`.
template <class Algorithm, DeclaredOptions Options>
requires std::derived_from<Algorithm, Optimizer> && std::constructible_from < Algorithm,
    std::vector<nn::NamedParameter>,
const Options&, const std::vector<ParameterGroup>& >
                    void add_optimizer(OptimizerKinds& kinds, std::string name, std::string doc) {
  kinds.add<Options>(std::move(name), std::move(doc),
                     [](const Options& options, std::vector<nn::NamedParameter> parameters,
                        const std::vector<ParameterGroup>& groups) {
                       return std::make_unique<Algorithm>(std::move(parameters), options, groups);
                     });
}

/// Makes a user-defined optimizer known to decks, as `kind = "name"`, to make_optimizer and to
/// rpc::DistributedOptimizer:
///   optim::register_optimizer<Signum, SignumOptions>("signum", "steps along the sign");
/// Once a process, before a deck is read or options are used. `doc` is its line in the reference.
/// Throws Error if the name, or the options, are another kind's.
template <class Algorithm, DeclaredOptions Options>
void register_optimizer(std::string name, std::string doc) {
  add_optimizer<Algorithm, Options>(optimizer_kinds(), std::move(name), std::move(doc));
}

}  // namespace lockstep::optim
