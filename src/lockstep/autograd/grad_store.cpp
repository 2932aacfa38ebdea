#include <lockstep/autograd/grad_store.hpp>

#include <algorithm>

#include <lockstep/tensor/kernels/elementwise/elementwise.hpp>

namespace lockstep {
namespace {

bool is_observed(const Variable& leaf) {
  return std::ranges::any_of(leaf.record()->grad_hooks, &detail::GradHookEntry::observer);
}

Tensor times(const Tensor& gradient, double factor) {
  Tensor product = Tensor::zeros(gradient.shape(), gradient.dtype(), gradient.device());
  add_scaled(gradient, factor, product);
  return product;
}

}  // namespace

GradTarget GradStore::target(const Variable& leaf) {
  Entry& entry = entries_[leaf.record()];
  const bool is_first = std::exchange(entry.pass, pass_) != pass_;
  if (is_first && keeps_apart_ && entry.gradient.defined() && is_observed(leaf)) {
    entry.before = std::exchange(entry.gradient, Tensor());
  } else if (is_first) {
    entry.is_own = true;
  }
  const bool accumulate = entry.gradient.defined();
  if (!accumulate) {
    entry.leaf = leaf;
    entry.gradient = Tensor::empty_like(leaf.data());
  }
  return {true, accumulate, entry.gradient};
}

Tensor GradStore::gradient(const Variable& leaf) const {
  const auto place = entries_.find(leaf.record());
  return place == entries_.end() ? Tensor() : place->second.gradient;
}

std::vector<std::pair<Variable, Tensor>> GradStore::gradients() const {
  std::vector<std::pair<Variable, Tensor>> all;
  for (const auto& [record, entry] : entries_) all.emplace_back(entry.leaf, entry.gradient);
  return all;
}

void GradStore::begin_pass(bool keeps_apart) {
  end_pass();
  ++pass_;
  keeps_apart_ = keeps_apart;
}

void GradStore::end_pass() {
  if (!std::exchange(keeps_apart_, false)) return;
  for (auto& [record, entry] : entries_) {
    if (entry.before.defined()) join(entry);
  }
}

void GradStore::join(Entry& entry) {
  add_scaled(entry.gradient, 1.0, entry.before);
  entry.gradient = std::exchange(entry.before, Tensor());
  entry.is_own = true;
}

std::vector<Variable> GradStore::leaves_of_pass() const {
  std::vector<Variable> leaves;
  for (const auto& [record, entry] : entries_) {
    if (entry.pass == pass_) leaves.push_back(entry.leaf);
  }
  return leaves;
}

Tensor GradStore::part_of_sum(const Variable& leaf, double factor_before) const {
  const auto place = entries_.find(leaf.record());
  if (place == entries_.end()) return {};
  const Entry& entry = place->second;
  if (entry.before.defined()) {
    if (!entry.is_own) return entry.gradient;
    Tensor part = times(entry.before, factor_before);
    add_scaled(entry.gradient, 1.0, part);
    return part;
  }
  if (!entry.is_own) return {};
  return entry.pass == pass_ ? entry.gradient : times(entry.gradient, factor_before);
}

void GradStore::put_sum(const Variable& leaf, const Tensor& sum) {
  Entry& entry = entries_[leaf.record()];
  entry.leaf = leaf;
  const bool adds = !entry.is_own;
  if (entry.before.defined()) entry.gradient = std::exchange(entry.before, Tensor());
  if (!entry.gradient.defined()) {
    entry.gradient = sum.clone();
  } else if (adds) {
    add_scaled(sum, 1.0, entry.gradient);
  } else {
    entry.gradient.copy_from(sum);
  }
  entry.is_own = false;
}

void GradStore::keep_own(const Variable& leaf, double factor) {
  const auto place = entries_.find(leaf.record());
  if (place == entries_.end() || place->second.pass != pass_) return;
  Entry& entry = place->second;
  if (factor != 1.0) entry.gradient = times(entry.gradient, factor);
  if (entry.before.defined()) join(entry);
}

}  // namespace lockstep
