// Backward passes that go through calls and through a DistributedDataParallel, against the same
// model on one rank.
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include <lockstep/autograd/functional.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/comm/duplicate_group.hpp>
#include <lockstep/nn/module.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>
#include <lockstep/rpc/dist_autograd.hpp>
#include <lockstep/rpc/rpc.hpp>
#include <lockstep/tensor/kernels/elementwise/elementwise.hpp>
#include <parallel/small_models.hpp>
#include <rpc/workers.hpp>

namespace lockstep {
namespace {

namespace da = dist_autograd;
using test::wave;

/// y = tanh(x W^T); at one rank, or a replica at each.
struct Part : nn::Module {
  explicit Part(double phase) : weight(register_parameter("weight", wave({4, 4}, phase))) {}
  Variable forward(const Variable& x) override { return tanh(linear(x, weight, Variable())); }
  Variable weight;
};
/// The part that is on rank 0 alone.
struct Remote {
  Variable forward(const Variable& x) { return part.forward(x); }
  Tensor gradient(std::uint64_t context) { return da::gradient(context, part.weight); }
  Part part{0.3};
};
std::unique_ptr<Remote> make_remote() { return std::make_unique<Remote>(); }
LOCKSTEP_RPC_AS("data parallel make_remote", make_remote);
LOCKSTEP_RPC_AS("data parallel forward", Remote::forward);
LOCKSTEP_RPC_AS("data parallel gradient", Remote::gradient);

/// Of the replicated part and of the remote one, by this rank's samples, on one rank alone.
struct Reference {
  Tensor replicated, remote;
};
Reference reference(int rank, bool remote_first, double factor = 1.0) {
  Part replica(0.9), other(0.3);
  const Variable x(wave({3, 4}, rank), true);
  const Variable y =
      remote_first ? replica.forward(other.forward(x)) : other.forward(replica.forward(x));
  sum(y).backward(factor);
  return {replica.weight.grad(), other.weight.grad()};
}
double share_of(int rank) { return 0.25 + 0.5 * rank; }

void expect_near(const Tensor& actual, const Tensor& expected, const std::string& what) {
  ASSERT_TRUE(actual.defined()) << what;
  const auto a = actual.to_vector<double>(), e = expected.to_vector<double>();
  for (std::size_t i = 0; i < e.size(); ++i) ASSERT_NEAR(a[i], e[i], 1e-14) << what;
}
/// The sum over ranks of factor(rank) x the replicated part's gradient.
template <class F>
Tensor over_ranks(int ranks, bool remote_first, const F& factor) {
  const Tensor sum = Tensor::zeros({4, 4}, DType::f64);
  for (int r = 0; r < ranks; ++r) add_scaled(reference(r, remote_first).replicated, factor(r), sum);
  return sum;
}

/// body(ddp, remote) on each rank; all meet before the workers end.
template <class Body>
void on_trainers(const Body& body) {
  test::on_workers(
      [&](ProcessGroup& group) {
        const auto same_work = duplicate_of(group);
        const auto remote = rpc::remote(0, make_remote);
        {
          DistributedDataParallel ddp(std::make_shared<Part>(0.9), same_work);
          body(ddp, remote);
        }
        same_work->barrier();
      },
      {.workers = 4});
}
const Variable& weight_of(const DistributedDataParallel& ddp) {
  return dynamic_cast<Part&>(ddp.module()).weight;
}

TEST(DataParallelContext, HasTheMeanOverTheRanksWhicheverPartComesFirst) {
  on_trainers([](DistributedDataParallel& ddp, const rpc::RRef<Remote>& remote) {
    const int rank = ddp.group().rank(), ranks = ddp.group().size();
    for (const bool remote_first : {true, false}) {
      const da::Context context;
      const Tensor mean = over_ranks(ranks, remote_first, [&](int) { return 1.0 / ranks; });
      const Tensor twice = mean.clone();
      add_scaled(mean, 1.0, twice);
      for (const Tensor& expected : {mean, twice}) {  // a second pass adds up
        const Variable x(wave({3, 4}, rank), true);
        const Variable y = remote_first ? ddp.forward(remote.rpc_sync(&Remote::forward, x))
                                        : remote.rpc_sync(&Remote::forward, ddp.forward(x));
        da::backward(context, {sum(y)});
        expect_near(da::gradient(context, weight_of(ddp)), expected, "of the replicated part");
      }
      EXPECT_FALSE(weight_of(ddp).grad().defined()) << "the context has it";
      const Reference own = reference(rank, remote_first, 2.0);
      expect_near(remote.rpc_sync(&Remote::gradient, context.id()), own.remote, "elsewhere");
    }
  });
}

TEST(DataParallelContext, IsFilledByAPassOfBackwardWithAndWithoutAWeight) {
  on_trainers([](DistributedDataParallel& ddp, const rpc::RRef<Remote>& remote) {
    const int rank = ddp.group().rank(), ranks = ddp.group().size();
    for (const bool weighted : {true, false}) {
      const da::Context context;
      const Variable x(wave({3, 4}, rank));
      const Variable loss = sum(ddp.forward(remote.rpc_sync(&Remote::forward, x)));
      ddp.zero_grad();
      weighted ? ddp.backward(loss, share_of(rank)) : loss.backward();
      expect_near(
          weight_of(ddp).grad(),
          over_ranks(ranks, true, [&](int r) { return weighted ? share_of(r) : 1.0 / ranks; }),
          "of the replicated part");
      const Reference own = reference(rank, true, weighted ? share_of(rank) : 1.0);
      expect_near(remote.rpc_sync(&Remote::gradient, context.id()), own.remote, "elsewhere");
    }
  });
}

TEST(DataParallelContext, WeightsCountOnceWhereTheReplicatedPartComesFirst) {
  on_trainers([](DistributedDataParallel& ddp, const rpc::RRef<Remote>& remote) {
    const int rank = ddp.group().rank(), ranks = ddp.group().size();
    const da::Context context;
    const Variable x(wave({3, 4}, rank), true);
    for (int passes = 1; passes <= 3; ++passes) {
      int bodies = 0;
      ddp.for_each_shard([&](std::int64_t) {  // which counts the sums over ranks
        ++bodies;
        ddp.backward(sum(remote.rpc_sync(&Remote::forward, ddp.forward(x))), share_of(rank));
      });
      EXPECT_EQ(bodies, 1);
      expect_near(da::gradient(context, weight_of(ddp)),
                  over_ranks(ranks, false, [&](int r) { return passes * share_of(r); }),
                  "of the replicated part");
      const Reference own = reference(rank, false, passes * share_of(rank));
      expect_near(remote.rpc_sync(&Remote::gradient, context.id()), own.remote, "elsewhere");
    }
  });
}

// The rule of DistributedDataParallel, in plain numbers.
TEST(DataParallelContext, AveragesUnweightedAndSumsWeightedPassesInAnyOrder) {
  enum class Pass : std::uint8_t { mean, weighted, local, weighted_local };
  constexpr Pass kinds[] = {Pass::mean, Pass::weighted, Pass::local, Pass::weighted_local};
  on_trainers([&](DistributedDataParallel& ddp, const rpc::RRef<Remote>& remote) {
    const int rank = ddp.group().rank(), ranks = ddp.group().size();
    const Variable x(wave({3, 4}, rank), true);
    for (const Pass first : kinds) {
      for (const Pass second : kinds) {
        for (const Pass last : {Pass::mean, Pass::weighted}) {
          const da::Context context;
          double equal = 0, weighted = 0;  // this rank's gradients, in so many shares of each kind
          Tensor expected = Tensor::zeros({4, 4}, DType::f64);
          for (const Pass kind : {first, second, last}) {
            const bool is_local = kind == Pass::local || kind == Pass::weighted_local;
            const bool has_weight = kind == Pass::weighted || kind == Pass::weighted_local;
            const auto pass = [&] {
              const Variable loss = sum(remote.rpc_sync(&Remote::forward, ddp.forward(x)));
              if (has_weight) {
                ddp.backward(loss, share_of(rank));
              } else if (rank % 2 == 0) {
                loss.backward();
              } else {
                da::backward(context, {loss});
              }
            };
            (has_weight ? weighted : equal) += 1;
            if (is_local) {
              const auto local = ddp.no_sync();
              pass();
              continue;
            }
            pass();
            add_scaled(over_ranks(ranks, false,
                                  [&](int r) { return equal / ranks + weighted * share_of(r); }),
                       1.0, expected);
            equal = weighted = 0;
            expect_near(da::gradient(context, weight_of(ddp)), expected,
                        "first " + std::to_string(static_cast<int>(first)) + ", second " +
                            std::to_string(static_cast<int>(second)));
          }
        }
      }
    }
  });
}

TEST(DataParallelContext, AveragesAPassThatReachesAReplicaLocallyAndThroughAnotherRank) {
  on_trainers([](DistributedDataParallel& ddp, const rpc::RRef<Remote>& remote) {
    const int rank = ddp.group().rank(), ranks = ddp.group().size();
    const Tensor mean = Tensor::zeros({4, 4}, DType::f64), here = mean.clone();
    for (int r = 0; r < ranks; ++r) {
      Part replica(0.9);
      sum(replica.forward(Variable(wave({3, 4}, r)))).backward();
      add_scaled(replica.weight.grad(), 1.0 / ranks, here);
      add_scaled(reference(r, false).replicated, 1.0 / ranks, mean);
    }
    add_scaled(here, 1.0, mean);
    const auto output = [&] { return ddp.forward(Variable(wave({3, 4}, rank))); };
    const auto loss = [&] {
      return sum(remote.rpc_sync(&Remote::forward, output())) + sum(output());
    };
    {
      const da::Context context;
      da::backward(context, {loss()});
      expect_near(da::gradient(context, weight_of(ddp)), mean, "of both");
    }
    const da::Context context;
    loss().backward();  // a limit: the second part is each rank's own
    expect_near(weight_of(ddp).grad(), here, "of what is here");
    expect_near(da::gradient(context, weight_of(ddp)), reference(rank, false).replicated, "own");
  });
}

void differentiates_there(const Variable& x) {
  const Variable loss = sum(x);
  da::backward(da::current_context(), std::span(&loss, 1));
}
LOCKSTEP_RPC_AS("data parallel differentiates_there", differentiates_there);

// Between two passes that go through it some ranks make others, in the same context.
TEST(DataParallelContext, PassesThatDoNotReachAReplicaLeaveItsGradientAndSumAlone) {
  on_trainers([](DistributedDataParallel& ddp, const rpc::RRef<Remote>& remote) {
    const int rank = ddp.group().rank(), ranks = ddp.group().size();
    const da::Context context;
    const Variable x(wave({3, 4}, rank), true), other(wave({3, 4}, 0.5), true);
    const auto through = [&] { return sum(remote.rpc_sync(&Remote::forward, ddp.forward(x))); };
    da::backward(context, {through()});
    const auto bits = da::gradient(context, weight_of(ddp)).to_vector<double>();

    const Variable waits = through();  // for a pass that is summed
    if (rank == 0) da::backward(context, {sum(remote.rpc_sync(&Remote::forward, other))});
    if (rank == ranks - 1) {  // which another rank begins
      rpc::rpc_sync((rank + 1) % ranks, differentiates_there, mul(other, 2.0));
    }
    EXPECT_EQ(da::gradient(context, weight_of(ddp)).to_vector<double>(), bits);

    da::backward(context, {waits});
    const Tensor found = da::gradient(context, weight_of(ddp));
    expect_near(found, over_ranks(ranks, false, [&](int) { return 2.0 / ranks; }), "of two passes");
    EXPECT_TRUE(test::same_on_all_ranks(
        ddp.group(), std::string(static_cast<const char*>(found.data()), found.bytes())));
  });
}

/// The replicas that are set to work from elsewhere, by worker.
std::mutex served_access;
std::map<int, std::shared_ptr<DistributedDataParallel>> served;
Variable served_forward(const Variable& x) {
  const std::lock_guard lock(served_access);
  return served.at(rpc::this_worker().id)->forward(x);
}
LOCKSTEP_RPC(served_forward);

TEST(DataParallelContext, RefusesAReplicaInAPassBegunOnAnotherRank) {
  test::on_workers(
      [](ProcessGroup& group) {
        const int rank = group.rank();
        const auto duplicate = duplicate_of(group);
        auto ddp =
            std::make_shared<DistributedDataParallel>(std::make_shared<Part>(0.9), duplicate);
        {
          const std::lock_guard lock(served_access);
          served[rank] = std::move(ddp);
        }
        duplicate->barrier();
        if (rank == 0 && group.size() > 1) {
          const da::Context context;
          const Variable x(wave({3, 4}, rank), true);
          const Variable loss = sum(rpc::rpc_sync(1, served_forward, x));
          const std::string refused =
              test::thrown_by<rpc::RemoteError>([&] { da::backward(context, {loss}); });
          EXPECT_NE(refused.find("the rank that holds it starts the pass"), std::string::npos)
              << refused;
        }
        duplicate->barrier();
        const std::lock_guard lock(served_access);
        served.erase(rank);
      },
      {.workers = 4});
}

}  // namespace
}  // namespace lockstep
