#include <lockstep/data/data_options.hpp>
#include <lockstep/deck/deck.hpp>

namespace lockstep {

void declare(DeckTable& table, DataOptions& options) {
  table.choice("kind", options.kind,
               {{"fashion_mnist", DataKind::fashion_mnist},
                {"synthetic", DataKind::synthetic},
                {"hdf5", DataKind::hdf5},
                {"npy", DataKind::npy},
                {"csv", DataKind::csv},
                {"tokens", DataKind::tokens}},
               "which data set; synthetic is generated and needs no files");
  table.key(
      "path", options.path,
      {.doc = "hdf5, csv: a file, a list of files, or a pattern such as \"part-*.h5\", whose "
              "samples are joined; npy: likewise folders; tokens: likewise, or folders of *.bin "
              "whose names say train, test or val; fashion_mnist: folder with the four IDX "
              "files, \"auto\": $LOCKSTEP_DATA, then the system's"});
  table.key(
      "mean", options.mean,
      {.doc = "inputs are (x - mean) / std, x a byte / 255 or another number as it is: one for "
              "all or one a channel; empty: 0.1307, of files: the training set's own"});
  table.key("std", options.std,
            {.doc = "see mean; empty: 0.3081, of files: the training set's own",
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
  table.key(
      "sample_weights", options.sample_weights,
      {.doc = "hdf5, npy, csv: array [N], or column, of weights by which the training samples "
              "are drawn, with replacement; empty: each once an epoch"});
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

  SyntheticOptions& synthetic = options.synthetic;
  table.key("synthetic_samples", synthetic.samples,
            {.doc = "synthetic: training samples", .min = 1.0, .max = 1e8});
  table.key("synthetic_test_samples", synthetic.test_samples,
            {.doc = "synthetic: test samples", .min = 1.0, .max = 1e8});
  table.key("synthetic_classes", synthetic.classes,
            {.doc = "synthetic: classes", .min = 2.0, .max = 256.0});
  table.key("synthetic_image_size", synthetic.image_size,
            {.doc = "synthetic: height and width", .unit = "pixels", .min = 1.0, .max = 4096.0});
  table.key("synthetic_channels", synthetic.channels,
            {.doc = "synthetic: colours of an image", .min = 1.0, .max = 64.0});
  table.key(
      "synthetic_noise", synthetic.noise,
      {.doc = "synthetic: share of noise in a pixel; 1 cannot be learnt", .min = 0.0, .max = 1.0});
  table.key("synthetic_seed", synthetic.seed, {.doc = "synthetic: seed of patterns and noise"});

  FileOptions& files = options.files;
  table.key("train_features", files.train_features,
            {.doc = "hdf5: data set of inputs [N, ...]; npy: file of them, train/features.npy"});
  table.key("train_targets", files.train_targets,
            {.doc = "hdf5, npy: classes [N] or values [N, ...]"});
  table.key("test_features", files.test_features, {.doc = "hdf5, npy: the same of the test set"});
  table.key("test_targets", files.test_targets, {.doc = "hdf5, npy: the same of the test set"});
  table.key("other_features", files.other_features,
            {.doc = "hdf5, npy: further inputs of a sample, for a task of your own: names beside "
                    "train_features and test_features, [\"mask\"] is train/mask and test/mask; "
                    "they stay as they are"});
  table.key("test_path", files.test_path,
            {.doc = "hdf5, npy, csv, tokens: files of the test set; empty: those of path"});
  table.choice("header", files.header,
               {{"auto", CsvHeader::automatic}, {"true", CsvHeader::yes}, {"false", CsvHeader::no}},
               "csv: whether the first line names the columns, which without it are column_1, "
               "column_2, ...; auto: it does, and one that looks like samples is refused");
  table.key("feature_columns", files.columns.features,
            {.doc = "csv: names of the columns of inputs; empty: all that are no targets"});
  table.key("target_columns", files.columns.targets,
            {.doc = "csv: names of the columns of targets: classes, which may be words, or values; "
                    "empty: the last column"});
  table.key("classes", files.classes,
            {.doc = "hdf5, npy, csv: number of classes; 0: the largest training label plus 1",
             .min = 0.0});
  table.key("allow_external", files.allow_external,
            {.doc = "hdf5: samples may stand in other files: virtual data sets, external raw files "
                    "and links to other files"});
  table.key(
      "indices", files.indices,
      {.doc =
           "hdf5, npy, csv: features are indices for an Embedding: they stay integers and are not "
           "normalised"});
  table.key(
      "stream", files.stream,
      {.doc = "hdf5, npy: read samples as they are needed, for data sets larger than memory"});
  table.key("cache_mib", files.cache_mib,
            {.doc = "hdf5: decoded chunks kept of each data set",
             .unit = "MiB",
             .min = 1.0,
             .max = 1048576.0});

  TokenOptions& tokens = options.tokens;
  table.key("context", tokens.context,
            {.doc = "tokens: length of a window, the tokens that a sample has",
             .unit = "tokens",
             .min = 1.0,
             .max = 1048576.0});
  table.key("vocabulary", tokens.vocabulary,
            {.doc = "tokens: how many different ones there may be; 0: as the files say",
             .min = 0.0,
             .max = 65536.0});
  table.key("tokenizer", tokens.tokenizer,
            {.doc = "tokens: what makes text of them; empty: what tokenizer.json beside the files "
                    "says",
             .choices = {"", "characters", "bytes", "gpt2"}});
}

}  // namespace lockstep
