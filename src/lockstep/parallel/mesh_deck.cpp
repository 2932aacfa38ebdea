#include <lockstep/deck/deck.hpp>
#include <lockstep/parallel/mesh_options.hpp>

namespace lockstep {

void declare(DeckTable& table, MeshOptions& options) {
  table.key("dp", options.dp,
            {.doc = "data parallel: parts of a batch; -1: the ranks that the others leave",
             .min = -1,
             .max = 1e9});
  table.key("tp", options.tp,
            {.doc = "tensor parallel: ranks that share out the model's tensors; gpt, transformer "
                    "and mlp",
             .min = -1,
             .max = 1e9});
}

std::vector<MeshDim> dims_of(const MeshOptions& options) {
  return {{"dp", static_cast<int>(options.dp)}, {"tp", static_cast<int>(options.tp)}};
}

}  // namespace lockstep
