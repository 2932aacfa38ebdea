#include <cstdio>
#include <lockstep/base/failure.hpp>
#include <lockstep/checkpoint/folder_of_checkpoints.hpp>
#include <lockstep/checkpoint/reader.hpp>

int main(int argc, char** argv) try {
  if (argc != 2) throw lockstep::InputError("name a run folder: read_checkpoint RUN");
  // The newest checkpoint of a run that verifies, or nothing.
  const auto newest =
      lockstep::newest_good_checkpoint(std::filesystem::path(argv[1]) / "checkpoints");
  if (!newest) throw lockstep::CheckpointError("there is no good one");
  const lockstep::CheckpointContents checkpoint = lockstep::load_checkpoint(*newest);
  std::printf("step %ld, epoch %ld\n", checkpoint.train.step, checkpoint.train.epoch);
  for (const auto& [name, value] : checkpoint.train.metrics)
    std::printf("%s %g\n", name.c_str(), value);
  for (const auto& entry : checkpoint.model)  // and checkpoint.optimizer, deck, metadata
    std::printf("%s %s\n", entry.name.c_str(), to_string(entry.tensor.shape()).c_str());
  std::printf("takes %s\n", to_string(checkpoint.signature.input.shape).c_str());
} catch (...) {
  const lockstep::Failure failure = lockstep::current_failure();
  std::fprintf(stderr, "read_checkpoint: %s\n", failure.message.c_str());
  return static_cast<int>(failure.code);
}
