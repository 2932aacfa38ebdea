#include "gradients.hpp"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <lockstep/autograd/functional.hpp>
#include <lockstep/comm/mpi_group.hpp>
#include <lockstep/nn/layers.hpp>
#include <lockstep/nn/random.hpp>
#include <lockstep/optim/adam.hpp>
#include <lockstep/rpc/distributed_optimizer.hpp>
#include <lockstep/rpc/rpc.hpp>
#include <lockstep/tensor/math_libraries.hpp>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

using namespace lockstep;

// Rank 0 trains a network that predicts the next character of a text. Rank 1 has the network's two
// ends, an embedding and a decoder; rank 2 has what is between them, an LSTM.
constexpr std::int64_t width = 128, layers = 2, rows = 35, columns = 20;

class Ends {
 public:
  explicit Ends(std::int64_t characters)
      : embedding_(characters, width), decoder_(width, characters) {}

  Variable embed(const Variable& characters) { return embedding_.forward(characters); }
  Variable decode(const Variable& y) { return decoder_.forward(y); }

  [[nodiscard]] std::vector<Variable> parameters() const {
    auto all = embedding_.parameters();
    for (const Variable& parameter : decoder_.parameters()) all.push_back(parameter);
    return all;
  }
  std::vector<rpc::RRef<Variable>> references() const {
    const auto all = parameters();
    return {all.begin(), all.end()};
  }
  std::vector<Tensor> gradients(std::uint64_t context) const {
    return gradients_of(parameters(), context);
  }

 private:
  nn::Embedding embedding_;
  nn::Linear decoder_;
};

/// What the LSTM says, and what it remembers: tensors, through which no gradient goes back.
using Said = std::tuple<Variable, Tensor, Tensor>;

class Middle {
 public:
  Said forward(const Variable& x, const Tensor& h, const Tensor& c) {
    const auto before = [](const Tensor& state) {
      return state.defined() ? Variable(state) : Variable();
    };
    const auto [output, h_n, c_n] = lstm_.forward(x, before(h), before(c));
    return {output, h_n.data(), c_n.data()};
  }
  [[nodiscard]] std::vector<Variable> parameters() const { return lstm_.parameters(); }
  std::vector<rpc::RRef<Variable>> references() const { return rpc::parameter_rrefs(lstm_); }
  std::vector<Tensor> gradients(std::uint64_t context) const {
    return gradients_of(parameters(), context);
  }

 private:
  nn::LSTM lstm_{width, width, {.num_layers = layers}};
};

std::unique_ptr<Ends> make_ends(std::int64_t characters) {
  nn::manual_seed(1);
  return std::make_unique<Ends>(characters);
}
std::unique_ptr<Middle> make_middle() {
  nn::manual_seed(2);
  return std::make_unique<Middle>();
}

LOCKSTEP_RPC(make_ends);
LOCKSTEP_RPC(Ends::embed);
LOCKSTEP_RPC(Ends::decode);
LOCKSTEP_RPC(Ends::references);
LOCKSTEP_RPC(Ends::gradients);
LOCKSTEP_RPC(make_middle);
LOCKSTEP_RPC(Middle::forward);
LOCKSTEP_RPC(Middle::references);
LOCKSTEP_RPC(Middle::gradients);

/// A text in `columns` pieces side by side, of which each step sees the next `rows` characters.
class Text {
 public:
  explicit Text(const std::string& path) {
    std::ifstream file(path);
    const std::string text(std::istreambuf_iterator<char>(file), {});
    std::map<char, std::int64_t> numbers;  // in the order of their first places
    for (const char c : text)
      numbers_.push_back(numbers.try_emplace(c, std::ssize(numbers)).first->second);
    characters_ = std::ssize(numbers);
    piece_ = std::ssize(text) / columns;
  }
  [[nodiscard]] std::int64_t characters() const { return characters_; }
  [[nodiscard]] std::int64_t steps() const { return (piece_ - 1) / rows; }
  /// i64 [rows, columns], from `offset` characters behind the step's beginning.
  [[nodiscard]] Tensor window(std::int64_t step, std::int64_t offset) const {
    std::vector<std::int64_t> window;
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t column = 0; column < columns; ++column)
        window.push_back(
            numbers_[static_cast<std::size_t>(column * piece_ + step * rows + row + offset)]);
    }
    return Tensor::from(window, {rows, columns});
  }

 private:
  std::vector<std::int64_t> numbers_;
  std::int64_t characters_ = 0, piece_ = 0;
};

/// In nats a character.
Variable loss_of(const Variable& decoded, const Tensor& next) {
  return cross_entropy(reshape(decoded, {rows * columns, decoded.shape()[2]}),
                       next.reshape({rows * columns}));
}

void train(const Text& text, std::int64_t steps) {
  const auto ends = rpc::remote("ends", make_ends, text.characters());
  const auto middle = rpc::remote("middle", make_middle);
  auto parameters = ends.rpc_sync(&Ends::references);
  for (const auto& each : middle.rpc_sync(&Middle::references)) parameters.push_back(each);
  rpc::DistributedOptimizer optimizer({.kind = optim::AdamOptions{.lr = 0.005}, .clip_norm = 1.0},
                                      parameters);

  Variable y;
  Tensor h, c;
  double mean = 0;
  for (std::int64_t step = 0; step < steps; ++step) {
    const Tensor now = text.window(step, 0), next = text.window(step, 1);
    const dist_autograd::Context context;
    const Variable x = ends.rpc_sync(&Ends::embed, Variable(now));
    std::tie(y, h, c) = middle.rpc_sync(&Middle::forward, x, h, c);
    const Variable loss = loss_of(ends.rpc_sync(&Ends::decode, y), next);
    dist_autograd::backward(context, {loss});

    if (step == 0) {  // the same in one process
      const auto here = make_ends(text.characters());
      const auto between = make_middle();
      const auto [said, h1, c1] = between->forward(here->embed(Variable(now)), {}, {});
      loss_of(here->decode(said), next).backward();
      std::printf("gradients differ from those of one process by %g and %g\n",
                  relative_difference(ends.rpc_sync(&Ends::gradients, context.id()),
                                      gradients_of(here->parameters())),
                  relative_difference(middle.rpc_sync(&Middle::gradients, context.id()),
                                      gradients_of(between->parameters())));
    }
    optimizer.step(context);
    mean += loss.data().item() / 100;
    if (step % 100 == 99) {
      std::printf("step %lld  loss %.3f\n", static_cast<long long>(step + 1), mean);
      mean = 0;
    }
  }
}

int main(int argc, char** argv) {
  const MpiSession session(argc, argv);
  const auto group = make_mpi_group(MPI_COMM_WORLD);
  const Text text(argc > 1 ? argv[1] : "");
  const std::int64_t steps = argc > 2 ? std::atoll(argv[2]) : 500;
  if (group->size() != 3 || steps < 1 || steps > text.steps()) {
    if (group->rank() == 0) {
      std::puts("start 3 ranks and name a text: rnn_model_parallel FILE [STEPS, from 1 on]");
      if (argc > 1 && text.steps() < 1) std::printf("%s is missing or too short\n", argv[1]);
      if (argc > 1 && text.steps() >= 1)
        std::printf("%s has text for %lld steps\n", argv[1], static_cast<long long>(text.steps()));
    }
    group->close();
    return 2;
  }
  set_math_threads(1);
  constexpr const char* names[] = {"trainer", "ends", "middle"};
  rpc::init(names[group->rank()], *group);
  if (group->rank() == 0) train(text, steps);
  rpc::shutdown();
  group->close();
}
