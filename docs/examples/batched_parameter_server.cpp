#include <algorithm>
#include <chrono>
#include <cstdio>
#include <lockstep/autograd/functional.hpp>
#include <lockstep/comm/mpi_group.hpp>
#include <lockstep/data/batches/partitioner.hpp>
#include <lockstep/data/synthetic_dataset.hpp>
#include <lockstep/nn/models/convnet.hpp>
#include <lockstep/nn/random.hpp>
#include <lockstep/optim/sgd.hpp>
#include <lockstep/rpc/rpc.hpp>
#include <lockstep/tensor/math_libraries.hpp>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

using namespace lockstep;

// Rank 0 has the parameters; the other ranks compute gradients and send them there. It either takes
// each as it comes, or waits for one of every trainer, makes one step of their mean, and answers
// them all.
constexpr std::int64_t samples = 32;  // of a gradient

std::shared_ptr<const TensorDataset> images() {
  static const auto all = make_synthetic({.samples = 2048}, Split::train);
  return all;
}
std::shared_ptr<nn::Sequential> make_model() {
  nn::manual_seed(1);
  return nn::convnet(images()->sample_shape(), images()->classes(), 0.0);
}

class ParameterServer {
 public:
  explicit ParameterServer(int trainers) : trainers_(trainers) {}

  std::vector<Tensor> values() {
    const std::lock_guard lock(mutex_);
    return copy_of_values();
  }

  /// One step along these gradients; returns the parameters after it.
  std::vector<Tensor> push(const std::vector<Tensor>& gradients) {
    const std::lock_guard lock(mutex_);
    add(gradients);
    step(1.0);
    return copy_of_values();
  }

  /// The same once every trainer has sent its gradients, with their mean. A call that waits for the
  /// others takes no thread here: the last one answers it.
  rpc::Future<std::vector<Tensor>> push_batched(const std::vector<Tensor>& gradients) {
    std::unique_lock lock(mutex_);
    auto answer = values_.future();
    add(gradients);
    if (++waiting_ == trainers_) {
      step(1.0 / trainers_);
      waiting_ = 0;
      const auto promise = std::exchange(values_, {});
      const auto values = copy_of_values();
      lock.unlock();
      promise.set_value(values);
    }
    return answer;
  }

 private:
  void add(const std::vector<Tensor>& gradients) const {
    const NoGradGuard no_grad;
    const auto& parameters = sgd_.parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const Variable& p = parameters[i].variable;
      p.set_grad_buffer(p.grad().defined() ? (Variable(p.grad()) + Variable(gradients[i])).data()
                                           : gradients[i]);
      p.mark_grad_present();
    }
  }
  void step(double factor) {
    sgd_.step(factor);
    sgd_.zero_grad();
  }
  /// Which the next step does not change while they are on their way.
  [[nodiscard]] std::vector<Tensor> copy_of_values() const {
    std::vector<Tensor> values;
    for (const auto& p : sgd_.parameters()) values.push_back(p.variable.data().clone());
    return values;
  }

  std::mutex mutex_;  // guards everything
  optim::SGD sgd_{make_model()->named_parameters(), {.lr = 0.05}};
  int trainers_, waiting_ = 0;
  rpc::Promise<std::vector<Tensor>> values_;
};
std::unique_ptr<ParameterServer> make_server(int trainers) {
  return std::make_unique<ParameterServer>(trainers);
}

/// What each trainer does; returns the loss of every step.
std::vector<double> train(const rpc::RRef<ParameterServer>& server, int trainer, int trainers,
                          bool batched, std::size_t steps) {
  set_math_threads(1);  // of the thread that executes this
  const DataPartitioner partitioner(
      images()->size(), std::vector<double>(static_cast<std::size_t>(trainers), 1.0 / trainers), 1);
  const auto part = partitioner.part(static_cast<std::size_t>(trainer));
  Batch batch(*images(), samples);
  const auto model = make_model();
  const auto parameters = model->parameters();

  std::vector<double> losses;
  auto values = server.rpc_sync(&ParameterServer::values);
  for (std::size_t at = 0; losses.size() < steps; at += samples) {
    if (at + samples > part.size()) at = 0;
    images()->load(part.subspan(at, samples), batch);
    for (std::size_t i = 0; i < values.size(); ++i) parameters[i].data().copy_from(values[i]);
    model->zero_grad();
    const Variable loss = nll_loss(model->forward(Variable(batch.inputs())), batch.targets());
    loss.backward();
    losses.push_back(loss.data().item());

    std::vector<Tensor> gradients;
    for (const auto& parameter : parameters) gradients.push_back(parameter.grad());
    values = batched ? server.rpc_sync(&ParameterServer::push_batched, gradients)
                     : server.rpc_sync(&ParameterServer::push, gradients);
  }
  return losses;
}

LOCKSTEP_RPC(make_server);
LOCKSTEP_RPC(ParameterServer::values);
LOCKSTEP_RPC(ParameterServer::push);
LOCKSTEP_RPC(ParameterServer::push_batched);
LOCKSTEP_RPC(train);

struct Outcome {
  double first_loss = 0;  // of whoever came first
  double last_loss = 0;   // the trainers' mean of three
  double gradients_per_second = 0;
};
/// Trains on all other ranks.
Outcome run(int trainers, bool batched, std::size_t steps) {
  const auto server = rpc::remote("server", make_server, trainers);
  const auto start = std::chrono::steady_clock::now();
  std::vector<rpc::Future<std::vector<double>>> running;
  for (int i = 0; i < trainers; ++i)
    running.push_back(rpc::rpc_async(1 + i, train, server, i, trainers, batched, steps));
  Outcome outcome;
  for (const auto& trainer : running) {
    outcome.first_loss = std::max(outcome.first_loss, trainer.wait().front());
    const auto& losses = trainer.wait();
    outcome.last_loss += std::accumulate(losses.end() - 3, losses.end(), 0.0) / 3 / trainers;
  }
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  outcome.gradients_per_second = trainers * static_cast<double>(steps) / taken.count();
  return outcome;
}

void print(const char* how, const Outcome& outcome) {
  std::printf("%s  loss %.3f to %.3f, %.0f gradients/s\n", how, outcome.first_loss,
              outcome.last_loss, outcome.gradients_per_second);
}

int main(int argc, char** argv) {
  const MpiSession session(argc, argv);
  const auto group = make_mpi_group(MPI_COMM_WORLD);
  const int rank = group->rank(), trainers = group->size() - 1;
  if (trainers < 1) {
    std::puts("start at least 2 ranks: a server and trainers");
    group->close();
    return 2;
  }
  rpc::init(rank == 0 ? "server" : "trainer" + std::to_string(rank), *group);
  if (rank == 0) {
    static_cast<void>(run(trainers, false, 3));  // makes data and kernels
    const Outcome single = run(trainers, false, 60), batched = run(trainers, true, 60);
    print("single ", single);
    print("batched", batched);
    std::printf("batching: %.2f times as many\n",
                batched.gradients_per_second / single.gradients_per_second);
  }
  rpc::shutdown();
  group->close();
}
