#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include <lockstep/nn/module.hpp>
#include <lockstep/parallel/collectives.hpp>
#include <lockstep/parallel/tensor/regions.hpp>

// Ways in which the ranks of a group share out one module, with PyTorch's names
// (torch.distributed.tensor.parallel): the styles of a parallelize_module plan.
//
// Activations between modules are replicated, or, with `sequence`, cut along dimension 1 of
// [B, T, ...] into equal slabs (sequence parallelism, Korthikanti et al. 2022, arXiv:2205.05198).
// Then norms and dropout between a RowwiseParallel and the next ColwiseParallel compute a slab
// each, and reduce_scatter and all_gather replace the two all_reduces.

namespace lockstep {

/// Distribution of units (features, heads, rows of a vocabulary): each rank has a contiguous run,
/// sizes differ by at most one.
struct UnitCut {
  Slice units;      ///< of this rank
  int holders = 1;  ///< ranks that hold the same run
};
/// Throws InputError, beginning with `what` ("h.0.attn.c_attn has 3 heads"), for fewer units than
/// ranks; with `replicate`, and a number of units that divides the ranks, several neighbouring
/// ranks hold each unit.
[[nodiscard]] UnitCut cut_units(const std::string& what, std::int64_t units, int ranks, int rank,
                                bool replicate = false);

/// A module of the model that is made parallel, and the changes that styles make.
class ParallelPlace {
 public:
  /// Parameters cut so far: of tied ones every name must be cut alike.
  using Slabs = std::map<const void*, Placement>;

  ParallelPlace(std::string name, nn::Module& module, GroupPtr group, Slabs& slabs)
      : name_(std::move(name)), module_(module), group_(std::move(group)), slabs_(slabs) {}

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] nn::Module& module() const noexcept { return module_; }
  [[nodiscard]] const GroupPtr& group() const noexcept { return group_; }

  /// The module as an M, or null.
  template <class M>
  [[nodiscard]] M* as() const {
    return dynamic_cast<M*>(&module_);
  }
  /// A part of the module.
  [[nodiscard]] ParallelPlace child(const std::string& name) const;
  /// Throws InputError: "ColwiseParallel is for Linear; 'h.0.ln_1' is another module".
  [[noreturn]] void refuse(const char* style, const char* kinds) const;

  /// Keeps elements `slice` of dimension `dim` of parameter `name`; of dimension 0, the same of
  /// each of `parts` equal parts.
  void keep(std::string_view name, const Variable& parameter, int dim, const Slice& slice,
            std::int64_t parts = 1) const;

 private:
  std::string name_;
  nn::Module& module_;
  GroupPtr group_;
  Slabs& slabs_;
};

/// One style; derive from it for a module of your own.
class ParallelStyle {
 public:
  ParallelStyle() = default;
  virtual ~ParallelStyle() = default;
  ParallelStyle(const ParallelStyle&) = delete;
  ParallelStyle& operator=(const ParallelStyle&) = delete;
  /// Keeps this rank's slabs of the module's parameters and gives it a Partition
  /// (nn/partition.hpp). Collective. Throws InputError, the same on every rank, for a module that
  /// it does not fit.
  virtual void apply(const ParallelPlace& place) const = 0;
};

/// Options of ColwiseParallel.
struct ColwiseOptions {
  /// Number of equal units of features, such as heads, that stay whole; 0: each feature is a unit.
  std::int64_t units = 0;
  /// Number of equal parts of the output; ranks take the same units of each: 3 for queries, keys
  /// and values of one Linear.
  std::int64_t parts = 1;
  bool replicate = false;  ///< fewer units than ranks, such as key heads: several ranks hold each
  bool gather_output = false;  ///< the output is replicated, not this rank's features
  bool sequence = false;       ///< the input is cut along the sequence
};

/// Linear whose outputs the ranks share out: weight rows and bias. Input replicated; output this
/// rank's features. Backward all-reduces the gradient of the input.
class ColwiseParallel : public ParallelStyle {
 public:
  explicit ColwiseParallel(const ColwiseOptions& options = {}) : options_(options) {}
  void apply(const ParallelPlace& place) const override;

 private:
  ColwiseOptions options_;
};

/// Options of RowwiseParallel.
struct RowwiseOptions {
  std::int64_t units = 0;    ///< as ColwiseOptions, of the inputs
  bool split_input = false;  ///< the input is replicated, not this rank's features
  bool sequence = false;     ///< the output is cut along the sequence, not replicated
};

/// Linear whose inputs the ranks share out: weight columns. Input this rank's features, as from a
/// ColwiseParallel; output replicated, by an all_reduce; the bias is replicated and added behind
/// it. Of an Embedding: rows, its vocabulary (vocabulary_parallel_embedding); options do not apply.
class RowwiseParallel : public ParallelStyle {
 public:
  explicit RowwiseParallel(const RowwiseOptions& options = {}) : options_(options) {}
  void apply(const ParallelPlace& place) const override;

 private:
  RowwiseOptions options_;
};

/// MultiheadAttention whose heads the ranks share out: in_proj by ColwiseParallel, out_proj by
/// RowwiseParallel.
class HeadParallel : public ParallelStyle {
 public:
  explicit HeadParallel(bool sequence = false) : sequence_(sequence) {}
  void apply(const ParallelPlace& place) const override;

 private:
  bool sequence_;
};

/// LayerNorm or RMSNorm of activations cut along the sequence: parameters replicated, their
/// gradients summed over the ranks. Dropout of such activations: each rank draws its slab of the
/// mask of the whole.
class SequenceParallel : public ParallelStyle {
 public:
  void apply(const ParallelPlace& place) const override;
};

/// Dropout between a ColwiseParallel and a RowwiseParallel: each rank draws its slab of the mask of
/// all `features`, the last dimension.
class DropoutParallel : public ParallelStyle {
 public:
  explicit DropoutParallel(std::int64_t features) : features_(features) {}
  void apply(const ParallelPlace& place) const override;

 private:
  std::int64_t features_;
};

/// TransformerEncoder whose activations are cut along the sequence within it: it takes and gives
/// replicated ones.
class SequenceRegion : public ParallelStyle {
 public:
  void apply(const ParallelPlace& place) const override;
};

/// Gpt itself, or a stage of it (GptStage): logits and loss over a vocabulary that the ranks share
/// out, of which wte, a RowwiseParallel, has the rows; with `sequence`, activations between
/// embedding and logits are cut along the sequence.
class GptParallel : public ParallelStyle {
 public:
  explicit GptParallel(bool sequence = false) : sequence_(sequence) {}
  void apply(const ParallelPlace& place) const override;

 private:
  bool sequence_;
};

}  // namespace lockstep
