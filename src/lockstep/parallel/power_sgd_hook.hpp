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

/// PowerSGD: a gradient of d0 x d1 x ... elements, seen as the matrix M [d0, d1 d2 ...], is sent as
/// the product of two thin ones, found by one step of power iteration. Vogels, Karimireddy, Jaggi
/// 2019 (arXiv:1905.13727), algorithm 1; with sums over ranks r, each holding M_r:
///   P = orthonormal(sum M_r Q),  Q' = sum M_r^T P,  and the gradient becomes P Q'^T,
/// the same bits on all ranks. That depends on sum M_r alone, and is equal to it, to rounding, if
/// its rank is no larger than that of P. Two collectives a bucket: P's, with the gradients that are
/// not worth compressing (those of one dimension among them), then Q's. What no rank used keeps its
/// error, and has no gradient, as with all_reduce.
///
/// M_r is the rank's weighted gradient plus its error: where PyTorch averages over W ranks, here
/// weighted gradients are summed, so the error is M_r - P Q'^T / W. The ranks' errors thus add up
/// to what the sum lacks, whatever the weights; with equal weights all is 1/W of PyTorch's.
///
/// Directions that vanish (Q, where gradients are zero or of a low rank) are replaced by random
/// ones, so that no direction is lost for good or becomes NaN. PyTorch has
/// orthogonalization_epsilon for that.
///
/// f32 and f64; buckets of other dtypes are sent as they are. Memory a compressed gradient: its
/// error, as large as itself, and P and Q.
class PowerSgdHook final : public CommHook {
 public:
  /// Throws InputError for numbers outside of what PowerSgdOptions allows.
  explicit PowerSgdHook(const PowerSgdOptions& options);

  /// With all options.
  [[nodiscard]] std::string name() const override;
  /// Throws InputError if a bucket is not on the host.
  void prepare(ProcessGroup& group, std::span<const Bucket> buckets) override;
  [[nodiscard]] Work start(ProcessGroup& group, const Bucket& bucket, std::size_t index) override;
  [[nodiscard]] int rounds() const override { return compresses() ? 2 : 1; }
  [[nodiscard]] Work next_round(ProcessGroup& group, const Bucket& bucket, std::size_t index,
                                int round) override;
  [[nodiscard]] std::int64_t bytes_sent(const Bucket& bucket, std::size_t index) const override;
  void finish(const Bucket& bucket, std::size_t index) override;
  /// Of each compressed gradient `q`, the same on every rank, and `error` [ranks, rows, columns].
  [[nodiscard]] StateDict state_dict(std::span<const nn::NamedParameter> trained) const override;
  /// On another number of ranks a rank adds up the errors that it takes over, so that their sum
  /// stays. Where the state lacks a matrix, has one more or another shape, errors begin at zero.
  [[nodiscard]] std::string load_state_dict(std::span<const nn::NamedParameter> trained,
                                            const StateDict& state) const override;

  /// A gradient that is sent as a product. Between steps error and q are the state of the hook; q
  /// has to be the same on all ranks.
  struct Matrix {
    std::size_t parameter;  ///< index into the bucket's
    Tensor values;          ///< the parameter's
    Tensor gradient;        ///< the bucket's memory as [rows, columns]
    Tensor error;           ///< likewise, of this rank; undefined without error feedback
    Tensor p, q;            ///< transposed: [rank, rows] and [rank, columns]
    std::uint32_t stream;   ///< of random numbers: its place among all matrices
  };
  /// In the order of buckets and of parameters in them, from prepare() on.
  [[nodiscard]] std::vector<Matrix> matrices() const;

 private:
  /// A bucket of which something is compressed.
  struct Parts {
    Tensor first, second;  ///< what is sent: P's and gradients as they are, then Q's; flat
    std::vector<Matrix> matrices;
    /// Gradients as they are, then notes: places in the bucket and in `first`.
    std::vector<std::pair<Tensor, Tensor>> rest;
    Tensor notes;  ///< the last of these, in `first`
  };

  [[nodiscard]] bool compresses() const noexcept { return step() >= options_.start_step; }
  [[nodiscard]] std::int64_t rank_for(const Variable& parameter) const;
  [[nodiscard]] Parts lay_out(ProcessGroup& group, const Bucket& bucket,
                              std::uint32_t stream) const;

  PowerSgdOptions options_;
  int world_size_ = 1, rank_ = 0;
  std::vector<Parts> parts_;  ///< by bucket; without matrices: it is sent as it is
};

}  // namespace lockstep
