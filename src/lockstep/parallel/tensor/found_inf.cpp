#include <lockstep/parallel/tensor/found_inf.hpp>

#include <lockstep/base/error.hpp>
#include <lockstep/comm/call_label.hpp>
#include <lockstep/optim/grad_scaler.hpp>

namespace lockstep {

void agree_on_found_inf(optim::GradScaler& scaler, const optim::Optimizer& optimizer,
                        const GroupPtr& group) {
  if (!group) throw InputError("agree_on_found_inf needs a group, not a null pointer.");
  const CallLabel label("found_inf");
  group->all_reduce(scaler.found_inf(optimizer), ReduceOp::max).wait();
}

}  // namespace lockstep
