#include <lockstep/train/task/language_model.hpp>

#include <fmt/format.h>

#include <cmath>

#include <lockstep/autograd/functional/reduction.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/checkpoint/weights/weights.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/nn/models.hpp>
#include <lockstep/parallel/pipeline/stages_of.hpp>
#include <lockstep/train/run/run_plan.hpp>
#include <lockstep/train/task/task_options.hpp>

namespace lockstep::train {
namespace {

/// Reads the tables of other tasks, so that all programs know the same decks.
void refuse(const Deck& deck, const char* table, const char* key, bool set) {
  if (!set) return;
  throw InputError(fmt::format(
      "{}: {}.{} is for classes of samples, but this program trains on tokens of text. Remove it.",
      deck.where(table, key), table, key));
}

nn::Gpt& gpt_of(nn::Module& model) {
  auto* gpt = dynamic_cast<nn::Gpt*>(&model);
  if (!gpt) throw InputError("a language model needs model.kind = \"gpt\"");
  return *gpt;
}

}  // namespace

LanguageModel::LanguageModel(Deck& deck, Sets sets) {
  const TaskOptions options = read_task_options(deck);
  refuse(deck, "loss", "label_smoothing", options.loss.label_smoothing > 0);
  refuse(deck, "loss", "class_weights", !options.loss.class_weights.empty());
  refuse(deck, "loss", "class_weights_from_counts", options.loss.class_weights_from_counts);
  refuse(deck, "eval", "top_k", deck.read<EvalOptions>("eval").top_k > 0);
  if (!options.model.kind.get_if<nn::GptDeckOptions>()) {
    throw InputError(
        fmt::format("{}: model.kind is not a language model. Set model.kind = \"gpt\", or use "
                    "classify or regress.",
                    deck.where("model", "kind")));
  }
  model_ = std::make_unique<const nn::ModelOptions>(options.model);
  loading_ = {options.data.shuffle, options.data.prefetch};
  data_ = load_sets(options.data, TargetKind::tokens, sets, deck);
}

LanguageModel::~LanguageModel() = default;

std::shared_ptr<nn::Module> LanguageModel::make_model() const {
  return make_zoo_model(*model_, *data_.train, {data_.train->classes()});
}

Variable LanguageModel::forward(nn::Module& model, const Batch& batch) const {
  // measure() reads each token's loss. A mean has its gradients from forward, from the same logits.
  const LossOptions options{.reduction = grad_enabled() ? Reduction::mean : Reduction::none};
  return gpt_of(model).loss(Variable(batch.inputs()), batch.targets(), options);
}

Variable LanguageModel::forward_from_stages(const PipelineStages& stages, const Variable& x,
                                            const Batch& batch) const {
  LossOptions each_token;
  each_token.reduction = Reduction::none;
  return stages.head->loss(x, batch.targets(), each_token);
}

Variable LanguageModel::loss(const Variable& output, const Batch&) const { return mean(output); }

std::vector<Metric> LanguageModel::metrics(const Dataset& data) const {
  const double tokens = static_cast<double>(data.size() * data.target_shape().numel());
  return {{.name = "perplexity",
           .combine = ReduceOp::sum,
           .value = [tokens](double sum) { return std::exp(sum / tokens); },
           .greater_is_better = false}};
}

void LanguageModel::measure(const Tensor& output, const Batch&, std::span<double> figures) const {
  figures[0] = 0;
  for (const double loss : output.to(DType::f64).to_vector<double>()) figures[0] += loss;
}

std::int64_t LanguageModel::tokens_a_sample() const {
  return (data_.train ? data_.train : data_.test)->sample_shape().numel();
}

ModelSignature LanguageModel::signature() const {
  ModelSignature signature = signature_of_data(data_);
  const std::int64_t context = data_.train->sample_shape()[0];
  signature.output = {.name = "logits", .shape = {context, data_.train->classes()}};
  return signature;
}

TrainedGpt load_gpt(const std::filesystem::path& checkpoint) {
  const CheckpointContents contents = read_weights(checkpoint);
  const auto refuse_file = [&](const std::string& why) {
    throw CheckpointError(fmt::format("{} {}", checkpoint.string(), why));
  };
  if (contents.deck.empty()) {
    refuse_file(
        "does not name its model. Import weights with their deck: lockstep "
        "checkpoint import FILE --deck DECK --output CHECKPOINT.");
  }
  Deck deck = Deck::parse(contents.deck, "the deck in " + checkpoint.string());
  const TaskOptions options = read_task_options(deck);
  const auto* tokens = options.data.kind.get_if<TokenOptions>();
  if (!options.model.kind.get_if<nn::GptDeckOptions>() || !tokens)
    refuse_file("is not from a language model: text comes from runs of gpt");
  const auto* table = contents.model.find("wte.weight");
  if (!table || table->tensor.dims() != 2) refuse_file("has no wte.weight");
  TrainedGpt trained;
  trained.data = std::make_shared<const DataOptions>(options.data);
  const auto whole = nn::make_model(options.model, {tokens->context}, table->tensor.size(0));
  trained.model = std::dynamic_pointer_cast<nn::Gpt>(whole);
  try {
    StateDict weights;  // imported ones may have another precision
    for (const auto& entry : contents.model)
      weights.insert(entry.name, entry.tensor.to(DType::f32));
    trained.model->load_state_dict(weights);
  } catch (const Error& error) {
    refuse_file(fmt::format("does not fit its deck's model: {}", error.what()));
  }
  trained.model->eval();
  return trained;
}

}  // namespace lockstep::train
