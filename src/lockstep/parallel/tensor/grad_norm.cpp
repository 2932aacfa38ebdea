#include <lockstep/parallel/tensor/grad_norm.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include <lockstep/comm/objects.hpp>
#include <lockstep/comm/packed.hpp>
#include <lockstep/optim/clip.hpp>
#include <lockstep/optim/for_each_gradient.hpp>

namespace lockstep {

TensorParallelGradNorm::TensorParallelGradNorm(const nn::Module& model, GroupPtr group)
    : group_(std::move(group)) {
  const StateDict state = model.state_dict();
  std::vector<std::int64_t> offsets;  // of each slab
  std::vector<std::size_t> begins;
  for (const nn::NamedParameter& parameter : model.named_parameters()) {
    const Placement& placement = state.find(parameter.name)->placement;
    if (!placement.sharded) {
      whole_.push_back(parameter);
      continue;
    }
    slabs_.push_back(parameter);
    begins.push_back(offsets.size());
    offsets.insert(offsets.end(), placement.offsets.begin(), placement.offsets.end());
  }
  begins.push_back(offsets.size());
  std::vector<std::vector<std::int64_t>> all;
  for (const std::string& bytes : all_gather_object(*group_, packed(offsets)))
    all.push_back(unpacked<std::vector<std::int64_t>>(bytes));
  for (std::size_t i = 0; i < slabs_.size(); ++i) {
    const auto of = [&](const std::vector<std::int64_t>& numbers) {
      return std::span(numbers).subspan(begins[i], begins[i + 1] - begins[i]);
    };
    holders_.push_back(static_cast<double>(std::ranges::count_if(
        all, [&](const auto& other) { return std::ranges::equal(of(other), of(offsets)); })));
  }
}

double TensorParallelGradNorm::norm() const {
  double mine = 0.0;
  for (std::size_t i = 0; i < slabs_.size(); ++i)
    mine = std::hypot(mine, optim::grad_norm({slabs_[i]}) / std::sqrt(holders_[i]));
  double all = optim::grad_norm(whole_);
  for (const std::string& bytes : all_gather_object(*group_, packed(mine)))
    all = std::hypot(all, unpacked<double>(bytes));
  return all;
}

double TensorParallelGradNorm::clip(double max_norm) const {
  const double all = norm(), factor = optim::clip_factor(all, max_norm);
  if (factor == 1.0) return all;
  for (const auto* parameters : {&whole_, &slabs_})
    optim::for_each_gradient(*parameters, [&](const Tensor& g) { scale(g, factor); });
  return all;
}

double tensor_parallel_clip_grad_norm(const nn::Module& model, const GroupPtr& group,
                                      double max_norm) {
  return TensorParallelGradNorm(model, group).clip(max_norm);
}

}  // namespace lockstep
