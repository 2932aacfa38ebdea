#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <support/allocation_counter.hpp>
#include <support/message_of.hpp>
#include <thread>

#include <lockstep/autograd/functional.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/checkpoint/save/writer.hpp>
#include <lockstep/comm/threads_group.hpp>

#include "networks.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// Numbers, and the index of the material, one of three, on which they were measured.
struct Net : nn::Module {
  std::shared_ptr<nn::Embedding> material =
      register_module("material", std::make_shared<nn::Embedding>(3, 4));
  std::shared_ptr<nn::Linear> out = register_module("out", std::make_shared<nn::Linear>(2 + 4, 1));

  using Module::forward;
  Variable forward(const Variable& numbers, const Variable& materials) {
    return (*out)(concat({numbers, (*material)(materials)}, 1));
  }
};

ModelSignature signature() {
  return {
      .input = {.name = "numbers", .shape = {2}, .mean = {10, 20}, .std = {2}},
      .output = {.name = "answer", .shape = {1}, .mean = {5}, .std = {3}},
      .other_inputs = {{.name = "material", .dtype = DType::i64, .shape = {}}},
  };
}

Variable ask(nn::Module& model, std::span<const Variable> inputs) {
  return static_cast<Net&>(model).forward(inputs[0], inputs[1]);
}

using Floats = std::vector<float>;
using Indices = std::vector<std::int64_t>;

/// 300 samples: more than one forward pass takes.
struct Samples {
  Floats numbers = test::raw_inputs(600);
  Indices materials;

  Samples() {
    for (int i = 0; i < 300; ++i) materials.push_back(i % 3);
  }
  [[nodiscard]] std::array<Predictor::Input, 2> inputs() const { return {numbers, materials}; }
};

Floats predict(const Predictor& predictor, const Samples& samples) {
  Floats output(300);
  predictor.predict(samples.inputs(), output);
  return output;
}

/// The model's own output, in the target's units.
Floats said(Net& model, const Samples& samples) {
  Floats scaled;
  for (std::size_t i = 0; i < 600; ++i)
    scaled.push_back((samples.numbers[i] - (i % 2 == 0 ? 10 : 20)) / 2);
  Floats y = model
                 .forward(Variable(Tensor::from(scaled, {300, 2})),
                          Variable(Tensor::from(samples.materials, {300})))
                 .data()
                 .to_vector<float>();
  for (float& value : y) value = value * 3 + 5;
  return y;
}

TEST(PredictorOfSeveralInputs, GivesTheModelsOutputForEachSample) {
  nn::manual_seed(2);
  const auto model = std::make_shared<Net>();
  const Predictor predictor(model, signature(), ask);
  EXPECT_EQ(predictor.input_elements(0), 2);
  EXPECT_EQ(predictor.input_elements(1), 1);
  EXPECT_THROW(static_cast<void>(predictor.input_elements(2)), std::out_of_range);
  const Samples samples;
  const Floats got = predict(predictor, samples), want = said(*model, samples);
  for (std::size_t i = 0; i < 300; ++i) ASSERT_NEAR(got[i], want[i], 1e-4) << i;
}

TEST(PredictorOfSeveralInputs, ServesSeveralThreadsAndAllocatesNothing) {
  const Predictor predictor(std::make_shared<Net>(), signature(), ask);
  const Samples samples;
  const Floats want = predict(predictor, samples);
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 5; ++i) EXPECT_EQ(predict(predictor, samples), want);
    });
  }
  for (auto& thread : threads) thread.join();
  Floats output(300);
  const auto inputs = samples.inputs();
  for (int i = 0; i < 5; ++i) predictor.predict(inputs, output);
  const auto before = test::allocation_count() + memory_stats().system_allocations;
  for (int i = 0; i < 20; ++i) predictor.predict(inputs, output);
  EXPECT_EQ(test::allocation_count() + memory_stats().system_allocations, before);
}

TEST(PredictorOfSeveralInputs, ComesFromACheckpointThatNamesThem) {
  const auto file = fs::temp_directory_path() / ("several-" + std::to_string(getpid()) + ".h5");
  const auto trained = std::make_shared<Net>();
  run_ranks_as_threads(1, [&](ProcessGroup& group) {
    CheckpointWriter().save(group, file,
                            {.model = trained->state_dict(), .signature = signature()});
  });
  const Samples samples;
  const Predictor predictor(file, std::make_shared<Net>(), {}, ask);
  EXPECT_EQ(predictor.signature(), signature());
  EXPECT_EQ(predict(predictor, samples), predict(Predictor(trained, signature(), ask), samples));
  fs::remove(file);
}

TEST(PredictorOfSeveralInputs, RefusesOtherInputsInASentence) {
  const auto model = std::make_shared<Net>();
  EXPECT_NE(test::message_of<Error>([&] {
              Predictor(model, signature());
            }).find("2 inputs needs a Predictor::Forward"),
            std::string::npos);
  const Predictor predictor(model, signature(), ask);
  Floats output(1);
  const Floats numbers(2);
  const auto message = [&](const std::vector<Predictor::Input>& inputs) {
    return test::message_of<InputError>([&] { predictor.predict(inputs, output); });
  };
  EXPECT_EQ(message({numbers}), "the model takes 2 inputs per sample, not 1");
  EXPECT_EQ(message({numbers, numbers}), "material are i64, not f32");
  EXPECT_EQ(
      message({numbers, Indices{1, 2}}),
      "2 elements of material and 1 of output are not the same number of samples of 1 and 1 each");
  EXPECT_EQ(message({numbers, Indices{1}}), "nothing was thrown");
}

}  // namespace
}  // namespace lockstep
