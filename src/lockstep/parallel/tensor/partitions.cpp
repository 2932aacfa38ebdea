#include <lockstep/parallel/tensor/partitions.hpp>

#include <lockstep/autograd/functional/arithmetic.hpp>
#include <lockstep/autograd/functional/linear.hpp>
#include <lockstep/tensor/dims.hpp>
#include <lockstep/tensor/kernels/elementwise/copy.hpp>

namespace lockstep {
namespace {

constexpr int sequence_dim = 1;  // of [B, T, ...]

Variable cut_along_sequence(const Variable& x, const GroupPtr& group) {
  const Slice mine =
      equal_slice("the sequence of a tensor-parallel module", x.shape()[sequence_dim], *group);
  return scatter_to_group(x, sequence_dim, mine.first, mine.count, group);
}

}  // namespace

Variable ColumnPartition::enter(const Variable& x) const { return input_of_parts(x, sequence_); }

Variable ColumnPartition::held(const Variable& parameter) const {
  return holders_ && parameter.defined() ? copy_to_group(parameter, holders_) : parameter;
}

Variable ColumnPartition::output(const Variable& y) const {
  return gathered_at_ < 0 ? y : gather_from_group(y, -1, gathered_at_, outputs_, group());
}

Variable ColumnPartition::linear(const Variable& x, const Variable& weight,
                                 const Variable& bias) const {
  return output(lockstep::linear(enter(x), held(weight), held(bias)));
}

Variable ColumnPartition::linear_without_values(const Variable& x, const Variable& weight,
                                                const Variable& bias) const {
  return output(lockstep::linear_without_values(enter(x), held(weight), held(bias)));
}

Variable RowPartition::input(const Variable& x) const {
  return split_input_ ? scatter_to_group(x, -1, inputs_.first, inputs_.count, group()) : x;
}

Variable RowPartition::output(const Variable& partial, const Variable& bias) const {
  const Variable y = sequence_ ? reduce_scatter_along(partial, sequence_dim, group())
                               : reduce_from_group(partial, group());
  if (!bias.defined()) return y;
  return y + (sequence_ ? copy_to_group(bias, group()) : bias);
}

Variable RowPartition::linear(const Variable& x, const Variable& weight,
                              const Variable& bias) const {
  return output(lockstep::linear(input(x), weight, {}), bias);
}

Variable RowPartition::linear_without_values(const Variable& x, const Variable& weight,
                                             const Variable& bias) const {
  return output(lockstep::linear_without_values(input(x), weight, {}), bias);
}

Variable DropoutPartition::dropout(const Variable& x, double p, const RandomKey& key) const {
  const int dim = resolve_dim(x.shape(), dim_);
  const std::int64_t extent = x.shape()[dim];
  const std::int64_t whole = whole_ > 0 ? whole_ : extent * group()->size();
  const std::int64_t first = whole_ > 0 ? mine_.first : extent * group()->rank();
  const DType dtype = is_half(x.data().dtype()) ? DType::f32 : x.data().dtype();
  const Tensor scale = Tensor::empty(with_extent(x.shape(), dim, whole), dtype, x.data().device());
  dropout_scale(p, key, scale);
  const Tensor mine = Tensor::empty(x.shape(), dtype, x.data().device());
  narrow_copy(scale, dim, first, false, mine);
  const Variable y = x * Variable(mine);
  return dtype == x.data().dtype() ? y : to(y, x.data().dtype());
}

Variable SequenceRegionPartition::enter(const Variable& x) const {
  return cut_along_sequence(x, group());
}

Variable SequenceRegionPartition::leave(const Variable& y) const {
  const std::int64_t extent = y.shape()[sequence_dim];
  return gather_from_group(y, sequence_dim, extent * group()->rank(), extent * group()->size(),
                           group());
}

Variable GptPartition::enter(const Variable& x) const {
  return sequence_ ? cut_along_sequence(x, group()) : x;
}

Variable GptPartition::linear(const Variable& x, const Variable& weight,
                              const Variable& bias) const {
  const Variable logits = lockstep::linear(input_of_parts(x, sequence_), weight, bias);
  return gather_from_group(logits, -1, slab_.first, slab_.classes, group());
}

}  // namespace lockstep
