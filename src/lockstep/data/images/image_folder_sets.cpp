#include <fmt/format.h>

#include <memory>
#include <system_error>

#include <lockstep/base/error.hpp>
#include <lockstep/data/data_options.hpp>
#include <lockstep/data/files/looked_for.hpp>
#include <lockstep/data/images/image_folder.hpp>

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// ImageNet's, as torchvision gives them; of grey images their means.
Normalisation usual_normalisation(std::int64_t channels) {
  if (channels == 3) return {{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}};
  return {{0.449}, {0.226}};
}

fs::path image_root(const DataOptions& all) {
  if (all.path.size() == 1 && all.path[0] != "auto") return all.path[0];
  throw InputError(
      "data.kind = \"image_folder\" reads one folder. Name it with data.path: one with train/ and "
      "val/ or test/ in it, or one of classes.");
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

fs::path train_folder(const fs::path& root) {
  return is_folder(root / "train") ? root / "train" : root;
}

fs::path test_folder(const fs::path& root, const std::string& test_path) {
  if (!test_path.empty()) return test_path;
  if (is_folder(root / "train")) {
    for (const char* name : {"val", "test"})
      if (is_folder(root / name)) return root / name;
  }
  throw InputError(fmt::format(
      "{} has no test set: no folder val or test beside a folder train. Name one with "
      "data.test_path, or set data.test_set = false; data.validation_fraction holds a part of the "
      "training set back.",
      detail::looked_for(root)));
}

}  // namespace

Datasets ImageFolderOptions::make(const DataOptions& all, TargetKind kind, Sets wanted) const {
  expect_no_tokens(kind);
  if (kind == TargetKind::values) {
    throw InputError(
        "a folder of images has classes, not values to be fitted. Use data.kind = \"hdf5\", or the "
        "program classify.");
  }
  const fs::path root = image_root(all);
  const Normalisation normalisation = all.normalisation(usual_normalisation(images.channels));
  std::vector<std::string> names = all.class_names;
  Datasets sets;
  if (wanted == Sets::train_and_test) {
    ImageOptions training = images;
    if (resized_crop) {
      training.random_cut = random_cut;
      training.random_cut->seed = all.augment.seed;
    }
    const auto train = std::make_shared<const ImageFolder>(train_folder(root), training,
                                                           normalisation, names, all.train_limit);
    names = train->class_names();
    if (!listing.empty() && listing != train->listing_hash()) {
      throw InputError(fmt::format(
          "the images in {} are not those of data.image_listing = \"{}\", which a run noted: files "
          "came, went or have other names. Bring them back, or leave the key out.",
          train_folder(root).string(), listing));
    }
    sets.train = train;
    sets.facts.listing = train->listing_hash();
  }
  if (wanted == Sets::test || all.test_set) {
    sets.test = std::make_shared<const ImageFolder>(test_folder(root, test_path), images,
                                                    normalisation, names, all.test_limit);
  }
  sets.facts.divisor = 255;
  sets.facts.mean = normalisation.mean;
  sets.facts.std = normalisation.std;
  sets.facts.class_names = names;
  return sets;
}

void ImageFolderOptions::note(const Datasets& found) { listing = found.facts.listing; }

void declare(DeckTable& table, ImageFolderOptions& options) {
  ImageOptions& images = options.images;
  table.key("image_size", images.size,
            {.doc = "height and width of a sample, cut out of the resized image's centre",
             .unit = "pixels",
             .min = 1.0,
             .max = 4096.0});
  table.key("image_resize", images.resize,
            {.doc = "shorter side of an image after it is resized, at least image_size",
             .unit = "pixels",
             .min = 1.0,
             .max = 8192.0});
  table.key("image_channels", images.channels,
            {.doc = "3: colours; 1: grey", .min = 1.0, .max = 3.0});
  table.key("image_threads", images.threads,
            {.doc = "threads of a rank that decode a batch", .min = 1.0, .max = 256.0});
  table.key("augment_resized_crop", options.resized_crop,
            {.doc = "cut a random box out of each training image and resize it to image_size"});
  table.key("augment_scale", options.random_cut.scale,
            {.doc = "least and greatest area of that box, as shares of the image",
             .min = 0.0,
             .max = 1.0,
             .above_min = true,
             .count = 2});
  table.key("augment_ratio", options.random_cut.ratio,
            {.doc = "least and greatest ratio of its width to its height",
             .min = 0.0,
             .above_min = true,
             .count = 2});
  table.key("test_path", options.test_path,
            {.doc = "folder of the test set; empty: val, or test, in data.path"});
  table.key("image_listing", options.listing,
            {.doc = "noted by a run: which files it was trained on; others are refused"});
}

}  // namespace lockstep
