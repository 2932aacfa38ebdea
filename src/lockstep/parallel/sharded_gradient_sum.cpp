#include <lockstep/parallel/sharded_gradient_sum.hpp>

#include <functional>
#include <utility>

#include <lockstep/base/error.hpp>
#include <lockstep/tensor/kernels/elementwise/arithmetic.hpp>
#include <lockstep/tensor/kernels/reduce/reduction.hpp>

namespace lockstep {
namespace {

double sum_of_products(const Tensor& a, const Tensor& b) {
  const auto flat = [](const Tensor& t) {
    return Tensor::over(t.storage(), t.offset_bytes(), {t.numel()}, t.dtype()).to(DType::f64);
  };
  const Tensor products = Tensor::empty({a.numel()}, DType::f64, a.device()),
               sum = Tensor::empty({1}, DType::f64, a.device());
  arithmetic(Arithmetic::multiply, flat(a), flat(b), false, products);
  reduce_sum(products, 1.0, false, sum);
  return sum.item();
}

}  // namespace

ShardedGradientSum::ShardedGradientSum(std::shared_ptr<ProcessGroup> group, std::int64_t shards,
                                       std::vector<Tensor> buffers)
    : GradientSum(group), step_(std::move(group), shards, std::move(buffers)) {}

void ShardedGradientSum::synchronise(std::span<nn::BatchNorm* const> layers,
                                     ShardTurns::Change change) {
  step_.prepare(reducer().buckets(), layers, std::move(change));
}

void ShardedGradientSum::expect_context() const {
  throw Error(
      "DistributedDataParallel: with DdpOptions::shards gradients are not summed in a context of "
      "dist_autograd: call backward(loss, weight)");
}

GradSink* ShardedGradientSum::pass_begins(std::span<const Variable> roots,
                                          std::span<const Tensor> gradients, double seed,
                                          bool weighted) {
  hold_aside();
  const bool keeps = keeps_part();
  GradSink* const sink = keeps ? &step_.gradients_at_hand() : nullptr;
  if (!keeps) held_.leave_buckets();
  for (std::size_t i = 0; i < roots.size(); ++i) {
    const double value = gradients.empty() || !gradients[i].defined()
                             ? seed * roots[i].data().item()
                             : sum_of_products(roots[i].data(), gradients[i]);
    step_.add_loss(weighted ? value : value * equal_share());
  }
  return sink;
}

void ShardedGradientSum::scale_part(double factor) {
  if (!keeps_part()) return reducer().scale_held(factor);
  step_.gradients_at_hand().scale(factor);
}

void ShardedGradientSum::keep_part(double factor) {
  if (factor != 1.0) step_.gradients_at_hand().scale(factor);
  step_.at_hand_is_over();
}

void ShardedGradientSum::finish() {
  reducer().finish();
  step_.finish();
  give_back();
}

void ShardedGradientSum::give_up() {
  reducer().give_up();
  static_cast<void>(give_up_parts());
}

bool ShardedGradientSum::give_up_parts() {
  step_.give_up();
  give_back();
  return true;
}

void ShardedGradientSum::zero_grad() {
  reducer().zero_grad();
  held_.forget();
}

bool ShardedGradientSum::run_in_turns(const std::function<void(std::int64_t)>& body,
                                      const std::function<void()>& before_turns) {
  if (!step_.has_turns()) return false;
  hold_aside();
  before_turns();
  const auto of_own = [&](std::int64_t shard) { body(step_.first() + shard); };
  step_.take_turns(std::cref(of_own));
  held_.leave_buckets();
  step_.give_last();
  return true;
}

GradientSumStats ShardedGradientSum::stats() const noexcept {
  GradientSumStats stats = reducer().stats();
  stats.turn_wait_s = step_.seconds_stood();
  return stats;
}

void ShardedGradientSum::hold_aside() {
  if (!std::exchange(is_held_aside_, true)) held_.take(reducer().buckets());
}

void ShardedGradientSum::give_back() {
  is_held_aside_ = false;
  held_.give_back();
}

}  // namespace lockstep
