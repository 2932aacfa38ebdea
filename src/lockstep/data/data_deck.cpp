#include <lockstep/data/data_options.hpp>
#include <lockstep/deck/deck.hpp>

namespace lockstep {

void declare(DeckTable& table, DataOptions& options) {
  table.choice("kind", options.kind,
               {{"fashion_mnist", DataKind::fashion_mnist}, {"synthetic", DataKind::synthetic}},
               "which data set; synthetic is generated and needs no files");
  table.key("path", options.path,
            {.doc = "folder with the four IDX files; \"auto\": $LOCKSTEP_DATA, else the system's"});
  table.key("mean", options.normalisation.mean, {.doc = "inputs are (pixel / 255 - mean) / std"});
  table.key("std", options.normalisation.std, {.doc = "see mean", .min = 0.0, .above_min = true});
  table.key("train_limit", options.train_limit,
            {.doc = "use only the first so many training samples; 0 uses all", .min = 0.0});
  table.key("test_limit", options.test_limit,
            {.doc = "use only the first so many test samples; 0 uses all", .min = 0.0});
  table.key("shuffle", options.shuffle,
            {.doc = "visit the training samples in a new order every epoch"});
  table.key("prefetch", options.prefetch,
            {.doc = "batches held by the loader; 1 loads nothing ahead", .min = 1.0, .max = 64.0});

  SyntheticOptions& synthetic = options.synthetic;
  table.key("synthetic_samples", synthetic.samples,
            {.doc = "synthetic: training samples", .min = 1.0, .max = 1e8});
  table.key("synthetic_test_samples", synthetic.test_samples,
            {.doc = "synthetic: test samples", .min = 1.0, .max = 1e8});
  table.key("synthetic_classes", synthetic.classes,
            {.doc = "synthetic: classes", .min = 2.0, .max = 256.0});
  table.key("synthetic_image_size", synthetic.image_size,
            {.doc = "synthetic: height and width", .unit = "pixels", .min = 1.0, .max = 4096.0});
  table.key(
      "synthetic_noise", synthetic.noise,
      {.doc = "synthetic: share of noise in a pixel; 1 cannot be learnt", .min = 0.0, .max = 1.0});
  table.key("synthetic_seed", synthetic.seed, {.doc = "synthetic: seed of patterns and noise"});
}

}  // namespace lockstep
