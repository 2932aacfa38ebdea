#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <lockstep/nn/models/model_kind.hpp>

namespace lockstep::nn {

/// The deck's [model] table: a network of one kind, and the options of all kinds.
///   nn::make_model({.kind = nn::MlpOptions{.hidden = {64}}}, sample, classes)
struct ModelOptions {
  ModelKind kind;                   ///< MlpOptions ... of lockstep/nn/models/
  std::vector<std::string> freeze;  ///< patterns of parameters' names (freeze())
};
void declare(DeckTable& table, ModelOptions& options);

/// The model that `options` describe, with its frozen parameters. Throws InputError as freeze()
/// does, and for sizes that do not fit together.
[[nodiscard]] std::shared_ptr<Module> make_model(const ModelOptions& options, const ModelFit& fit);
[[nodiscard]] inline std::shared_ptr<Module> make_model(const ModelOptions& options,
                                                        const Shape& sample, const Shape& output,
                                                        Head head = Head::log_probabilities) {
  return make_model(options, {.sample = sample, .output = output, .head = head});
}
[[nodiscard]] inline std::shared_ptr<Module> make_model(const ModelOptions& options,
                                                        const Shape& sample, std::int64_t outputs,
                                                        Head head = Head::log_probabilities) {
  return make_model(options, sample, Shape{outputs}, head);
}

}  // namespace lockstep::nn
