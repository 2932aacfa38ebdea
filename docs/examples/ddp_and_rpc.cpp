#include "gradients.hpp"

#include <cstdio>
#include <cstdlib>
#include <lockstep/autograd/functional.hpp>
#include <lockstep/base/log.hpp>
#include <lockstep/comm/mpi_group.hpp>
#include <lockstep/nn/layers.hpp>
#include <lockstep/nn/random.hpp>
#include <lockstep/optim/sgd.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>
#include <lockstep/rpc/distributed_optimizer.hpp>
#include <lockstep/rpc/rpc.hpp>
#include <lockstep/tensor/math_libraries.hpp>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

using namespace lockstep;

// Ranks 0 and 1 are trainers: each has the dense part of a model, of which DistributedDataParallel
// keeps the replicas alike. Its sparse part, a table of words, is on rank 3 alone. Rank 2 is the
// master, who sets the trainers to work.
constexpr int trainers = 2, master = 2, server = 3;
constexpr std::int64_t words = 100, width = 16, classes = 8, bags = 16;  // bags of a trainer's step
constexpr double learning_rate = 0.2;

using Tensors = std::vector<Tensor>;

/// Bags of words, each with the class that most of its words belong to.
struct Samples {
  std::vector<std::int64_t> index, offsets, targets;

  void add_share(int trainer, int step) {
    std::mt19937_64 random(static_cast<std::uint64_t>(trainers * step + trainer));
    const auto below = [&](std::int64_t n) {
      return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
    };
    for (std::int64_t bag = 0; bag < bags; ++bag) {
      offsets.push_back(std::ssize(index));
      targets.push_back(below(classes));
      for (std::int64_t left = 4 + below(8); left > 0; --left) {
        const bool belongs = below(3) > 0;
        index.push_back(belongs ? targets.back() + classes * below(words / classes) : below(words));
      }
    }
  }
};
Tensor tensor_of(const std::vector<std::int64_t>& numbers) {
  return Tensor::from(numbers, {std::ssize(numbers)});
}

class Table {
 public:
  Variable forward(const Tensor& index, const Tensor& offsets) {
    return table_.forward(index, offsets);
  }
  std::vector<rpc::RRef<Variable>> references() const { return rpc::parameter_rrefs(table_); }
  Tensors gradients(std::uint64_t context) const {
    return gradients_of(table_.parameters(), context);
  }
  Tensors values() const { return {table_.parameters()[0].data().clone()}; }
  [[nodiscard]] const nn::Module& module() const { return table_; }

 private:
  nn::EmbeddingBag table_{words, width, BagMode::sum};
};
std::unique_ptr<Table> make_table() {
  nn::manual_seed(1);
  return std::make_unique<Table>();
}
std::shared_ptr<nn::Linear> make_dense() {
  nn::manual_seed(2);
  return std::make_shared<nn::Linear>(width, classes);
}

/// What a trainer brings home.
struct Trained {
  std::vector<double> losses;
  Tensors dense_gradients, sparse_gradients;  // of the first step
  Tensors dense;                              // parameters, after the last
  template <class Archive>
  void serialize(Archive& archive) {
    archive(losses, dense_gradients, sparse_gradients, dense);
  }
};

std::shared_ptr<ProcessGroup> same_work;  // this rank's: the trainers, or the others

Trained train(const rpc::RRef<Table>& table, int steps) {
  DistributedDataParallel dense(make_dense(), same_work);
  rpc::DistributedOptimizer of_dense({.kind = optim::SgdOptions{.lr = learning_rate}},
                                     rpc::parameter_rrefs(dense.module()));
  // Each trainer updates the table by its own gradient, and the dense part by the mean.
  rpc::DistributedOptimizer of_table({.kind = optim::SgdOptions{.lr = learning_rate / trainers}},
                                     table.rpc_sync(&Table::references));
  Trained trained;
  for (int step = 0; step < steps; ++step) {
    Samples samples;
    samples.add_share(same_work->rank(), step);
    const dist_autograd::Context context;
    const Variable bagged =
        table.rpc_sync(&Table::forward, tensor_of(samples.index), tensor_of(samples.offsets));
    const Variable loss = cross_entropy(dense.forward(bagged), tensor_of(samples.targets));
    // Averages the dense gradients over the trainers, and goes on at the server.
    dist_autograd::backward(context, {loss});

    trained.losses.push_back(loss.data().item());
    if (step == 0) {
      trained.dense_gradients = gradients_of(dense.module().parameters(), context.id());
      trained.sparse_gradients = table.rpc_sync(&Table::gradients, context.id());
    }
    of_dense.step(context);
    of_table.step(context);
    same_work->barrier();  // the next words are looked up when both have changed the table
  }
  for (const Variable& parameter : dense.module().parameters())
    trained.dense.push_back(parameter.data().clone());
  return trained;
}

LOCKSTEP_RPC(make_table);
LOCKSTEP_RPC(Table::forward);
LOCKSTEP_RPC(Table::references);
LOCKSTEP_RPC(Table::gradients);
LOCKSTEP_RPC(Table::values);
LOCKSTEP_RPC(train);

/// Trains, and then does the same here, with everything in one process.
void compare(int steps) {
  const auto table = rpc::remote(server, make_table);
  std::vector<rpc::Future<Trained>> running;
  for (int rank = 0; rank < trainers; ++rank) {
    running.push_back(
        rpc::rpc_async(rpc::To(rank).within(std::chrono::minutes(10)), train, table, steps));
  }
  const Trained a = running[0].wait(), b = running[1].wait();

  const auto table_here = make_table();
  const auto dense_here = make_dense();
  optim::SGD sparse(table_here->module().named_parameters(), {.lr = learning_rate}),
      dense(dense_here->named_parameters(), {.lr = learning_rate});
  for (int step = 0; step < steps; ++step) {
    Samples samples;
    for (int trainer = 0; trainer < trainers; ++trainer) samples.add_share(trainer, step);
    sparse.zero_grad();
    dense.zero_grad();
    const Variable bagged =
        table_here->forward(tensor_of(samples.index), tensor_of(samples.offsets));
    cross_entropy(dense_here->forward(bagged), tensor_of(samples.targets)).backward();
    if (step == 0) {
      const Variable mean =
          (Variable(a.sparse_gradients[0]) + Variable(b.sparse_gradients[0])) / trainers;
      std::printf(
          "gradients differ from those of one process: dense %.1g and %.1g, sparse %.1g\n",
          relative_difference(a.dense_gradients, gradients_of(dense_here->parameters())),
          relative_difference(b.dense_gradients, gradients_of(dense_here->parameters())),
          relative_difference({mean.data()}, gradients_of(table_here->module().parameters())));
    }
    sparse.step();
    dense.step();
  }
  Tensors dense_values;
  for (const Variable& parameter : dense_here->parameters())
    dense_values.push_back(parameter.data());
  std::printf("parameters after %d steps: dense %.1g and %.1g, sparse %.1g\n", steps,
              relative_difference(a.dense, dense_values),
              relative_difference(b.dense, dense_values),
              relative_difference(table.rpc_sync(&Table::values), table_here->values()));
  std::printf("loss %.3f to %.3f\n", a.losses.front(), a.losses.back());
}

int main(int argc, char** argv) {
  const MpiSession session(argc, argv);
  set_log_sink([](LogLevel, std::string_view text) {
    std::fprintf(stderr, "%.*s\n", static_cast<int>(text.size()), text.data());
  });
  const auto world = make_mpi_group(MPI_COMM_WORLD);
  const int rank = world->rank();
  set_math_threads(1);
  const int steps = argc > 1 ? std::atoi(argv[1]) : 200;
  if (world->size() != 4 || steps < 1) {
    if (rank == 0)
      std::puts("start 4 ranks: two trainers, a master and a server; [STEPS, from 1 on]");
    world->close();
    return 2;
  }
  same_work = world->split(rank < trainers ? 0 : 1, rank);
  rpc::init("worker" + std::to_string(rank), *world);
  if (rank == master) compare(steps);
  rpc::shutdown();
  same_work->close();
  world->close();
}
