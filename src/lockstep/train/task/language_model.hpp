#pragma once
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include <lockstep/nn/models/gpt.hpp>
#include <lockstep/train/task/task.hpp>

namespace lockstep {
struct DataOptions;
namespace nn {
struct ModelOptions;
}
}  // namespace lockstep

namespace lockstep::train {

/// Next-token prediction: windows of token files from [data] (kind "tokens"), a gpt from [model].
/// The loss is the mean cross-entropy of a token, in nats; evaluation also gives the perplexity,
/// its exponential.
class LanguageModel : public Task {
 public:
  /// Reads the deck and opens the data. Throws InputError, also for options of [loss] and [eval]
  /// that are for classes of samples. Local.
  explicit LanguageModel(Deck& deck, Sets sets = Sets::train_and_test);
  ~LanguageModel() override;

  [[nodiscard]] const Datasets& data() const override { return data_; }
  [[nodiscard]] Loading loading() const override { return loading_; }
  [[nodiscard]] std::shared_ptr<nn::Module> make_model() const override;
  /// The loss of each token, [windows, context]; while gradients are recorded, their mean.
  [[nodiscard]] Variable forward(nn::Module& model, const Batch& batch) const override;
  [[nodiscard]] Variable forward_from_stages(const PipelineStages& stages, const Variable& x,
                                             const Batch& batch) const override;
  [[nodiscard]] Variable loss(const Variable& output, const Batch& batch) const override;
  [[nodiscard]] std::vector<Metric> metrics(const Dataset& data) const override;
  void measure(const Tensor& output, const Batch& batch, std::span<double> figures) const override;
  [[nodiscard]] std::int64_t tokens_a_sample() const override;
  [[nodiscard]] ModelSignature signature() const override;

 private:
  std::unique_ptr<const nn::ModelOptions> model_;
  Loading loading_;
  Datasets data_;
};

/// A trained language model, to sample from.
struct TrainedGpt {
  std::shared_ptr<nn::Gpt> model;
  std::shared_ptr<const DataOptions> data;  ///< the deck's data, for the tokenizer
};
/// Loads the checkpoint of a LanguageModel's run. Local. Throws CheckpointError for a file that is
/// missing, damaged, or of another model.
[[nodiscard]] TrainedGpt load_gpt(const std::filesystem::path& checkpoint);

}  // namespace lockstep::train
