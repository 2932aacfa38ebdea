#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <lockstep/tensor/tensor.hpp>

namespace lockstep {

/// Which part of a global tensor a rank holds. Replicated: all of it, the same on every rank.
/// Otherwise a rectangular slab, whose sizes are the local tensor's shape: PyTorch's chunks; or a
/// run of elements, of the tensor (flat_run) or of a slab (flat_run_of).
/// Several ranks may hold the same slab, and a rank may hold none: one without elements.
struct Placement {
  bool sharded = false;
  Shape global;   ///< of the whole tensor
  Shape offsets;  ///< offsets of the slab, one per dimension
  /// The leading dimension consists of so many equal parts, such as queries, keys and values. The
  /// local tensor holds the same slab of each, one after another; `offsets` count from a part's
  /// first row.
  std::int64_t parts = 1;
  /// The local tensor, of one dimension, holds the elements from `begin` on of a slab of this
  /// shape.
  struct SlabRun {
    Shape slab;
    std::int64_t begin = 0;
    friend bool operator==(const SlabRun&, const SlabRun&) = default;
  };
  std::optional<SlabRun> slab_run = std::nullopt;

  /// Of a tensor of shape `global`, the slab that begins at `offsets`.
  [[nodiscard]] static Placement slab(const Shape& global, const Shape& offsets) {
    return {.sharded = true, .global = global, .offsets = offsets};
  }
  /// Of `local`, when it is [offset, offset + local.size(0)) of `global_rows` rows.
  [[nodiscard]] static Placement rows(const Tensor& local, std::int64_t offset,
                                      std::int64_t global_rows);
  /// Elements [offset, offset + n) of a tensor of shape `global` in row-major order, for a local
  /// tensor of shape [n]: what a rank holds of a tensor that is cut without regard to its shape.
  /// `offsets` has one dimension, whatever number `global` has.
  [[nodiscard]] static Placement flat_run(const Shape& global, std::int64_t offset) {
    return {.sharded = true, .global = global, .offsets = Shape{offset}};
  }
  /// The same of what a rank holds of `shape`, placed as `of` says, and then cuts again: a run of
  /// the whole tensor if `of` is replicated, else of a slab, as where tensor parallelism cuts first
  /// and FullyShardedDataParallel then. `of` is not a run itself.
  [[nodiscard]] static Placement flat_run_of(const Placement& of, const Shape& shape,
                                             std::int64_t begin);
  /// Of a run of the whole tensor. False for a tensor of one dimension: its runs are slabs.
  [[nodiscard]] bool is_flat_run() const noexcept {
    return sharded && !slab_run && offsets.dims() == 1 && global.dims() != 1;
  }
  /// `shape`, the global one or a slab's, with the parts as a leading dimension of their own; of a
  /// flat run one dimension; otherwise `shape` itself. In it the slab is a rectangle that begins at
  /// rectangle_offsets().
  [[nodiscard]] Shape by_parts(const Shape& shape) const;
  [[nodiscard]] Shape rectangle_offsets() const;
  friend bool operator==(const Placement&, const Placement&) = default;
};

/// Names to tensors, in order of insertion: used by checkpoints, models, and
/// DistributedDataParallel's broadcast. Tensors are handles: writing into one writes the model.
class StateDict {
 public:
  /// A named tensor, whole or a part of one.
  struct Entry {
    std::string name;
    Tensor tensor;
    Placement placement;
  };

  /// Throws Error if the name exists already.
  void insert(std::string name, Tensor tensor, Placement placement = {});
  /// Inserts every entry of `other` with `prefix` before its name ("optimizer/").
  void insert_all(const std::string& prefix, const StateDict& other);

  /// The entry, or null.
  [[nodiscard]] const Entry* find(std::string_view name) const noexcept;
  /// The tensor; throws Error naming the nearest names if absent.
  [[nodiscard]] const Tensor& at(std::string_view name) const&;
  [[nodiscard]] Tensor at(std::string_view name) const&& { return at(name); }

  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }
  [[nodiscard]] auto begin() const noexcept { return entries_.begin(); }
  [[nodiscard]] auto end() const noexcept { return entries_.end(); }
  /// Bytes held by this rank.
  [[nodiscard]] std::size_t bytes() const noexcept;

 private:
  std::vector<Entry> entries_;
  std::unordered_multimap<std::size_t, std::size_t> places_;  ///< in entries_, by the name's hash
};

/// Copies every tensor of `source` into the one of the same name in `target`. Names, shapes and
/// dtypes must agree one to one; otherwise throws Error that lists missing names, extra names and
/// different shapes, and copies nothing.
void copy_state(const StateDict& source, const StateDict& target);

}  // namespace lockstep
