#include <lockstep/parallel/power_sgd_hook.hpp>

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include <lockstep/base/error.hpp>
#include <lockstep/tensor/finite.hpp>
#include <lockstep/tensor/kernels/elementwise/elementwise.hpp>
#include <lockstep/tensor/kernels/linalg/matmul.hpp>
#include <lockstep/tensor/kernels/linalg/orthonormalize.hpp>
#include <lockstep/tensor/precision.hpp>

namespace lockstep {
namespace {

/// Seed of the random numbers: the same on all ranks and in all runs.
constexpr std::uint64_t power_sgd_seed = 0x506F776572534744U;

Shape as_matrix(const Shape& shape) {
  const std::int64_t rows = shape.dims() > 0 ? shape[0] : 1;
  return {rows, rows > 0 ? shape.numel() / rows : 0};
}

/// Takes consecutive tensors from a flat one.
class Cutter {
 public:
  explicit Cutter(Tensor flat) : flat_(std::move(flat)) {}
  Tensor cut(const Shape& shape) {
    const std::int64_t begin = std::exchange(at_, at_ + shape.numel());
    return flat_.slice(begin, at_).reshape(shape);
  }

 private:
  Tensor flat_;
  std::int64_t at_ = 0;
};

}  // namespace

PowerSgdHook::PowerSgdHook(const PowerSgdOptions& options) : options_(options) {
  if (options.matrix_approximation_rank >= 1 && options.start_step >= 0 &&
      options.min_compression_rate > 0.0) {
    return;
  }
  throw InputError(fmt::format(
      "PowerSGD needs a rank of at least 1, a start step of at least 0 and a compression rate "
      "above 0, not {}, {} and {}",
      options.matrix_approximation_rank, options.start_step, options.min_compression_rate));
}

std::string PowerSgdHook::name() const {
  return fmt::format(
      "power_sgd (rank {}, start step {}, min compression rate {}, {} error feedback, {} start)",
      options_.matrix_approximation_rank, options_.start_step, options_.min_compression_rate,
      options_.use_error_feedback ? "with" : "without", options_.warm_start ? "warm" : "random");
}

/// 0 if compression does not pay.
std::int64_t PowerSgdHook::rank_for(const Variable& parameter) const {
  if (parameter.shape().dims() < 2) return 0;
  const Shape matrix = as_matrix(parameter.shape());
  const std::int64_t rank = std::min({options_.matrix_approximation_rank, matrix[0], matrix[1]});
  const auto sent = static_cast<double>((matrix[0] + matrix[1]) * rank);
  return sent * options_.min_compression_rate < static_cast<double>(matrix.numel()) ? rank : 0;
}

PowerSgdHook::Parts PowerSgdHook::lay_out(ProcessGroup& group, const Bucket& bucket,
                                          std::uint32_t stream) const {
  Parts parts;
  const DType dtype = bucket.gradients.dtype();
  if (dtype != DType::f32 && dtype != DType::f64) return parts;
  std::int64_t first = bucket.notes.numel(), second = 0;
  for (const Variable& parameter : bucket.parameters) {
    const Shape matrix = as_matrix(parameter.shape());
    const std::int64_t rank = rank_for(parameter);
    first += rank > 0 ? rank * matrix[0] : matrix.numel();
    second += rank * matrix[1];
  }
  if (second == 0) return parts;

  const Device device = bucket.gradients.device();
  parts.first = memory_to_reduce(group, {first}, dtype, device);
  parts.second = memory_to_reduce(group, {second}, dtype, device);
  Cutter of_first(parts.first), of_second(parts.second);
  for (std::size_t i = 0; i < bucket.parameters.size(); ++i) {
    const Tensor gradient = bucket.parameters[i].grad_buffer();
    const std::int64_t rank = rank_for(bucket.parameters[i]);
    if (rank == 0) {
      parts.rest.emplace_back(gradient, of_first.cut(gradient.shape()));
      continue;
    }
    const Shape matrix = as_matrix(gradient.shape());
    parts.matrices.push_back(
        {.parameter = i,
         .values = bucket.parameters[i].data(),
         .gradient = gradient.reshape(matrix),
         .error = options_.use_error_feedback ? Tensor::zeros(matrix, dtype, device) : Tensor(),
         .p = of_first.cut({rank, matrix[0]}),
         .q = of_second.cut({rank, matrix[1]}),
         .stream = stream++});
  }
  parts.notes = of_first.cut(bucket.notes.shape());
  parts.rest.emplace_back(bucket.notes, parts.notes);
  return parts;
}

void PowerSgdHook::prepare(ProcessGroup& group, std::span<const Bucket> buckets) {
  world_size_ = group.size();
  rank_ = group.rank();
  std::uint32_t matrices = 0;
  for (const Bucket& bucket : buckets) {
    parts_.push_back(lay_out(group, bucket, matrices));
    matrices += static_cast<std::uint32_t>(parts_.back().matrices.size());
  }
}

// Guards, because an Autocast must not compute sums of gradients in 16 bits.
Work PowerSgdHook::start(ProcessGroup& group, const Bucket& bucket, std::size_t index) {
  const PrecisionGuard full(Precision::f32);
  const Parts& parts = parts_[index];
  if (!compresses() || parts.matrices.empty()) {
    return group.all_reduce(bucket.gradients, ReduceOp::sum);
  }
  for (const auto& [gradient, sent] : parts.rest) sent.copy_from(gradient);
  for (const Matrix& m : parts.matrices) {
    if (!options_.warm_start) m.q.zero();
    orthonormalize_rows(
        m.q,
        {.seed = power_sgd_seed, .stream = m.stream, .step = static_cast<std::uint32_t>(step())});
    if (m.error.defined()) add_scaled(m.gradient, 1.0, m.error);
    matmul_backward_a(m.q, m.error.defined() ? m.error : m.gradient, false, m.p);  // Q^T M^T
  }
  return group.all_reduce(parts.first, ReduceOp::sum);
}

Work PowerSgdHook::next_round(ProcessGroup& group, const Bucket& /*bucket*/, std::size_t index,
                              int /*round*/) {
  const PrecisionGuard full(Precision::f32);
  const Parts& parts = parts_[index];
  if (parts.matrices.empty()) return {};
  for (const Matrix& m : parts.matrices) {
    orthonormalize_rows(m.p);
    matmul_forward(m.p, m.error.defined() ? m.error : m.gradient, m.q);  // P^T M
  }
  return group.all_reduce(parts.second, ReduceOp::sum);
}

std::int64_t PowerSgdHook::bytes_sent(const Bucket& bucket, std::size_t index) const {
  const Parts& parts = parts_[index];
  if (!compresses() || parts.matrices.empty()) return CommHook::bytes_sent(bucket, index);
  return static_cast<std::int64_t>(parts.first.bytes() + parts.second.bytes());
}

void PowerSgdHook::finish(const Bucket& /*bucket*/, std::size_t index) {
  const PrecisionGuard full(Precision::f32);
  const Parts& parts = parts_[index];
  if (!compresses()) return;
  for (const auto& [gradient, sent] : parts.rest) gradient.copy_from(sent);
  for (const Matrix& m : parts.matrices) {
    const auto at = static_cast<std::int64_t>(m.parameter);
    if (parts.notes.slice(at, at + 1).item() == 0.0)
      continue;                                      // kept until the parameter has a gradient
    matmul_backward_b(m.q, m.p, false, m.gradient);  // P Q^T
    if (!all_finite(m.gradient)) {  // on all ranks, which skip this step: nothing of it stays
      m.q.zero();
      if (m.error.defined()) m.error.zero();
    } else if (m.error.defined()) {
      add_scaled(m.gradient, -1.0 / world_size_, m.error);
    }
  }
}

StateDict PowerSgdHook::state_dict(std::span<const nn::NamedParameter> trained) const {
  std::map<const void*, std::string> names;
  for (const auto& [name, variable] : trained) names.emplace(variable.data().data(), name);
  StateDict state;
  for (const Matrix& m : matrices()) {
    const std::string prefix = names.at(m.values.data()) + std::string(comm_hook_slot);
    if (options_.warm_start) state.insert(prefix + "q", m.q);
    if (!m.error.defined()) continue;
    const Shape& matrix = m.error.shape();
    const Tensor row = m.error.reshape({1, matrix[0], matrix[1]});
    state.insert(prefix + "error", row, Placement::rows(row, rank_, world_size_));
  }
  return state;
}

std::string PowerSgdHook::load_state_dict(std::span<const nn::NamedParameter> trained,
                                          const StateDict& state) const {
  const StateDict own = state_dict(trained);
  const auto fits = [&](const StateDict::Entry& entry) {
    const auto* from = state.find(entry.name);
    if (from == nullptr || from->tensor.dtype() != entry.tensor.dtype()) return false;
    const Shape& shape = from->tensor.shape();
    return entry.placement.sharded
               ? shape.dims() == 3 && entry.tensor.shape().with_leading(shape[0]) == shape
               : shape == entry.tensor.shape();
  };
  if (state.size() != own.size() || !std::ranges::all_of(own, fits)) {
    for (const auto& entry : own) entry.tensor.zero();
    if (step() <= options_.start_step && state.size() == 0) return {};
    return fmt::format("PowerSGD restarts with errors of zero: the saved state does not fit {}.",
                       name());
  }
  std::int64_t ranks_then = world_size_;
  for (const auto& entry : own) {
    const auto& [name, saved, placement] = *state.find(entry.name);
    if (saved.data() == entry.tensor.data()) continue;  // it was read into place
    if (!entry.placement.sharded) {
      entry.tensor.copy_from(saved);
      continue;
    }
    ranks_then = placement.sharded ? placement.global[0] : saved.size(0);
    const auto [first, last] = placement.sharded
                                   ? std::pair<std::int64_t, std::int64_t>(0, saved.size(0))
                                   : rows_to_take_over(ranks_then, rank_, world_size_);
    if (first == last) entry.tensor.zero();
    for (std::int64_t row = first; row < last; ++row) {
      if (row == first) {
        entry.tensor.copy_from(saved.slice(row, row + 1));
      } else {
        add_scaled(saved.slice(row, row + 1).to(entry.tensor.device()), 1.0, entry.tensor);
      }
    }
  }
  if (ranks_then == world_size_) return {};
  return fmt::format(
      "PowerSGD's errors were saved by {} ranks and are restored on {}: their sum is the same, but "
      "later steps have other bits.",
      ranks_then, world_size_);
}

std::vector<PowerSgdHook::Matrix> PowerSgdHook::matrices() const {
  std::vector<Matrix> all;
  for (const Parts& parts : parts_) {
    all.insert(all.end(), parts.matrices.begin(), parts.matrices.end());
  }
  return all;
}

}  // namespace lockstep
