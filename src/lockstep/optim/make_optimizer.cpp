#include <lockstep/optim/make_optimizer.hpp>

#include <utility>

#include <lockstep/base/error.hpp>

namespace lockstep::optim {

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options,
                                          std::vector<nn::NamedParameter> parameters) {
  switch (options.kind) {
    case OptimizerOptions::Kind::sgd:
      return std::make_unique<SGD>(std::move(parameters), options.sgd);
  }
  throw Error("make_optimizer: this kind of optimizer is not known");
}

}  // namespace lockstep::optim
