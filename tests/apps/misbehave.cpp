// classify, or for tokens gpt train, except that one rank does something on purpose at one step:
//   MISBEHAVE="throw 1 7"   rank 1 throws an exception in the forward of its 7th step
//   nan: its loss becomes NaN; kill: SIGKILL; usr1: asks itself to stop; stop: SIGSTOP; exit0:
//   _exit(0); hang: it never comes back;
//   flip: one bit of its first parameter flips; slow: from then on each of its forwards takes 20 ms
//   longer; eat: it takes memory until there is none; node: it kills its node's part of the
//   launcher and itself, and makes the file MISBEHAVE_DOWN
//   MISBEHAVE="stop -1 7"  all ranks do it
// In its 7th step all ranks also call an all-reduce, or, for root, a broadcast, of a group of the
// task's own, and then a barrier; rank 1 does it in its own way:
//   op: it broadcasts; shape, dtype, root, reduction: with another one; skip: not at all
//   group: all ranks make a group then; rank 1 is stopped (SIGSTOP) before
//   MISBEHAVE="late 1"  it comes to MPI_Init only after a minute
//   MISBEHAVE="linger 1"  it is stopped (SIGSTOP) after MPI_Finalize
// The file MISBEHAVE_MARK, if that is set, is written at the moment of the fault; where it is there
// from the beginning, there is no fault. With MISBEHAVE_PACE=5 each forward takes 5 ms longer, on
// all ranks.
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
      std::istringstream(order) >> what_ >> rank_ >> step_;
    if (const char* file = std::getenv("MISBEHAVE_MARK")) over_ = std::filesystem::exists(file);
    if (const char* pace = std::getenv("MISBEHAVE_PACE"))
      pace_ = std::chrono::milliseconds(std::atoi(pace));
    timeout_ = deck.read<lockstep::GroupOptions>("comm").timeout;
    const auto& odd = odd_calls;
    if (std::find(odd.begin(), odd.end(), what_) != odd.end()) group_ = make_group();
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
    if (now && what_ == "throw") throw lockstep::Error("misbehaving on purpose");
    if (now && what_ == "kill") end_late([] { std::raise(SIGKILL); });
    if (now && (what_ == "stop" || what_ == "group")) std::raise(SIGSTOP);
    if (in_step && what_ == "group") make_group()->close();
    if (now && what_ == "usr1") std::raise(SIGUSR1);
    while (now && what_ == "hang") pause();
    if (now && what_ == "flip") flip_a_bit(model_->parameters().front().data());
    while (now && what_ == "eat") taken_.emplace_back(new char[std::size_t{64} << 20U]);
    if (now && what_ == "node") end_node();
    if (now && what_ == "exit0") end_late([] { _exit(0); });
    if (in_step_or_later && rank == rank_ && what_ == "slow")
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (now && what_ == "nan") output.data().fill(std::nan(""));
    return Task::loss(output, batch);
  }

 private:
  /// Of processes or of threads.
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

  // The launcher ends the other ranks at once: by then they are to wait for this one.
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
    const auto is = [&](const char* what) { return odd && what_ == what; };
    const auto t =
        lockstep::Tensor::zeros({is("shape") ? 9 : 8}, is("dtype") ? DType::f64 : DType::f32);
    if (what_ == "root" || is("op")) {
      group_->broadcast(t, odd && what_ == "root" ? 1 : 0).wait();
    } else if (!is("skip")) {
      group_->all_reduce(t, is("reduction") ? ReduceOp::max : ReduceOp::sum).wait();
    }
    group_->barrier();
  }

  static constexpr std::array<std::string_view, 6> odd_calls = {"op",   "shape",     "dtype",
                                                                "root", "reduction", "skip"};
  std::chrono::milliseconds timeout_{};
  std::shared_ptr<lockstep::ProcessGroup> group_;
  std::string what_;
  static constexpr int every_rank = -1;
  int rank_ = -2, step_ = -1;
  bool over_ = false;
  std::chrono::milliseconds pace_{0};
  mutable std::vector<std::unique_ptr<char[]>> taken_;
  mutable int calls_ = 0;
  mutable std::shared_ptr<lockstep::nn::Module> model_;  // the newest: what is trained
};

std::unique_ptr<lockstep::train::Task> misbehaving(lockstep::Deck& deck) {
  using namespace lockstep::train;
  if (read_task_options(deck).data.kind.get_if<lockstep::TokenOptions>())
    return std::make_unique<Misbehaving<LanguageModel>>(deck);
  return std::make_unique<Misbehaving<Classification>>(deck);
}

}  // namespace

int main(int argc, char** argv) {
  // MPI cannot tell a rank its number before MPI_Init; MPICH's launcher does.
  const char *order = std::getenv("MISBEHAVE"), *rank = std::getenv("PMI_RANK");
  const auto is_mine = [&](const std::string& what) {
    return order && rank && what + " " + rank == order;
  };
  if (is_mine("late")) sleep(60);
  const int code =
      lockstep::train::App("misbehave", "classify with a fault on purpose", misbehaving)
          .run(argc, argv);
  if (is_mine("linger")) std::raise(SIGSTOP);
  return code;
}
