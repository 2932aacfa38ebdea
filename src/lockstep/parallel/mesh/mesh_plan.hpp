#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/nn/module.hpp>
#include <lockstep/parallel/mesh/device_mesh.hpp>
#include <lockstep/tensor/precision.hpp>

// Memory and traffic of a mesh by formulas, before anything is started.
//
// E is the elements of the rank that holds most, after tp and pp have cut the model; a ring sends
// from each of n ranks 2 (n-1) ceil(E/n) elements for an all_reduce, and half of that for a
// reduce_scatter or an all_gather (Thakur et al. 2005, doi:10.1177/1094342005051521). Of S ranks
// that shard, ZeRO keeps ceil(E/S) elements of the optimizer's state (stage 1), gradients (2) and
// parameters (3). Stages 0 and 2 send as much as an all_reduce. Stage 3 sends half as much more, as
// it gathers parameters in forward and in backward (Rajbhandari et al. 2020, arXiv:1910.02054,
// sections 3, 5 and 7), and so does stage 1 here: ZeroRedundancyOptimizer all-reduces gradients,
// and then gathers parameters. Stage 1 keeps its updated run once more, as it is sent. Stages 2 and
// 3 gather the parameters of a unit at a time, as FullyShardedDataParallel with its default units
// does (sharded_memory.hpp): with R elements in the root unit and U in the largest other one, stage
// 2 has E gathered and R + 2 U whole gradients, stage 3 R + 2 U of both. Not counted: activations,
// buffers, and padding of shards.

namespace lockstep {

/// Options of plan_mesh.
struct MeshPlanOptions {
  std::vector<MeshDim> dims;     ///< of mesh_dim_names, in any order; 1 where left out
  std::int64_t samples = 1;      ///< of a step, over all ranks
  Precision precision = {};      ///< of products: cp sends keys and values in it, gradients in f32
  std::int64_t tokens = 1;       ///< of a sample
  double optimizer_bytes = 0.0;  ///< state for an element of a parameter
  /// The model as tensor_parallelize() leaves it on the first rank of tp: for tp of another model
  /// than Gpt.
  const nn::Module* of_tp_rank = nullptr;
};

/// The dimensions in the order in which ranks are laid out, the last one varying fastest: pipeline
/// stages, replicas, shards, context, tensor.
inline constexpr std::array<std::string_view, 5> mesh_dim_names{"pp", "dp", "fsdp", "cp", "tp"};

/// A parameter over the ranks of tp and pp.
struct PlannedParameter {
  std::string name;
  Shape shape;              ///< whole
  Shape of_rank;            ///< on the first rank of tp, which has the most of it
  std::vector<int> stages;  ///< of pp; two of a tied one
};

/// Bytes on the rank with most.
struct MeshMemory {
  std::int64_t parameters = 0, gradients = 0, optimizer_state = 0;
  std::int64_t gathered = 0;  ///< at a time, with the whole gradients
  [[nodiscard]] std::int64_t total() const {
    return parameters + gradients + optimizer_state + gathered;
  }
  bool operator==(const MeshMemory&) const = default;
};

/// Bytes that a rank sends in a step: the rank that sends most.
struct MeshTraffic {
  std::string dim;   ///< of the mesh; "dp_cp": over both
  std::string what;  ///< "gradients: all_reduce"
  std::int64_t bytes = 0;
  bool operator==(const MeshTraffic&) const = default;
};

/// Memory and traffic of one rank of a mesh.
struct MeshPlan {
  std::vector<MeshDim> dims;  ///< all of mesh_dim_names, in that order
  std::vector<PlannedParameter> parameters;
  std::int64_t elements = 0;                        ///< E
  std::array<MeshMemory, 4> memory;                 ///< with ZeRO stage 0 (none), 1, 2 and 3
  std::array<std::vector<MeshTraffic>, 4> traffic;  ///< the same
};

/// Ranks shard over fsdp, or over dp if fsdp is 1, and over cp, whose ranks hold the same
/// parameters; with fsdp, dp replicates the shards (HSDP).
/// tp, cp and pp are planned for Gpt, as it is cut by Megatron-LM (Shoeybi et al. 2019,
/// arXiv:1909.08053, section 3): c_attn by heads, c_fc by features and wte by the vocabulary, all
/// of them rows; both c_proj by columns; runs differ by at most one unit. A block then all_reduces
/// activations twice in forward and twice in backward, the embedding in forward, the logits in
/// backward, and the loss sends four numbers a token. cp sends a slice's keys and values 2 n - 2
/// times a layer, and their gradients n times (ring_attention.hpp). Stages of pp have equal runs of
/// blocks, the first ones one more; the first stage has the embeddings, the last one ln_f and a
/// copy of wte, whose gradients the two sum. Of other models tp cuts the parameters that are
/// smaller in options.of_tp_rank; its traffic is not counted.
/// Throws InputError for dimensions that are unknown, that validate() refuses, or that exceed the
/// heads, blocks, samples or tokens; for more than 2^20 ranks; for cp or pp of another model than
/// Gpt, and for its tp without options.of_tp_rank.
[[nodiscard]] MeshPlan plan_mesh(const nn::Module& model, const MeshPlanOptions& options);

/// "dp=2,tp=4". Throws InputError for anything else.
[[nodiscard]] std::vector<MeshDim> parse_mesh(std::string_view text);

}  // namespace lockstep
