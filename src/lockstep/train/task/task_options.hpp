#pragma once
#include <memory>

#include <lockstep/data/data_options.hpp>
#include <lockstep/nn/models.hpp>
#include <lockstep/train/options.hpp>

namespace lockstep {
class Deck;
class DeckReference;
struct ModelSignature;
}  // namespace lockstep

// What the tasks of the bundled applications have in common: their tables of a deck, and what is
// made of these.

namespace lockstep::train {

/// All options of the tasks of the bundled applications. A task of one's own reads what it likes.
struct TaskOptions {
  nn::ModelOptions model;
  DataOptions data;
  LossDeckOptions loss;
};

/// Reads their tables from a deck. Throws InputError.
[[nodiscard]] TaskOptions read_task_options(Deck& deck);
/// Adds these tables to the reference of all.
void add_task_tables(DeckReference& reference);

/// Reads what the options name, and records in the deck what was found out.
[[nodiscard]] Datasets load_sets(const DataOptions& options, TargetKind kind, Sets sets,
                                 Deck& deck);
/// The inputs of a signature, and the name of its output.
[[nodiscard]] ModelSignature signature_of_data(const Datasets& data);

/// The model of the zoo that `options` names, for samples of `data`. Throws InputError as
/// nn::make_model, and where samples are indices and the model looks none up, or the other way.
[[nodiscard]] std::shared_ptr<nn::Module> make_zoo_model(
    const nn::ModelOptions& options, const Dataset& data, const Shape& output,
    nn::Head head = nn::Head::log_probabilities);

}  // namespace lockstep::train
