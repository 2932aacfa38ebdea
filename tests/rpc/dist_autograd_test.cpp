// Backward passes through calls, against the same model on one rank: the same bits.
#include <chrono>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <lockstep/autograd/functional.hpp>
#include <lockstep/autograd/node.hpp>
#include <lockstep/rpc/agent.hpp>
#include <lockstep/rpc/autograd_context.hpp>
#include <lockstep/rpc/dist_autograd.hpp>
#include <parallel/small_models.hpp>
#include <rpc/workers.hpp>

namespace lockstep {
namespace {

namespace da = dist_autograd;
using rpc::RRef;
using test::wave;
using Values = std::vector<double>;

Values of(const Tensor& t) { return t.defined() ? t.to_vector<double>() : Values(); }

/// Keeps a result for later.
struct Shelf {
  void keep(const Variable& y) { kept = y; }
  Variable kept;
};
LOCKSTEP_RPC_AS("autograd keep", Shelf::keep);

/// y = tanh(x W^T), wherever it is.
struct Layer {
  explicit Layer(double phase) : weight(wave({4, 4}, phase), true) {}
  Variable forward(const Variable& x) { return tanh(linear(x, weight, Variable())); }
  Tensor gradient(std::uint64_t context) { return da::gradient(context, weight); }
  /// 2 W, for the caller and for the shelf.
  Variable doubled(const RRef<Shelf>& shelf) {
    const Variable y = mul(weight, 2.0);
    shelf.rpc_sync(&Shelf::keep, y);
    return y;
  }
  Variable weight;
};
std::unique_ptr<Layer> make_layer(double phase) { return std::make_unique<Layer>(phase); }
LOCKSTEP_RPC_AS("autograd make_layer", make_layer);
LOCKSTEP_RPC(Layer::forward);
LOCKSTEP_RPC(Layer::gradient);
LOCKSTEP_RPC_AS("autograd doubled", Layer::doubled);

/// Through layers here and there, one after the other: every call is made within the one before.
Variable through(const std::vector<RRef<Layer>>& layers, std::size_t from, const Variable& x) {
  if (from == layers.size()) return x;
  if (layers[from].is_owner())
    return through(layers, from + 1, layers[from].local_value().forward(x));
  return rpc::rpc_sync(layers[from].owner().id, through, layers, from, x);
}
LOCKSTEP_RPC(through);

Variable scaled(const Variable& x, double factor) { return mul(x, factor); }
std::vector<Variable> halves(const Variable& x) { return {mul(x, 0.5), mul(x, 0.25)}; }
void look_at(const Variable& x) { static_cast<void>(mul(x, 2.0)); }
/// Returns 6 x. The third worker uses y = 3 x without a gradient, so the gradient awaited from
/// there never arrives.
Variable looks_elsewhere(const Variable& x, int third) {
  const Variable y = mul(x, 3.0);
  rpc::rpc_sync(third, look_at, y);
  return mul(y, 2.0);
}
/// Begins a pass where it is called.
void differentiates(const Variable& x) {
  const Variable loss = sum(x);
  da::backward(da::current_context(), std::span(&loss, 1));
}
bool needs_gradient(const Variable& x) { return x.requires_grad(); }
struct BrokenNode : PooledNode<BrokenNode> {
  void backward(const Tensor&) override { throw Error("no gradient today"); }
  [[nodiscard]] const char* name() const noexcept override { return "broken"; }
};
Variable broken(const Variable& x) { return record<BrokenNode>(x.data().clone(), {&x}); }
/// What it returns has been differentiated there, and its graph freed.
Variable used_up(const Variable& x) {
  const Variable y = mul(x, 3.0);
  sum(y).backward();
  return y;
}
/// What comes back is of no use there.
void asks_to_double(const RRef<Layer>& layer, const RRef<Shelf>& shelf) {
  layer.rpc_sync(&Layer::doubled, shelf);
}
struct Unwritable {
  template <class Archive>
  void serialize(Archive& /*archive*/) {
    throw Error("this is not to be written");
  }
};
void takes_unwritable(const Unwritable& /*one*/) {}
LOCKSTEP_RPC_AS("autograd scaled", scaled);
LOCKSTEP_RPC_AS("autograd halves", halves);
LOCKSTEP_RPC_AS("autograd look_at", look_at);
LOCKSTEP_RPC_AS("autograd looks_elsewhere", looks_elsewhere);
LOCKSTEP_RPC_AS("autograd differentiates", differentiates);
LOCKSTEP_RPC_AS("autograd needs_gradient", needs_gradient);
LOCKSTEP_RPC_AS("autograd broken", broken);
LOCKSTEP_RPC_AS("autograd used_up", used_up);
LOCKSTEP_RPC_AS("autograd asks_to_double", asks_to_double);
LOCKSTEP_RPC_AS("autograd takes_unwritable", takes_unwritable);

Variable input() { return Variable(wave({3, 4}, 0.3), true); }

/// All contexts have ended on all ranks, or soon have.
void expect_no_context_left() {
  const auto start = Clock::now();
  while (da::context_count() > 0 && seconds_since(start) < 30.0)
    rpc::serve(std::chrono::milliseconds(1));
  EXPECT_EQ(da::context_count(), 0U);
}

TEST(DistAutograd, OfARemoteLayerHasTheBitsOfALocalOne) {
  test::on_workers_of_both_kinds([](ProcessGroup& group) {
    const auto remote = rpc::remote(test::after(group), make_layer, 0.7);
    Layer local(0.7);
    const Variable x = input(), y = input();
    sum(local.forward(y)).backward();
    for (int step = 0; step < 3; ++step) {
      const da::Context context;
      const Variable loss = sum(remote.rpc_sync(&Layer::forward, x));
      da::backward(context, {loss});
      EXPECT_EQ(of(remote.rpc_sync(&Layer::gradient, context.id())), of(local.weight.grad()));
      EXPECT_EQ(of(da::gradient(context, x)), of(y.grad()));
      EXPECT_FALSE(x.grad().defined()) << "the leaf's own gradient is not touched";
    }
  });
}

TEST(DistAutograd, ContextsEndOnAllRanks) {
  test::on_workers([](ProcessGroup& group) {
    std::vector<RRef<Layer>> layers;
    for (int i = 1; i <= 3; ++i)
      layers.push_back(rpc::remote((group.rank() + i) % group.size(), make_layer, 0.1 * i));
    for (int step = 0; step < 10; ++step) {
      const da::Context context;
      const Variable loss = sum(through(layers, 0, input()));
      if (step % 2 == 0) da::backward(context, {loss});
    }
    group.barrier();
    expect_no_context_left();
  });
}

TEST(DistAutograd, GoesThroughNestedCallsThatComeBackToTheirCaller) {
  test::on_workers_of_both_kinds([](ProcessGroup& group) {
    const int here = group.rank(), there = test::after(group), size = group.size();
    std::vector<RRef<Layer>> layers;
    std::vector<std::unique_ptr<Layer>> local;
    int place = 0;
    for (const int owner : {there, here, (there + 1) % size, there, here}) {
      layers.push_back(rpc::remote(owner, make_layer, 0.1 * place));
      local.push_back(std::make_unique<Layer>(0.1 * place++));
    }
    const Variable x = input(), y = input();
    Variable expected = y;
    for (const auto& layer : local) expected = layer->forward(expected);
    sum(expected).backward();

    const da::Context context;
    da::backward(context, {sum(through(layers, 0, x))});
    EXPECT_EQ(of(da::gradient(context, x)), of(y.grad()));
    for (std::size_t i = 0; i < layers.size(); ++i) {
      EXPECT_EQ(of(layers[i].rpc_sync(&Layer::gradient, context.id())), of(local[i]->weight.grad()))
          << "layer " << i;
    }
  });
}

TEST(DistAutograd, SumsGradientsOfSeveralCallsAndLosses) {
  test::on_workers_of_both_kinds([](ProcessGroup& group) {
    const int there = test::after(group);
    const Variable x = input();
    const Variable shared = mul(x, 3.0);
    const da::Context context;
    const auto parts = rpc::rpc_sync(there, halves, shared);
    const Variable more = rpc::rpc_sync(there, scaled, shared, 8.0);
    const Variable once_more = rpc::rpc_sync(there, scaled, parts[0], 2.0);
    da::backward(context, {sum(add(parts[0], parts[1])), sum(more), sum(once_more), sum(shared)});
    // 3 (0.5 + 0.25 + 8 + 0.5 * 2 + 1)
    EXPECT_EQ(of(da::gradient(context, x)), Values(12, 32.25));
  });
}

TEST(DistAutograd, SeveralContextsShareParametersAndKeepTheirGradientsApart) {
  test::on_workers([](ProcessGroup& group) {
    const auto remote = rpc::remote(test::after(group), make_layer, 0.7);
    std::vector<std::thread> threads;
    auto& agent = rpc::Agent::current();
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&, t] {
        const rpc::WorksFor works(agent);
        Layer local(0.7);
        const Tensor batch = wave({3, 4}, t);
        const Variable y(batch, true);
        sum(local.forward(y)).backward();
        for (int step = 0; step < 20; ++step) {
          const Variable x(batch, true);
          const da::Context context;
          da::backward(context, {sum(remote.rpc_sync(&Layer::forward, x))});
          EXPECT_EQ(of(remote.rpc_sync(&Layer::gradient, context.id())), of(local.weight.grad()));
          EXPECT_EQ(of(da::gradient(context, x)), of(y.grad()));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
}

TEST(DistAutograd, ASecondPassAddsToTheContextsGradients) {
  test::on_workers_of_both_kinds([](ProcessGroup& group) {
    const Variable x = input();
    const da::Context context;
    const Variable loss = sum(rpc::rpc_sync(test::after(group), scaled, x, 5.0));
    da::backward(context, {loss});
    da::backward(context, {loss});
    EXPECT_EQ(of(da::gradient(context, x)), Values(12, 10.0));
  });
}

TEST(DistAutograd, PathsWithoutGradientsAreNotWaitedFor) {
  test::on_workers_of_both_kinds([](ProcessGroup& group) {
    const int there = test::after(group);
    const Variable x = input();
    const da::Context context;
    const Variable shared = mul(x, 2.0);
    const Variable unused = rpc::rpc_sync(there, scaled, shared, 100.0);
    rpc::rpc_sync(there, look_at, shared);  // returns nothing that could be differentiated
    const auto parts = rpc::rpc_sync(there, halves, shared);
    da::backward(context, {sum(parts[1])});
    EXPECT_EQ(of(da::gradient(context, x)), Values(12, 0.5));
    EXPECT_EQ(da::gradient(context, unused).defined(), false);
  });
}

TEST(DistAutograd, GradientsThatArriveAfterTheLastAwaitedOneCount) {
  test::on_workers_of_both_kinds([](ProcessGroup& group) {
    const int there = test::after(group), third = (there + 1) % group.size();
    const Variable x = input();
    const da::Context context;
    const Variable near = rpc::rpc_sync(there, looks_elsewhere, mul(x, 5.0), third);
    const Variable far = rpc::rpc_sync(there, looks_elsewhere, near, third);
    da::backward(context, {sum(far)});
    EXPECT_EQ(of(da::gradient(context, x)), Values(12, 180.0));
    da::backward(context, {sum(far)});
    EXPECT_EQ(of(da::gradient(context, x)), Values(12, 360.0));
  });
}

TEST(DistAutograd, OutsideOfContextsAndWithoutGradientsValuesTravelAlone) {
  test::on_workers_of_both_kinds([](ProcessGroup& group) {
    const int there = test::after(group);
    const Variable x = input();
    EXPECT_EQ(da::current_context(), 0U);
    EXPECT_FALSE(rpc::rpc_sync(there, needs_gradient, x));
    EXPECT_FALSE(rpc::rpc_sync(there, scaled, x, 2.0).requires_grad());
    const da::Context context;
    EXPECT_EQ(da::current_context(), context.id());
    EXPECT_TRUE(rpc::rpc_sync(there, needs_gradient, x));
    EXPECT_FALSE(rpc::rpc_sync(there, needs_gradient, Variable(x.data())));
    {
      const da::Context inner;
      EXPECT_EQ(da::current_context(), inner.id());
    }
    EXPECT_EQ(da::current_context(), context.id());
    const NoGradGuard off;
    EXPECT_FALSE(rpc::rpc_sync(there, needs_gradient, x));
  });
}

TEST(DistAutograd, AnErrorInTheMiddleReachesTheCallerAndTheContextStillEnds) {
  test::on_workers_of_both_kinds([](ProcessGroup& group) {
    const int there = test::after(group);
    {
      const da::Context context;
      const Variable x = input();
      const Variable loss = sum(rpc::rpc_sync(there, scaled, rpc::rpc_sync(there, broken, x), 2.0));
      const auto message = test::thrown_by<Error>([&] { da::backward(context, {loss}); });
      EXPECT_NE(message.find("no gradient today"), std::string::npos) << message;
    }
    const da::Context next;
    const Variable x = input();
    da::backward(next, {sum(rpc::rpc_sync(there, scaled, x, 2.0))});
    EXPECT_EQ(of(da::gradient(next, x)), Values(12, 2.0));
    EXPECT_NE(test::thrown_by<Error>([&] { da::backward(next, {x}); }), "");
    EXPECT_NE(test::thrown_by<Error>([&] { da::backward(next, {Variable()}); }), "");
    EXPECT_NE(test::thrown_by<Error>([&] { da::backward(next.id() + 1, {}); }), "");
  });
}

TEST(DistAutograd, AnErrorReachesTheCallerEvenIfAnotherCallOfThatRankFollows) {
  test::on_workers_of_both_kinds([](ProcessGroup& group) {
    const int there = test::after(group);
    const Variable x = input();
    using Case = std::pair<Variable (*)(const Variable&), const char*>;
    for (const auto& [fails, says] :
         {Case(broken, "no gradient today"), Case(used_up, "a second time")}) {
      const da::Context context;
      const Variable first = rpc::rpc_sync(there, fails, x);
      const Variable second = rpc::rpc_sync(there, scaled, x, 2.0);
      for (int pass = 0; pass < 2; ++pass) {
        const auto message = test::thrown_by<Error>([&] {
          da::backward(context, {sum(first), sum(second)});
        });
        EXPECT_NE(message.find(says), std::string::npos) << message;
      }
    }
    const da::Context next;
    da::backward(next, {sum(rpc::rpc_sync(there, scaled, x, 2.0))});
    EXPECT_EQ(of(da::gradient(next, x)), Values(12, 2.0));
  });
}

TEST(DistAutograd, TheEndOfAPassCrossesRanksThatItHasNotReached) {
  test::on_workers_of_both_kinds([](ProcessGroup& group) {
    const int there = test::after(group), third = (there + 1) % group.size();
    const auto layer = rpc::remote(third, make_layer, 0.7);
    const RRef<Shelf> shelf(Shelf{});
    const da::Context context;
    rpc::rpc_sync(there, asks_to_double, layer, shelf);
    for (const double gradient : {2.0, 4.0}) {
      da::backward(context, {sum(shelf.local_value().kept)});
      EXPECT_EQ(of(layer.rpc_sync(&Layer::gradient, context.id())), Values(16, gradient));
    }
  });
}

TEST(DistAutograd, TheEndOfAPassReachesCallersOfItsFirstRank) {
  test::on_workers_of_both_kinds([](ProcessGroup& group) {
    const int there = test::after(group), third = (there + 1) % group.size();
    const Variable x = input();
    const da::Context context;
    const Variable y = mul(x, 2.0);
    rpc::rpc_sync(third, look_at, y);  // whose gradient does not come
    rpc::rpc_sync(there, differentiates, y);
    EXPECT_EQ(of(da::gradient(context, x)), Values(12, 2.0));
  });
}

TEST(DistAutograd, FurtherGradientsOfAMessageAreAddedToUnsentOnes) {
  da::ContextPart part(1);
  const Variable x = part.add_received(1, 0, Tensor::full({2}, 1.0, DType::f64));
  const Variable y = mul(x, 2.0), awaited_in_vain = mul(x, 3.0);
  part.add_sent(1, y);
  part.add_sent(2, awaited_in_vain);
  const da::Gradients ones{1, {Tensor::full({2}, 1.0, DType::f64)}};
  EXPECT_TRUE(part.take(7, ones).waits);
  const da::Progress progress = part.take(7, ones);
  EXPECT_FALSE(progress.waits);
  ASSERT_EQ(progress.outgoing.size(), 1U);
  EXPECT_EQ(of(progress.outgoing[0].gradients.values.at(0)), Values(2, 4.0));
}

TEST(DistAutograd, LateGradientsOfAnAbandonedPassDoNotAffectANewerOne) {
  da::ContextPart part(1);
  const Variable x = part.add_received(1, 0, Tensor::full({2}, 1.0, DType::f64));
  part.add_sent(1, mul(x, 2.0));
  part.add_sent(2, mul(x, 3.0));
  const auto ones = [](std::uint64_t message) {
    return da::Gradients{message, {Tensor::full({2}, 1.0, DType::f64)}};
  };
  EXPECT_TRUE(part.take(7, ones(1)).waits);  // and what is awaited does not come
  EXPECT_TRUE(part.take(8, ones(1)).waits);
  EXPECT_NE(test::thrown_by<Error>([&] {
              static_cast<void>(part.take(7, ones(2)));
            }).find("arrived late"),
            std::string::npos);
  EXPECT_FALSE(part.finish(7));
  const da::Progress progress = part.take(8, ones(2));
  EXPECT_FALSE(progress.waits);
  ASSERT_EQ(progress.outgoing.size(), 1U);
  EXPECT_EQ(of(progress.outgoing[0].gradients.values.at(0)), Values(2, 5.0));
}

TEST(DistAutograd, ACallThatCannotBeWrittenLeavesNothingToWaitFor) {
  test::on_workers_of_both_kinds([](ProcessGroup& group) {
    const int there = test::after(group), third = (there + 1) % group.size();
    const Variable x = input();
    const da::Context context;
    EXPECT_NE(test::thrown_by<Error>([&] { rpc::rpc_sync(third, takes_unwritable, Unwritable{}); }),
              "");
    const Variable y = mul(x, 2.0);
    rpc::rpc_sync(there, look_at, y);
    da::backward(context, {sum(y)});
    EXPECT_EQ(of(da::gradient(context, x)), Values(12, 2.0));
  });
}

TEST(DistAutograd, OutlivedByAVariableNamesTheMissingContext) {
  test::on_workers([](ProcessGroup& group) {
    Variable y;
    {
      const da::Context context;
      y = rpc::rpc_sync(test::after(group), scaled, input(), 2.0);
    }
    const auto message = test::thrown_by<Error>([&] { sum(y).backward(); });
    EXPECT_NE(message.find("in a context that has ended"), std::string::npos) << message;
  });
}

/// Makes another call when the context of its own has ended here.
Variable outlives_its_context(const Variable& x, int third) {
  const auto lives = [] {
    return da::Contexts::of(rpc::Agent::current()).find(da::current_context()) != nullptr;
  };
  const auto start = Clock::now();
  while (lives() && seconds_since(start) < 30.0)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return rpc::rpc_sync(third, scaled, x, 2.0);
}
LOCKSTEP_RPC_AS("autograd outlives_its_context", outlives_its_context);

TEST(DistAutograd, ACallThatOutlivesItsContextDoesNotMakeItAnew) {
  test::on_workers(
      [](ProcessGroup& group) {
        const int callee = test::after(group), third = (callee + 1) % group.size();
        rpc::Future<Variable> late;
        {
          const da::Context context;
          late = rpc::rpc_async(callee, outlives_its_context, input(), third);
        }
        const Variable y = late.wait();
        EXPECT_FALSE(y.requires_grad());
        EXPECT_EQ(of(y.data()), of(mul(input(), 2.0).data()));
        group.barrier();
        expect_no_context_left();
      },
      {.workers = 4});
}

/// Its backward takes until no context is left here.
struct SlowNode : PooledNode<SlowNode> {
  void backward(const Tensor& gradient) override {
    const auto start = Clock::now();
    while (da::context_count() > 0 && seconds_since(start) < 30.0)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    pass_grad(0, gradient);
  }
  [[nodiscard]] const char* name() const noexcept override { return "slow"; }
};
std::mutex thrown_access;
std::string thrown_there;
/// A pass of Variable::backward, which has come to what was sent when its context ends.
void differentiates_slowly(const Variable& /*first*/, const Variable& x) {
  const Variable leaf(wave({3, 4}, 0.1), true);
  Variable slow;  // older than x for the pass, which so comes to it later
  std::thread([&] { slow = record<SlowNode>(leaf.data().clone(), {&leaf}); }).join();
  const Variable loss = sum(add(slow, x));
  std::string thrown = test::thrown_by<Error>([&] { loss.backward(); });
  const std::lock_guard lock(thrown_access);
  thrown_there = thrown.empty() ? "nothing" : std::move(thrown);
}
LOCKSTEP_RPC_AS("autograd differentiates_slowly", differentiates_slowly);

TEST(DistAutograd, ACallerThatGaveUpEndsTheCalleesPassWithAnError) {
  test::on_workers(
      [](ProcessGroup& group) {
        const int callee = 1 % group.size();
        if (group.rank() == callee) {
          const std::lock_guard lock(thrown_access);
          thrown_there.clear();
        }
        group.barrier();
        if (group.rank() == 0) {
          const da::Context context;
          const Variable x = mul(input(), 2.0), y = mul(x, 2.0);
          EXPECT_THROW(rpc::rpc_sync(rpc::To(callee).within(std::chrono::milliseconds(200)),
                                     differentiates_slowly, x, y),
                       TimeoutError);
          // The callee's deadline passes a little later, and is to have passed when the context
          // ends.
          std::this_thread::sleep_for(std::chrono::milliseconds(500));
        }
        if (group.rank() == callee) {
          const auto thrown = [] {
            const std::lock_guard lock(thrown_access);
            return thrown_there;
          };
          const auto start = Clock::now();
          while (thrown().empty() && seconds_since(start) < 30.0)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
          EXPECT_NE(thrown().find("after the deadline of the call that it serves"),
                    std::string::npos)
              << thrown();
        }
        group.barrier();
      },
      {.workers = 4});
}

}  // namespace
}  // namespace lockstep
