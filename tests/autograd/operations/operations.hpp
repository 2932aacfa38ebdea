#pragma once
#include <vector>

#include <lockstep/autograd/variable.hpp>

namespace lockstep::test {

/// One operation on inputs of shapes as a network has them, and of every path its kernel may take:
/// described once, tested for allocations (allocations_test), for threads (threads_test) and on
/// devices (devices_test).
struct Operation {
  const char* name;
  std::vector<Shape> inputs;
  Variable (*apply)(const std::vector<Variable>& inputs);
};
using Inputs = std::vector<Variable>;
using Operations = std::vector<Operation>;

[[nodiscard]] Operations activation_operations();
[[nodiscard]] Operations arithmetic_operations();
[[nodiscard]] Operations matmul_operations();
[[nodiscard]] Operations attention_operations();
[[nodiscard]] Operations batch_norm_operations();
[[nodiscard]] Operations conv_operations();
[[nodiscard]] Operations embedding_operations();
[[nodiscard]] Operations image_operations();
[[nodiscard]] Operations linear_operations();
[[nodiscard]] Operations loss_operations();
[[nodiscard]] Operations norm_operations();
[[nodiscard]] Operations recurrent_operations();
[[nodiscard]] Operations reduction_operations();
[[nodiscard]] Operations regression_loss_operations();
[[nodiscard]] Operations shape_operations();

/// Those of every subject.
[[nodiscard]] Operations all_operations();

/// The operation's inputs, numbers in [-1, 1), each wanting a gradient.
[[nodiscard]] Inputs make_inputs(const Operation& operation, DType dtype, Device device = {});

}  // namespace lockstep::test
