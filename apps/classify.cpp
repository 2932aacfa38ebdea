// Trains an image classifier: data, model and everything else from an input deck.
//   mpiexec -n 2 classify inputs/fashion_mnist.toml
#include <memory>

#include <lockstep/train/app.hpp>
#include <lockstep/train/task/classification.hpp>

int main(int argc, char** argv) {
  lockstep::train::App app(
      "classify", "Trains an image classifier from an input deck.",
      [](lockstep::Deck& deck) { return std::make_unique<lockstep::train::Classification>(deck); });
  return app.run(argc, argv);
}
