#include "case.hpp"

#include <sstream>
#include <stdexcept>

#include <lockstep/tensor/dtype.hpp>

namespace lockstep::test {
namespace {

DType dtype_named(const std::string& name) {
  for (const DType dtype : {DType::f32, DType::f64, DType::i64, DType::boolean}) {
    if (name_of(dtype) == name) return dtype;
  }
  throw std::runtime_error("no dtype " + name);
}

/// The numbers of "name=number,number".
std::pair<std::string, std::vector<double>> attribute_of(const std::string& text) {
  const std::size_t sign = text.find('=');
  std::pair<std::string, std::vector<double>> result{text.substr(0, sign), {}};
  std::istringstream values(text.substr(sign + 1));
  for (std::string value; std::getline(values, value, ',');)
    result.second.push_back(std::stod(value));
  return result;
}

Tensor read_tensor(std::istream& in, std::string& name) {
  std::string line, dtype;
  std::getline(in, line);
  std::istringstream words(line);
  words >> name >> dtype;
  std::vector<std::int64_t> extents;
  for (std::int64_t extent = 0; words >> extent;) extents.push_back(extent);
  Tensor tensor = Tensor::empty(Shape(extents), dtype_named(dtype));
  in.read(static_cast<char*>(tensor.data()), static_cast<std::streamsize>(tensor.bytes()));
  return tensor;
}

}  // namespace

bool RandomCase::read(std::istream& in) {
  *this = {};
  std::string line;
  if (!std::getline(in, line)) return false;
  std::istringstream words(line);
  words >> operation_;
  for (std::string word; words >> word;) numbers_.insert(attribute_of(word));
  std::getline(in, line);
  for (int left = std::stoi(line); left > 0; --left) {
    std::string name;
    const Tensor tensor = read_tensor(in, name);
    tensors_.emplace(name, tensor);
    if (name.starts_with("const_")) continue;
    const Variable variable(tensor, true);
    variables_.emplace(name, variable);
    inputs_.push_back(variable);
  }
  return true;
}

Variable RandomCase::input(const std::string& name) const {
  const auto found = variables_.find(name);
  return found == variables_.end() ? Variable() : found->second;
}

Tensor RandomCase::constant(const std::string& name) const {
  const auto found = tensors_.find("const_" + name);
  return found == tensors_.end() ? Tensor() : found->second;
}

void write_tensor(std::ostream& out, const Tensor& tensor) {
  out << name_of(tensor.dtype());
  for (const auto extent : tensor.shape()) out << ' ' << extent;
  out << '\n';
  out.write(static_cast<const char*>(tensor.data()), static_cast<std::streamsize>(tensor.bytes()));
}

}  // namespace lockstep::test
