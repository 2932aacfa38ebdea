// classify in the folder ROOM_IN/run, except for its 15th step. Once the checkpoint of step 10
// exists, rank 0 fills that file system with a file, up to its last kilobytes. It removes the file
// once the run has reported that the checkpoint of step 20 could not be written.
#include <mpi.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <lockstep/autograd/functional.hpp>
#include <lockstep/train/app.hpp>
#include <lockstep/train/task/classification.hpp>
#include <sstream>
#include <string>
#include <thread>

namespace {

namespace fs = std::filesystem;

class RoomAgain : public lockstep::train::Classification {
 public:
  using Classification::Classification;

  lockstep::Variable loss(const lockstep::Variable& output,
                          const lockstep::Batch& batch) const override {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const fs::path folder = std::getenv("ROOM_IN");
    if (lockstep::grad_enabled() && rank == 0) {
      ++calls_;
      if (calls_ == 15) {
        while (!fs::exists(folder / "run/checkpoints/step-00000010.h5")) pause();
        fill(folder);
      }
      // A failure in the background is reported between two steps, so no step may wait for it.
      if (calls_ > 20 && fs::exists(folder / "filler")) {
        pause();
        if (says_not_written(folder / "run/log.txt")) fs::remove(folder / "filler");
      }
    }
    return Classification::loss(output, batch);
  }

 private:
  static void pause() { std::this_thread::sleep_for(std::chrono::milliseconds(400)); }

  static bool says_not_written(const fs::path& log) {
    std::ostringstream text;
    text << std::ifstream(log).rdbuf();
    return text.str().find("step-00000020.h5 was not written") != std::string::npos;
  }

  /// Leaves room for the run's small files, not for a checkpoint.
  static void fill(const fs::path& folder) {
    constexpr std::uintmax_t left = 64 << 10;
    std::ofstream out(folder / "filler", std::ios::binary);
    const std::string block(4096, 'x');
    while (out && fs::space(folder).available > left) out << block << std::flush;
  }

  mutable int calls_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  return lockstep::train::App(
             "room_again", "classify on a disk that is full for a while",
             [](lockstep::Deck& deck) { return std::make_unique<RoomAgain>(deck); })
      .run(argc, argv);
}
