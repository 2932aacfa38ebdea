#pragma once
#include <cstddef>
#include <memory>
#include <vector>

#include <lockstep/base/list_view.hpp>
#include <lockstep/nn/models/gpt.hpp>
#include <lockstep/nn/module.hpp>
#include <lockstep/nn/recompute.hpp>
#include <lockstep/parallel/pipeline/pipeline_options.hpp>
#include <lockstep/tensor/kernels/loss/loss.hpp>

namespace lockstep {

/// A run of a nn::Gpt's blocks; the first stage also has the embeddings, the last one ln_f and the
/// head. The modules are the Gpt's, with their names in it.
///   auto stages = split_into_stages(gpt, ranks);  // the same on every rank
///   const auto mine = stages[rank];
///   Pipeline pipeline({mine}, group, one_f_one_b(ranks, 8),
///                     [last = stages.back()](const Variable& x, const Tensor& target) {
///                       return last->loss(x, target);
///                     }, {.tied = {tied_embedding(ranks)}});
class GptStage : public nn::Module {
 public:
  /// Blocks [first, end).
  GptStage(const nn::Gpt& gpt, std::size_t first, std::size_t end, bool is_first, bool is_last);

  /// tokens i64[B,T] in the first stage, x[B,T,width] in the others -> x[B,T,width].
  Variable forward(const Variable& x) override;
  /// Of the last stage's output: the cross-entropy of target[B,T], as Gpt::loss, or the logits
  /// [B,T,vocabulary]. Collective over the ranks of a GptParallel. Throw Error in other stages.
  [[nodiscard]] Variable loss(const Variable& x, const Tensor& target,
                              const LossOptions& options = {}) const;
  [[nodiscard]] Variable logits(const Variable& x) const;
  /// Of the whole Gpt.
  [[nodiscard]] const nn::GptOptions& options() const noexcept { return options_; }

 private:
  [[nodiscard]] Variable embedded(const Variable& tokens);
  [[nodiscard]] const Variable& head() const;

  std::shared_ptr<nn::Module> wte_, wpe_, dropout_, ln_f_;
  Variable head_;  ///< wte.weight, in the last stage
  std::vector<std::shared_ptr<nn::Module>> blocks_;
  nn::GptOptions options_;
  std::vector<nn::Recomputed> recomputed_;  ///< made by the first forward
};

/// Stage s has blocks first[s] to first[s + 1] - 1. Throws InputError as balanced_stages'
/// split_into_stages does; first.back() may be the number of blocks: the last stage is then the
/// head alone.
[[nodiscard]] std::vector<std::shared_ptr<GptStage>> split_into_stages(const nn::Gpt& gpt,
                                                                       ListView<std::size_t> first);
/// Stages with as equal amounts of arithmetic as possible, in the matrices of blocks and head.
[[nodiscard]] std::vector<std::shared_ptr<GptStage>> split_into_stages(const nn::Gpt& gpt,
                                                                       int stages);

/// For PipelineOptions::tied: the embedding, which is also the head's weight. With one stage they
/// are one variable.
[[nodiscard]] std::vector<StageParameter> tied_embedding(int stages);

}  // namespace lockstep
