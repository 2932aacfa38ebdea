#include <lockstep/data/fashion_mnist.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>
#include <system_error>
#include <vector>

#include <lockstep/base/error.hpp>
#include <lockstep/base/host.hpp>
#include <lockstep/data/files/idx.hpp>
#include <lockstep/data/files/looked_for.hpp>

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t fashion_mnist_classes = 10;
constexpr std::array<const char*, 4> file_names{"train-images-idx3-ubyte",
                                                "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte",
                                                "t10k-labels-idx1-ubyte"};
constexpr const char* remedy =
    "Install the Debian package dataset-fashion-mnist, or point data.path or $LOCKSTEP_DATA at a "
    "folder with the four files train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz, "
    "t10k-images-idx3-ubyte.gz and t10k-labels-idx1-ubyte.gz (or the same without .gz).";

// The file `name` or name.gz in `folder`, the plain one first; empty if neither exists.
fs::path present(const fs::path& folder, const std::string& name) {
  std::error_code ignored;
  for (const auto& candidate : {folder / name, folder / (name + ".gz")}) {
    if (fs::exists(candidate, ignored)) return candidate;
  }
  return {};
}

bool complete(const fs::path& folder) {
  return std::all_of(file_names.begin(), file_names.end(),
                     [&](const char* name) { return !present(folder, name).empty(); });
}

fs::path require(const fs::path& folder, const std::string& name) {
  fs::path file = present(folder, name);
  if (file.empty()) {
    throw InputError(fmt::format("data file {} or {}.gz is missing. {}",
                                 detail::looked_for(folder / name), name, remedy));
  }
  return file;
}

std::vector<fs::path> system_folders() {
  std::string dirs = environment("XDG_DATA_DIRS");
  if (dirs.empty()) dirs = "/usr/local/share:/usr/share";
  std::vector<fs::path> folders;
  for (std::size_t begin = 0; begin <= dirs.size();) {
    const std::size_t end = std::min(dirs.find(':', begin), dirs.size());
    if (end > begin) {
      folders.push_back(fs::path(dirs.substr(begin, end - begin)) / "datasets" / "fashion-mnist");
    }
    begin = end + 1;
  }
  return folders;
}

// Throws unless `folder` is one with all four files; `origin` says where its name came from.
fs::path require_folder(const fs::path& folder, std::string_view origin) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) {
    throw InputError(fmt::format("{} names {}, which is {}. {}", origin, detail::looked_for(folder),
                                 fs::exists(folder, ignored) ? "not a folder" : "missing", remedy));
  }
  for (const char* name : file_names) require(folder, name);
  return folder;
}

}  // namespace

fs::path find_fashion_mnist(const std::string& path) {
  if (path != "auto") return require_folder(path, "data.path");
  const std::string chosen = environment("LOCKSTEP_DATA");
  if (!chosen.empty()) return require_folder(chosen, "$LOCKSTEP_DATA");

  std::string looked;
  for (const auto& folder : system_folders()) {
    if (complete(folder)) return folder;
    looked += (looked.empty() ? "" : ", ") + folder.string();
  }
  throw InputError(fmt::format(
      "data.path is \"auto\", but Fashion-MNIST was not found: $LOCKSTEP_DATA is not set and none "
      "of {} has all four files. {}",
      looked, remedy));
}

std::shared_ptr<const TensorDataset> load_fashion_mnist(const fs::path& folder, Split split,
                                                        const Normalisation& normalisation,
                                                        std::int64_t limit) {
  const std::size_t first = split == Split::train ? 0 : 2;
  const fs::path image_file = require(folder, file_names[first]);
  const fs::path label_file = require(folder, file_names[first + 1]);
  Tensor images = read_idx(image_file, 3);
  Tensor labels = read_idx(label_file, 1);
  const std::string name = fmt::format("{} with {}", image_file.string(), label_file.string());
  if (limit > 0 && images.size(0) == labels.size(0)) {
    images = images.slice(0, std::min(limit, images.size(0)));
    labels = labels.slice(0, std::min(limit, labels.size(0)));
  }
  return std::make_shared<const TensorDataset>(images, labels, fashion_mnist_classes, normalisation,
                                               name);
}

}  // namespace lockstep
