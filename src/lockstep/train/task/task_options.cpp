#include <lockstep/train/task/task_options.hpp>

#include <fmt/format.h>

#include <utility>

#include <lockstep/base/error.hpp>
#include <lockstep/checkpoint/signature.hpp>
#include <lockstep/deck/deck.hpp>

namespace lockstep::train {
namespace {

// The one list of tables. All reading uses it, so a resolved deck has its order.
template <class Visit>
void for_each_table(TaskOptions& task, const Visit& visit) {
  visit("model", "the network", task.model);
  visit("data", "what the run trains on and is judged by", task.data);
  visit("loss", "what a model is trained by, and a classifier judged by", task.loss);
}

}  // namespace

TaskOptions read_task_options(Deck& deck) {
  TaskOptions task;
  for_each_table(task, [&](const char* name, const char*, auto& options) {
    options = deck.read(name, std::move(options));
  });
  return task;
}

void add_task_tables(DeckReference& reference) {
  TaskOptions task;
  for_each_table(task, [&](const char* name, const char* description, const auto& options) {
    reference.add(name, description, options);
  });
}

Datasets load_sets(const DataOptions& options, TargetKind kind, Sets sets, Deck& deck) {
  if (sets == Sets::test) return make_test_set(options, kind);
  Datasets data = make_datasets(options, kind, deck.read<TrainOptions>("train").seed);
  deck.record("data", as_found(options, data));
  return data;
}

ModelSignature signature_of_data(const Datasets& data) {
  const DataFacts& facts = data.facts;
  ModelSignature signature;
  signature.input = {.name = facts.input,
                     .dtype = data.train->input_dtype(),
                     .shape = data.train->sample_shape(),
                     .divisor = facts.divisor,
                     .mean = facts.mean,
                     .std = facts.std};
  const auto others = data.train->others();
  for (std::size_t k = 0; k < others.size(); ++k) {
    signature.other_inputs.push_back({.name = k < facts.other_inputs.size()
                                                  ? facts.other_inputs[k]
                                                  : fmt::format("input_{}", k + 2),
                                      .dtype = others[k]->input_dtype(),
                                      .shape = others[k]->sample_shape()});
  }
  signature.output.name = facts.target;
  return signature;
}

std::shared_ptr<nn::Module> make_zoo_model(const nn::ModelOptions& options, const Dataset& data,
                                           const Shape& output, nn::Head head) {
  if (!data.others().empty()) {
    throw InputError(
        "data.other_features gives a sample several inputs, but the models of [model] take one. "
        "Leave it out, or write a task of your own whose forward() takes them "
        "(docs/guide/write_an_app.md).");
  }
  return nn::make_model(
      options,
      {.sample = data.sample_shape(), .output = output, .head = head, .input = data.input_dtype()});
}

}  // namespace lockstep::train
