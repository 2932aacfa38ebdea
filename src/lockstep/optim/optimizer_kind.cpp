#include <lockstep/optim/optimizer_kind.hpp>

#include <lockstep/optim/optimizer_list.hpp>

namespace lockstep::optim {
namespace {

struct OwnOptimizers : OptimizerKinds {
  OwnOptimizers() {
#define LOCKSTEP_ADD(name) add_##name(*this);
    LOCKSTEP_EACH_OPTIMIZER(LOCKSTEP_ADD)
#undef LOCKSTEP_ADD
  }
};

}  // namespace

OptimizerKinds& optimizer_kinds() {
  static OwnOptimizers kinds;
  return kinds;
}

}  // namespace lockstep::optim
