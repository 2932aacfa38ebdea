// Fits numbers or fields to samples of an HDF5 file: data, model and everything else from an input
// deck.
//   mpiexec -n 2 regress inputs/heat.toml
#include <memory>

#include <lockstep/train/app.hpp>
#include <lockstep/train/task/regression.hpp>

int main(int argc, char** argv) {
  lockstep::train::App app(
      "regress", "Fits numbers or fields to the samples of an HDF5 file, from an input deck.",
      [](lockstep::Deck& deck) { return std::make_unique<lockstep::train::Regression>(deck); });
  return app.run(argc, argv);
}
