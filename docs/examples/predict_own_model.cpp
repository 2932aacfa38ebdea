#include <lockstep/predict/predictor.hpp>

#include <cstdio>
#include <lockstep/base/failure.hpp>
#include <lockstep/checkpoint/save/writer.hpp>
#include <lockstep/comm/threads_group.hpp>
#include <lockstep/nn/layers.hpp>
#include <lockstep/nn/sequential.hpp>
#include <vector>

using namespace lockstep;

std::shared_ptr<nn::Module> make_net() {
  return std::make_shared<nn::Sequential>(std::initializer_list<std::shared_ptr<nn::Module>>{
      std::make_shared<nn::Linear>(3, 16), std::make_shared<nn::Tanh>(),
      std::make_shared<nn::Linear>(16, 1)});
}

int main(int argc, char** argv) try {
  if (argc != 2) throw InputError("name the checkpoint to write and read: predict_own_model FILE");
  const ModelSignature signature{
      .input = {.name = "speeds", .shape = {3}, .mean = {20}, .std = {5}},
      .output = {.name = "drag", .shape = {1}}};
  // A program with a loop of its own says what goes in and comes out when it saves.
  CheckpointContents contents{.model = make_net()->state_dict(), .signature = signature};
  run_ranks_as_threads(
      1, [&](ProcessGroup& group) { CheckpointWriter().save(group, argv[1], contents); });

  const Predictor predictor(argv[1], make_net());  // the same network, with the file's weights
  const std::vector<float> speeds{18, 25, 31};
  std::vector<float> drag(1);
  predictor.predict(speeds, drag);
  std::printf("%s of one sample: %zu number\n", predictor.signature().output.name.c_str(),
              drag.size());
} catch (...) {
  const Failure failure = current_failure();
  std::fprintf(stderr, "predict_own_model: %s\n", failure.message.c_str());
  return static_cast<int>(failure.code);
}
