#include <lockstep/data/files/data_files.hpp>

#include <fmt/format.h>
#include <glob.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <unordered_set>

#include <lockstep/base/error.hpp>
#include <lockstep/base/lower_case.hpp>
#include <lockstep/base/some_of.hpp>
#include <lockstep/data/files/hdf5_array.hpp>
#include <lockstep/data/files/joined_array.hpp>
#include <lockstep/data/files/looked_for.hpp>
#include <lockstep/data/files/npy_array.hpp>

namespace lockstep {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> matches_of(const std::string& pattern) {
  glob_t found{};
  const int status = ::glob(pattern.c_str(), 0, nullptr, &found);
  std::vector<fs::path> files(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  if (status == 0) return files;
  throw InputError(
      fmt::format("no file matches {}. Correct the pattern.", detail::looked_for(pattern)));
}

/// The same for all names of a file.
fs::path identity_of(const fs::path& file) {
  std::error_code ignored;
  const fs::path known = fs::weakly_canonical(file, ignored);
  return known.empty() ? file : known;
}

const std::vector<std::string>& paths_of(const DataOptions& options, Split split) {
  const FileOptions& files = options.files();
  const auto& paths =
      split == Split::train || files.test_path.empty() ? options.path : files.test_path;
  if (paths.empty() || paths == std::vector<std::string>{"auto"}) {
    throw InputError(
        "data in files need data.path, the file or files, but it is \"auto\". Set it in the "
        "deck "
        "or "
        "with --set 'data.path=\"FILE\"'.");
  }
  return paths;
}

[[noreturn]] void refuse_without_features(const CsvTable& table) {
  throw InputError(fmt::format(
      "{} has no column for features, only {}. Add one, or, if these are several columns, separate "
      "their cells by commas, semicolons or tabs.",
      table.name(),
      table.columns().size() == 1 ? fmt::format("the one column \"{}\"", table.columns()[0])
                                  : some_of(table.columns())));
}

/// The columns of a table to read, including those left to the table (DataFiles::completed).
UsedColumns columns_of(const DataOptions& options) {
  const auto& [features, targets] = options.files().columns;
  if (features.empty() || (targets.empty() && !options.files().sample_weights.empty())) return {};
  UsedColumns used{.names = features, .and_last = targets.empty()};
  used.names.insert(used.names.end(), targets.begin(), targets.end());
  used.names.push_back(options.files().sample_weights);
  return used;
}

/// The target of a deck that names none: the last column that is not the samples' weights.
const std::string& last_column_but(const CsvTable& table, const std::string& weights) {
  const auto& columns = table.columns();
  const auto last = std::find_if(columns.rbegin(), columns.rend(),
                                 [&](const std::string& column) { return column != weights; });
  return last == columns.rend() ? columns.back() : *last;
}

/// A column has one use.
void expect_apart(const std::vector<std::string>& features, const std::vector<std::string>& targets,
                  const std::string& weights) {
  const auto refuse_if_in = [](const auto& columns, const std::string& column, const char* uses) {
    if (std::ranges::find(columns, column) == columns.end()) return;
    throw InputError(
        fmt::format("column \"{}\" is named in {}. Name it in one of them.", column, uses));
  };
  for (const std::string& target : targets)
    refuse_if_in(features, target, "data.feature_columns and data.target_columns");
  refuse_if_in(features, weights, "data.feature_columns and data.sample_weights");
  refuse_if_in(targets, weights, "data.target_columns and data.sample_weights");
}

ExternalElements external_of(const FileOptions& options) {
  return options.allow_external ? ExternalElements::allowed : ExternalElements::refused;
}

fs::path npy_file(const fs::path& folder, const std::string& name) {
  return folder / (name.ends_with(".npy") ? name : name + ".npy");
}

}  // namespace

std::vector<fs::path> files_of(const std::vector<std::string>& paths) {
  std::vector<fs::path> files;
  for (const std::string& path : paths) {
    std::error_code ignored;
    const bool pattern = path.find_first_of("*?[") != std::string::npos;
    if (!pattern || fs::exists(path, ignored)) {
      files.emplace_back(path);
    } else {
      const auto matches = matches_of(path);
      files.insert(files.end(), matches.begin(), matches.end());
    }
  }
  std::set<fs::path> seen;
  for (const fs::path& file : files) {
    if (seen.insert(identity_of(file)).second) continue;
    throw InputError(
        fmt::format("{} is named twice, so its samples would count twice. Name it once; a pattern "
                    "may match it.",
                    file.string()));
  }
  return files;
}

void expect_no_common_file(const std::vector<fs::path>& train, const std::vector<fs::path>& test) {
  std::set<fs::path> trained;
  for (const fs::path& file : train) trained.insert(identity_of(file));
  for (const fs::path& file : test) {
    if (!trained.contains(identity_of(file))) continue;
    throw InputError(fmt::format(
        "{} is a file of the training set and of the test set. Leave it out of one of data.path (a "
        "pattern may match it) and data.test_path; in a file of both, name other data sets.",
        file.string()));
  }
}

void declare_test_path(DeckTable& table, std::vector<std::string>& test_path) {
  table.key("test_path", test_path, {.doc = "files of the test set; empty: those of path"});
}

bool is_table(const fs::path& file) {
  std::string name = lower_case(file.filename().string());
  if (name.ends_with(".gz")) name.resize(name.size() - 3);
  return std::ranges::any_of(std::array{".csv", ".tsv", ".txt"},
                             [&](const char* ending) { return name.ends_with(ending); });
}

std::shared_ptr<const StoredArray> open_array(const fs::path& file, const std::string& name,
                                              const FileOptions& options) {
  if (file.extension() == ".npy") return std::make_shared<const NpyArray>(file);
  if (is_table(file)) {
    const auto& columns = options.columns.features;
    const CsvTable table({file}, options.header, {.names = columns});
    return table.numbers(columns.empty() ? table.columns() : columns, false);
  }
  return std::make_shared<const Hdf5Array>(file, name, options.cache_mib << 20U,
                                           external_of(options));
}

DataFiles::DataFiles(const DataOptions& options, Split split)
    : npy_(options.kind.get_if<NpyOptions>() != nullptr),
      split_(split),
      external_(external_of(options.files())),
      files_(files_of(paths_of(options, split))) {
  if (!options.kind.get_if<CsvOptions>()) return;
  if (split == Split::test && options.files().test_path.empty()) {
    throw InputError(
        "data.kind = \"csv\" needs data.test_path, the table of the test set. Name it, or hold "
        "some lines back instead: data.test_set = false, data.validation_fraction = 0.1.");
  }
  table_.emplace(files_, options.files().header, columns_of(options));
}

DataOptions DataFiles::completed(DataOptions options, TargetKind kind) const {
  if (!table_) return options;
  auto& [features, targets] = options.files().columns;
  const std::string& weights = options.files().sample_weights;
  if (targets.empty()) targets = {last_column_but(*table_, weights)};
  expect_apart(features, targets, weights);
  if (features.empty()) {
    std::unordered_set<std::string_view> others(targets.begin(), targets.end());
    others.insert(weights);
    std::ranges::copy_if(table_->columns(), std::back_inserter(features),
                         [&](const std::string& column) { return !others.contains(column); });
    if (features.empty()) refuse_without_features(*table_);
  }
  options.files().named_targets = kind == TargetKind::classes && targets_are_names(options);
  if (!options.files().named_targets) return options;
  if (options.class_names.empty()) {
    options.class_names = table_->labels(targets[0]);
    const std::int64_t classes = options.files().classes;
    if (classes > 0 && classes != std::ssize(options.class_names)) {
      throw InputError(fmt::format(
          "data.classes = {}, but column {} of {} has {} words as classes: {}. Correct one, or "
          "leave data.classes out.",
          classes, targets[0], table_->name(), options.class_names.size(),
          some_of(options.class_names)));
    }
  }
  options.files().classes = std::ssize(options.class_names);
  return options;
}

bool DataFiles::targets_are_names(const DataOptions& options) const {
  const auto& columns = options.files().columns.targets;
  if (columns.size() != 1) return false;
  return std::ranges::any_of(options.class_names, CsvTable::is_number) ||
         !table_->is_numeric(columns[0]);
}

std::shared_ptr<const StoredArray> DataFiles::features(const DataOptions& options) const {
  const FileOptions& o = options.files();
  if (table_) return table_->numbers(o.columns.features, false);
  return array(split_ == Split::train ? o.train_features : o.test_features, o.cache_mib << 20U);
}

std::shared_ptr<const StoredArray> DataFiles::targets(const DataOptions& options) const {
  const FileOptions& o = options.files();
  if (!table_)
    return array(split_ == Split::train ? o.train_targets : o.test_targets, o.cache_mib << 20U);
  const auto& columns = o.columns.targets;
  return o.named_targets ? table_->codes(columns[0], options.class_names)
                         : table_->numbers(columns, true);
}

std::vector<std::shared_ptr<const StoredArray>> DataFiles::others(
    const DataOptions& options) const {
  const FileOptions& o = options.files();
  if (table_ && !o.other_features.empty()) {
    throw InputError(
        "data.other_features is for arrays of hdf5 and npy files, but the data are a table. Put "
        "the columns into data.feature_columns.");
  }
  const std::string& first = split_ == Split::train ? o.train_features : o.test_features;
  const std::string folder = first.substr(0, first.find_last_of('/') + 1);
  std::vector<std::shared_ptr<const StoredArray>> arrays;
  for (const std::string& name : o.other_features)
    arrays.push_back(array(folder + name, o.cache_mib << 20U));
  return arrays;
}

std::shared_ptr<const StoredArray> DataFiles::weights(const DataOptions& options) const {
  if (table_) return table_->numbers({options.files().sample_weights}, true);
  return array(options.files().sample_weights, options.files().cache_mib << 20U);
}

std::shared_ptr<const StoredArray> DataFiles::array(const std::string& name,
                                                    std::int64_t cache_bytes) const {
  std::vector<std::shared_ptr<const StoredArray>> parts;
  for (const fs::path& file : files_) {
    if (npy_) {
      parts.push_back(std::make_shared<const NpyArray>(npy_file(file, name)));
    } else {
      parts.push_back(std::make_shared<const Hdf5Array>(
          file, name, cache_bytes / std::ssize(files_), external_));
    }
  }
  if (parts.size() == 1) return parts[0];
  return std::make_shared<const JoinedArray>(std::move(parts));
}

}  // namespace lockstep
