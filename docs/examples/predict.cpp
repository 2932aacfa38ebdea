#include <lockstep/predict/predictor.hpp>

#include <cstdio>
#include <lockstep/base/failure.hpp>
#include <vector>

int main(int argc, char** argv) try {
  if (argc != 2) throw lockstep::InputError("name a run folder or a checkpoint: predict RUN");
  const lockstep::Predictor predictor(argv[1]);  // a run folder, or a checkpoint
  std::printf("%s -> %s\n", predictor.signature().input.name.c_str(),
              predictor.signature().output.name.c_str());

  const std::vector<float> parameters{0.5F, 0.5F, 0.1F, 0.1F,   // two samples of shape [4],
                                      0.4F, 0.6F, 0.1F, 0.2F};  // raw, as in the training data
  std::vector<float> fields(2 * static_cast<std::size_t>(predictor.output_elements()));
  predictor.predict(parameters, fields);  // any number of samples, from any thread
  std::printf("in the middle %.3f and %.3f\n", fields[8 * 16 + 8], fields[256 + 8 * 16 + 8]);
} catch (...) {
  const lockstep::Failure failure = lockstep::current_failure();
  std::fprintf(stderr, "predict: %s\n", failure.message.c_str());
  return static_cast<int>(failure.code);
}
