#pragma once
#include <memory>

#include <lockstep/nn/models/gpt.hpp>
#include <lockstep/nn/models/transformer.hpp>
#include <lockstep/parallel/tensor/parallelize_module.hpp>

namespace lockstep {

/// Options of the ready plans.
struct TensorParallelOptions {
  /// Activations between blocks' parts are cut along the sequence, whose length the ranks must
  /// divide. This saves memory, and shares out norms and dropout.
  bool sequence = false;
};

/// Of nn::Gpt: attention by heads, the feed-forward part by features, embedding and logits by the
/// vocabulary.
[[nodiscard]] ParallelPlan gpt_plan(const nn::GptOptions& model,
                                    const TensorParallelOptions& options = {});

/// Makes a Gpt tensor-parallel by gpt_plan. Its loss() is then the vocabulary-parallel one, and
/// forward() gives whole logits; it does not sample. Collective; see parallelize_module.
void parallelize_gpt(nn::Gpt& model, const GroupPtr& group,
                     const TensorParallelOptions& options = {});

/// Of nn::transformer: its encoder; embedding and head stay whole.
[[nodiscard]] ParallelPlan transformer_plan(const nn::TransformerOptions& model,
                                            const TensorParallelOptions& options = {});

/// Of nn::mlp: fc1 by its outputs, fc2 by its inputs, and so on; a last one without a partner stays
/// whole. Throws InputError for a norm between partners, which would see a part of the features.
[[nodiscard]] ParallelPlan mlp_plan(const nn::Module& model);

/// Makes a model of the library tensor-parallel by its ready plan: a Gpt, an nn::transformer, or an
/// nn::mlp with at least two layers. Collective; see parallelize_module. Throws InputError for
/// another model.
void tensor_parallelize(nn::Module& model, const GroupPtr& group);

}  // namespace lockstep
