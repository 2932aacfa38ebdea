#include <lockstep/parallel/sharded_gradient_sum.hpp>

#include <utility>

#include <lockstep/base/error.hpp>
#include <lockstep/tensor/kernels/elementwise/arithmetic.hpp>
#include <lockstep/tensor/kernels/elementwise/elementwise.hpp>
#include <lockstep/tensor/kernels/reduce/reduction.hpp>

namespace lockstep {
namespace {

/// f64 [1]
Tensor sum_of_products(const Tensor& a, const Tensor& b) {
  const auto flat = [](const Tensor& t) {
    return Tensor::over(t.storage(), t.offset_bytes(), {t.numel()}, t.dtype()).to(DType::f64);
  };
  const Tensor products = Tensor::empty({a.numel()}, DType::f64, a.device());
  Tensor sum = Tensor::empty({1}, DType::f64, a.device());
  arithmetic(Arithmetic::multiply, flat(a), flat(b), false, products);
  reduce_sum(products, 1.0, false, sum);
  return sum;
}

/// factor x, f64 [1], of one element.
Tensor product(const Tensor& x, double factor) {
  Tensor result = Tensor::empty({1}, DType::f64, x.device());
  convert(x.reshape({1}), result);
  scale(result, factor);
  return result;
}

}  // namespace

ShardBuffers::ShardBuffers(ProcessGroup& group, const ShardTree& tree, std::vector<Tensor> buffers,
                           Device device)
    : buffers_(std::move(buffers)), shard_loss_(Tensor::zeros({1}, DType::f64, device)) {
  std::int64_t elements = 2;
  for (const Tensor& buffer : buffers_) elements += buffer.numel();
  sum_ = memory_to_reduce(group, {elements}, DType::f64, device);
  numbers_ = sum_.slice(0, 2);
  std::int64_t at = 2;
  for (const Tensor& buffer : buffers_) {
    before_.push_back(buffer.clone());
    places_.push_back(sum_.slice(at, at + buffer.numel()).reshape(buffer.shape()));
    at += buffer.numel();
  }
  over_shards_ = std::make_unique<ShardSum>(group, tree, sum_);
}

void ShardBuffers::forward_begins() {
  if (std::exchange(in_step_, true)) return;
  for (std::size_t i = 0; i < buffers_.size(); ++i) before_[i].copy_from(buffers_[i]);
}

void ShardBuffers::add_loss(const Tensor& part) {
  has_samples_ = had_samples_ = true;
  add_scaled(part, 1.0, shard_loss_);
}

void ShardBuffers::write_current() {
  if (has_samples_) {
    numbers_.slice(0, 1).fill(1.0);
    numbers_.slice(1, 2).copy_from(shard_loss_);
    for (std::size_t i = 0; i < buffers_.size(); ++i) convert(buffers_[i], places_[i]);
  } else {
    sum_.zero();
  }
  has_samples_ = false;
  shard_loss_.zero();
}

void ShardBuffers::restore() {
  if (!in_step_) return;
  for (std::size_t i = 0; i < buffers_.size(); ++i) buffers_[i].copy_from(before_[i]);
}

void ShardBuffers::keep() {
  write_current();
  over_shards_->keep(sum_);
  restore();
}

void ShardBuffers::finish(ProcessGroup& group) {
  write_current();
  over_shards_->start(group).wait();
  over_shards_->finish(group);
  loss_ = numbers_.slice(1, 2);
  in_step_ = false;
  const Tensor shards = numbers_.slice(0, 1);
  // Only a rank without samples must ask whether any shard has some.
  if (!std::exchange(had_samples_, false) && shards.item() == 0.0) return;
  if (!buffers_.empty()) sum_.slice(2, sum_.numel()) /= shards;
  for (std::size_t i = 0; i < buffers_.size(); ++i) convert(places_[i], buffers_[i]);
}

void ShardBuffers::forget() {
  over_shards_->forget();
  has_samples_ = had_samples_ = false;
  shard_loss_.zero();
  restore();
  in_step_ = false;
}

ShardedGradientSum::ShardedGradientSum(std::shared_ptr<ProcessGroup> group, std::int64_t shards,
                                       std::vector<Tensor> buffers, Device device)
    : ShardedGradientSum(std::move(group), ShardTree(shards),
                         std::make_shared<ShardHook>(ShardTree(shards)), std::move(buffers),
                         device) {}

ShardedGradientSum::ShardedGradientSum(std::shared_ptr<ProcessGroup> ranks, const ShardTree& tree,
                                       std::shared_ptr<ShardHook> hook, std::vector<Tensor> buffers,
                                       Device device)
    : GradientSum(std::move(ranks), hook),
      tree_(tree),
      own_(tree.of_rank(group().rank(), group().size())),
      next_(own_.first),
      hook_(std::move(hook)),
      buffers_(group(), tree, std::move(buffers), device) {}

void ShardedGradientSum::prepare(std::vector<Bucket> buckets, PassObserver* observer) {
  GradientSum::prepare(std::move(buckets), observer);
  for (std::int64_t shard = 0; shard + 1 < parts(); ++shard) {
    kept_.emplace_back(reducer().buckets(), hook_->places_of(shard));
  }
}

void ShardedGradientSum::expect_context() const {
  throw Error(
      "DistributedDataParallel: with DdpOptions::shards gradients in a context of dist_autograd "
      "are not summed: call backward(loss, weight)");
}

GradSink* ShardedGradientSum::pass_begins(std::span<const Variable> roots,
                                          std::span<const Tensor> gradients, double seed,
                                          bool weighted) {
  if (!std::exchange(is_held_aside_, true)) held_.move_out(reducer().buckets());
  if (!keeps_part()) held_.restore_buckets();
  for (std::size_t i = 0; i < roots.size(); ++i) {
    const Tensor value = gradients.empty() || !gradients[i].defined()
                             ? product(roots[i].data(), seed)
                             : sum_of_products(roots[i].data(), gradients[i]);
    if (!weighted) scale(value, equal_share());
    buffers_.add_loss(value);
  }
  return keeps_part() ? &current() : nullptr;
}

void ShardedGradientSum::scale_part(double factor) {
  if (!keeps_part()) return reducer().scale_held(factor);
  current().scale(factor);
}

void ShardedGradientSum::keep_part(double factor) {
  if (factor != 1.0) current().scale(factor);
  hook_->keep(current().complete());
  current().forget();
  buffers_.keep();
  ++next_;
}

void ShardedGradientSum::finish() {
  reducer().finish();
  buffers_.finish(group());
  next_ = own_.first;
  add_back();
}

void ShardedGradientSum::give_up() {
  reducer().give_up();
  static_cast<void>(give_up_parts());
}

bool ShardedGradientSum::give_up_parts() {
  hook_->forget();
  buffers_.forget();
  for (ShardGradients& shard : kept_) shard.forget();
  next_ = own_.first;
  add_back();
  return true;
}

void ShardedGradientSum::zero_grad() {
  reducer().zero_grad();
  held_.forget();
}

GradientSumStats ShardedGradientSum::stats() const noexcept {
  GradientSumStats stats = reducer().stats();
  stats.loss_of_batch = buffers_.loss();
  return stats;
}

void ShardedGradientSum::add_back() {
  is_held_aside_ = false;
  held_.add_back();
}

}  // namespace lockstep
