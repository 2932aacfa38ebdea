#include <lockstep/autograd/grad_store.hpp>

namespace lockstep {

GradTarget GradStore::target(const Variable& leaf) {
  auto& [variable, gradient] = gradients_[leaf.record()];
  const bool accumulate = gradient.defined();
  if (!accumulate) {
    variable = leaf;
    gradient = Tensor::empty_like(leaf.data());
  }
  return {true, accumulate, gradient};
}

Tensor GradStore::gradient(const Variable& leaf) const {
  const auto place = gradients_.find(leaf.record());
  return place == gradients_.end() ? Tensor() : place->second.second;
}

std::vector<std::pair<Variable, Tensor>> GradStore::gradients() const {
  std::vector<std::pair<Variable, Tensor>> all;
  for (const auto& [record, entry] : gradients_) all.push_back(entry);
  return all;
}

}  // namespace lockstep
