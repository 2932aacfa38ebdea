#include <lockstep/data/data_options.hpp>
#include <lockstep/deck/kinds.hpp>

namespace lockstep {
namespace {

// Keys that several kinds have.

void declare_test_path(DeckTable& table, DataOptions& options) {
  table.key("test_path", options.files.test_path,
            {.doc = "files of the test set; empty: those of path"});
}

void declare_classes(DeckTable& table, DataOptions& options) {
  table.key("classes", options.files.classes,
            {.doc = "number of classes; 0: the largest training label plus 1", .min = 0.0});
}

void declare_indices(DeckTable& table, DataOptions& options) {
  table.key("indices", options.files.indices,
            {.doc = "features are indices for an Embedding: they stay integers and are not "
                    "normalised"});
}

void declare_sample_weights(DeckTable& table, DataOptions& options, std::string_view doc) {
  table.key("sample_weights", options.sample_weights, {.doc = doc});
}

void declare_arrays(DeckTable& table, DataOptions& options, std::string_view features_doc) {
  FileOptions& files = options.files;
  table.key("train_features", files.train_features, {.doc = features_doc});
  table.key("train_targets", files.train_targets, {.doc = "classes [N] or values [N, ...]"});
  table.key("test_features", files.test_features, {.doc = "the same of the test set"});
  table.key("test_targets", files.test_targets, {.doc = "the same of the test set"});
  table.key("other_features", files.other_features,
            {.doc = "further inputs of a sample, for a task of your own: names beside "
                    "train_features and test_features, [\"mask\"] is train/mask and test/mask; "
                    "they stay as they are"});
  declare_sample_weights(table, options,
                         "array [N] of weights by which the training samples are drawn, with "
                         "replacement; empty: each once an epoch");
  declare_test_path(table, options);
  declare_classes(table, options);
  declare_indices(table, options);
  table.key("stream", files.stream,
            {.doc = "read samples as they are needed, for data sets larger than memory"});
}

// The keys of each kind.

void declare_fashion_mnist(DeckTable&, DataOptions&) {}

void declare_synthetic(DeckTable& table, DataOptions& options) {
  SyntheticOptions& synthetic = options.synthetic;
  table.key("synthetic_samples", synthetic.samples,
            {.doc = "training samples", .min = 1.0, .max = 1e8});
  table.key("synthetic_test_samples", synthetic.test_samples,
            {.doc = "test samples", .min = 1.0, .max = 1e8});
  table.key("synthetic_classes", synthetic.classes, {.doc = "classes", .min = 2.0, .max = 256.0});
  table.key("synthetic_image_size", synthetic.image_size,
            {.doc = "height and width", .unit = "pixels", .min = 1.0, .max = 4096.0});
  table.key("synthetic_channels", synthetic.channels,
            {.doc = "colours of an image", .min = 1.0, .max = 64.0});
  table.key("synthetic_noise", synthetic.noise,
            {.doc = "share of noise in a pixel; 1 cannot be learnt", .min = 0.0, .max = 1.0});
  table.key("synthetic_seed", synthetic.seed, {.doc = "seed of patterns and noise"});
}

void declare_hdf5(DeckTable& table, DataOptions& options) {
  declare_arrays(table, options, "data set of inputs [N, ...]");
  table.key("allow_external", options.files.allow_external,
            {.doc = "samples may stand in other files: virtual data sets, external raw files and "
                    "links to other files"});
  table.key(
      "cache_mib", options.files.cache_mib,
      {.doc = "decoded chunks kept of each data set", .unit = "MiB", .min = 1.0, .max = 1048576.0});
}

void declare_npy(DeckTable& table, DataOptions& options) {
  declare_arrays(table, options, "file of inputs [N, ...] in each folder, train/features.npy");
}

void declare_csv(DeckTable& table, DataOptions& options) {
  FileOptions& files = options.files;
  table.choice("header", files.header,
               {{"auto", CsvHeader::automatic}, {"true", CsvHeader::yes}, {"false", CsvHeader::no}},
               "whether the first line names the columns, which without it are column_1, "
               "column_2, ...; auto: it does, and one that looks like samples is refused");
  table.key("feature_columns", files.columns.features,
            {.doc = "names of the columns of inputs; empty: all that are no targets"});
  table.key("target_columns", files.columns.targets,
            {.doc = "names of the columns of targets: classes, which may be words, or values; "
                    "empty: the last column"});
  declare_sample_weights(table, options,
                         "column of weights by which the training samples are drawn, with "
                         "replacement; empty: each once an epoch");
  declare_test_path(table, options);
  declare_classes(table, options);
  declare_indices(table, options);
}

void declare_tokens(DeckTable& table, DataOptions& options) {
  TokenOptions& tokens = options.tokens;
  table.key("context", tokens.context,
            {.doc = "length of a window, the tokens that a sample has",
             .unit = "tokens",
             .min = 1.0,
             .max = 1048576.0});
  table.key("vocabulary", tokens.vocabulary,
            {.doc = "how many different ones there may be; 0: as the files say",
             .min = 0.0,
             .max = 65536.0});
  table.key("tokenizer", tokens.tokenizer,
            {.doc = "what makes text of them; empty: what tokenizer.json beside the files "
                    "says",
             .choices = {"", "characters", "bytes", "gpt2"}});
  declare_test_path(table, options);
}

}  // namespace

void declare(DeckTable& table, DataOptions& options) {
  declare_kind(
      table, options, &DataOptions::kind,
      "which data set; synthetic is generated and needs no files",
      {{"fashion_mnist", DataKind::fashion_mnist,
        "the four IDX files of Fashion-MNIST, or others of that form", declare_fashion_mnist},
       {"synthetic", DataKind::synthetic, "images that are generated", declare_synthetic},
       {"hdf5", DataKind::hdf5, "arrays in HDF5 files", declare_hdf5},
       {"npy", DataKind::npy, "arrays in .npy files", declare_npy},
       {"csv", DataKind::csv, "tables in CSV files", declare_csv},
       {"tokens", DataKind::tokens, "token files of a language model", declare_tokens}});
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
