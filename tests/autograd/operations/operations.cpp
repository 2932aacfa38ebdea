#include "operations.hpp"

#include "../gradient_check.hpp"

namespace lockstep::test {

Operations all_operations() {
  Operations all;
  for (const auto& operations :
       {activation_operations(), arithmetic_operations(), matmul_operations(),
        attention_operations(), batch_norm_operations(), conv_operations(), embedding_operations(),
        image_operations(), linear_operations(), loss_operations(), norm_operations(),
        recurrent_operations(), reduction_operations(), regression_loss_operations(),
        shape_operations()}) {
    all.insert(all.end(), operations.begin(), operations.end());
  }
  return all;
}

Inputs make_inputs(const Operation& operation, DType dtype, Device device) {
  Inputs inputs;
  for (std::size_t i = 0; i < operation.inputs.size(); ++i) {
    inputs.emplace_back(random_tensor(operation.inputs[i], 50 + i).to(dtype).to(device), true);
  }
  return inputs;
}

}  // namespace lockstep::test
