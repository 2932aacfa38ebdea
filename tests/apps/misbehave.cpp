// `classify`, or `gpt train` for tokens, with one injected fault.
//
//   MISBEHAVE="throw 1 7"   rank 1 has the fault `throw` in the forward of its 7th step
//   MISBEHAVE="stop -1 7"   all ranks have it
//   MISBEHAVE="late 1"      rank 1 waits a minute before MPI_Init
//   MISBEHAVE="linger 1"    rank 1 gets SIGSTOP after MPI_Finalize
//
// Faults of a step:
//   throw   an exception                       nan    its loss becomes NaN
//   kill    SIGKILL                            flip   one bit of its first parameter flips
//   stop    SIGSTOP                            slow   each forward takes 20 ms longer from now on
//   usr1    SIGUSR1, a request to stop         eat    it allocates memory until there is none
//   exit0   _exit(0)                           hang   it never returns
//   node    it kills its node's part of the launcher and itself, and writes the file MISBEHAVE_DOWN
//
// Faults of a call: in that step all ranks call an all-reduce (for root a broadcast) on a group of
// the task, then a barrier. The rank calls otherwise:
//   op      it broadcasts                      skip   it calls the barrier only
//   shape, dtype, root, reduction              with another one
//   group   all ranks make a group; the rank gets SIGSTOP before
//
// The file MISBEHAVE_MARK is written at the moment of the fault. If it exists at the start, there
// is no fault. With MISBEHAVE_PACE=5 each forward takes 5 ms longer on all ranks.
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <lockstep/autograd/functional.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/base/rank.hpp>
#include <lockstep/comm/mpi_group.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/train/app.hpp>
#include <lockstep/train/run/run_plan.hpp>
#include <lockstep/train/task/classification.hpp>
#include <lockstep/train/task/language_model.hpp>
#include <lockstep/train/task/task_options.hpp>
#include <memory>
#include <sstream>
#include <string_view>
#include <thread>
#include <vector>

namespace {

template <class Task>
class Misbehaving : public Task {
 public:
  explicit Misbehaving(lockstep::Deck& deck) : Task(deck) {
    if (const char* order = std::getenv("MISBEHAVE"))
      std::istringstream(order) >> fault_ >> rank_ >> step_;
    if (const char* file = std::getenv("MISBEHAVE_MARK")) over_ = std::filesystem::exists(file);
    if (const char* pace = std::getenv("MISBEHAVE_PACE"))
      pace_ = std::chrono::milliseconds(std::atoi(pace));
    timeout_ = deck.read<lockstep::GroupOptions>("comm").timeout;
    const auto& odd = odd_calls;
    if (std::find(odd.begin(), odd.end(), fault_) != odd.end()) group_ = make_group();
  }

  std::shared_ptr<lockstep::nn::Module> make_model() const override {
    return model_ = Task::make_model();
  }

  lockstep::Variable loss(const lockstep::Variable& output,
                          const lockstep::Batch& batch) const override {
    const int rank = this_rank();
    const bool in_step_or_later = lockstep::grad_enabled() && ++calls_ >= step_;
    const bool in_step = in_step_or_later && calls_ == step_;
    const bool now = in_step && !over_ && (rank == rank_ || rank_ == every_rank);
    if (lockstep::grad_enabled()) std::this_thread::sleep_for(pace_);
    if (now) mark();
    if (in_step && group_) call(rank == rank_);
    if (now && fault_ == "throw") throw lockstep::Error("an injected fault");
    if (now && fault_ == "kill") end_late([] { std::raise(SIGKILL); });
    if (now && (fault_ == "stop" || fault_ == "group")) std::raise(SIGSTOP);
    if (in_step && fault_ == "group") make_group()->close();
    if (now && fault_ == "usr1") std::raise(SIGUSR1);
    while (now && fault_ == "hang") pause();
    if (now && fault_ == "flip") flip_a_bit(model_->parameters().front().data());
    while (now && fault_ == "eat") taken_.emplace_back(new char[std::size_t{64} << 20U]);
    if (now && fault_ == "node") end_node();
    if (now && fault_ == "exit0") end_late([] { _exit(0); });
    if (in_step_or_later && rank == rank_ && fault_ == "slow")
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (now && fault_ == "nan") output.data().fill(std::nan(""));
    return Task::loss(output, batch);
  }

 private:
  /// The rank, whether ranks are processes or threads.
  static int this_rank() {
    const std::uint64_t identity = lockstep::rank_identity();
    return static_cast<int>((identity >> 32U) + (identity & 0xFFFFFFFFU));
  }

  static void mark() {
    if (const char* file = std::getenv("MISBEHAVE_MARK")) std::ofstream(file) << "now\n";
  }

  static void end_node() {
    if (const char* file = std::getenv("MISBEHAVE_DOWN")) std::ofstream(file) << "down\n";
    kill(getppid(), SIGKILL);
    std::raise(SIGKILL);
  }

  static void flip_a_bit(const lockstep::Tensor& tensor) {
    const lockstep::Tensor here = tensor.to(lockstep::Device{});
    *static_cast<std::uint8_t*>(here.data()) ^= 1U;
    if (tensor.device() != lockstep::Device{}) tensor.copy_from(here);
  }

  // The launcher ends the other ranks at once. The delay lets them wait for this one before.
  template <class F>
  static void end_late(const F& end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    end();
  }

  [[nodiscard]] std::shared_ptr<lockstep::ProcessGroup> make_group() const {
    return lockstep::make_mpi_group(MPI_COMM_WORLD, {.timeout = timeout_});
  }

  void call(bool odd) const {
    using lockstep::DType;
    using lockstep::ReduceOp;
    const auto is = [&](const char* fault) { return odd && fault_ == fault; };
    const auto t =
        lockstep::Tensor::zeros({is("shape") ? 9 : 8}, is("dtype") ? DType::f64 : DType::f32);
    if (fault_ == "root" || is("op")) {
      group_->broadcast(t, odd && fault_ == "root" ? 1 : 0).wait();
    } else if (!is("skip")) {
      group_->all_reduce(t, is("reduction") ? ReduceOp::max : ReduceOp::sum).wait();
    }
    group_->barrier();
  }

  static constexpr std::array<std::string_view, 6> odd_calls = {"op",   "shape",     "dtype",
                                                                "root", "reduction", "skip"};
  std::chrono::milliseconds timeout_{};
  std::shared_ptr<lockstep::ProcessGroup> group_;
  std::string fault_;
  static constexpr int every_rank = -1;
  int rank_ = -2, step_ = -1;
  bool over_ = false;
  std::chrono::milliseconds pace_{0};
  mutable std::vector<std::unique_ptr<char[]>> taken_;
  mutable int calls_ = 0;
  mutable std::shared_ptr<lockstep::nn::Module> model_;  // the newest one is trained
};

std::unique_ptr<lockstep::train::Task> misbehaving(lockstep::Deck& deck) {
  using namespace lockstep::train;
  if (read_task_options(deck).data.kind.get_if<lockstep::TokenOptions>())
    return std::make_unique<Misbehaving<LanguageModel>>(deck);
  return std::make_unique<Misbehaving<Classification>>(deck);
}

}  // namespace

int main(int argc, char** argv) {
  // Before MPI_Init the rank is known from the environment of MPICH's launcher only.
  const char *order = std::getenv("MISBEHAVE"), *rank = std::getenv("PMI_RANK");
  const auto is_mine = [&](const std::string& fault) {
    return order && rank && fault + " " + rank == order;
  };
  if (is_mine("late")) sleep(60);
  const int code = lockstep::train::App("misbehave", "classify with an injected fault", misbehaving)
                       .run(argc, argv);
  if (is_mine("linger")) std::raise(SIGSTOP);
  return code;
}
