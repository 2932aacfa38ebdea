#include <lockstep/data/data_options.hpp>

namespace lockstep {

void declare(DeckTable& table, DataOptions& options) {
  declare_kind(table, options.kind, "which data set; synthetic is generated and needs no files");
  table.key(
      "path", options.path,
      {.doc = "hdf5, csv: a file, a list of files, or a pattern such as \"part-*.h5\", whose "
              "samples are joined; npy: likewise folders; tokens: likewise, or folders of *.bin "
              "whose names say train, test or val; fashion_mnist: folder with the four IDX "
              "files, \"auto\": $LOCKSTEP_DATA, then the system's; image_folder: folder with train "
              "and val or test in it, or of classes"});
  table.key(
      "mean", options.mean,
      {.doc = "inputs are (x - mean) / std, x a byte / 255 or another number as it is: one for "
              "all or one a channel; empty: 0.1307, of files: the training set's own, of "
              "image_folder: ImageNet's"});
  table.key(
      "std", options.std,
      {.doc =
           "see mean; empty: 0.3081, of files: the training set's own, of image_folder: ImageNet's",
       .min = 0.0,
       .above_min = true});
  table.key("normalise_targets", options.normalise_targets,
            {.doc = "regress: fit (t - mean) / std of the targets; predictions and metrics but the "
                    "loss are in their units all the same"});
  table.key("target_mean", options.target_mean,
            {.doc = "of normalise_targets: one for all or one a channel; empty: the training set's "
                    "own"});
  table.key("target_std", options.target_std,
            {.doc = "see target_mean", .min = 0.0, .above_min = true});
  table.key(
      "class_names", options.class_names,
      {.doc = "names of the classes, in their order, kept with the model; empty: none; tokens: "
              "the tokenizer's characters"});
  table.key("train_limit", options.train_limit,
            {.doc = "use only the first so many training samples; 0 uses all", .min = 0.0});
  table.key("test_limit", options.test_limit,
            {.doc = "use only the first so many test samples; 0 uses all", .min = 0.0});
  table.key(
      "validation_fraction", options.validation_fraction,
      {.doc = "share of the training samples that is held back: each epoch is judged by them, "
              "and the test set once, at the end; 0: by the test set",
       .min = 0.0,
       .max = 0.99});
  table.key("test_set", options.test_set, {.doc = "false: there is no test set"});
  table.key("balance_classes", options.balance_classes,
            {.doc = "draw the training samples with replacement such that all classes come equally "
                    "often"});
  table.key("shuffle", options.shuffle.on,
            {.doc = "visit the training samples in a new order every epoch"});
  table.key(
      "shuffle_window", options.shuffle.window,
      {.doc = "keep neighbours together: shuffle runs of so many samples, each of 8 pieces of "
              "the file; 0 shuffles everything",
       .unit = "samples",
       .min = 0.0});
  table.key("prefetch", options.prefetch,
            {.doc = "batches held by the loader; 1 loads nothing ahead", .min = 1.0, .max = 64.0});
  table.key(
      "augment_crop_padding", options.augment.crop_padding,
      {.doc = "training images are padded with black on all sides and cut to size at a random "
              "place; 0: not",
       .unit = "pixels",
       .min = 0.0,
       .max = 4096.0});
  table.key("augment_flip", options.augment.flip,
            {.doc = "mirror half of the training images left to right"});
}

}  // namespace lockstep
