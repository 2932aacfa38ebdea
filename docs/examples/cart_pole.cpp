#include "cart_pole.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <lockstep/autograd/functional.hpp>
#include <lockstep/comm/mpi_group.hpp>
#include <lockstep/nn/categorical.hpp>
#include <lockstep/nn/layers.hpp>
#include <lockstep/nn/random.hpp>
#include <lockstep/nn/sequential.hpp>
#include <lockstep/optim/adam.hpp>
#include <lockstep/rpc/rpc.hpp>
#include <lockstep/tensor/math_libraries.hpp>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

using namespace lockstep;

// Rank 0 has an agent, who learns what to do; every other rank has an observer with a cart-pole,
// who asks the agent before each push and brings home what happened.
constexpr std::uint64_t seed = 1;
constexpr float discount = 0.99F;

struct Episode {
  std::vector<float> states;          // [pushes, 4], as seen before each
  std::vector<std::int64_t> actions;  // [pushes]
  std::vector<float> rewards;         // [pushes]
  bool fallen = false;                // or else stopped
  template <class Archive>
  void serialize(Archive& archive) {
    archive(states, actions, rewards, fallen);
  }
};

class Agent {
 public:
  explicit Agent(int observers)
      : observers_(observers), states_(static_cast<std::size_t>(observers)) {}

  /// What to do in `state`: at once, for this observer alone.
  std::int64_t choose(int observer, std::uint32_t time, const State& state) const {
    return draw({state}, time, observer)[0];
  }

  /// The same once all observers that still play have asked, by one pass for all of them.
  rpc::Future<std::int64_t> choose_together(int observer, std::uint32_t time, const State& state) {
    std::unique_lock lock(mutex_);
    time_ = time;
    states_[static_cast<std::size_t>(observer)] = state;
    auto mine = actions_.future().then(
        [observer](const auto& all) { return all.wait()[static_cast<std::size_t>(observer)]; });
    ++asking_;
    answer_if_complete(std::move(lock));
    return mine;
  }

  void start_episode() {
    const std::lock_guard lock(mutex_);
    playing_ = observers_;
  }
  /// Whoever has ended an episode is not waited for.
  void leave() {
    std::unique_lock lock(mutex_);
    --playing_;
    answer_if_complete(std::move(lock));
  }

  /// REINFORCE (Williams 1992): what was done becomes likelier by the discounted rewards after it,
  /// compared with the others'.
  void learn(const std::vector<Episode>& episodes) {
    std::vector<float> states, returns;
    std::vector<std::int64_t> actions;
    for (const Episode& episode : episodes) {
      states.insert(states.end(), episode.states.begin(), episode.states.end());
      actions.insert(actions.end(), episode.actions.begin(), episode.actions.end());
      returns.resize(actions.size());
      // Who was stopped would have been rewarded on and on.
      float sum = episode.fallen ? 0.0F : 1.0F / (1.0F - discount);
      std::transform(episode.rewards.rbegin(), episode.rewards.rend(), returns.rbegin(),
                     [&](float reward) { return sum = reward + discount * sum; });
    }
    const auto n = static_cast<std::int64_t>(actions.size());
    const Variable all(Tensor::from(returns, {n}));
    const Variable deviation = all - mean(all), variance = mean(deviation * deviation);
    const Variable advantage = deviation / (sqrt(variance) + 1.0);

    const auto policy =
        nn::Categorical::from_logits(model_->forward(Variable(Tensor::from(states, {n, 4}))));
    const Variable loss = mean(policy.log_prob(Tensor::from(actions, {n})) * advantage) * -1.0;
    adam_.zero_grad();
    loss.backward();
    adam_.step();
  }

 private:
  /// One action a state. The random numbers depend on who asks and when, not on who comes first.
  [[nodiscard]] std::vector<std::int64_t> draw(const std::vector<State>& states, std::uint32_t time,
                                               int first_observer) const {
    const NoGradGuard no_grad;
    const auto n = static_cast<std::int64_t>(states.size());
    const Tensor input = Tensor::from(std::span(states.data()->data(), 4 * states.size()), {n, 4});
    return nn::Categorical::from_logits(model_->forward(Variable(input)))
        .sample({.seed = seed, .step = time, .first_sample = first_observer})
        .to_vector<std::int64_t>();
  }

  void answer_if_complete(std::unique_lock<std::mutex> lock) {
    if (asking_ == 0 || asking_ < playing_) return;
    asking_ = 0;
    const auto promise = std::exchange(actions_, {});
    const auto actions = draw(states_, time_, 0);
    lock.unlock();
    promise.set_value(actions);  // this thread sends all the answers
  }

  int observers_;
  std::shared_ptr<nn::Sequential> model_ =
      std::make_shared<nn::Sequential>(std::initializer_list<std::shared_ptr<nn::Module>>{
          std::make_shared<nn::Linear>(4, 128), std::make_shared<nn::ReLU>(),
          std::make_shared<nn::Linear>(128, 2)});
  optim::Adam adam_{model_->named_parameters(), {.lr = 0.01}};

  std::mutex mutex_;  // guards what is below
  std::vector<State> states_;
  std::uint32_t time_ = 0;
  int playing_ = 0, asking_ = 0;
  rpc::Promise<std::vector<std::int64_t>> actions_;
};
std::unique_ptr<Agent> make_agent(int observers) {
  nn::manual_seed(seed);
  return std::make_unique<Agent>(observers);
}

class Observer {
 public:
  explicit Observer(int number) : number_(number), world_(seed + static_cast<unsigned>(number)) {}

  Episode play(const rpc::RRef<Agent>& agent, std::uint32_t time, bool together) {
    Episode episode;
    for (world_.reset(); !world_.is_over(); ++time) {
      const State state = world_.state();
      const auto action = together ? agent.rpc_sync(&Agent::choose_together, number_, time, state)
                                   : agent.rpc_sync(&Agent::choose, number_, time, state);
      episode.states.insert(episode.states.end(), state.begin(), state.end());
      episode.actions.push_back(action);
      episode.rewards.push_back(world_.push(action));
    }
    episode.fallen = world_.has_fallen();
    if (together) agent.rpc_sync(&Agent::leave);
    return episode;
  }

 private:
  int number_;
  CartPole world_;
};
Observer make_observer(int number) { return Observer(number); }

LOCKSTEP_RPC(make_agent);
LOCKSTEP_RPC(Agent::choose);
LOCKSTEP_RPC(Agent::choose_together);
LOCKSTEP_RPC(Agent::leave);
LOCKSTEP_RPC(make_observer);
LOCKSTEP_RPC(Observer::play);

/// Lets every observer play an episode, which begins at `time`.
std::vector<Episode> play(const rpc::RRef<Agent>& agent,
                          const std::vector<rpc::RRef<Observer>>& observers, std::uint32_t time,
                          bool together) {
  agent.local_value().start_episode();
  std::vector<rpc::Future<Episode>> playing;
  for (const auto& observer : observers)
    playing.push_back(observer.rpc_async(&Observer::play, agent, time, together));
  std::vector<Episode> episodes;
  for (const auto& each : playing) episodes.push_back(each.wait());
  return episodes;
}

/// Learns until the last 100 episodes' mean reward is 195; then measures both ways to ask.
void solve(int count, bool together) {
  const auto agent = rpc::remote("agent", make_agent, count);
  std::vector<rpc::RRef<Observer>> observers;
  for (int i = 0; i < count; ++i) observers.push_back(rpc::remote(1 + i, make_observer, i));

  std::uint32_t time = 0;
  std::vector<double> rewards;
  double score = 0;
  for (; score < 195.0 && rewards.size() < 1000; time += CartPole::longest) {
    const auto episodes = play(agent, observers, time, together);
    agent.local_value().learn(episodes);
    for (const auto& [states, actions, each, fallen] : episodes)
      rewards.push_back(std::accumulate(each.begin(), each.end(), 0.0));
    if (rewards.size() >= 100)
      score = std::accumulate(rewards.end() - 100, rewards.end(), 0.0) / 100;
  }
  std::printf("mean reward %.1f over 100 episodes, after %zu\n", score, rewards.size());

  double actions[2] = {}, seconds[2] = {};  // singly and together, in turns
  for (int i = 0; i < 10; ++i, time += CartPole::longest) {
    const auto start = std::chrono::steady_clock::now();
    for (const Episode& episode : play(agent, observers, time, i % 2 == 1))
      actions[i % 2] += static_cast<double>(episode.actions.size());
    seconds[i % 2] +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  const double singly = actions[0] / seconds[0], batched = actions[1] / seconds[1];
  std::printf("actions/s: %.0f singly, %.0f together (%.2f times)\n", singly, batched,
              batched / singly);
}

int main(int argc, char** argv) {
  const MpiSession session(argc, argv);
  const auto group = make_mpi_group(MPI_COMM_WORLD);
  set_math_threads(1);
  const int rank = group->rank(), size = group->size();
  const std::string how = argc > 1 ? argv[1] : "singly";
  if (size < 2 || (how != "singly" && how != "together")) {
    if (rank == 0)
      std::puts("start at least 2 ranks, an agent and observers: cart_pole [singly | together]");
    group->close();
    return 2;
  }
  rpc::init(rank == 0 ? "agent" : "observer" + std::to_string(rank), *group);
  if (rank == 0) solve(size - 1, how == "together");
  rpc::shutdown();
  group->close();
}
