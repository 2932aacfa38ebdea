// An undefined Variable is refused with a sentence, wherever it is handed in.
#include <gtest/gtest.h>

#include <string>

#include <lockstep/autograd/functional.hpp>
#include <lockstep/base/error.hpp>

#include "operations/operations.hpp"

namespace lockstep::test {
namespace {

template <class F>
void expect_sentence(const F& f, const std::string& what) {
  try {
    f();
    ADD_FAILURE() << what << " accepted an undefined variable";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("undefined"), std::string::npos)
        << what << ": " << error.what();
  }
}

TEST(UndefinedVariable, MembersThrowASentence) {
  const Variable none;
  expect_sentence([&] { static_cast<void>(none.data()); }, "data");
  expect_sentence([&] { static_cast<void>(none.shape()); }, "shape");
  expect_sentence([&] { static_cast<void>(none.is_leaf()); }, "is_leaf");
  expect_sentence([&] { static_cast<void>(none.grad()); }, "grad");
  expect_sentence([&] { none.zero_grad(); }, "zero_grad");
  expect_sentence([&] { static_cast<void>(none.grad_buffer()); }, "grad_buffer");
  expect_sentence([&] { none.set_grad_buffer(Tensor::zeros({1})); }, "set_grad_buffer");
  expect_sentence([&] { none.mark_grad_present(); }, "mark_grad_present");
  expect_sentence([&] { static_cast<void>(none.add_grad_hook({})); }, "add_grad_hook");
  expect_sentence([&] { none.set_value_buffer(Tensor::zeros({1})); }, "set_value_buffer");
  expect_sentence([&] { none.backward(); }, "backward");
  EXPECT_FALSE(none.defined());
  EXPECT_FALSE(none.requires_grad());
}

TEST(UndefinedVariable, CannotBeMadeFromAnUndefinedTensor) {
  expect_sentence([] { static_cast<void>(Variable(Tensor())); }, "Variable(Tensor())");
}

TEST(UndefinedVariable, IsRefusedByEveryOperationAtEveryPlace) {
  // What may be left out: PyTorch's optional arguments.
  const auto may_be_undefined = [](const Operation& operation, std::size_t input) {
    const std::string name = operation.name;
    return (name.starts_with("linear") && input == 2) || (name.starts_with("conv") && input == 2) ||
           (name.starts_with("layer_norm") && input == 2) ||
           (name.starts_with("batch_norm") && input >= 2) ||
           ((name == "group_norm" || name == "instance_norm") && input >= 1) ||
           (name == "in_projection" && input == 4) ||
           (name == "embedding_bag_weighted" && input == 1) ||
           (name.starts_with("recurrent_lstm") && (input == 1 || input == 2 || input > 4)) ||
           (name.starts_with("recurrent") && !name.starts_with("recurrent_lstm") &&
            (input == 1 || input > 3));
  };
  for (const Operation& operation : all_operations()) {
    for (std::size_t i = 0; i < operation.inputs.size(); ++i) {
      if (may_be_undefined(operation, i)) continue;
      Inputs inputs = make_inputs(operation, DType::f32);
      inputs[i] = {};
      expect_sentence([&] { static_cast<void>(operation.apply(inputs)); },
                      operation.name + std::string(", input ") + std::to_string(i));
    }
  }
}

}  // namespace
}  // namespace lockstep::test
