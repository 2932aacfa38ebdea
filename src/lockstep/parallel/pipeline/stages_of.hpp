#pragma once
#include <memory>
#include <vector>

#include <lockstep/nn/module.hpp>
#include <lockstep/parallel/collectives.hpp>
#include <lockstep/parallel/pipeline/gpt_stages.hpp>
#include <lockstep/parallel/pipeline/pipeline_options.hpp>
#include <lockstep/parallel/pipeline/schedule.hpp>

namespace lockstep {

/// A model cut for a pipeline. The modules are the model's, with its names: keep this rank's and
/// drop the rest, with the model.
struct PipelineStages {
  std::vector<std::shared_ptr<nn::Module>> modules;  ///< by number of stage
  /// Parameters that several stages hold: PipelineOptions::tied.
  std::vector<std::vector<StageParameter>> tied;
  /// Of a nn::Gpt, the last stage: its head gives loss and logits of the stage's result.
  /// Null for other models, of which the last stage returns the output.
  std::shared_ptr<GptStage> head;

  /// The modules of a schedule's rank, for Pipeline.
  [[nodiscard]] std::vector<std::shared_ptr<nn::Module>> of_rank(const PipelineSchedule& schedule,
                                                                 int rank) const;
  /// The model's output, from the last stage's.
  [[nodiscard]] Variable output(const Variable& x) const { return head ? head->logits(x) : x; }
};

/// Cuts a model into `stages` stages whose result is the model's up to rounding: a nn::Gpt between
/// blocks; a nn::Sequential between its layers and those of Sequentials in it, as ResNets have
/// them; a nn::Layered, such as the zoo's transformer; a ModuleList whose modules follow each
/// other. So it cuts all models of decks but unet, whose paths cross any cut. A single stage can be
/// any model. Stages have as equal amounts of arithmetic as possible (FlopCounter) in the forward
/// of `sample`, a batch of one row or more, which runs through the layers in evaluation mode;
/// without a sample, as equal numbers of parameters, which is far off for convolutions. A Gpt needs
/// no sample. Each stage of several has parameters. The same on every rank, if the models are
/// (nn::manual_seed). Local. Throws InputError, naming the model's class, for a model that cannot
/// be cut, or has fewer layers than stages.
[[nodiscard]] PipelineStages stages_of(const std::shared_ptr<nn::Module>& model, int stages,
                                       const Tensor& sample = {});

/// Shares out the model over the ranks of `group`, and with it its stages (tensor_parallelize;
/// plans.hpp). Call it after stages_of(), which looks at whole layers, and before making the
/// Pipeline. Collective over `group`. Throws InputError for a model without a plan.
void tensor_parallelize(nn::Module& model, const PipelineStages& stages, const GroupPtr& group);

}  // namespace lockstep
