#include <cstdio>
#include <cstdlib>
#include <lockstep/autograd/functional.hpp>
#include <lockstep/base/clock.hpp>
#include <lockstep/base/log.hpp>
#include <lockstep/comm/mpi_group.hpp>
#include <lockstep/data/batches/partitioner.hpp>
#include <lockstep/data/fashion_mnist.hpp>
#include <lockstep/nn/models/convnet.hpp>
#include <lockstep/nn/random.hpp>
#include <lockstep/optim/sgd.hpp>
#include <lockstep/rpc/distributed_optimizer.hpp>
#include <lockstep/rpc/rpc.hpp>
#include <lockstep/tensor/kernels/elementwise/elementwise.hpp>
#include <lockstep/tensor/math_libraries.hpp>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

using namespace lockstep;

// Rank 0 holds the network; the others train it, in one of three ways.
//   forward  the server computes, through remote calls that backward goes back through
//   async    trainers compute; the server applies gradients as they come
//   batch    the same, but the server waits for those of all trainers, and takes one step
// SGD has no momentum: trainers that do not wait for each other are one already (Mitliagkas et al.,
// Asynchrony begets momentum, 2016). With 0.5, one of some hundred runs on a busy machine diverged.
constexpr double learning_rate = 0.05;
using Tensors = std::vector<Tensor>;

class Server {
 public:
  explicit Server(int trainers) : trainers_(trainers) {}

  Variable forward(const Variable& images) { return net_->forward(images); }
  std::vector<rpc::RRef<Variable>> parameters() { return rpc::parameter_rrefs(*net_); }
  Tensors values() {
    const std::lock_guard lock(mutex_);
    return copies();
  }

  /// Returns the new parameters.
  Tensors push(const Tensors& gradients) {
    const std::lock_guard lock(mutex_);
    add(gradients, 1.0);
    step();
    return copies();
  }
  /// Answers all trainers at once, when the last has come.
  rpc::Future<Tensors> push_and_meet(const Tensors& gradients) {
    const std::lock_guard lock(mutex_);
    add(gradients, 1.0 / trainers_);
    const auto answer = everybody_.future();
    if (++waiting_ == trainers_) {
      step();
      std::exchange(everybody_, {}).set_value(copies());
      waiting_ = 0;
    }
    return answer;
  }

 private:
  void add(const Tensors& gradients, double weight) {
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      const Variable& parameter = parameters_[i];
      if (!parameter.grad().defined()) {
        parameter.grad_buffer().zero();
        parameter.mark_grad_present();
      }
      add_scaled(gradients[i], weight, parameter.grad());
    }
  }
  void step() {
    sgd_.step();
    sgd_.zero_grad();
  }
  Tensors copies() {  // what is sent must not change on its way
    Tensors values;
    for (const Variable& parameter : parameters_) values.push_back(parameter.data().clone());
    return values;
  }

  const int trainers_;
  std::mutex mutex_;
  std::shared_ptr<nn::Module> net_ = nn::convnet({1, 28, 28}, 10, 0.0);
  std::vector<Variable> parameters_ = net_->parameters();
  optim::SGD sgd_{net_->named_parameters(), {.lr = learning_rate}};
  int waiting_ = 0;
  rpc::Promise<Tensors> everybody_;
};

/// This trainer's part of the images, batch after batch.
class Images {
 public:
  Images()
      : images_(load_fashion_mnist(find_fashion_mnist("auto"), Split::train)),
        batch_(*images_, 32),
        order_(own_part(images_->size())) {}
  const Batch& next() {
    images_->load(std::span(order_).subspan(32 * (step_++ % (order_.size() / 32)), 32), batch_);
    return batch_;
  }

 private:
  static std::vector<std::int64_t> own_part(std::int64_t images) {
    const std::size_t trainers = rpc::all_workers().size() - 1;
    const std::vector<double> shares(trainers, 1.0 / static_cast<double>(trainers));
    const DataPartitioner partitioner(images, shares, 1234);
    const auto part = partitioner.part(static_cast<std::size_t>(rpc::this_worker().id - 1));
    return {part.begin(), part.end()};
  }

  std::shared_ptr<const Dataset> images_;
  Batch batch_;
  std::vector<std::int64_t> order_;
  std::size_t step_ = 0;
};

Images& own_images() {
  static Images images;
  return images;
}

/// The mean loss of the last 50 steps.
template <class Step>
double train_by(int steps, const Step& step) {
  Images& images = own_images();
  double last = 0;
  for (int i = 0; i < steps; ++i) {
    const double loss = step(images.next());
    if (i >= steps - 50) last += loss / 50;
  }
  return last;
}

double train_forward(const rpc::RRef<Server>& server, int steps) {
  rpc::DistributedOptimizer optimizer({.kind = optim::SgdOptions{.lr = learning_rate}},
                                      server.rpc_sync(&Server::parameters));
  return train_by(steps, [&](const Batch& batch) {
    const dist_autograd::Context context;
    const Variable output = server.rpc_sync(&Server::forward, Variable(batch.inputs()));
    const Variable loss = nll_loss(output, batch.targets());
    dist_autograd::backward(context, {loss});
    optimizer.step(context);
    return loss.data().item();
  });
}

double train_here(const rpc::RRef<Server>& server, int steps, bool meet) {
  const auto net = nn::convnet({1, 28, 28}, 10, 0.0);
  const auto parameters = net->parameters();
  Tensors values = server.rpc_sync(&Server::values);
  return train_by(steps, [&](const Batch& batch) {
    Tensors gradients;
    for (std::size_t i = 0; i < values.size(); ++i) parameters[i].data().copy_from(values[i]);
    net->zero_grad();
    const Variable loss = nll_loss(net->forward(Variable(batch.inputs())), batch.targets());
    loss.backward();
    for (const Variable& parameter : parameters) gradients.push_back(parameter.grad());
    values = meet ? server.rpc_sync(&Server::push_and_meet, gradients)
                  : server.rpc_sync(&Server::push, gradients);
    return loss.data().item();
  });
}

double train(const rpc::RRef<Server>& server, const std::string& mode, int steps) {
  if (mode == "forward") return train_forward(server, steps);
  return train_here(server, steps, mode == "batch");
}

LOCKSTEP_RPC(Server::forward);
LOCKSTEP_RPC(Server::parameters);
LOCKSTEP_RPC(Server::values);
LOCKSTEP_RPC(Server::push);
LOCKSTEP_RPC(Server::push_and_meet);
LOCKSTEP_RPC(train);

int main(int argc, char** argv) {
  const MpiSession session(argc, argv);
  set_log_sink([](LogLevel, std::string_view text) {
    std::fprintf(stderr, "%.*s\n", static_cast<int>(text.size()), text.data());
  });
  const auto group = make_mpi_group(MPI_COMM_WORLD);
  const int trainers = group->size() - 1, steps = argc > 1 ? std::atoi(argv[1]) : 300;
  if (trainers < 1 || steps < 1) {
    if (group->rank() == 0) std::puts("mpiexec -n 2 (or more) parameter_server [STEPS, from 1 on]");
    group->close();
    return 2;
  }
  set_math_threads(1);
  nn::manual_seed(1);
  rpc::init(group->rank() == 0 ? "server" : "trainer" + std::to_string(group->rank()), *group);
  if (group->rank() == 0) {
    for (const std::string mode : {"forward", "async", "batch"}) {
      const rpc::RRef<Server> server(std::make_unique<Server>(trainers));
      const auto loss_after = [&](int steps_of_each) {
        std::vector<rpc::Future<double>> losses;
        for (int rank = 1; rank <= trainers; ++rank) {
          losses.push_back(rpc::rpc_async(rpc::To(rank).within(std::chrono::minutes(10)), train,
                                          server, mode, steps_of_each));
        }
        double sum = 0;
        for (const auto& one : losses) sum += one.wait();
        return sum / trainers;
      };
      loss_after(3);  // afterwards images and memory are there
      const auto start = Clock::now();
      const double loss = loss_after(steps);
      std::printf("%-8s %d trainers  %5.0f updates/s  loss %.3f\n", mode.c_str(), trainers,
                  trainers * steps / seconds_since(start), loss);
    }
  }
  rpc::shutdown();
  group->close();
}
