#pragma once
#include <lockstep/tensor/state_dict.hpp>

namespace lockstep {

/// GPT-2's weights in the form of Hugging Face's GPT2LMHeadModel: matrices of its Conv1D layers
/// (c_attn, c_fc, c_proj) are [in, out]; names may begin with "transformer."; the causal masks
/// attn.bias and attn.masked_bias are included, and so is lm_head.weight, which equals wte.weight.

/// Whether these are such weights, by the shape of c_attn: [width, 3 width], not [3 width, width].
[[nodiscard]] bool is_hugging_face_gpt2(const StateDict& weights);

/// Converts such weights to nn::Gpt's names and layouts; tensors that are not GPT-2's stay as they
/// are. All on the host. Throws CheckpointError for a head that is not tied: nn::Gpt has none.
[[nodiscard]] StateDict from_hugging_face_gpt2(const StateDict& weights);

/// The weights of an nn::Gpt as GPT2LMHeadModel.save_pretrained writes them, on the host. Throws
/// InputError for those of another model.
[[nodiscard]] StateDict to_hugging_face_gpt2(const StateDict& weights);

}  // namespace lockstep
