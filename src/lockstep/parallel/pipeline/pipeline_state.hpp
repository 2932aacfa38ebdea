#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include <lockstep/comm/process_group.hpp>
#include <lockstep/tensor/state_dict.hpp>

namespace lockstep {

/// The state of all stages of a pipeline, as a checkpoint needs it: each rank lists the names of
/// all ranks, with a part without elements for another rank's tensor. So a checkpoint has the names
/// and whole tensors of the undivided model, and any number of stages reads it:
///   const PipelineState slots(*group, optimizer.state_dict());
///   contents.model = pipeline.state_dict();
///   contents.optimizer = slots.of_all(optimizer.state_dict());
///   writer.save(*world, path, contents);
///   ...
///   const auto read = load_checkpoint(*world, path, contents.model, contents.optimizer);
///   pipeline.load_state_dict(read.model);
///   optimizer.load_state_dict(slots.own_of(read.optimizer));
/// A name of several ranks is one tensor, equal on them: a tied parameter, or an option of all
/// optimizers. Parts of tensors, as of tensor-parallel or sharded stages, keep their placement; for
/// an optimizer's state Optimizer::take_placements(pipeline.state_dict()) tells them.
class PipelineState {
 public:
  /// `own`: this rank's tensors; none on a rank whose stages have none. Their names, dtypes, shapes
  /// and placements stay. Collective over the pipeline's group. Throws Error, on every rank alike,
  /// if ranks have different tensors of one name.
  PipelineState(ProcessGroup& group, const StateDict& own);

  /// The names of all ranks, in the same order on all of them: `own` tensors with their places in
  /// the whole ones, and parts without elements. The tensors share memory. Local. Throws Error for
  /// other names than at construction.
  [[nodiscard]] StateDict of_all(const StateDict& own) const;
  /// The opposite: this rank's tensors out of parts as of_all() lists them, or out of whole
  /// tensors; of a tensor-parallel one its part only. Local. Throws Error listing missing and
  /// unknown names, and shapes that are neither a part's nor the whole one.
  [[nodiscard]] StateDict own_of(const StateDict& all) const;

 private:
  struct One {
    std::string name;
    DType dtype{};
    Shape own;            ///< this rank's part; no element of a tensor of another rank
    Placement placement;  ///< of that
    bool is_here = false;
    bool is_whole = false;  ///< the ranks that have it have all of it
    /// Of a tensor without dimensions, which has no slab without elements: a run of elements.
    [[nodiscard]] bool is_scalar() const noexcept {
      return is_whole && placement.global.dims() == 0;
    }
  };
  std::vector<One> all_;
};

}  // namespace lockstep
