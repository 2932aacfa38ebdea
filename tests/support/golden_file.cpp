#include <support/golden_file.hpp>

#include <gtest/gtest.h>
#include <hdf5.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <set>
#include <system_error>
#include <utility>

#include <lockstep/base/error.hpp>

namespace lockstep::test {
namespace {

/// Closes an HDF5 identifier.
class Handle {
 public:
  Handle(hid_t id, herr_t (*close)(hid_t), const std::string& what) : id_(id), close_(close) {
    if (id_ < 0) throw Error("golden data: cannot open " + what);
  }
  ~Handle() { close_(id_); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  operator hid_t() const noexcept { return id_; }

 private:
  hid_t id_;
  herr_t (*close_)(hid_t);
};

std::string own_folder() {
  const char* sources = std::getenv("LOCKSTEP_SOURCE_DIR");
  return sources ? std::string(sources) + "/tests/golden" : "tests/golden";
}

void skip_test(const std::string& reason) { GTEST_SKIP() << reason; }

/// Opens a file. Skips the running test if a user's own folder lacks it.
std::string path_of(const std::string& name) {
  const char* const chosen = std::getenv("LOCKSTEP_GOLDEN_DIR");
  if (!chosen) return own_folder() + "/" + name;
  std::string path = std::string(chosen) + "/" + name;
  std::error_code ignored;
  const bool is_own = std::filesystem::equivalent(chosen, own_folder(), ignored);
  if (is_own || std::filesystem::exists(path, ignored)) return path;
  skip_test(path + " is not there: LOCKSTEP_GOLDEN_DIR");
  throw testing::AssertionException(
      {testing::TestPartResult::kSkip, __FILE__, __LINE__, path.c_str()});
}

void expect(bool ok, const std::string& what) {
  if (!ok) throw Error("golden data: cannot read " + what);
}

/// The dtype of a dataset for tests, and its HDF5 type in memory.
std::pair<DType, hid_t> element_type(hid_t stored, const std::string& where) {
  const std::size_t size = H5Tget_size(stored);
  if (H5Tget_class(stored) == H5T_FLOAT) {
    if (size == 4) return {DType::f32, H5T_NATIVE_FLOAT};
    if (size == 8) return {DType::f64, H5T_NATIVE_DOUBLE};
  } else if (H5Tget_class(stored) == H5T_INTEGER) {
    const bool is_signed = H5Tget_sign(stored) == H5T_SGN_2;
    if (size == 1 && !is_signed) return {DType::u8, H5T_NATIVE_UINT8};
    if (size == 4 && is_signed) return {DType::i32, H5T_NATIVE_INT32};
    if (is_signed || size < 8) return {DType::i64, H5T_NATIVE_INT64};
  }
  throw Error("golden data: " + where + " has an element type that no tensor holds");
}

}  // namespace

struct GoldenFile::File {
  std::string path;
  Handle handle;
  std::set<std::string> read;  // paths of datasets

  explicit File(std::string p)
      : path(std::move(p)),
        handle(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose,
               path + "; set LOCKSTEP_GOLDEN_DIR to the folder that holds it") {}

  [[nodiscard]] std::string where(const std::string& object) const { return path + ":/" + object; }

  [[nodiscard]] Handle object(const std::string& name) const {
    return {H5Oopen(handle, name.empty() ? "/" : name.c_str(), H5P_DEFAULT), H5Oclose, where(name)};
  }

  /// Names of the members of a group with `type`, in alphabetic order.
  [[nodiscard]] std::vector<std::string> members(const std::string& group, H5O_type_t type) const {
    const Handle opened = object(group);
    H5G_info_t info;
    expect(H5Gget_info(opened, &info) >= 0, where(group));
    std::vector<std::string> names;
    for (hsize_t i = 0; i < info.nlinks; ++i) {
      char name[256];
      const auto length = H5Lget_name_by_idx(opened, ".", H5_INDEX_NAME, H5_ITER_INC, i, name,
                                             sizeof(name), H5P_DEFAULT);
      expect(length > 0 && length < static_cast<ssize_t>(sizeof(name)), where(group));
      const Handle member(H5Oopen(opened, name, H5P_DEFAULT), H5Oclose, where(group) + "/" + name);
      const bool is_group = H5Iget_type(member) == H5I_GROUP;
      if (is_group == (type == H5O_TYPE_GROUP)) names.emplace_back(name);
    }
    return names;
  }

  /// Opens an attribute and passes its identifier to `read`.
  template <class Read>
  void attribute(const std::string& owner, const std::string& name, const Read& read) const {
    const Handle opened = object(owner);
    const Handle attribute(H5Aopen(opened, name.c_str(), H5P_DEFAULT), H5Aclose,
                           "attribute " + name + " of " + where(owner));
    read(static_cast<hid_t>(attribute));
  }
};

GoldenFile::GoldenFile(const std::string& name) {
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);  // Lockstep reports missing ones itself
  file_ = std::make_unique<File>(path_of(name));
}

GoldenFile::~GoldenFile() = default;

std::vector<std::string> GoldenFile::groups(const std::string& path) const {
  return file_->members(path, H5O_TYPE_GROUP);
}

std::vector<std::string> GoldenFile::datasets(const std::string& path) const {
  return file_->members(path, H5O_TYPE_DATASET);
}

bool GoldenFile::has(const std::string& path) const {
  for (std::size_t end = path.find('/'); end != std::string::npos; end = path.find('/', end + 1)) {
    if (H5Lexists(file_->handle, path.substr(0, end).c_str(), H5P_DEFAULT) <= 0) return false;
  }
  return H5Lexists(file_->handle, path.c_str(), H5P_DEFAULT) > 0;
}

Tensor GoldenFile::tensor(const std::string& path) const {
  const std::string where = file_->where(path);
  const Handle dataset(H5Dopen2(file_->handle, path.c_str(), H5P_DEFAULT), H5Dclose, where);
  const Handle space(H5Dget_space(dataset), H5Sclose, where);
  const int dims = H5Sget_simple_extent_ndims(space);
  expect(dims >= 0 && dims <= Shape::max_dims, where);
  hsize_t extents[Shape::max_dims];
  expect(H5Sget_simple_extent_dims(space, extents, nullptr) == dims, where);
  std::vector<std::int64_t> shape(extents, extents + dims);

  const Handle stored(H5Dget_type(dataset), H5Tclose, where);
  const auto [dtype, in_memory] = element_type(stored, where);
  const Tensor t = Tensor::empty(Shape(std::span<const std::int64_t>(shape)), dtype);
  expect(H5Dread(dataset, in_memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, t.data()) >= 0, where);
  file_->read.insert(path);
  return t;
}

std::vector<std::string> GoldenFile::unread(const std::string& path) const {
  const std::string prefix = path.empty() ? "" : path + "/";
  std::vector<std::string> left;
  for (const auto& dataset : datasets(path)) {
    if (dataset.ends_with("_f32") || file_->read.contains(prefix + dataset)) continue;
    left.push_back(prefix + dataset);
  }
  for (const auto& group : groups(path)) {
    const auto below = unread(prefix + group);
    left.insert(left.end(), below.begin(), below.end());
  }
  return left;
}

bool GoldenFile::has_attribute(const std::string& path, const std::string& name) const {
  return H5Aexists(file_->object(path), name.c_str()) > 0;
}

double GoldenFile::number(const std::string& path, const std::string& name) const {
  const auto values = numbers(path, name);
  expect(values.size() == 1, "attribute " + name + " of " + file_->where(path) + " as one number");
  return values.front();
}

double GoldenFile::number_or(const std::string& path, const std::string& name,
                             double fallback) const {
  return has_attribute(path, name) ? number(path, name) : fallback;
}

std::vector<double> GoldenFile::numbers(const std::string& path, const std::string& name) const {
  std::vector<double> values;
  file_->attribute(path, name, [&](hid_t attribute) {
    const std::string where = "attribute " + name + " of " + file_->where(path);
    const Handle space(H5Aget_space(attribute), H5Sclose, where);
    values.resize(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space)));
    expect(H5Aread(attribute, H5T_NATIVE_DOUBLE, values.data()) >= 0, where);
  });
  return values;
}

std::string GoldenFile::text(const std::string& path, const std::string& name) const {
  std::string value;
  file_->attribute(path, name, [&](hid_t attribute) {
    const std::string where = "attribute " + name + " of " + file_->where(path);
    const Handle type(H5Aget_type(attribute), H5Tclose, where);
    expect(H5Tget_class(type) == H5T_STRING && H5Tis_variable_str(type) == 0, where + " as text");
    value.resize(H5Tget_size(type));
    expect(H5Aread(attribute, type, value.data()) >= 0, where);
    value.resize(std::min(value.find('\0'), value.size()));
  });
  return value;
}

double GoldenFile::tolerance(const std::string& path) const {
  constexpr double unit = 0x1p-23;
  const double first = number(path, "f32_max_abs_diff");
  const double second = number_or(path, "f32alt_max_abs_diff", first);
  return 16 * std::max({first, second, unit * number(path, "ref_max_abs")});
}

double max_difference(const Tensor& y, const Tensor& reference) {
  constexpr double infinite = std::numeric_limits<double>::infinity();
  if (y.shape() != reference.shape()) return infinite;
  const auto a = y.to(DType::f64).to_vector<double>();
  const auto b = reference.to(DType::f64).to_vector<double>();
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    const double difference = std::abs(a[i] - b[i]);
    if (std::isnan(difference)) return infinite;
    worst = std::max(worst, difference);
  }
  return worst;
}

}  // namespace lockstep::test
