#pragma once
#include <lockstep/nn/module.hpp>
#include <lockstep/parallel/collectives.hpp>
#include <lockstep/parallel/context/sequence_slice.hpp>

namespace lockstep {

/// Context parallelism: from now on `model` takes this rank's slice of every sequence, as
/// sequence_slice cuts it, and attends over the whole sequences by ring attention. It serves Gpt,
/// which finds its tokens' positions, and every MultiheadAttention (causal or not, with or without
/// the key_padding_mask of this rank's slice). Other models add their own slices of position
/// embeddings.
///   context_parallel(*model, mesh.group("cp"), SequenceOrder::zigzag);
///   const int rank = mesh.local_rank("cp"), ranks = mesh.size("cp");
///   const Variable tokens(sequence_slice(batch, rank, ranks, SequenceOrder::zigzag));
///   DistributedDataParallel ddp(model, mesh.flatten({"dp", "cp"}));
/// Every rank holds all parameters, so their gradients are summed over the ranks of dp and cp
/// together. With losses that are means over a rank's tokens, ddp.backward(loss, its tokens / all
/// tokens of the step) gives the gradient of the mean over all tokens; with equal slices
/// loss.backward() does too. Dropout of x[B,T,...] draws the mask that one rank would draw for
/// whole sequences, if the model's ranks have equal RandomContexts, and rank 0's otherwise.
/// Exception: Dropout of a sequence that tensor parallelism with `sequence` has cut, too.
///
/// forward and backward of the model are collective over `group`. Local. Throws InputError for a
/// null group and for a model without such a layer.
void context_parallel(nn::Module& model, const GroupPtr& group,
                      SequenceOrder order = SequenceOrder::contiguous);

}  // namespace lockstep
