// Modules that live on another worker, against the same ones here.
#include <memory>
#include <vector>

#include <lockstep/autograd/functional.hpp>
#include <lockstep/comm/process_group.hpp>
#include <lockstep/nn/layers/linear.hpp>
#include <lockstep/optim/sgd.hpp>
#include <lockstep/rpc/distributed_optimizer.hpp>
#include <lockstep/rpc/remote_module.hpp>
#include <lockstep/rpc/rpc.hpp>
#include <rpc/workers.hpp>

namespace lockstep {
namespace {

/// A Linear(3, 2) whose numbers are known, behind another base class.
struct Named {
  virtual ~Named() = default;
  std::string name() const { return "net"; }
};
struct Net : Named, nn::Module {
  std::shared_ptr<nn::Linear> fc = register_module("fc", std::make_shared<nn::Linear>(3, 2));
  Variable forward(const Variable& x) override { return fc->forward(x); }
};
std::unique_ptr<Net> make_net(double weight) {
  auto net = std::make_unique<Net>();
  for (const Variable& parameter : net->parameters()) parameter.data().fill(weight);
  return net;
}
std::shared_ptr<Net> no_net() { return nullptr; }
LOCKSTEP_RPC(make_net);
LOCKSTEP_RPC(no_net);
LOCKSTEP_RPC(Named::name);

TEST(RemoteModules, ComputeWhereTheyLive) {
  test::on_workers([](ProcessGroup& group) {
    const int to = test::after(group);
    const rpc::RemoteModule net(to, make_net, 0.5);
    EXPECT_EQ(net.module_rref().owner().id, to);
    EXPECT_EQ(net.module_rref().rpc_sync(&Named::name), "net");
    const Variable x(Tensor::full({4, 3}, 2.0));
    const std::vector<float> expected(8, 3.5F);  // 3 * 0.5 * 2 + 0.5
    EXPECT_EQ(net.forward(x).data().to_vector<float>(), expected);
    EXPECT_EQ(net.forward_async(x).wait().data().to_vector<float>(), expected);
    const auto parameters = net.remote_parameters();
    ASSERT_EQ(parameters.size(), 2U);
    EXPECT_EQ(parameters[0].to_here().data().shape(), Shape({2, 3}));
    EXPECT_EQ(parameters[1].owner().id, to);
  });
}

TEST(RemoteModules, TrainByTheirParameters) {
  test::on_workers([](ProcessGroup& group) {
    const rpc::RemoteModule net(test::after(group), make_net, 0.5);
    rpc::DistributedOptimizer optimizer({.kind = optim::SgdOptions{.lr = 0.25}},
                                        net.remote_parameters());
    const Variable x(Tensor::full({1, 3}, 2.0));
    {
      const dist_autograd::Context context;
      dist_autograd::backward(context, {sum(net.forward(x))});
      optimizer.step(context);
    }
    // Weights 0.5 - 0.25 * 2 = 0, biases 0.5 - 0.25.
    EXPECT_EQ(net.forward(x).data().to_vector<float>(), (std::vector<float>{0.25F, 0.25F}));
  });
}

TEST(RemoteModules, ThatAreEmptyAreRefused) {
  test::on_workers([](ProcessGroup& group) {
    const rpc::RemoteModule net(test::after(group), no_net);
    const std::string said = test::thrown_by<rpc::RemoteError>([&] {
      static_cast<void>(net.forward(Variable(Tensor::zeros({1, 3}))));
    });
    EXPECT_NE(said.find("returned a null pointer"), std::string::npos) << said;
    const rpc::RemoteModule<Net> nothing{rpc::RRef<Net>()};
    EXPECT_THROW(static_cast<void>(nothing.remote_parameters()), Error);
  });
}

}  // namespace
}  // namespace lockstep
