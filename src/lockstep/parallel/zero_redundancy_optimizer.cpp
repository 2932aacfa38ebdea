#include <lockstep/parallel/zero_redundancy_optimizer.hpp>

#include <algorithm>
#include <functional>
#include <utility>

#include <lockstep/base/error.hpp>
#include <lockstep/comm/call_label.hpp>
#include <lockstep/optim/optimizer.hpp>
#include <lockstep/parallel/bucket.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>
#include <lockstep/parallel/shard_layout.hpp>

namespace lockstep {
namespace {

/// [begin, begin + count) of the flattened tensor, in the same memory.
Tensor piece_of(const Tensor& whole, std::int64_t begin, std::int64_t count) {
  return Tensor::over(
      whole.storage(),
      whole.offset_bytes() + static_cast<std::size_t>(begin) * size_of(whole.dtype()), {count},
      whole.dtype());
}

}  // namespace

ZeroRedundancyOptimizer::ZeroRedundancyOptimizer(DistributedDataParallel& ddp, const Make& make)
    : ddp_(ddp) {
  const auto trained = ddp.module().trained_parameters();
  for (const Tensor& values : ddp.flat_values()) {
    std::vector<nn::NamedParameter> inside;
    std::ranges::copy_if(trained, std::back_inserter(inside), [&](const auto& parameter) {
      return parameter.variable.data().storage().get() == values.storage().get();
    });
    std::ranges::sort(
        inside, {}, [](const auto& parameter) { return parameter.variable.data().offset_bytes(); });
    if (!inside.empty()) share_out(inside, values);
  }
  if (pieces_.empty()) {
    throw Error("ZeroRedundancyOptimizer: no parameter of the model is trained");
  }
  optimizer_ = make(pieces_);
  optimizer_->take_placements(placements_);
}

ZeroRedundancyOptimizer::~ZeroRedundancyOptimizer() = default;

void ZeroRedundancyOptimizer::share_out(const std::vector<nn::NamedParameter>& parameters,
                                        const Tensor& values) {
  ProcessGroup& group = ddp_.group();
  const int rank = group.rank(), ranks = group.size();
  std::vector<std::int64_t> counts;
  for (const auto& parameter : parameters) counts.push_back(parameter.variable.data().numel());
  // Places as in the bucket: each parameter begins at a multiple of Storage::padding_bytes.
  const ShardLayout layout(counts, ranks, ShardLayout::alignment_of(values.dtype()));
  Bucket& bucket = buckets_.emplace_back();
  const std::int64_t run = layout.elements_of_run();
  const std::int64_t end = std::min(layout.elements(), values.numel());
  const auto begin_of = [&](int r) { return std::min(r * run, end); };
  bucket.values = values.slice(0, end);
  for (int r = 0; r < ranks; ++r) bucket.counts.push_back(begin_of(r + 1) - begin_of(r));
  bucket.own = values.slice(begin_of(rank), begin_of(rank + 1));
  bucket.sent =
      memory_to_reduce(group, {run}, values.dtype(), values.device()).slice(0, bucket.own.numel());
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    const auto& [name, variable] = parameters[p];
    const auto [begin, count, place] = layout.piece(p, rank);
    const Variable piece(piece_of(variable.data(), begin, count), true);
    piece.set_grad_buffer(piece_of(variable.grad_buffer(), begin, count));
    parameters_.push_back(parameters[p]);
    pieces_.push_back({name, piece});
    placements_.insert(name, piece.data(), Placement::flat_run(variable.shape(), begin));
  }
}

void ZeroRedundancyOptimizer::step(double gradient_factor) {
  for (std::size_t p = 0; p < pieces_.size(); ++p) {
    const Variable& piece = pieces_[p].variable;
    if (parameters_[p].variable.grad().defined()) {
      piece.mark_grad_present();
    } else {
      piece.zero_grad();
    }
  }
  optimizer_->step(gradient_factor);
  gather();
}

void ZeroRedundancyOptimizer::gather() {
  ProcessGroup& group = ddp_.group();
  works_.clear();
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const auto& [values, own, sent, counts] = buckets_[b];
    sent.copy_from(own);
    const CallLabel label("values of bucket", static_cast<int>(b));
    works_.push_back(group.all_gather_v(sent, values, counts));
  }
  for (Work& work : works_) work.wait();
}

StateDict ZeroRedundancyOptimizer::state_dict() const { return optimizer_->state_dict(); }

void ZeroRedundancyOptimizer::load_state_dict(const StateDict& state) {
  optimizer_->load_state_dict(state);
}

}  // namespace lockstep
