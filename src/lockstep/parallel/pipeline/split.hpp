#pragma once
#include <cstddef>
#include <memory>
#include <vector>

#include <lockstep/base/list_view.hpp>
#include <lockstep/nn/sequential.hpp>

namespace lockstep {

/// Cuts a row of layers into `stages` runs with the smallest possible largest sum of costs; returns
/// the first layer of each run. Layers without cost stay with the layer before. Throws InputError
/// for fewer layers than stages, no stage, or a cost below 0.
[[nodiscard]] std::vector<std::size_t> balanced_stages(ListView<double> costs, int stages);

/// The stages of a pipeline: layers first[s] to first[s + 1] - 1 of `model`, a Sequential or a
/// ModuleList whose modules follow each other, are stage s. The stages share `model`'s modules and
/// names of parameters: keep this rank's stages and drop the rest. Nothing is sent: build the same
/// model on every rank (nn::manual_seed), or load one state. The result of the stages is the
/// model's up to rounding: a cut may separate layers that Sequential fuses. Throws InputError
/// unless `first` begins with 0 and rises up to below the number of layers.
[[nodiscard]] std::vector<std::shared_ptr<nn::Sequential>> split_into_stages(
    const nn::Module& model, ListView<std::size_t> first);
/// Stages with as equal numbers of parameters as possible (balanced_stages). Cut before
/// parallelize_module: ranks' parts of a layer may differ in size, and so would the cuts.
[[nodiscard]] std::vector<std::shared_ptr<nn::Sequential>> split_into_stages(
    const nn::Module& model, int stages);

}  // namespace lockstep
