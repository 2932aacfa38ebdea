#pragma once
#include <lockstep/tensor/state_dict.hpp>

namespace lockstep {

/// GPT-2's weights as Hugging Face's GPT2LMHeadModel has them: matrices of its Conv1D layers
/// (c_attn, c_fc, c_proj) are [in, out], names may begin with "transformer.", the causal masks
/// attn.bias and attn.masked_bias are among them, and lm_head.weight, which is wte.weight.

/// Whether these are such weights: no c_attn can be [width, 3 width] and [3 width, width].
[[nodiscard]] bool is_hugging_face_gpt2(const StateDict& weights);

/// Such weights under nn::Gpt's names and layouts; what is not GPT-2's stays as it is. All on the
/// host. Throws CheckpointError for a head that is not tied: nn::Gpt has none of its own.
[[nodiscard]] StateDict from_hugging_face_gpt2(const StateDict& weights);

/// The weights of an nn::Gpt as GPT2LMHeadModel.save_pretrained writes them, on the host. Throws
/// InputError for those of another model.
[[nodiscard]] StateDict to_hugging_face_gpt2(const StateDict& weights);

}  // namespace lockstep
