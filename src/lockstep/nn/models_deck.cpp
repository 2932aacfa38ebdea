#include <lockstep/deck/deck.hpp>
#include <lockstep/nn/models.hpp>

namespace lockstep::nn {

void declare(DeckTable& table, ModelOptions& options) {
  using Kind = ModelOptions::Kind;
  table.choice("kind", options.kind, {{"convnet", Kind::convnet}, {"mlp", Kind::mlp}},
               "which network");
  table.key("dropout", options.dropout,
            {.doc = "probability of each dropout layer (convnet)", .min = 0.0, .max = 0.99});
  table.key("hidden", options.hidden, {.doc = "features of each hidden layer (mlp)", .min = 1});
}

}  // namespace lockstep::nn
