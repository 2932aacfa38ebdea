#include <lockstep/parallel/tensor/grad_norm.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <utility>

#include <lockstep/base/expect_given.hpp>
#include <lockstep/comm/objects.hpp>
#include <lockstep/comm/packed.hpp>
#include <lockstep/optim/clip.hpp>
#include <lockstep/optim/for_each_gradient.hpp>

namespace lockstep {

TensorParallelGradNorm::TensorParallelGradNorm(const nn::Module& model, GroupPtr group)
    : TensorParallelGradNorm(model.named_parameters(), model.state_dict(), std::move(group)) {}

TensorParallelGradNorm::TensorParallelGradNorm(const std::vector<nn::NamedParameter>& parameters,
                                               const StateDict& state, GroupPtr group)
    : group_(expect_given("TensorParallelGradNorm", "the group", std::move(group))),
      mine_(Tensor::empty({1}, DType::f64)),
      all_(Tensor::empty({group_->size(), 1}, DType::f64)) {
  std::vector<nn::NamedParameter> slabs;
  std::vector<std::int64_t> offsets;  // of each slab
  std::vector<std::size_t> begins;
  for (const nn::NamedParameter& parameter : parameters) {
    const auto& [name, tensor, placement] = *state.find(parameter.name);
    if (!placement.sharded || placement.global == tensor.shape()) {
      whole_.push_back(parameter);
      continue;
    }
    slabs.push_back(parameter);
    begins.push_back(offsets.size());
    offsets.insert(offsets.end(), placement.offsets.begin(), placement.offsets.end());
  }
  begins.push_back(offsets.size());
  std::vector<std::vector<std::int64_t>> all;
  for (const std::string& bytes : all_gather_object(*group_, packed(offsets)))
    all.push_back(unpacked<std::vector<std::int64_t>>(bytes));
  for (std::size_t i = 0; i < slabs.size(); ++i) {
    const auto of = [&](const std::vector<std::int64_t>& numbers) {
      return std::span(numbers).subspan(begins[i], begins[i + 1] - begins[i]);
    };
    const auto holders = static_cast<int>(std::ranges::count_if(
        all, [&](const auto& other) { return std::ranges::equal(of(other), of(offsets)); }));
    auto as_many = std::ranges::find(held_, holders, &Held::holders);
    if (as_many == held_.end()) as_many = held_.insert(held_.end(), {holders, {}});
    as_many->slabs.push_back(slabs[i]);
  }
}

double TensorParallelGradNorm::norm() const {
  double mine = 0.0;
  for (const auto& [holders, slabs] : held_)
    mine = std::hypot(mine, optim::grad_norm(slabs) / std::sqrt(static_cast<double>(holders)));
  mine_.fill(mine);
  group_->all_gather(mine_, all_).wait();
  double norm = optim::grad_norm(whole_);
  for (std::int64_t rank = 0; rank < all_.size(0); ++rank)
    norm = std::hypot(norm, all_[rank].item());
  return norm;
}

double TensorParallelGradNorm::clip(double max_norm) const {
  const double all = norm(), factor = optim::clip_factor(all, max_norm);
  if (factor == 1.0) return all;
  const auto scaled = [&](const Tensor& g) { scale(g, factor); };
  optim::for_each_gradient(whole_, scaled);
  for (const Held& held : held_) optim::for_each_gradient(held.slabs, scaled);
  return all;
}

double tensor_parallel_clip_grad_norm(const nn::Module& model, const GroupPtr& group,
                                      double max_norm) {
  return TensorParallelGradNorm(model, group).clip(max_norm);
}

}  // namespace lockstep
