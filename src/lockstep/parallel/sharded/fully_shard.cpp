#include <lockstep/parallel/sharded/fully_shard.hpp>

#include <algorithm>
#include <cmath>
#include <exception>
#include <iterator>
#include <optional>
#include <unordered_map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/autograd/functional/shape.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/base/expect_given.hpp>
#include <lockstep/comm/agreement.hpp>
#include <lockstep/comm/duplicate_group.hpp>
#include <lockstep/comm/objects.hpp>
#include <lockstep/optim/clip.hpp>
#include <lockstep/parallel/found_inf.hpp>
#include <lockstep/parallel/frozen_parameters.hpp>
#include <lockstep/parallel/same_model.hpp>
#include <lockstep/parallel/sharded/shard_reducer.hpp>
#include <lockstep/parallel/sharded/sharded_units.hpp>
#include <lockstep/parallel/tensor/grad_norm.hpp>
#include <lockstep/parallel/weighted_pass.hpp>

namespace lockstep {
namespace {

void validate(const FullyShardOptions& options, const nn::Module& model) {
  const auto parameters = model.named_parameters();
  if (parameters.empty())
    throw Error("FullyShardedDataParallel: the model has no parameters to share out");
  if (options.param_dtype && !is_half(*options.param_dtype)) {
    throw InputError(fmt::format("FullyShardOptions: param_dtype is bf16 or f16, not {}",
                                 name_of(*options.param_dtype)));
  }
  if (options.reduce_dtype && !is_half(*options.reduce_dtype) &&
      *options.reduce_dtype != DType::f32) {
    throw InputError(fmt::format("FullyShardOptions: reduce_dtype is f32, bf16 or f16, not {}",
                                 name_of(*options.reduce_dtype)));
  }
  for (const auto& [name, variable] : parameters) {
    const DType dtype = variable.data().dtype();
    if (dtype == DType::f32 || (!options.param_dtype && !options.reduce_dtype)) continue;
    throw InputError(fmt::format(
        "FullyShardOptions: param_dtype and reduce_dtype are for parameters of f32, and {} is {}",
        name, name_of(dtype)));
  }
}

/// Everything that must be equal on all ranks, apart from the model's tensors.
std::string settings_of(const FullyShardOptions& options) {
  const auto name = [](const std::optional<DType>& dtype) {
    return dtype ? name_of(*dtype) : "unset";
  };
  return fmt::format(
      "units = [{}], reshard_after_forward = {}, param_dtype {}, reduce_dtype {}, {} replicas",
      fmt::join(options.units, ", "), options.reshard_after_forward, name(options.param_dtype),
      name(options.reduce_dtype), options.replicate ? options.replicate->size() : 1);
}

/// Throws unless the replicas of a rank are those with its rank in groups of the same size.
void expect_mesh(const ProcessGroup& group, ProcessGroup& replicas) {
  const auto place = [&] { return std::vector{group.rank(), group.size()}; };
  const auto places = agree(replicas, place);
  for (std::size_t r = 1; r < places.size(); ++r) {
    if (places[r] == places[0]) continue;
    throw InputError(fmt::format(
        "FullyShardOptions: replicate has rank {} of {} of a sharded group at rank 0, and rank {} "
        "of {} at rank {}. Give the ranks with the same rank in their sharded groups, as "
        "mesh.group(\"dp\") with mesh.group(\"fsdp\").",
        places[0][0], places[0][1], places[r][0], places[r][1], r));
  }
}

/// Checks that all ranks built the same model, over rows and columns of the mesh; an error of
/// one rank is thrown on all.
void expect_same_everywhere(ProcessGroup& group, ProcessGroup& replicas, const nn::Module& model,
                            const std::string& settings) {
  std::exception_ptr found;
  const auto keep = [&](const auto& check) {
    try {
      check();
    } catch (...) {
      if (!found) found = std::current_exception();
    }
  };
  const auto tell = [&](ProcessGroup& others) {
    keep([&] {
      agree(others, [&] {
        if (found) std::rethrow_exception(found);
      });
    });
  };
  keep([&] { expect_same_model(group, model, settings); });
  tell(replicas);
  if (found) std::rethrow_exception(found);  // on all ranks of the mesh
  keep([&] { expect_mesh(group, replicas); });
  if (!found) keep([&] { expect_same_model(replicas, model, settings); });
  tell(group);
  if (found) std::rethrow_exception(found);
}

/// The elements that `piece` is of, in one dimension.
Tensor piece_of(const Tensor& whole, const StateDict::Entry& piece) {
  const NoGradGuard no_grad;
  const Placement& placement = piece.placement;
  const Shape sizes = placement.slab_run ? placement.by_parts(placement.slab_run->slab)
                                         : piece.tensor.shape(),
              offsets = placement.rectangle_offsets();
  Variable part(whole.to(is_half(whole.dtype()) ? DType::f32 : whole.dtype())
                    .reshape(placement.by_parts(whole.shape())));
  for (int d = 0; d < sizes.dims(); ++d) part = narrow(part, d, offsets[d], sizes[d]);
  const Tensor flat = part.data().reshape({sizes.numel()}).to(whole.dtype());
  const std::int64_t begin = placement.slab_run ? placement.slab_run->begin : 0;
  return flat.slice(begin, begin + piece.tensor.numel());
}

}  // namespace

/// The module calls of a backward pass, for modules that are computed again.
struct FullyShardedDataParallel::Watch {
  std::optional<UnitWatch> calls;
};

FullyShardedDataParallel::Gathered::Gathered(FullyShardedDataParallel& fsdp) : fsdp_(fsdp) {
  fsdp_.units_->gather_all();
}
FullyShardedDataParallel::Gathered::~Gathered() { fsdp_.units_->fails(); }

FullyShardedDataParallel::FullyShardedDataParallel(std::shared_ptr<nn::Module> module,
                                                   std::shared_ptr<ProcessGroup> group,
                                                   const FullyShardOptions& options)
    : module_(expect_given("FullyShardedDataParallel", "the module", std::move(module))),
      group_(expect_given("FullyShardedDataParallel", "the process group", std::move(group))),
      replicas_(options.replicate),
      watch_(std::make_unique<Watch>()) {
  if (replicas_) {
    expect_same_everywhere(*group_, *replicas_, *module_, settings_of(options));
  } else {
    expect_same_model(*group_, *module_, settings_of(options));
  }
  validate(options, *module_);
  if (replicas_) broadcast_state(*replicas_, *module_);
  broadcast_state(*group_, *module_);
  std::unordered_map<std::string, std::size_t> places;
  std::unordered_map<const void*, std::string> names;  // by the address of the value
  for (const auto& [name, variable] : module_->named_parameters()) {
    places.emplace(name, places.size());
    names.emplace(variable.data().data(), name);
  }
  StateDict whole = module_->state_dict();
  std::vector<std::string> parameter_of;  // empty: a buffer
  for (const auto& entry : whole) {
    const auto found = names.find(entry.tensor.data());
    parameter_of.push_back(found == names.end() ? std::string() : found->second);
  }
  units_ = std::make_shared<ShardedUnits>(*module_, group_, options);
  auto* const observer = static_cast<PassObserver*>(this);
  reducer_ = std::make_unique<ShardReducer>(units_, duplicate_of(*group_), replicas_, observer);
  units_->on_backward_enters([this](std::size_t unit) { reducer_->enter(unit); });
  pieces_.resize(places.size());
  std::vector<std::int64_t> begins(places.size());
  std::vector<Shape> shapes(places.size());
  for (const ShardedUnits::Unit& unit : units_->units()) {
    for (const FlatShard& shard : unit.shards) {
      if (!shard.is_trained()) std::ranges::copy(shard.parameters(), std::back_inserter(frozen_));
      for (std::size_t p = 0; p < shard.pieces().size(); ++p) {
        const std::size_t place = places.at(shard.pieces()[p].name);
        pieces_[place] = shard.pieces()[p];
        begins[place] = shard.piece(p).begin;
        shapes[place] = shard.parameters()[p].variable.shape();
      }
    }
  }
  auto parameter = parameter_of.begin();
  for (const auto& [name, tensor, placement] : whole) {
    const std::string& first = *parameter++;
    if (first.empty()) {
      state_.insert(name, tensor, placement);
      continue;
    }
    const std::size_t place = places.at(first);
    state_.insert(name, pieces_[place].variable.data(),
                  Placement::flat_run_of(placement, shapes[place], begins[place]));
  }
}

FullyShardedDataParallel::~FullyShardedDataParallel() { units_->on_backward_enters({}); }

Variable FullyShardedDataParallel::forward(const Variable& x) {
  return forward([&x](nn::Module& module) { return module.forward(x); });
}

Variable FullyShardedDataParallel::forward(const std::function<Variable(nn::Module&)>& run) {
  const UnitWatch watch(*units_);
  try {
    units_->forward_begins(grad_enabled());
    Variable y = run(*module_);
    units_->forward_ends();
    return y;
  } catch (...) {
    units_->fails();
    throw;
  }
}

void FullyShardedDataParallel::backward(const Variable& loss, double weight,
                                        const Tensor& loss_scale) {
  if (!loss.defined()) {
    throw Error(
        "FullyShardedDataParallel: backward() without a loss on this rank, but forward is "
        "collective, and the other ranks wait for this one in it. A rank without samples runs "
        "forward on a batch of 0 samples and calls backward(sum(output), 0.0).");
  }
  const WeightedPass weighted;
  WeightedPass::run("FullyShardedDataParallel", loss, weight, loss_scale, *this);
}

PassObserver::Answer FullyShardedDataParallel::pass_begins(std::span<const Variable> /*roots*/,
                                                           std::span<const Tensor> /*gradients*/,
                                                           double /*seed*/) {
  return {.follows = true};
}

void FullyShardedDataParallel::leaves_are_known(bool /*first*/, bool /*reached*/) {
  expect_unreached("FullyShardedDataParallel", frozen_);
  const bool weighted = WeightedPass::is_running();
  const double ranks = all_ranks();
  if (keeps_any_ && weighted != is_weighted_) reducer_->scale_kept(weighted ? 1.0 / ranks : ranks);
  is_weighted_ = weighted;
  watch_->calls.emplace(*units_);
  units_->backward_begins();
  reducer_->begin(syncs_, weighted ? 1.0 : 1.0 / ranks);
}

void FullyShardedDataParallel::pass_is_over() {
  watch_->calls.reset();
  try {
    units_->backward_ends();
    reducer_->finish();
    keeps_any_ = !syncs_;
  } catch (...) {
    pass_has_failed();
    throw;
  }
}

void FullyShardedDataParallel::pass_has_failed() noexcept {
  watch_->calls.reset();
  units_->fails();
  reducer_->give_up();
  keeps_any_ = false;
}

void FullyShardedDataParallel::gradients_are_in(GradStore& /*gradients*/) {
  throw Error(
      "FullyShardedDataParallel: gradients in a context of dist_autograd are not summed over the "
      "ranks: call backward(loss, weight)");
}

void FullyShardedDataParallel::zero_grad() {
  for (const auto& piece : pieces_) piece.variable.zero_grad();
  reducer_->drop_kept();
  keeps_any_ = false;
}

std::vector<nn::NamedParameter> FullyShardedDataParallel::trained_parameters() const {
  auto trained = pieces_;
  std::erase_if(trained, [](const auto& piece) { return !piece.variable.requires_grad(); });
  return trained;
}

double FullyShardedDataParallel::all_ranks() const {
  return static_cast<double>(group_->size()) * (replicas_ ? replicas_->size() : 1);
}

double FullyShardedDataParallel::grad_norm() { return over_group(optim::grad_norm(pieces_)); }

double FullyShardedDataParallel::grad_norm(const TensorParallelGradNorm& of_pieces) {
  const double norm = over_group(of_pieces.norm());
  // Where slabs differ in size, ranks add in different orders.
  const Tensor first = Tensor::full({1}, norm, DType::f64);
  of_pieces.group()->broadcast(first, 0).wait();
  return first.item();
}

double FullyShardedDataParallel::over_group(double norm_of_pieces) {
  const Tensor own = Tensor::full({1}, norm_of_pieces, DType::f64);
  const Tensor all = Tensor::empty({group_->size(), 1}, DType::f64);
  group_->all_gather(own, all).wait();
  double norm = 0.0;
  for (const double part : all.to_vector<double>()) norm = std::hypot(norm, part);
  return norm;
}

void FullyShardedDataParallel::load_state_dict(const StateDict& state) {
  StateDict pieces;
  for (const auto& [name, tensor, placement] : state) {
    const auto* mine = state_.find(name);
    const bool is_whole = mine && mine->placement.sharded && !placement.sharded &&
                          tensor.shape() == mine->placement.global;
    pieces.insert(name, is_whole ? piece_of(tensor, *mine) : tensor,
                  is_whole ? mine->placement : placement);
  }
  copy_state(pieces, state_);
}

void FullyShardedDataParallel::release() { units_->release(); }

void FullyShardedDataParallel::agree_on_found_inf(
    const std::shared_ptr<ProcessGroup>& tensor_group) {
  lockstep::agree_on_found_inf("FullyShardedDataParallel",
                               {group_.get(), replicas_.get(), tensor_group.get()}, pieces_);
}

void FullyShardedDataParallel::broadcast_buffers() {
  for (const auto& [name, buffer] : module_->named_buffers()) {
    if (replicas_) replicas_->broadcast(buffer, 0).wait();
    group_->broadcast(buffer, 0).wait();
  }
}

std::vector<std::string> FullyShardedDataParallel::never_used() const {
  const std::vector<std::string> unused = reducer_->never_used();
  std::vector<std::string> in_order;
  for (const auto& piece : pieces_) {
    if (std::ranges::find(unused, piece.name) != unused.end()) in_order.push_back(piece.name);
  }
  return in_order;
}

const GradientSumStats& FullyShardedDataParallel::stats() const noexcept {
  return reducer_->stats();
}

}  // namespace lockstep
