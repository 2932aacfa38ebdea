#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

/// One computation of a pipeline: a part of one stage's work on one micro-batch.
struct PipelineAction {
  enum class Kind : std::uint8_t {
    forward,
    backward,         ///< both of the following at once
    backward_input,   ///< the gradient of the stage's input, for which the stage before waits
    backward_weight,  ///< the gradients of its parameters, for which nobody waits
  };
  Kind kind = Kind::forward;
  int stage = 0;
  int microbatch = 0;
  bool operator==(const PipelineAction&) const = default;
};

/// "backward (input)".
[[nodiscard]] const char* name_of(PipelineAction::Kind kind) noexcept;
/// "forward of stage 1 of micro-batch 3".
[[nodiscard]] std::string to_string(const PipelineAction& action);

/// A pipeline's order of work, as data: the list of each rank's actions. Messages are implied: an
/// action begins when its input has arrived, and its result is sent at once to the rank of the next
/// stage (forward) or of the stage before (gradient of the input). Sends never wait for receives.
/// expect_deadlock_free (simulation.hpp) proves that a schedule is free of deadlock: of the makers
/// below in the tests, of your own when a Pipeline is made.
struct PipelineSchedule {
  std::string name;  ///< for messages and traces
  int microbatches = 0;
  std::vector<int> rank_of_stage;
  std::vector<std::vector<PipelineAction>> actions;  ///< of each rank, in its order

  [[nodiscard]] int stages() const noexcept { return static_cast<int>(rank_of_stage.size()); }
  [[nodiscard]] int ranks() const noexcept { return static_cast<int>(actions.size()); }
};

// In all makers, stage s is on rank s mod ranks, and each stage takes the micro-batches in order,
// forward and backward: so gradients are summed in one order, and the schedules give the same bits.
// All throw InputError for numbers below 1. F, B and W below are a rank's times for forward, the
// gradient of the input and the gradients of the parameters of one micro-batch, over all stages of
// the rank; the bubble fractions are those of equal stages without time for messages.

/// All forwards, then all backwards (Huang et al. 2018, arXiv:1811.06965). Holds the activations of
/// all micro-batches. Bubble: (ranks - 1) / (microbatches + ranks - 1).
[[nodiscard]] PipelineSchedule gpipe(int ranks, int microbatches);

/// One forward, one backward in turn, after ranks - rank forwards (Narayanan et al. 2019,
/// PipeDream; with flushes as in Megatron-LM, arXiv:2104.04473). The bubble of gpipe, but
/// activations of at most ranks - rank micro-batches.
[[nodiscard]] PipelineSchedule one_f_one_b(int ranks, int microbatches);

/// The same with several stages a rank (Megatron-LM, arXiv:2104.04473, section 2.2): the bubble
/// of 1F1B over stages_per_rank, for as many times the messages and some more activations.
/// Micro-batches pass through the rank's stages in groups of at least `ranks`. Megatron-LM needs a
/// multiple of `ranks` micro-batches; here groups differ by one micro-batch if need be, with the
/// same bubble for any number that is not below `ranks`.
[[nodiscard]] PipelineSchedule interleaved_1f1b(int ranks, int stages_per_rank, int microbatches);

/// ZB-H1 (Qi et al. 2023, arXiv:2401.10241, section 2.1): 1F1B with the backward in two parts. A
/// rank delays the gradients of its parameters by `rank` micro-batches, to fill the time in which
/// 1F1B waits, and holds the activations of at most `ranks` micro-batches. Bubble, for at least
/// `ranks` micro-batches: (ranks - 1) (F + B - W) / (microbatches (F + B + W) + (ranks - 1) (F + B
/// - W)); exactly so for F = B = W.
[[nodiscard]] PipelineSchedule zero_bubble_h1(int ranks, int microbatches);

}  // namespace lockstep
