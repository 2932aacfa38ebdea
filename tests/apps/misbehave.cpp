// classify, except that one rank does something on purpose at one step:
//   MISBEHAVE="throw 1 7"   rank 1 throws an exception in the forward of its 7th step
//   nan: its loss becomes NaN; kill: SIGKILL; usr1: asks itself to stop; stop: SIGSTOP; exit0:
//   _exit(0)
#include <mpi.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstdlib>
#include <lockstep/autograd/functional.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/train/app.hpp>
#include <sstream>

namespace {

class Misbehaving : public lockstep::train::Classification {
 public:
  explicit Misbehaving(lockstep::Deck& deck) : Classification(deck) {
    if (const char* order = std::getenv("MISBEHAVE"))
      std::istringstream(order) >> what_ >> rank_ >> step_;
  }

  lockstep::Variable loss(const lockstep::Variable& output,
                          const lockstep::Batch& batch) const override {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const bool now = lockstep::grad_enabled() && ++calls_ == step_ && rank == rank_;
    if (now && what_ == "throw") throw lockstep::Error("misbehaving on purpose");
    if (now && what_ == "kill") std::raise(SIGKILL);
    if (now && what_ == "stop") std::raise(SIGSTOP);
    if (now && what_ == "usr1") std::raise(SIGUSR1);
    if (now && what_ == "exit0") _exit(0);
    if (now && what_ == "nan") output.data().fill(std::nan(""));
    return Classification::loss(output, batch);
  }

 private:
  std::string what_;
  int rank_ = -1, step_ = -1;
  mutable int calls_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  return lockstep::train::App(
             "misbehave", "classify with a fault on purpose",
             [](lockstep::Deck& deck) { return std::make_unique<Misbehaving>(deck); })
      .run(argc, argv);
}
