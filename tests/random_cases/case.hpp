#pragma once
#include <array>
#include <cstdint>
#include <istream>
#include <map>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/autograd/variable.hpp>

namespace lockstep::test {

/// A case as compare.py writes it: a line "operation name=number,number ...", a line with the
/// number of tensors, and for each tensor a line "name dtype extent extent ..." and its elements in
/// bytes. A name that begins with "const_" is of a tensor without a gradient.
class RandomCase {
 public:
  /// False at the end of the stream.
  bool read(std::istream& in);

  [[nodiscard]] const std::string& operation() const { return operation_; }
  [[nodiscard]] bool has(const std::string& name) const { return numbers_.contains(name); }
  [[nodiscard]] double number(const std::string& name) const { return numbers_.at(name).at(0); }
  [[nodiscard]] std::int64_t whole(const std::string& name) const {
    return static_cast<std::int64_t>(number(name));
  }
  [[nodiscard]] bool flag(const std::string& name) const { return number(name) != 0.0; }
  template <class T = std::int64_t>
  [[nodiscard]] std::vector<T> list(const std::string& name) const {
    std::vector<T> result;
    for (const double value : numbers_.at(name)) result.push_back(static_cast<T>(value));
    return result;
  }
  template <std::size_t n>
  [[nodiscard]] std::array<std::int64_t, n> extents(const std::string& name) const {
    std::array<std::int64_t, n> result{};
    for (std::size_t i = 0; i < n; ++i)
      result[i] = static_cast<std::int64_t>(numbers_.at(name).at(i));
    return result;
  }
  /// An input with a gradient, undefined if the case has none of this name.
  [[nodiscard]] Variable input(const std::string& name) const;
  /// A tensor "const_" + name, undefined likewise.
  [[nodiscard]] Tensor constant(const std::string& name) const;
  /// Those with a gradient, as they came.
  [[nodiscard]] const std::vector<Variable>& inputs() const { return inputs_; }
  [[nodiscard]] const Tensor& given(const std::string& name) const { return tensors_.at(name); }

 private:
  std::string operation_;
  std::map<std::string, std::vector<double>> numbers_;
  std::map<std::string, Variable> variables_;
  std::map<std::string, Tensor> tensors_;
  std::vector<Variable> inputs_;
};

/// Writes a line "dtype extent ..." and the elements.
void write_tensor(std::ostream& out, const Tensor& tensor);

using RandomOperations = std::map<std::string, Variable (*)(const RandomCase&)>;
[[nodiscard]] RandomOperations random_element_operations();
[[nodiscard]] RandomOperations random_image_operations();
[[nodiscard]] RandomOperations random_layer_operations();
[[nodiscard]] RandomOperations random_loss_operations();

}  // namespace lockstep::test
