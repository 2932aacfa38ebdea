#include <lockstep/checkpoint/weights/hdf5_weights.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <hdf5.h>

#include <lockstep/base/error.hpp>
#include <lockstep/io/hdf5_elements.hpp>
#include <lockstep/io/hdf5_file.hpp>

namespace lockstep {
namespace {

struct Element {
  DType dtype;
  hid_t in_memory;
};

Element element_of(hid_t stored) {
  const auto bytes = H5Tget_size(stored);
  switch (H5Tget_class(stored)) {
    case H5T_FLOAT:
      if (bytes == 4) return {DType::f32, H5T_NATIVE_FLOAT};
      return {DType::f64, H5T_NATIVE_DOUBLE};
    case H5T_INTEGER:
      if (bytes == 1 && H5Tget_sign(stored) == H5T_SGN_NONE) return {DType::u8, H5T_NATIVE_UINT8};
      if (bytes == 4 && H5Tget_sign(stored) != H5T_SGN_NONE) return {DType::i32, H5T_NATIVE_INT32};
      return {DType::i64, H5T_NATIVE_INT64};
    case H5T_ENUM:
      if (is_boolean(stored)) return {DType::boolean, stored};
      break;
    default:
      break;
  }
  throw Error("is not an array of numbers");
}

/// HDF5 stores any byte as an element of an enumeration.
void expect_booleans(const Tensor& tensor) {
  const auto* bytes = static_cast<const std::uint8_t*>(tensor.data());
  const auto* wrong =
      std::find_if(bytes, bytes + tensor.numel(), [](auto byte) { return byte > 1; });
  if (wrong == bytes + tensor.numel()) return;
  throw Error(fmt::format("has {} as element {}, but a boolean is 0 or 1", *wrong, wrong - bytes));
}

Tensor read_array(const Hdf5Handle& file, hid_t dataset, const std::filesystem::path& path) {
  expect_elements(file, dataset, path, ExternalElements::refused);
  const Hdf5Handle stored(H5Dget_type(dataset), H5Tclose, "look at its type");
  const Element element = element_of(stored.id());
  const Hdf5Handle space(H5Dget_space(dataset), H5Sclose, "look at its shape");
  if (H5Sget_simple_extent_type(space.id()) == H5S_NULL)
    throw Error("has no shape and no elements (a null data space, h5py.Empty). Leave it out");
  const int dims = H5Sget_simple_extent_ndims(space.id());
  if (dims < 0 || dims > Shape::max_dims) throw Error("has more dimensions than a tensor can have");
  std::array<hsize_t, static_cast<std::size_t>(Shape::max_dims)> extents{};
  hdf5_check(H5Sget_simple_extent_dims(space.id(), extents.data(), nullptr), "look at its shape");
  const std::vector<std::int64_t> sizes(extents.begin(), extents.begin() + dims);
  Tensor tensor = Tensor::empty(Shape(std::span(sizes)), element.dtype);
  if (tensor.numel() > 0) {
    hdf5_check(H5Dread(dataset, element.in_memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, tensor.data()),
               "read it");
    if (element.dtype == DType::boolean) expect_booleans(tensor);
  }
  return tensor;
}

struct Link {
  std::string name;
  H5L_type_t type;
};

/// No exception may pass through HDF5.
herr_t keep_link(hid_t, const char* name, const H5L_info_t* info, void* links) {
  try {
    static_cast<std::vector<Link>*>(links)->push_back({name, info->type});
    return 0;
  } catch (const std::exception&) {
    return -1;
  }
}

std::vector<Link> links_of(hid_t group) {
  std::vector<Link> links;
  hdf5_check(H5Literate(group, H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, keep_link, &links),
             "list what is in it");
  return links;
}

herr_t refuse_other_file(const char*, const char*, const char*, const char*, unsigned*, hid_t,
                         void*) {
  return -1;
}

/// Runs `part`, which reads what has this name: its failures are told with the name.
template <class Part>
auto of(const std::string& name, const Part& part) {
  try {
    return part();
  } catch (const std::exception& error) {
    throw Error("/" + name + " " + error.what());
  }
}

/// Follows the links of a file, each of which may lead back.
class Reader {
 public:
  Reader(const Hdf5Handle& file, const std::filesystem::path& path) : file_(file), path_(path) {
    hdf5_check(H5Pset_elink_cb(in_file_.id(), refuse_other_file, nullptr), "stay in a file");
  }

  StateDict read() {
    read_group(file_.id(), "");
    return std::move(tensors_);
  }

 private:
  /// A group that leads to itself is not read again on that way.
  void read_group(hid_t group, const std::string& name) {
    const haddr_t address = of(name, [&] { return address_of(group); });
    if (std::ranges::find(way_, address) != way_.end()) return;
    way_.push_back(address);
    for (const Link& link : of(name, [&] { return links_of(group); }))
      read_link(group, link, name.empty() ? link.name : name + "/" + link.name);
    way_.pop_back();
  }

  /// Throws Error for a damaged file, or one made to take all time or the stack.
  haddr_t address_of(hid_t group) {
    constexpr std::size_t deepest = 100;
    constexpr std::int64_t most = 1'000'000;
    if (way_.size() > deepest)
      throw Error(fmt::format("is in more than {} groups, one in another", deepest));
    if (++groups_ > most)
      throw Error(fmt::format("is a group too many: its file's links lead to more than {}", most));
    H5O_info_t info{};
    hdf5_check(H5Oget_info2(group, &info, H5O_INFO_BASIC), "look at it");
    return info.addr;
  }

  void read_link(hid_t group, const Link& link, const std::string& name) {
    const Hdf5Handle object = of(name, [&] { return open(group, link); });
    const H5I_type_t type = H5Iget_type(object.id());
    if (type == H5I_GROUP) return read_group(object.id(), name);
    if (type != H5I_DATASET) return;  // a type with a name
    std::string dotted = name;
    std::ranges::replace(dotted, '/', '.');
    of(name, [&] { tensors_.insert(dotted, read_array(file_, object.id(), path_)); });
  }

  [[nodiscard]] Hdf5Handle open(hid_t group, const Link& link) const {
    if (link.type != H5L_TYPE_HARD && link.type != H5L_TYPE_SOFT)
      throw Error("is a link to another file. Copy what it leads to into this one");
    const hid_t object = H5Oopen(group, link.name.c_str(), in_file_.id());
    if (object < 0 && link.type == H5L_TYPE_SOFT) {
      H5Eclear2(H5E_DEFAULT);
      throw Error("is a link to nothing in this file. Remove it, or mend it");
    }
    return {object, H5Oclose, "open it"};
  }

  const Hdf5Handle& file_;
  const std::filesystem::path& path_;
  Hdf5Handle in_file_{H5Pcreate(H5P_LINK_ACCESS), H5Pclose, "stay in a file"};
  StateDict tensors_;
  std::vector<haddr_t> way_;  ///< groups from the file's root to the one being read
  std::int64_t groups_ = 0;   ///< read so far
};

}  // namespace

StateDict read_hdf5_weights(const std::filesystem::path& path) {
  const Hdf5Lock lock;
  try {
    const Hdf5Handle file = open_hdf5_for_reading(path);
    return Reader(file, path).read();
  } catch (const std::exception& error) {
    throw CheckpointError("weights of " + path.string() + ": " + error.what());
  }
}

}  // namespace lockstep
