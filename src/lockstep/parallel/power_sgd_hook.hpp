#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/parallel/comm_hook.hpp>
#include <lockstep/parallel/hook_options.hpp>

namespace lockstep {

/// PowerSGD: a gradient of d0 x d1 x ... elements, as the matrix M [d0, d1 d2 ...], is sent as the
/// product of two thin matrices, found by one step of power iteration. Vogels, Karimireddy, Jaggi
/// 2019 (arXiv:1905.13727), algorithm 1. With sums over ranks r, each holding M_r:
///   P = orthonormal(sum M_r Q),  Q' = sum M_r^T P,  and the gradient becomes P Q'^T,
/// the same bits on all ranks. The result depends on sum M_r alone. It equals sum M_r, to rounding,
/// if the rank of sum M_r is no larger than that of P. Each bucket takes two collectives: P's, with
/// the gradients not worth compressing (including all of one dimension), then Q's. A parameter that
/// no rank used keeps its error, and has no gradient, as with all_reduce.
///
/// M_r is the rank's weighted gradient plus its error. PyTorch averages over W ranks; here weighted
/// gradients are summed, so the error is M_r - P Q'^T / W. The ranks' errors thus add up to the
/// error of the sum, whatever the weights; with equal weights all is 1/W of PyTorch's.
///
/// Vanishing directions (of Q, if gradients are zero or of a low rank) are replaced by random ones,
/// so that no direction is lost for good or becomes NaN. PyTorch has orthogonalization_epsilon for
/// that.
///
/// For f32 and f64; buckets of other dtypes are sent uncompressed. Memory per compressed gradient:
/// its error, as large as itself, and P and Q.
class PowerSgdHook final : public CommHook {
 public:
  /// Throws InputError for numbers that PowerSgdOptions does not allow.
  explicit PowerSgdHook(const PowerSgdOptions& options);

  /// Includes all options.
  [[nodiscard]] std::string name() const override;
  /// Throws InputError if a bucket is not on the host.
  void prepare(ProcessGroup& group, std::span<const Bucket> buckets) override;
  [[nodiscard]] Work start(ProcessGroup& group, const Bucket& bucket, std::size_t index) override;
  [[nodiscard]] int rounds() const override { return compresses() ? 2 : 1; }
  [[nodiscard]] Work next_round(ProcessGroup& group, const Bucket& bucket, std::size_t index,
                                int round) override;
  [[nodiscard]] std::int64_t bytes_sent(const Bucket& bucket, std::size_t index) const override;
  void finish(const Bucket& bucket, std::size_t index) override;
  /// For each compressed gradient `q`, the same on every rank, and `error` [ranks, rows, columns].
  [[nodiscard]] StateDict state_dict(std::span<const nn::NamedParameter> trained) const override;
  /// If the number of ranks changes, a rank adds up the errors that it takes over, so that their
  /// sum stays. If the state lacks a matrix, has an extra one or another shape, errors begin at
  /// zero.
  [[nodiscard]] std::string load_state_dict(std::span<const nn::NamedParameter> trained,
                                            const StateDict& state) const override;

  /// A gradient that is sent as a product. Between steps error and q are the hook's state; q must
  /// be the same on all ranks.
  struct Matrix {
    std::size_t parameter;  ///< index into the bucket's parameters
    Tensor values;          ///< shape of the parameter
    Tensor gradient;        ///< the bucket's memory as [rows, columns]
    Tensor error;           ///< likewise, for this rank; undefined without error feedback
    Tensor p, q;            ///< transposed: [rank, rows] and [rank, columns]
    std::uint32_t stream;   ///< stream of random numbers: its index among all matrices
  };
  /// In the order of buckets and of their parameters, from prepare() on.
  [[nodiscard]] std::vector<Matrix> matrices() const;

 private:
  /// A bucket with at least one compressed gradient.
  struct Parts {
    Tensor first, second;  ///< data sent: P's and uncompressed gradients, then Q's; flat
    std::vector<Matrix> matrices;
    /// Uncompressed gradients, then notes: their places in the bucket and in `first`.
    std::vector<std::pair<Tensor, Tensor>> rest;
    Tensor notes;  ///< the last of these, in `first`
  };

  [[nodiscard]] bool compresses() const noexcept { return step() >= options_.start_step; }
  [[nodiscard]] std::int64_t rank_for(const Variable& parameter) const;
  [[nodiscard]] Parts lay_out(ProcessGroup& group, const Bucket& bucket,
                              std::uint32_t stream) const;

  PowerSgdOptions options_;
  int world_size_ = 1, rank_ = 0;
  std::vector<Parts> parts_;  ///< by bucket; without matrices the bucket is sent uncompressed
};

}  // namespace lockstep
