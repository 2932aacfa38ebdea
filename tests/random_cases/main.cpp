// Reads cases from standard input and writes what Lockstep makes of them: the output, the inputs'
// gradients for const_grad_out, those gradients once more by operations that record, and the second
// derivatives: the gradients of sum(gradient * const_direction) over the inputs. compare.py holds
// them against PyTorch's.
#include <array>
#include <exception>
#include <iostream>
#include <string>

#include <lockstep/autograd/backward.hpp>
#include <lockstep/autograd/functional/arithmetic.hpp>
#include <lockstep/autograd/functional/reduction.hpp>

#include "case.hpp"

namespace lockstep::test {
namespace {

RandomOperations all_operations() {
  RandomOperations all = random_element_operations();
  for (const auto& more :
       {random_image_operations(), random_layer_operations(), random_loss_operations()})
    all.insert(more.begin(), more.end());
  return all;
}

/// "ok" and the tensors that the case asks for, or "error" and why there are none.
void run(const RandomCase& c, const RandomOperations& operations, std::ostream& out) {
  const std::vector<Variable>& inputs = c.inputs();
  const Variable y = operations.at(c.operation())(c);
  const auto levels = c.whole("levels");
  std::vector<Tensor> written{y.data()};
  if (levels > 0) {
    const Variable g(c.given("const_grad_out"));
    const std::array<Variable, 1> upstream{g};
    const auto plain =
        grad(y, inputs, {.grad_outputs = upstream, .retain_graph = true, .allow_unused = true});
    const auto keep = [&](const std::vector<Variable>& gradients) {
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        written.push_back(gradients[i].defined()
                              ? gradients[i].data()
                              : Tensor::zeros(inputs[i].shape(), inputs[i].data().dtype()));
      }
    };
    keep(plain);
    if (levels > 1) {
      const auto first =
          grad(y, inputs, {.grad_outputs = upstream, .create_graph = true, .allow_unused = true});
      keep(first);
      Variable total;
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (!first[i].defined() || !first[i].requires_grad()) continue;
        const Variable direction(c.given("const_direction_" + std::to_string(i)));
        const Variable part = sum(first[i] * direction);
        total = total.defined() ? total + part : part;
      }
      keep(total.defined() ? grad(total, inputs, {.allow_unused = true})
                           : std::vector<Variable>(inputs.size()));
    }
  }
  out << "ok " << written.size() << '\n';
  for (const Tensor& tensor : written) write_tensor(out, tensor);
}

}  // namespace
}  // namespace lockstep::test

int main() {
  using namespace lockstep::test;
  std::ios::sync_with_stdio(false);
  const RandomOperations operations = all_operations();
  for (RandomCase c; c.read(std::cin);) {
    try {
      run(c, operations, std::cout);
    } catch (const std::exception& error) {
      std::string why = error.what();
      for (char& character : why) character = character == '\n' ? ' ' : character;
      std::cout << "error " << why << '\n';
    }
  }
}
