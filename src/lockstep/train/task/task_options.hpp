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

// Common to the tasks of the bundled applications: their tables of a deck, and the objects made
// from these.

namespace lockstep::train {

/// All options of the tasks of the bundled applications. A user's task reads its own.
struct TaskOptions {
  nn::ModelOptions model;
  DataOptions data;
  LossDeckOptions loss;
};

/// Reads their tables from a deck. Throws InputError.
[[nodiscard]] TaskOptions read_task_options(Deck& deck);
/// Adds these tables to the reference of all.
void add_task_tables(DeckReference& reference);

/// Loads the data of the options, and records derived values in the deck.
[[nodiscard]] Datasets load_sets(const DataOptions& options, TargetKind kind, Sets sets,
                                 Deck& deck);
/// The inputs of a signature, and the name of its output.
[[nodiscard]] ModelSignature signature_of_data(const Datasets& data);

/// The model of the zoo in `options`, for samples of `data`. Throws InputError as nn::make_model
/// does, and if samples are indices but the model has no embedding, or the other way round.
[[nodiscard]] std::shared_ptr<nn::Module> make_zoo_model(
    const nn::ModelOptions& options, const Dataset& data, const Shape& output,
    nn::Head head = nn::Head::log_probabilities);

}  // namespace lockstep::train
