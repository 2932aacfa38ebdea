#include <lockstep/parallel/gradient_sum.hpp>

#include <lockstep/base/error.hpp>

namespace lockstep {

double GradientSum::loss() const {
  throw Error("the loss of the whole batch is summed only with DdpOptions::shards");
}

}  // namespace lockstep
