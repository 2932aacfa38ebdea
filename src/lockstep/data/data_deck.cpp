#include <lockstep/data/data_options.hpp>

namespace lockstep {

void declare(DeckTable& table, DataOptions& options) {
  declare_kind(table, options.kind, "data set; synthetic needs no files");
  table.key("path", options.path,
            {.doc = "files, folders (npy, tokens, fashion_mnist, image_folder) or patterns such as "
                    "\"part-*.h5\"; \"auto\": $LOCKSTEP_DATA, then the system's Fashion-MNIST"});
  table.key("mean", options.mean,
            {.doc = "inputs are (x - mean) / std, bytes divided by 255 first; one for all or one a "
                    "channel; empty: of the training set (fashion_mnist: 0.1307, image_folder: "
                    "ImageNet's)"});
  table.key(
      "std", options.std,
      {.doc =
           "see mean; empty: of the training set (fashion_mnist: 0.3081, image_folder: ImageNet's)",
       .min = 0.0,
       .above_min = true});
  table.key("normalise_targets", options.normalise_targets,
            {.doc = "regress only: train on (t - mean) / std of the targets; predictions and "
                    "metrics other than the loss keep their units"});
  table.key(
      "target_mean", options.target_mean,
      {.doc = "normalise_targets only: one for all or one a channel; empty: of the training set"});
  table.key("target_std", options.target_std,
            {.doc = "normalise_targets only: see target_mean", .min = 0.0, .above_min = true});
  table.key("class_names", options.class_names,
            {.doc = "names of the classes, in order, stored with the model"});
  table.key("train_limit", options.train_limit,
            {.doc = "number of training samples used, the first ones; 0: all", .min = 0.0});
  table.key("test_limit", options.test_limit,
            {.doc = "number of test samples used, the first ones; 0: all", .min = 0.0});
  table.key("validation_fraction", options.validation_fraction,
            {.doc = "share of training samples held back to evaluate each epoch; the test set is "
                    "then used once, at the end; 0: none",
             .min = 0.0,
             .max = 0.99});
  table.key("test_set", options.test_set, {.doc = "whether there is a test set"});
  table.key("balance_classes", options.balance_classes,
            {.doc = "draw training samples with replacement, all classes equally often"});
  table.key("shuffle", options.shuffle.on, {.doc = "new order of training samples in each epoch"});
  table.key("shuffle_window", options.shuffle.window,
            {.doc = "shuffle within runs of this many samples, each of 8 pieces of the file: fewer "
                    "random reads; 0: shuffle all",
             .unit = "samples",
             .min = 0.0});
  table.key("prefetch", options.prefetch,
            {.doc = "batches that the loader holds; 1: none ahead", .min = 1.0, .max = 64.0});
  table.key(
      "augment_crop_padding", options.augment.crop_padding,
      {.doc =
           "augmentation: pad with black on all sides, then crop to size at a random place; 0: off",
       .unit = "pixels",
       .min = 0.0,
       .max = 4096.0});
  table.key("augment_flip", options.augment.flip,
            {.doc = "augmentation: mirror half of the training images left to right"});
}

}  // namespace lockstep
