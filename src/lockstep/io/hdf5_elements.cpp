#include <lockstep/io/hdf5_elements.hpp>

#include <fmt/format.h>
#include <hdf5.h>

#include <algorithm>
#include <array>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/base/error.hpp>
#include <lockstep/io/file.hpp>
#include <lockstep/io/hdf5_file.hpp>

namespace lockstep {
namespace {

namespace fs = std::filesystem;

using Extents = std::array<hsize_t, H5S_MAX_RANK>;

Hdf5Handle space_of(hid_t dataset) {
  return {H5Dget_space(dataset), H5Sclose, "look at a data set's shape"};
}

Hdf5Handle creation_of(hid_t dataset) {
  return {H5Dget_create_plist(dataset), H5Pclose, "look at a data set's layout"};
}

/// Places where HDF5 may look for a file named by `path`: the manual and the versions differ.
std::vector<fs::path> candidates(const fs::path& named, const fs::path& path) {
  std::vector<fs::path> found;
  for (const fs::path& candidate : {named, path.parent_path() / named}) {
    std::error_code ignored;
    if (fs::exists(candidate, ignored)) found.push_back(candidate);
  }
  if (found.empty())
    throw Error(fmt::format("has elements in {}, which is missing", named.string()));
  return found;
}

/// The name that HDF5's `get`(buffer, size) returns.
template <class F>
std::string name_by(const F& get) {
  const auto size = hdf5_check(get(nullptr, std::size_t{0}), "look at a virtual data set");
  std::string name(static_cast<std::size_t>(size) + 1, '\0');
  hdf5_check(get(name.data(), name.size()), "look at a virtual data set");
  name.pop_back();
  return name;
}

/// Whether a source of this space has the selected `elements`.
bool has_selected(hid_t space, hid_t selection, hssize_t elements) {
  // For a whole source a virtual data set keeps no extents.
  if (H5Sget_select_type(selection) == H5S_SEL_ALL)
    return H5Sget_simple_extent_npoints(space) == elements;
  Extents extents{}, first{}, last{};
  const int dims = H5Sget_simple_extent_dims(space, extents.data(), nullptr);
  if (H5Sget_simple_extent_ndims(selection) != dims ||
      H5Sget_select_bounds(selection, first.data(), last.data()) < 0)
    return false;
  return std::equal(last.begin(), last.begin() + dims, extents.begin(), std::less{});
}

/// Follows a data set to the place of its elements.
class Elements {
 public:
  explicit Elements(ExternalElements external) : external_(external) {}

  void expect(const Hdf5Handle& file, hid_t dataset, const fs::path& path) {
    const Hdf5Handle space = space_of(dataset), creation = creation_of(dataset);
    const hssize_t elements = H5Sget_simple_extent_npoints(space.id());
    hdf5_check(elements, "look at a data set's shape");
    if (is_in_other_file(file, dataset)) expect_allowed("is stored in another file");
    if (elements == 0) return;
    const Hdf5Handle type(H5Dget_type(dataset), H5Tclose, "look at a data set's type");
    const hsize_t bytes = static_cast<hsize_t>(elements) * H5Tget_size(type.id());
    switch (H5Pget_layout(creation.id())) {
      case H5D_CHUNKED:
        return expect_chunks(dataset, space.id(), creation.id(), bytes);
      case H5D_VIRTUAL:
        return expect_sources(creation.id(), space.id(), elements, bytes, file, path);
      default:
        if (H5Pget_external_count(creation.id()) > 0)
          return expect_raw_files(creation.id(), path, bytes);
        return expect_stored(dataset, creation.id(), bytes);
    }
  }

 private:
  void expect_allowed(const std::string& what) const {
    if (external_ == ExternalElements::refused) throw ExternalElementsError(what);
  }

  /// For a file that is truncated, or declares more than it has.
  static void expect_in_file(hid_t dataset, hsize_t begin, hsize_t bytes) {
    const Hdf5Handle file(H5Iget_file_id(dataset), H5Fclose, "look at the file");
    hsize_t there = 0;
    hdf5_check(H5Fget_filesize(file.id(), &there), "look at the file");
    if (begin <= there && bytes <= there - begin) return;
    throw Error(
        fmt::format("takes {} bytes from byte {} on, but the file has {}", bytes, begin, there));
  }

  static void expect_stored(hid_t dataset, hid_t creation, hsize_t bytes) {
    const hsize_t stored = H5Dget_storage_size(dataset);
    if (stored == 0) return expect_chosen_fill(creation, bytes, "was never written");
    if (stored < bytes) {
      throw Error(fmt::format("has {} bytes of elements, but its shape takes {}", stored, bytes));
    }
    const haddr_t offset = H5Dget_offset(dataset);
    H5Eclear2(H5E_DEFAULT);
    if (offset != HADDR_UNDEF) expect_in_file(dataset, offset, stored);  // else within its header
  }

  /// `bytes` of a data set are not stored. They count as data only if a fill value was set; HDF5's
  /// default is 0. `finding` says what is missing.
  static void expect_chosen_fill(hid_t creation, hsize_t bytes, const std::string& finding) {
    constexpr hsize_t most = hsize_t{1} << 30;  // a small file must not declare days of work
    H5D_fill_value_t fill = H5D_FILL_VALUE_UNDEFINED;
    hdf5_check(H5Pfill_value_defined(creation, &fill), "look at a fill value");
    if (fill != H5D_FILL_VALUE_USER_DEFINED) throw Error(finding);
    if (bytes <= most) return;
    throw Error(fmt::format("{}, and its fill value stands for {} bytes, more than {}", finding,
                            bytes, most));
  }

  static void expect_chunks(hid_t dataset, hid_t space, hid_t creation, hsize_t bytes) {
    Extents extents{}, chunk{};
    const int dims = H5Sget_simple_extent_dims(space, extents.data(), nullptr);
    H5Pget_chunk(creation, dims, chunk.data());
    hsize_t wanted = 1, there = 0;
    for (std::size_t d = 0; d < static_cast<std::size_t>(std::max(dims, 0)); ++d) {
      if (chunk[d] == 0) throw Error("has chunks without an extent");
      wanted *= extents[d] / chunk[d] + (extents[d] % chunk[d] != 0 ? 1 : 0);
    }
    hdf5_check(H5Dget_num_chunks(dataset, space, &there), "count a data set's chunks");
    hsize_t written = bytes;
    if (there < wanted) {
      written = static_cast<hsize_t>(static_cast<double>(bytes) * static_cast<double>(there) /
                                     static_cast<double>(wanted));
      expect_chosen_fill(
          creation, bytes - written,
          fmt::format("has {} of {} chunks: the others were never written", there, wanted));
    }
    const hsize_t stored = H5Dget_storage_size(dataset);
    expect_in_file(dataset, 0, stored);
    const hsize_t most = largest_expansion(creation);
    if (most > 0 && written / most > stored) {
      throw Error(fmt::format(
          "has {} bytes of compressed elements, too few for the {} of its shape", stored, bytes));
    }
  }

  /// The largest factor by which a stored byte can expand; 0: unlimited.
  static hsize_t largest_expansion(hid_t creation) {
    constexpr hsize_t of_deflate = 1032;  // its format has at most 258 bytes for two bits
    hsize_t most = 1;
    for (int i = 0; i < H5Pget_nfilters(creation); ++i) {
      unsigned flags = 0;
      std::size_t values = 0;
      switch (H5Pget_filter2(creation, static_cast<unsigned>(i), &flags, &values, nullptr, 0,
                             nullptr, nullptr)) {
        case H5Z_FILTER_DEFLATE:
          most *= of_deflate;
          break;
        case H5Z_FILTER_SHUFFLE:
        case H5Z_FILTER_FLETCHER32:
          break;
        default:
          return 0;
      }
    }
    return most;
  }

  void expect_raw_files(hid_t creation, const fs::path& path, hsize_t bytes) const {
    const int files = H5Pget_external_count(creation);
    hsize_t covered = 0;
    for (int i = 0; i < files; ++i) {
      std::array<char, 4097> name{};
      off_t offset = 0;
      hsize_t size = 0;
      hdf5_check(H5Pget_external(creation, static_cast<unsigned>(i), name.size() - 1, name.data(),
                                 &offset, &size),
                 "look at an external raw file");
      expect_allowed(fmt::format("has its elements in another file, {}", name.data()));
      size = std::min(size, bytes - covered);
      for (const fs::path& candidate : candidates(name.data(), path)) {
        const auto there = static_cast<hsize_t>(File::open_for_reading(candidate).size());
        const auto begin = static_cast<hsize_t>(offset);
        if (begin <= there && size <= there - begin) continue;
        throw Error(fmt::format("has elements in bytes {} to {} of {}, which has {}", begin,
                                begin + size, candidate.string(), there));
      }
      covered += size;
    }
    if (covered < bytes)
      throw Error(fmt::format("has {} of {} bytes in its external files", covered, bytes));
  }

  void expect_sources(hid_t creation, hid_t space, hssize_t elements, hsize_t bytes,
                      const Hdf5Handle& file, const fs::path& path) {
    expect_allowed("is virtual: its elements are those of other data sets");
    std::size_t sources = 0;
    hdf5_check(H5Pget_virtual_count(creation, &sources), "look at a virtual data set");
    Hdf5Handle covered(H5Scopy(space), H5Sclose, "copy a space");
    hdf5_check(H5Sselect_none(covered.id()), "select nothing");
    for (std::size_t i = 0; i < sources; ++i) {
      const Hdf5Handle part(H5Pget_virtual_vspace(creation, i), H5Sclose, "look at a source");
      if (H5Sget_select_npoints(part.id()) < 0)
        throw Error("is virtual, with a variable number of sources");
      if (H5Sget_select_type(part.id()) == H5S_SEL_ALL) {
        hdf5_check(H5Sselect_all(covered.id()), "select all");
      } else if (H5Sget_select_npoints(covered.id()) == 0) {
        covered = Hdf5Handle(H5Scopy(part.id()), H5Sclose, "copy a space");
      } else if (H5Sget_select_type(covered.id()) != H5S_SEL_ALL) {
        covered = Hdf5Handle(H5Scombine_select(covered.id(), H5S_SELECT_OR, part.id()), H5Sclose,
                             "join the parts of a virtual data set");
      }
      expect_source(creation, i, H5Sget_select_npoints(part.id()), file, path);
    }
    const hssize_t found = sources == 0 ? 0 : H5Sget_select_npoints(covered.id());
    if (found != elements) {
      const auto missing = static_cast<hsize_t>(elements - found);
      expect_chosen_fill(
          creation, missing * (bytes / static_cast<hsize_t>(elements)),
          fmt::format("is virtual, and {} of its {} elements have no source", missing, elements));
    }
  }

  void expect_source(hid_t creation, std::size_t source, hssize_t elements, const Hdf5Handle& file,
                     const fs::path& path) {
    const std::string name = name_by([&](char* to, std::size_t size) {
      return H5Pget_virtual_filename(creation, source, to, size);
    });
    const std::string dataset = name_by([&](char* to, std::size_t size) {
      return H5Pget_virtual_dsetname(creation, source, to, size);
    });
    const Hdf5Handle selection(H5Pget_virtual_srcspace(creation, source), H5Sclose,
                               "look at a source");
    if (name == ".") return expect_source(file, path, dataset, selection.id(), elements);
    for (const fs::path& candidate : candidates(name, path)) {
      const Hdf5Handle other = open_hdf5_for_reading(candidate);
      expect_source(other, candidate, dataset, selection.id(), elements);
    }
  }

  void expect_source(const Hdf5Handle& file, const fs::path& path, const std::string& name,
                     hid_t selection, hssize_t elements) {
    const std::string full = fmt::format("{}:{}", fs::absolute(path).lexically_normal().string(),
                                         name.starts_with('/') ? name : "/" + name);
    if (!on_the_way_.insert(full).second) throw Error("is virtual, and refers to itself");
    if (H5Lexists(file.id(), name.c_str(), H5P_DEFAULT) <= 0) {
      H5Eclear2(H5E_DEFAULT);
      throw Error(fmt::format("is virtual, and its source {} is missing", full));
    }
    const Hdf5Handle dataset(H5Dopen2(file.id(), name.c_str(), H5P_DEFAULT), H5Dclose,
                             "open source " + full);
    const Hdf5Handle space = space_of(dataset.id());
    if (!has_selected(space.id(), selection, elements)) {
      throw Error(
          fmt::format("is virtual, and its source {} lacks elements that it refers to", full));
    }
    try {
      expect(file, dataset.id(), path);
    } catch (const Error& error) {
      throw Error(fmt::format("is virtual, and its source {} {}", full, error.what()));
    }
    on_the_way_.erase(full);
  }

  ExternalElements external_;
  std::set<std::string> on_the_way_;
};

}  // namespace

bool is_in_other_file(const Hdf5Handle& file, Hdf5Id object) {
  H5O_info_t of_file{}, of_object{};
  hdf5_check(H5Oget_info2(file.id(), &of_file, H5O_INFO_BASIC), "look at the file");
  hdf5_check(H5Oget_info2(object, &of_object, H5O_INFO_BASIC), "look at a data set");
  return of_file.fileno != of_object.fileno;
}

bool is_boolean(Hdf5Id type) {
  if (H5Tget_class(type) != H5T_ENUM || H5Tget_size(type) != 1 || H5Tget_nmembers(type) != 2)
    return false;
  const auto has = [&](const char* name, std::int8_t value) {
    std::int8_t found = -1;
    return H5Tenum_valueof(type, name, &found) >= 0 && found == value;
  };
  return has("FALSE", 0) && has("TRUE", 1);
}

void expect_elements(const Hdf5Handle& file, Hdf5Id dataset, const fs::path& path,
                     ExternalElements external) {
  Elements(external).expect(file, dataset, path);
}

}  // namespace lockstep
