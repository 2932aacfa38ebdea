#include <lockstep/data/images/image_folder.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <system_error>
#include <utility>

#include <lockstep/base/error.hpp>
#include <lockstep/base/hash.hpp>
#include <lockstep/data/files/looked_for.hpp>
#include <lockstep/data/images/in_threads.hpp>
#include <lockstep/data/images/resize.hpp>
#include <lockstep/data/tensor_dataset.hpp>

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr const char* layout_remedy =
    "Give each class a folder with its images: root/class/name.png, .jpg or .jpeg.";

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

/// What `folder` holds, by name, without hidden files and folders. Throws InputError.
template <class Iterator>
std::vector<fs::path> listed(const fs::path& folder) {
  std::vector<fs::path> paths;
  try {
    for (Iterator at(folder, fs::directory_options::follow_directory_symlink), end; at != end;
         ++at) {
      if (!is_hidden(at->path())) {
        paths.push_back(at->path());
      } else if constexpr (std::is_same_v<Iterator, fs::recursive_directory_iterator>) {
        at.disable_recursion_pending();
      }
    }
  } catch (const fs::filesystem_error& error) {
    throw InputError(fmt::format("the folder of images {} cannot be read: {}. Check data.path.",
                                 detail::looked_for(folder), error.code().message()));
  }
  std::ranges::sort(paths);
  return paths;
}

void expect_range(const char* key, const std::vector<double>& range, double most) {
  if (range.size() == 2 && range[0] > 0 && range[0] <= range[1] && range[1] <= most) return;
  throw InputError(
      fmt::format("data.{} has to be two numbers, the least and the greatest, above 0{}.", key,
                  most == 1 ? " and up to 1" : ""));
}

void expect_fit(const ImageOptions& options) {
  if (options.channels != 1 && options.channels != 3) {
    throw InputError(fmt::format("data.image_channels is {}. Use 3 for colours, or 1 for grey.",
                                 options.channels));
  }
  if (options.size < 1 || options.resize < options.size) {
    throw InputError(fmt::format(
        "data.image_resize = {} is smaller than data.image_size = {}, which is cut out of it. Make "
        "it as large, or larger.",
        options.resize, options.size));
  }
  if (options.threads < 1)
    throw InputError(fmt::format("data.image_threads is {}. Use 1 or more.", options.threads));
  if (!options.random_cut) return;
  expect_range("augment_scale", options.random_cut->scale, 1);
  expect_range("augment_ratio", options.random_cut->ratio, std::numeric_limits<double>::max());
}

}  // namespace

std::vector<fs::path> images_below(const fs::path& folder) {
  std::vector<fs::path> images = listed<fs::recursive_directory_iterator>(folder);
  std::erase_if(images, [](const fs::path& path) {
    return !is_image_name(path) || !fs::is_regular_file(path);
  });
  return images;
}

ImageFolder::ImageFolder(const fs::path& root, const ImageOptions& options,
                         const Normalisation& normalisation, std::vector<std::string> class_names,
                         std::int64_t limit)
    : root_(root), options_(options), class_names_(std::move(class_names)) {
  expect_fit(options_);
  scale_ = channel_scale(normalisation, sample_shape(), DType::u8, root_.string());
  find_classes();
  for (std::int64_t label = 0; label < classes(); ++label) find_files(label);
  if (limit <= 0 || limit >= size()) return;
  std::vector<File> some;
  for (std::int64_t i = 0; i < limit; ++i)
    some.push_back(files_[static_cast<std::size_t>(i * size() / limit)]);
  files_ = std::move(some);
}

void ImageFolder::find_classes() {
  std::vector<std::string> folders;
  for (const fs::path& path : listed<fs::directory_iterator>(root_))
    if (fs::is_directory(path)) folders.push_back(path.filename().string());
  if (folders.empty()) {
    throw InputError(fmt::format("the folder of images {} has no folders of classes. {}",
                                 detail::looked_for(root_), layout_remedy));
  }
  if (class_names_.empty()) {
    class_names_ = std::move(folders);
    return;
  }
  for (const std::string& folder : folders) {
    if (std::ranges::find(class_names_, folder) != class_names_.end()) continue;
    throw InputError(fmt::format(
        "the folder of images {} is none of the {} classes, which are the training set's folders "
        "or data.class_names. Name it, or remove it.",
        (root_ / folder).string(), class_names_.size()));
  }
}

void ImageFolder::find_files(std::int64_t label) {
  const fs::path& name = class_names_[static_cast<std::size_t>(label)];
  const auto before = files_.size();
  for (const fs::path& path : images_below(root_ / name))
    files_.push_back({path.lexically_relative(root_), label});
  if (files_.size() > before) return;
  throw InputError(fmt::format("class {}: the folder {} has no images (.png, .jpg, .jpeg). {}",
                               name.string(), (root_ / name).string(), layout_remedy));
}

std::vector<std::int64_t> ImageFolder::labels() const {
  std::vector<std::int64_t> all;
  all.reserve(files_.size());
  for (const File& file : files_) all.push_back(file.label);
  return all;
}

std::string ImageFolder::listing_hash() const {
  Hasher hasher;
  for (const File& file : files_) {
    const std::string path = file.path.generic_string();
    hasher.update(path.c_str(), path.size() + 1);  // with its end
  }
  return to_hex(hasher.digest());
}

template <class Cut>
void ImageFolder::load_cut(std::span<const std::int64_t> indices, Batch& batch,
                           const Cut& cut) const {
  expect_samples(indices, size());
  batch.reset(indices);
  if (indices.empty()) return;
  const auto floats = static_cast<std::size_t>(sample_shape().numel());
  std::vector<std::int64_t> labels(indices.size());
  detail::in_threads(
      indices.size(), static_cast<std::size_t>(options_.threads), [&](std::size_t i) {
        const File& file = files_[static_cast<std::size_t>(indices[i])];
        labels[i] = file.label;
        const Image image = read_image(root_ / file.path, options_.channels);
        std::vector<float> sample(floats);
        cut_image(image, cut(image, indices[i]), sample);
        const auto row = static_cast<std::int64_t>(i);
        batch.inputs().slice(row, row + 1).copy_from_host(std::span<const float>(sample));
      });
  normalise(batch.inputs(), scale_);
  batch.targets().copy_from_host(std::span<const std::int64_t>(labels));
}

void ImageFolder::load(std::span<const std::int64_t> indices, Batch& batch) const {
  load_cut(indices, batch, [&](const Image& image, std::int64_t) {
    return center_cut(image.height, image.width, options_.resize, options_.size);
  });
}

void ImageFolder::load_varied(std::span<const std::int64_t> indices, std::int64_t epoch,
                              Batch& batch) const {
  if (!options_.random_cut) return load(indices, batch);
  load_cut(indices, batch, [&](const Image& image, std::int64_t sample) {
    return (*options_.random_cut)(image.height, image.width, options_.size, sample, epoch);
  });
}

}  // namespace lockstep
