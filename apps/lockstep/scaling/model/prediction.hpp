#pragma once
// From the samples of a study to sizes that were not measured.
#include <cstdint>
#include <string>
#include <vector>

#include "scaling/analysis.hpp"
#include "scaling/model/collective_model.hpp"
#include "scaling/model/compute_model.hpp"
#include "scaling/model/gradient_plan.hpp"
#include "scaling/options.hpp"

namespace lockstep::scaling {

/// Input of a prediction.
struct PredictionInput {
  Mode mode = Mode::strong;
  std::vector<Result> results;
  Json benchmarks = Json::array();
  std::vector<int> fit;         ///< ranks; empty: all that were measured on cores of their own
  std::vector<int> predict;     ///< ranks
  int places = 1;               ///< ranks for which a measured node has cores
  int ranks_a_node = 0;         ///< of predicted sizes; 0: `places`
  std::vector<double> network;  ///< assumed: latency in us, GB/s; empty: none
  std::int64_t accumulate = 1;  ///< parts of a batch in the deck
  Rehearse rehearse;
};

/// One size. Milliseconds a step.
struct Predicted {
  int ranks = 1, nodes = 1;
  std::int64_t batch_size = 1;
  std::string failed;  ///< why there is nothing else
  double step_ms = 0;
  double compute_ms = 0;    ///< forward, backward, and the rest, the loader's included
  double exposed_ms = 0;    ///< communication that backward does not cover
  double straggler_ms = 0;  ///< waiting for the last rank
  double samples_per_s = 0;
  double measured_ms = 0;          ///< 0: not measured
  bool is_held_out = false;        ///< measured, and no part of the fit
  std::vector<std::string> notes;  ///< extrapolations: limits of the fit that it exceeds

  [[nodiscard]] double error() const noexcept { return step_ms / measured_ms - 1; }
  [[nodiscard]] Json json() const;
};

/// Changes worth a try: sizes of buckets, hooks, accumulation, a larger batch, and with several
/// nodes a faster network.
[[nodiscard]] std::vector<Variant> usual_variants(std::int64_t bucket_bytes,
                                                  std::int64_t batch_size, std::int64_t accumulate);

/// A change, and its predicted gain: samples/s over those without it, minus 1.
struct Advice {
  Variant variant;
  std::string failed;
  double gain = 0;           ///< at the largest size that could be predicted
  double gain_measured = 0;  ///< at the largest measured size with cores of its own
  [[nodiscard]] Json json() const;
};

struct Prediction {
  std::vector<int> fit;
  Json model;                    ///< of compute, and of each collective on each level
  std::vector<Predicted> sizes;  ///< measured ones first
  std::vector<Advice> advice;    ///< best first
  int advice_ranks = 0, advice_measured_ranks = 0, advice_measured_nodes = 0;  ///< 0: none
  std::vector<std::string> notes;

  [[nodiscard]] Json json() const;
};

/// Fits, predicts every measured size and those of `predict`, and ranks changes. A step is
///   compute + exposed communication (timeline.hpp) + scatter x expected_maximum(ranks).
/// Of sizes with more ranks than cores, compute and the ranks' own work in collectives take as many
/// times as long as there are ranks for a core, and there is no scatter. Throws InputError where
/// the fit has too few points, or names ranks that were not measured.
[[nodiscard]] Prediction predict(const PredictionInput& input,
                                 const std::vector<Variant>& variants);

/// For people.
[[nodiscard]] std::string table(const Prediction& prediction);

}  // namespace lockstep::scaling
