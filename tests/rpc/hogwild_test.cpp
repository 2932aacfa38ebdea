// Trainers on all ranks that train one model at a time: reads and updates of parameters meet by
// design, so that ThreadSanitizer has nothing to say about it.
#include <algorithm>

#include <lockstep/optim/sgd.hpp>
#include <rpc/affine.hpp>
#include <rpc/workers.hpp>

namespace lockstep {
namespace {

using rpc::RRef;
using rpc::Updates;
using test::Affine;
namespace da = dist_autograd;

/// Rank 0's, which all train.
RRef<Affine>& model_of_all() {
  static RRef<Affine> model;
  return model;
}
RRef<Affine> shared_model() { return model_of_all(); }
LOCKSTEP_RPC(shared_model);

TEST(Hogwild, TrainersOnAllRanksLearnTogetherAsWithLockedUpdates) {
  for (const Updates updates : {Updates::locked, Updates::hogwild}) {
    test::on_workers([&](ProcessGroup& group) {
      if (group.rank() == 0) model_of_all() = rpc::remote(0, test::make_affine, 0.5);
      group.barrier();
      {
        const RRef<Affine> model = rpc::rpc_sync(0, shared_model);
        rpc::DistributedOptimizer optimizer({.kind = optim::SgdOptions{.lr = 0.05}},
                                            model.rpc_sync(&Affine::parameters_here), updates);
        double first = 0, last = 0;
        for (int step = 0; step < 60; ++step) {
          const da::Context context;
          const Variable loss =
              test::loss_of(model.rpc_sync(&Affine::forward, test::input(step % 3)));
          da::backward(context, {loss});
          optimizer.step(context);
          last = loss.data().item();
          if (step == 0) first = last;
        }
        EXPECT_LT(last, 0.2 * std::max(first, 0.05));
      }
      group.barrier();
      if (group.rank() == 0) model_of_all() = {};
    });
  }
}

}  // namespace
}  // namespace lockstep
