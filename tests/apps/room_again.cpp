// classify, except that in its 15th step rank 0 fills the file system of the folder ROOM_IN with a
// file there, up to its last kilobytes, and in its 25th step removes that file again.
#include <mpi.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <lockstep/autograd/functional.hpp>
#include <lockstep/train/app.hpp>
#include <string>

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
      if (calls_ == 15) fill(folder);
      if (calls_ == 25) fs::remove(folder / "filler");
    }
    return Classification::loss(output, batch);
  }

 private:
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
