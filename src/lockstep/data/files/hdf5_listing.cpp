#include <lockstep/data/files/hdf5_listing.hpp>

#include <fmt/format.h>
#include <hdf5.h>

#include <string_view>
#include <vector>

#include <lockstep/base/error.hpp>
#include <lockstep/deck/did_you_mean.hpp>
#include <lockstep/io/hdf5_elements.hpp>

namespace lockstep {
namespace {

constexpr std::size_t most_listed = 20;

bool is_data_set(Hdf5Id object) { return H5Iget_type(object) == H5I_DATASET; }

herr_t keep_name(hid_t group, const char* name, const H5L_info_t*, void* names) {
  const hid_t object = H5Oopen(group, name, H5P_DEFAULT);
  if (object < 0) return 0;  // a dangling link
  if (is_data_set(object)) static_cast<std::vector<std::string>*>(names)->emplace_back(name);
  return H5Oclose(object);
}

/// Paths of all data sets, without a leading slash.
std::vector<std::string> data_sets_of(Hdf5Id file) {
  std::vector<std::string> names;
  hdf5_check(H5Lvisit(file, H5_INDEX_NAME, H5_ITER_INC, keep_name, &names), "list what it holds");
  return names;
}

std::string listing(Hdf5Id file, const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < most_listed; ++i) {
    const Hdf5Handle dataset(H5Dopen2(file, names[i].c_str(), H5P_DEFAULT), H5Dclose,
                             "open " + names[i]);
    text += fmt::format("{}{} {}", i == 0 ? "" : ", ", names[i], describe_data_set(dataset.id()));
  }
  return names.size() > most_listed ? text + ", ..." : text;
}

}  // namespace

Hdf5Handle open_data_set(Hdf5Id file, const std::string& name, const std::string& path) {
  const hid_t object = name.empty() ? -1 : H5Oopen(file, name.c_str(), H5P_DEFAULT);
  if (object >= 0) {
    Hdf5Handle found(object, H5Oclose, "");
    if (is_data_set(object)) return found;
  }
  H5Eclear2(H5E_DEFAULT);
  const auto names = data_sets_of(file);
  const std::vector<std::string_view> known(names.begin(), names.end());
  const auto near = nearest_name(name, known);
  throw InputError(fmt::format("data file {} has no data set {}{}. {}It holds {}.", path, name,
                               object >= 0 ? " (it is a group)" : "",
                               near ? fmt::format("Did you mean {}? ", *near) : "",
                               names.empty() ? "none at all" : listing(file, names)));
}

std::string describe_data_set(Hdf5Id dataset) {
  const Hdf5Handle type(H5Dget_type(dataset), H5Tclose, "examine a type");
  const Hdf5Handle space(H5Dget_space(dataset), H5Sclose, "examine a space");
  const std::size_t bits = 8 * H5Tget_size(type.id());
  std::string text;
  switch (H5Tget_class(type.id())) {
    case H5T_FLOAT:
      text = fmt::format("f{}", bits);
      break;
    case H5T_INTEGER:
      text = fmt::format("{}{}", H5Tget_sign(type.id()) == H5T_SGN_NONE ? "u" : "i", bits);
      break;
    case H5T_STRING:
      text = "text";
      break;
    default:
      text = is_boolean(type.id()) ? "bool" : "other";
  }
  std::vector<hsize_t> extents(
      static_cast<std::size_t>(std::max(0, H5Sget_simple_extent_ndims(space.id()))));
  H5Sget_simple_extent_dims(space.id(), extents.data(), nullptr);
  return fmt::format("{} [{}]", text, fmt::join(extents, ", "));
}

}  // namespace lockstep
