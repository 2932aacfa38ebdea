#include <lockstep/parallel/sharded/flat_shard.hpp>

#include <utility>

#include <lockstep/base/error.hpp>
#include <lockstep/parallel/bucket.hpp>
#include <lockstep/tensor/absent_memory.hpp>
#include <lockstep/tensor/kernels/elementwise/elementwise.hpp>
#include <lockstep/tensor/runtime/caching_allocator.hpp>

namespace lockstep {
namespace {

std::vector<std::int64_t> counts_of(const std::vector<nn::NamedParameter>& parameters) {
  std::vector<std::int64_t> counts;
  for (const auto& parameter : parameters) counts.push_back(parameter.variable.data().numel());
  return counts;
}

/// Memory of exactly the given size, which returns to the system with its last owner.
Tensor flat_memory(std::int64_t elements, DType dtype, Device device) {
  const auto bytes = static_cast<std::size_t>(elements) * size_of(dtype);
  auto storage =
      device == Device{} ? Storage::allocate_uncached(bytes) : Storage::allocate(bytes, device);
  return Tensor::over(std::move(storage), 0, {elements}, dtype);
}

}  // namespace

FlatShard::FlatShard(ProcessGroup& group, std::vector<nn::NamedParameter> parameters,
                     const FullyShardOptions& options)
    : parameters_(std::move(parameters)),
      layout_(counts_of(parameters_), group.size(),
              ShardLayout::alignment_of(parameters_.front().variable.data().dtype())),
      rank_(group.rank()),
      ranks_(group.size()),
      is_trained_(parameters_.front().variable.requires_grad()),
      dtype_(parameters_.front().variable.data().dtype()),
      full_dtype_(options.param_dtype.value_or(dtype_)),
      gradient_dtype_(full_dtype_),
      reduce_dtype_(options.reduce_dtype.value_or(full_dtype_)) {
  if (is_half(full_dtype_) && reduce_dtype_ == DType::f32) gradient_dtype_ = DType::f32;
  const MemoryLabel label("sharded parameters");
  const Device device = parameters_.front().variable.data().device();
  const std::int64_t elements = layout_.elements(), run = layout_.elements_of_run();
  const Tensor all = flat_memory(elements, dtype_, device);
  all.zero();
  for (std::size_t p = 0; p < parameters_.size(); ++p) {
    const Tensor& data = parameters_[p].variable.data();
    place_in(all, p).copy_from(data);
  }
  to_gather_ = memory_to_reduce(group, {run}, full_dtype_, device);
  values_ = full_dtype_ == dtype_ ? to_gather_ : flat_memory(run, dtype_, device);
  values_.copy_from(all.slice(rank_ * run, (rank_ + 1) * run));
  values_.storage()->mark_padded();
  full_values_ = flat_memory(elements, full_dtype_, device);
  for (std::size_t p = 0; p < parameters_.size(); ++p) {
    const Variable& variable = parameters_[p].variable;
    if (full_dtype_ != dtype_) variable.set_dtype(full_dtype_);
    variable.set_value_buffer(place_in(full_values_, p));
  }
  absent_values_ = absent_memory(full_values_.bytes(), device);
  static_cast<void>(free());
  if (is_trained_) {
    gradients_ = options.replicate ? memory_to_reduce(*options.replicate, {run}, dtype_, device)
                                   : flat_memory(run, dtype_, device);
    gradients_.zero();
    gradients_.storage()->mark_padded();
    full_gradients_ = flat_memory(elements, gradient_dtype_, device);
    for (std::size_t p = 0; p < parameters_.size(); ++p)
      parameters_[p].variable.set_grad_buffer(place_in(full_gradients_, p));
    absent_gradients_ = absent_memory(full_gradients_.bytes(), device);
    static_cast<void>(let_go_of_gradients());
  }
  for (std::size_t p = 0; p < parameters_.size(); ++p) {
    const auto [begin, count, place] = layout_.piece(p, rank_);
    const Variable piece(values_.slice(place, place + count), is_trained_);
    if (is_trained_) piece.set_grad_buffer(gradients_.slice(place, place + count));
    pieces_.push_back({parameters_[p].name, piece});
  }
  had_gradient_.resize(pieces_.size());
}

Tensor FlatShard::place_in(const Tensor& whole, std::size_t parameter) const {
  const Shape& shape = parameters_[parameter].variable.shape();
  const std::int64_t place = layout_.place(parameter);
  return whole.slice(place, place + shape.numel()).reshape(shape);
}

void FlatShard::start_gather(ProcessGroup& group, IntrusivePtr<Storage> memory) {
  gathering_.wait();
  if (!absent_values_) {
    absent_values_ = std::move(memory);
    swap_memory(*absent_values_, *full_values_.storage());
  }
  if (full_dtype_ != dtype_) convert(values_, to_gather_);
  gathering_ = group.all_gather(to_gather_, full_values_.reshape({ranks_, to_gather_.numel()}));
}

IntrusivePtr<Storage> FlatShard::free() {
  gathering_.wait();
  gathering_ = {};
  if (!absent_values_) return {};
  swap_memory(*absent_values_, *full_values_.storage());
  return std::exchange(absent_values_, {});
}

std::size_t FlatShard::gradient_bytes() const noexcept {
  return is_trained_ ? full_gradients_.bytes() : 0;
}

void FlatShard::take_gradients(IntrusivePtr<Storage> memory) {
  absent_gradients_ = std::move(memory);
  swap_memory(*absent_gradients_, *full_gradients_.storage());
  for (const auto& parameter : parameters_) {
    expect_gradient_in(full_gradients_, parameter.variable, "FullyShardedDataParallel");
    parameter.variable.zero_grad();
  }
}

IntrusivePtr<Storage> FlatShard::let_go_of_gradients() {
  if (!absent_gradients_) return {};
  swap_memory(*absent_gradients_, *full_gradients_.storage());
  for (const auto& parameter : parameters_) parameter.variable.zero_grad();
  return std::exchange(absent_gradients_, {});
}

IntrusivePtr<Storage> FlatShard::drop_gradients() {
  reducing_.wait();
  replicating_.wait();
  reducing_ = replicating_ = {};
  return let_go_of_gradients();
}

void FlatShard::release(ProcessGroup& group) {
  const MemoryLabel label("parameters");
  const Tensor whole = Tensor::empty({layout_.elements()}, dtype_, values_.device());
  group.all_gather(values_, whole.reshape({ranks_, values_.numel()})).wait();
  for (std::size_t p = 0; p < parameters_.size(); ++p) {
    const Variable& variable = parameters_[p].variable;
    if (full_dtype_ != dtype_) variable.set_dtype(dtype_);
    const Tensor own = place_in(whole, p).clone();
    variable.set_value(own);
    variable.set_grad_buffer(Tensor::empty_like(own));
  }
}

void FlatShard::scale_gradients(double factor) const {
  if (!absent_gradients_) return;
  for (const auto& parameter : parameters_) {
    const Tensor gradient = parameter.variable.grad();
    if (!gradient.defined()) continue;
    if (!is_half(gradient.dtype())) {
      scale(gradient, factor);
      continue;
    }
    const Tensor wide = gradient.to(DType::f32);
    scale(wide, factor);
    convert(wide, gradient);
  }
}

void FlatShard::start_reduce(ProcessGroup& group, const Tensor& used) {
  for (std::size_t p = 0; p < parameters_.size(); ++p) {
    const Variable& parameter = parameters_[p].variable;
    const auto at = static_cast<std::int64_t>(p);
    const bool has_gradient = parameter.grad().defined();
    used.slice(at, at + 1).fill(has_gradient ? 1.0 : 0.0);
    if (!has_gradient) place_in(full_gradients_, p).zero();
  }
  for (const auto [first, last] : layout_.gaps()) full_gradients_.slice(first, last).zero();
  bool had_any = false;
  for (std::size_t p = 0; p < pieces_.size(); ++p) {
    had_gradient_[p] = pieces_[p].variable.grad().defined() ? 1 : 0;
    had_any = had_any || had_gradient_[p] != 0;
  }
  const Tensor sent = full_gradients_.to(reduce_dtype_);
  sum_ = !had_any && reduce_dtype_ == dtype_
             ? gradients_
             : Tensor::empty(gradients_.shape(), reduce_dtype_, gradients_.device());
  reducing_ = group.reduce_scatter(sent.reshape({ranks_, sum_.numel()}), sum_, ReduceOp::sum);
}

IntrusivePtr<Storage> FlatShard::end_reduce(ProcessGroup* replicas) {
  reducing_.wait();
  reducing_ = {};
  if (replicas) replicating_ = replicas->all_reduce(sum_, ReduceOp::sum);
  return let_go_of_gradients();
}

void FlatShard::finish_sum(double factor) {
  replicating_.wait();
  replicating_ = {};
  const bool is_in_place = sum_.data() == gradients_.data();
  const Tensor sum = std::exchange(sum_, Tensor()).to(dtype_);
  if (factor != 1.0) scale(sum, factor);
  for (std::size_t p = 0; p < pieces_.size(); ++p) {
    const Variable& piece = pieces_[p].variable;
    const auto [begin, count, place] = layout_.piece(p, rank_);
    const Tensor part = sum.slice(place, place + count);
    if (had_gradient_[p] != 0) {
      add_scaled(part, 1.0, piece.grad());
    } else {
      if (!is_in_place) piece.grad_buffer().copy_from(part);
      piece.mark_grad_present();
    }
  }
}

void FlatShard::forget_unused(const float* used) {
  for (std::size_t p = 0; p < pieces_.size(); ++p) {
    if (used[p] == 0.0F && had_gradient_[p] == 0) pieces_[p].variable.zero_grad();
  }
}

}  // namespace lockstep
