#include <lockstep/parallel/distributed_data_parallel.hpp>

#include <algorithm>
#include <functional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/autograd/backward_pass.hpp>
#include <lockstep/autograd/grad_store.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/base/expect_given.hpp>
#include <lockstep/base/log.hpp>
#include <lockstep/parallel/held_gradients.hpp>
#include <lockstep/parallel/same_model.hpp>
#include <lockstep/parallel/sharded_gradient_sum.hpp>
#include <lockstep/parallel/sync_batch_norm.hpp>

namespace lockstep {
namespace {

/// This thread is within backward(loss, weight), of whichever of those that its pass comes to.
thread_local constinit bool in_weighted_pass = false;

/// Parameters that require a gradient.
std::vector<Variable> trained_parameters(const nn::Module& module) {
  std::vector<Variable> trained;
  for (const Variable& parameter : module.parameters()) {
    if (parameter.requires_grad()) trained.push_back(parameter);
  }
  return trained;
}

}  // namespace

DistributedDataParallel::DistributedDataParallel(std::shared_ptr<nn::Module> module,
                                                 std::shared_ptr<ProcessGroup> group,
                                                 const DdpOptions& options)
    : DistributedDataParallel(std::move(module), std::move(group), options, nullptr) {}

DistributedDataParallel::DistributedDataParallel(std::shared_ptr<nn::Module> module,
                                                 std::shared_ptr<ProcessGroup> group,
                                                 const DdpOptions& options,
                                                 std::shared_ptr<CommHook> hook)
    : module_(expect_given("DistributedDataParallel", "the module", std::move(module))),
      group_(expect_given("DistributedDataParallel", "the process group", std::move(group))) {
  const BucketOptions& sizes = options.buckets;
  const bool own_hook = hook != nullptr;
  if (!own_hook) hook = make_comm_hook(options);
  expect_same_model(
      *group_, *module_,
      fmt::format("first_bucket_bytes = {}, bucket_bytes = {}, communication hook {}, "
                  "sync_batch_norm = {}, broadcast_buffers_each_forward = {}, shards = {}",
                  sizes.first_bucket_bytes, sizes.bucket_bytes, std::as_const(*hook).name(),
                  options.sync_batch_norm, options.broadcast_buffers_each_forward, options.shards));
  validate(options);
  for (const auto& [name, buffer] : module_->named_buffers()) buffers_.push_back(buffer);
  const bool sharded = options.shards > 0;
  if (sharded && own_hook)
    throw InputError("sums over shards do not take a communication hook of one's own");
  if (sharded) {
    auto sum = std::make_unique<ShardedGradientSum>(group_, options.shards, buffers_);
    prepare(*sum, sizes, sum->hook());
    synchronise_shards(*sum, options.sync_batch_norm);
    sum_ = std::move(sum);
  } else {
    if (options.sync_batch_norm) convert_sync_batchnorm(*module_, *group_);
    sum_ = std::make_unique<GradientSum>(group_);
    prepare(*sum_, sizes, std::move(hook));
  }
  broadcasts_buffers_ = options.broadcast_buffers_each_forward;
  for (const auto& parameter : module_->named_parameters()) {
    if (parameter.variable.requires_grad()) continue;
    frozen_.push_back(parameter);
    of_frozen_.push_back(parameter.variable.add_grad_hook([] {}, static_cast<PassObserver*>(this)));
  }
}

DistributedDataParallel::~DistributedDataParallel() = default;

void DistributedDataParallel::prepare(GradientSum& sum, const BucketOptions& sizes,
                                      std::shared_ptr<CommHook> hook) {
  broadcast_state(*group_, *module_);
  sum.prepare(lay_out_in_buckets(trained_parameters(*module_), sizes, *group_), std::move(hook),
              static_cast<PassObserver*>(this));
}

void DistributedDataParallel::synchronise_shards(ShardedGradientSum& sum, bool synchronises_all) {
  std::vector<nn::BatchNorm*> layers = nn::batch_norms_of(*module_);
  if (!synchronises_all)
    std::erase_if(layers, [](const auto* layer) { return !layer->has_exchange(); });
  in_turn_.resize(static_cast<std::size_t>(sum.parts()));
  sum.synchronise(layers, [this](std::int64_t from, std::int64_t to) {
    in_turn_[static_cast<std::size_t>(from)] = at_hand_;
    at_hand_ = in_turn_[static_cast<std::size_t>(to)];
  });
}

void DistributedDataParallel::expect_frozen_unreached() const {
  for (const auto& [name, variable] : frozen_) {
    if (!variable.awaits_gradient()) continue;
    throw Error(fmt::format(
        "DistributedDataParallel: parameter '{}' is trained, but was frozen when this was made, so "
        "that nobody sums its gradient over the ranks. Make it anew after training it again, or "
        "freeze it after making it.",
        name));
  }
}

void DistributedDataParallel::buffers_of_this_step() {
  if (!broadcasts_buffers_ || std::exchange(buffers_are_there_, true)) return;
  broadcast_buffers();
}

Variable DistributedDataParallel::forward(const Variable& x) {
  return forward([&x](nn::Module& module) { return module.forward(x); });
}

Variable DistributedDataParallel::forward(const std::function<Variable(nn::Module&)>& run) {
  if (module_->is_training()) {
    buffers_of_this_step();
    sum_->forward_begins();
  }
  Variable output = run(*module_);
  at_hand_.is_awaited = at_hand_.is_awaited || (at_hand_.syncs && grad_enabled());
  return output;
}

void DistributedDataParallel::run_shards(const std::function<void(std::int64_t)>& body) {
  const AtHand before = at_hand_;
  bool in_turns = false;
  try {
    in_turns = module_->forward_is_collective() &&
               sum_->run_in_turns(body, [&] { std::ranges::fill(in_turn_, before); });
    if (!in_turns) run_shards_one_by_one(body);
  } catch (...) {
    if (sum_->give_up_parts()) at_hand_ = before;
    throw;
  }
  if (!in_turns) return;
  reducer().begin();
  finish_sum();
}

void DistributedDataParallel::run_shards_one_by_one(
    const std::function<void(std::int64_t)>& body) const {
  const std::int64_t first = sum_->first_part(), sums_before = sums_;
  for (std::int64_t i = 0; i < shards(); ++i) body(first + i);
  if (sums_ == sums_before + 1 && sum_->at_first_part()) return;
  throw Error(
      "the body of for_each_shard() is to call backward() once for every shard, not counting calls "
      "within no_sync(); for a shard without samples it is backward({}, 0.0)");
}

void DistributedDataParallel::backward(const Variable& loss, double weight) {
  if (reducer().is_running()) {
    throw Error("DistributedDataParallel: backward() from inside backward() is not supported");
  }
  if (!loss.defined() && module_->forward_is_collective()) {
    throw Error(
        "DistributedDataParallel: backward() without a loss on this rank, but the model's forward "
        "is collective in training (SyncBatchNorm), and the other ranks wait for this one in it. A "
        "rank without samples runs forward on a batch of 0 samples and calls "
        "backward(sum(output), 0.0).");
  }
  weight *= reducer().comm_hook().weight_factor();
  at_hand_.is_asked = true;
  at_hand_.is_met = false;
  struct Ending {
    AtHand& at_hand;
    bool before = std::exchange(in_weighted_pass, true);
    ~Ending() {
      at_hand.is_asked = false;
      in_weighted_pass = before;
    }
  } const ending{at_hand_};
  if (!loss.defined()) {
    static_cast<void>(pass_begins({}, {}, weight));
    leaves_are_known(true, false);
    return pass_is_over();
  }
  try {
    if (loss.data().numel() != 1) {
      throw Error(
          "DistributedDataParallel: backward() starts from a loss of one element, not from " +
          describe(loss.data()));
    }
    BackwardPass({.roots = std::span(&loss, 1), .seed = weight, .observer = this}).run();
  } catch (...) {
    if (!at_hand_.is_met) pass_has_failed();
    throw;
  }
}

PassObserver::Answer DistributedDataParallel::pass_begins(std::span<const Variable> roots,
                                                          std::span<const Tensor> gradients,
                                                          double seed) {
  at_hand_.is_met = true;
  const bool is_weighted = at_hand_.is_weighted = in_weighted_pass;
  if (at_hand_.syncs && !at_hand_.is_awaited && !at_hand_.is_asked) {
    warn_of_own_gradients();
    hold(is_weighted ? Share::weighted : Share::mean);
    return {};
  }
  return {true, sum_->pass_begins(roots, gradients, seed, is_weighted)};
}

void DistributedDataParallel::leaves_are_known(bool first, bool reached) {
  expect_frozen_unreached();
  if (at_hand_.syncs && !sum_->keeps_part())
    buffers_of_this_step();  // without samples there was no forward
  at_hand_.sum = reached ? Sum::begun : Sum::waits;
  if (reached) begin_sum(first);
}

void DistributedDataParallel::begin_sum(bool first) {
  hold(at_hand_.is_weighted ? Share::weighted : Share::mean);
  if (!at_hand_.syncs || sum_->keeps_part()) return;
  buffers_are_there_ = false;
  reducer().begin(at_hand_.is_weighted ? 1.0 : equal_share(), !first);
  reducer().expect_what_is_reached();
}

void DistributedDataParallel::pass_is_over() {
  at_hand_.has_own = !at_hand_.syncs;
  if (!at_hand_.syncs || at_hand_.sum == Sum::done) return;
  if (at_hand_.sum == Sum::waits) {
    try {
      begin_sum(true);
    } catch (...) {
      pass_has_failed();
      throw;
    }
  }
  if (!sum_->keeps_part()) return finish_sum();
  at_hand_.is_awaited = false;
  at_hand_.held = Share::mean;
  sum_->keep_part(at_hand_.is_weighted ? 1.0 : equal_share());
}

void DistributedDataParallel::pass_has_failed() noexcept {
  if (sum_->keeps_part()) return sum_->forget_part();
  if (!at_hand_.syncs) return;
  at_hand_.is_awaited = false;
  sum_->give_up();
}

void DistributedDataParallel::gradients_are_in(GradStore& store) {
  const double share = equal_share(), factor = in_weighted_pass ? 1.0 : share;
  const auto each = [&](const auto& visit) {
    for (const Bucket& bucket : reducer().buckets())
      std::ranges::for_each(bucket.parameters, visit);
  };
  if (!at_hand_.syncs || !at_hand_.is_awaited) {
    if (at_hand_.syncs) warn_of_own_gradients();
    return each([&](const Variable& parameter) { store.keep_own(parameter, factor / share); });
  }
  sum_->expect_context();
  at_hand_.sum = Sum::done;
  buffers_are_there_ = false;
  HeldGradients held;
  held.take(reducer().buckets());
  held.leave_buckets();
  each([&](const Variable& parameter) {
    const Tensor part = store.part_of_sum(parameter, share / factor);
    if (!part.defined()) return;
    parameter.grad_buffer().copy_from(part);
    parameter.mark_grad_present();
  });
  const auto share_before = std::exchange(at_hand_.held, Share::mean);
  try {
    reducer().begin(factor);
    finish_sum();
  } catch (...) {
    reducer().give_up();
    reducer().zero_grad();
    held.give_back();
    at_hand_.held = share_before;
    throw;
  }
  each([&](const Variable& parameter) {
    if (parameter.grad().defined()) store.put_sum(parameter, parameter.grad());
    parameter.zero_grad();
  });
  held.give_back();
  at_hand_.held = share_before;
}

void DistributedDataParallel::hold(Share share) {
  if (std::exchange(at_hand_.held, share) == share) return;
  const double factor = share == Share::weighted ? equal_share() : 1.0 / equal_share();
  if (factor != 1.0) sum_->scale_part(factor);
}

void DistributedDataParallel::finish_sum() {
  const bool of_all = comm_hook().sums_over_all();
  try {
    sum_->finish();
  } catch (...) {
    at_hand_.is_awaited = false;
    sum_->give_up();
    throw;
  }
  at_hand_.is_awaited = false;
  at_hand_.held = Share::mean;
  if (++sums_ == 100 && of_all) warn_of_never_used();
}

void DistributedDataParallel::warn_of_own_gradients() {
  if (group_->size() == 1 || group_->rank() != 0 || std::exchange(has_warned_, true)) return;
  log(LogLevel::warning,
      "a backward pass came to parameters of a DistributedDataParallel whose forward() has not run "
      "since its last sum over ranks: this pass leaves each rank its own gradients. Call forward() "
      "of the DistributedDataParallel, not of its module, before each backward pass; of two losses "
      "that share one forward(), make one pass from their sum.");
}

std::vector<std::string> DistributedDataParallel::never_used() const {
  std::vector<std::string> names;
  const auto named = module_->named_parameters();
  for (const Variable& parameter : reducer().never_used()) {
    const auto at = std::ranges::find_if(named, [&](const nn::NamedParameter& one) {
      return one.variable.record() == parameter.record();
    });
    names.push_back(at->name);
  }
  return names;
}

void DistributedDataParallel::warn_of_never_used() const {
  const auto names = never_used();
  if (names.empty() || group_->rank() != 0) return;
  log(LogLevel::warning,
      fmt::format("no rank's loss has depended on {} in the first {} steps: {} not trained. Is a "
                  "layer left out of forward?",
                  fmt::join(names, ", "), sums_, names.size() == 1 ? "it is" : "they are"));
}

std::vector<Tensor> DistributedDataParallel::flat_values() const {
  std::vector<Tensor> values;
  for (const Bucket& bucket : reducer().buckets()) values.push_back(bucket.values);
  return values;
}

void DistributedDataParallel::broadcast_buffers() { broadcast_buffers_from(0); }

void DistributedDataParallel::broadcast_buffers_from(int root) {
  for (const Tensor& buffer : buffers_) group_->broadcast(buffer, root).wait();
}

void DistributedDataParallel::expect_joinable() const {
  if (broadcasts_buffers_ && !buffers_.empty()) {
    throw Error(
        "Join: with DdpOptions::broadcast_buffers_each_forward rank 0's buffers would go to all "
        "ranks also when it has run out of inputs and they stand still. Leave the option out: "
        "Join::finish() gives all ranks the buffers of one that had the most inputs.");
  }
  if (!module_->forward_is_collective()) return;
  throw Error(
      "Join: the model's forward is collective in training (SyncBatchNorm), and a rank that has "
      "run out of inputs makes none. Let it run forward on a batch of 0 samples and call "
      "backward(sum(output), 0.0) instead, or leave SyncBatchNorm out.");
}

void DistributedDataParallel::shadow() {
  if (!at_hand_.has_own) zero_grad();
  for (std::int64_t shard = 0; shard < shards(); ++shard) backward({}, 0.0);
}

void DistributedDataParallel::after_join(int last) {
  for (const Bucket& bucket : reducer().buckets()) group_->broadcast(bucket.values, last).wait();
  broadcast_buffers_from(last);
}

std::int64_t DistributedDataParallel::shards() const noexcept { return sum_->parts(); }

double DistributedDataParallel::loss_of_batch() const { return sum_->loss(); }

void DistributedDataParallel::ask_along(std::function<bool()> question) {
  reducer().ask_along(std::move(question));
}

bool DistributedDataParallel::any_said_yes() const noexcept { return reducer().any_said_yes(); }

void DistributedDataParallel::zero_grad() { sum_->zero_grad(); }

void DistributedDataParallel::set_step(std::int64_t step) { reducer().set_step(step); }

GradientSumStats DistributedDataParallel::stats() const noexcept { return sum_->stats(); }

const CommHook& DistributedDataParallel::comm_hook() const noexcept {
  return reducer().comm_hook();
}

double DistributedDataParallel::equal_share() const { return sum_->equal_share(); }

Reducer& DistributedDataParallel::reducer() const noexcept { return sum_->reducer(); }

}  // namespace lockstep
