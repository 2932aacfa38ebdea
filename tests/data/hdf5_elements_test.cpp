// HDF5 files whose elements are missing, or are in other files.
#include <gtest/gtest.h>
#include <hdf5.h>
#include <sys/stat.h>

#include <data/hdf5_files.hpp>
#include <fstream>
#include <lockstep/base/error.hpp>
#include <lockstep/data/files/hdf5_array.hpp>
#include <numeric>
#include <support/process.hpp>

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using Numbers = std::vector<float>;

class Elements : public testing::Test {
 protected:
  Elements() { test::write_hdf5(main_, "here", {8}, Numbers{1, 2, 3, 4, 5, 6, 7, 8}); }

  /// A data set of 8 floats in the main file, created with `creation`.
  void make(const std::string& name, hid_t creation, hsize_t rows = 8) const {
    const hid_t file = H5Fopen(main_.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    const hid_t space = H5Screate_simple(1, &rows, nullptr);
    H5Dclose(
        H5Dcreate2(file, name.c_str(), H5T_IEEE_F32LE, space, H5P_DEFAULT, creation, H5P_DEFAULT));
    H5Sclose(space);
    H5Pclose(creation);
    H5Fclose(file);
  }
  /// Rows [first, first + rows) of a virtual data set are the first rows of data set `of` in
  /// `source`.
  static void map(hid_t creation, hsize_t first, hsize_t rows, const std::string& file,
                  const std::string& source, hsize_t of) {
    const hsize_t all = 8, none = 0;
    const hid_t space = H5Screate_simple(1, &all, nullptr),
                part = H5Screate_simple(1, &of, nullptr);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, &first, nullptr, &rows, nullptr);
    if (rows < of) H5Sselect_hyperslab(part, H5S_SELECT_SET, &none, nullptr, &rows, nullptr);
    H5Pset_virtual(creation, space, file.c_str(), source.c_str(), part);
    H5Sclose(part);
    H5Sclose(space);
  }
  void make_raw(const std::string& name, const std::string& file) const {
    const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_external(creation, file.c_str(), 0, 8 * sizeof(float));
    make(name, creation);
  }
  void link(const std::string& name, const std::string& file, const std::string& target) const {
    const hid_t opened = H5Fopen(main_.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    H5Lcreate_external(file.c_str(), target.c_str(), opened, name.c_str(), H5P_DEFAULT,
                       H5P_DEFAULT);
    H5Fclose(opened);
  }
  [[nodiscard]] std::string pipe() const {
    const std::string path = folder_.file("pipe");
    ::mkfifo(path.c_str(), 0600);
    return path;
  }

  [[nodiscard]] Numbers read(const std::string& name) const {
    const Hdf5Array array(main_, name, 1 << 20, ExternalElements::allowed);
    Numbers numbers(8);
    array.read(0, 8, std::span(numbers));
    return numbers;
  }
  [[nodiscard]] std::string refusal(const std::string& name,
                                    ExternalElements external = ExternalElements::allowed) const {
    try {
      const Hdf5Array array(main_, name, 1 << 20, external);
    } catch (const InputError& error) {
      return error.what();
    }
    return "no InputError";
  }
  void expect_refused(const std::string& name, const std::string& part,
                      ExternalElements external = ExternalElements::allowed) const {
    const std::string message = refusal(name, external);
    EXPECT_NE(message.find(part), std::string::npos) << message;
    EXPECT_NE(message.find(name), std::string::npos) << message;
  }
  void expect_external(const std::string& name, const std::string& part) const {
    expect_refused(name, part, ExternalElements::refused);
    expect_refused(name, "data.allow_external = true", ExternalElements::refused);
  }

  test::ScratchFolder folder_;
  fs::path main_ = folder_.file("main.h5");
};

TEST_F(Elements, ThatWereNeverWrittenAreNoData) {
  test::write_empty_hdf5(main_, "none", {8}, {2});
  expect_refused("none", "has 0 of 4 chunks: the others were never written");
  make("contiguous", H5Pcreate(H5P_DATASET_CREATE));
  expect_refused("contiguous", "was never written");
  for (const bool compressed : {false, true}) {
    const std::string name = compressed ? "deflated" : "plain";
    test::write_hdf5(main_, name, {8}, Numbers(8), {.chunk = {3}, .compressed = compressed});
    EXPECT_EQ(read(name), Numbers(8));
  }
  const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
  const hsize_t piece = 3, begin = 3;
  H5Pset_chunk(creation, 1, &piece);
  make("one", creation);
  const hid_t file = H5Fopen(main_.c_str(), H5F_ACC_RDWR, H5P_DEFAULT),
              data = H5Dopen2(file, "one", H5P_DEFAULT), space = H5Dget_space(data),
              memory = H5Screate_simple(1, &piece, nullptr);
  const Numbers some(3);
  H5Sselect_hyperslab(space, H5S_SELECT_SET, &begin, nullptr, &piece, nullptr);
  H5Dwrite(data, H5T_NATIVE_FLOAT, memory, space, H5P_DEFAULT, some.data());
  for (const hid_t id : {memory, space}) H5Sclose(id);
  H5Dclose(data);
  H5Fclose(file);
  expect_refused("one", "has 1 of 3 chunks");
}

TEST_F(Elements, ThatWereNeverWrittenAreAFillValueThatWasChosen) {
  const auto creation = [](bool chunked, float fill) {
    const hid_t made = H5Pcreate(H5P_DATASET_CREATE);
    const hsize_t piece = 3;
    if (chunked) H5Pset_chunk(made, 1, &piece);
    H5Pset_fill_value(made, H5T_NATIVE_FLOAT, &fill);
    return made;
  };
  make("contiguous", creation(false, 7));
  make("chunks", creation(true, 0));  // the default's value, but set explicitly
  EXPECT_EQ(read("contiguous"), Numbers(8, 7));
  EXPECT_EQ(read("chunks"), Numbers(8, 0));

  make("some", creation(true, 7));
  const hsize_t piece = 3, begin = 3;
  const hid_t file = H5Fopen(main_.c_str(), H5F_ACC_RDWR, H5P_DEFAULT),
              data = H5Dopen2(file, "some", H5P_DEFAULT), space = H5Dget_space(data),
              memory = H5Screate_simple(1, &piece, nullptr);
  const Numbers some{1, 2, 3};
  H5Sselect_hyperslab(space, H5S_SELECT_SET, &begin, nullptr, &piece, nullptr);
  H5Dwrite(data, H5T_NATIVE_FLOAT, memory, space, H5P_DEFAULT, some.data());
  for (const hid_t id : {memory, space}) H5Sclose(id);
  H5Dclose(data);

  const hid_t filled = creation(false, 7);
  const hsize_t rows = hsize_t{1} << 40U;
  const hid_t large = H5Screate_simple(1, &rows, nullptr);
  H5Dclose(H5Dcreate2(file, "large", H5T_IEEE_F32LE, large, H5P_DEFAULT, filled, H5P_DEFAULT));
  H5Sclose(large);
  H5Pclose(filled);
  H5Fclose(file);
  EXPECT_EQ(read("some"), (Numbers{7, 7, 7, 1, 2, 3, 7, 7}));
  const hid_t half = creation(false, 5);
  map(half, 4, 4, ".", "some", 8);
  make("half", half);
  EXPECT_EQ(read("half"), (Numbers{5, 5, 5, 5, 7, 7, 7, 1}));
  expect_refused("large", "was never written, and its fill value stands for 4398046511104 bytes");
}

TEST_F(Elements, MoreThanAFileHoldsAreRefusedBeforeTheyAreRead) {
  constexpr std::int64_t rows = std::int64_t{1} << 40U;
  test::write_empty_hdf5(main_, "chunks", {rows}, {1024});
  expect_refused("chunks", "has 0 of 1073741824 chunks");
  test::write_sparse_hdf5(main_, "sparse", {rows / 1024});
  fs::resize_file(main_, 1 << 14);
  const std::string message = refusal("sparse");
  EXPECT_NE(message.find("main.h5"), std::string::npos) << message;
  EXPECT_NE(message.find("fresh copy"), std::string::npos) << message;
}

TEST_F(Elements, OfExternalRawFilesAreReadOnlyWhereThatIsAllowed) {
  const Numbers numbers{8, 7, 6, 5, 4, 3, 2, 1};
  const std::string raw = folder_.file("raw");
  std::ofstream(raw).write(reinterpret_cast<const char*>(numbers.data()), 8 * sizeof(float));
  make_raw("raw", raw);
  expect_external("raw", "has its elements in another file, " + raw);
  EXPECT_EQ(read("raw"), numbers);
  fs::resize_file(raw, 31);
  expect_refused("raw", "has elements in bytes 0 to 32 of " + raw + ", which has 31");
  fs::remove(raw);
  expect_refused("raw", "which is missing");
  make_raw("zero", "/dev/zero");
  expect_external("zero", "/dev/zero");
  expect_refused("zero", "it is a device, not a file");
  make_raw("pipe", pipe());
  expect_external("pipe", "in another file");
  expect_refused("pipe", "it is a pipe, not a file");
}

TEST_F(Elements, OfVirtualDataSetsAreReadOnlyWhereThatIsAllowedAndAllAreThere) {
  const std::string other = folder_.file("other.h5");
  test::write_hdf5(other, "there", {4}, Numbers{5, 6, 7, 8});
  const auto parts = [&](const std::string& file, const std::string& source) {
    const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
    map(creation, 0, 4, ".", "here", 8);
    map(creation, 4, 4, file, source, 4);
    return creation;
  };
  make("whole", parts(other, "there"));
  expect_external("whole", "is virtual: its elements are those of other data sets");
  EXPECT_EQ(read("whole"), (Numbers{1, 2, 3, 4, 5, 6, 7, 8}));
  make("no_file", parts(folder_.file("no.h5"), "there"));
  expect_refused("no_file", "which is missing");
  make("no_set", parts(other, "nothing"));
  expect_refused("no_set", "/nothing is missing");
  make("pipe", parts(pipe(), "there"));
  expect_refused("pipe", "it is a pipe, not a file");
  const hid_t half = H5Pcreate(H5P_DATASET_CREATE);
  map(half, 2, 4, ".", "here", 8);
  make("half", half);
  expect_refused("half", "4 of its 8 elements have no source");
  const hid_t larger = H5Pcreate(H5P_DATASET_CREATE);
  map(larger, 0, 8, other, "there", 8);
  make("larger", larger);
  expect_refused("larger", "lacks elements that it refers to");
  const hid_t shorter = H5Pcreate(H5P_DATASET_CREATE);
  map(shorter, 0, 4, ".", "here", 8);
  map(shorter, 4, 4, other, "there", 6);
  make("shorter", shorter);
  EXPECT_EQ(read("shorter"), (Numbers{1, 2, 3, 4, 5, 6, 7, 8}))
      << "the four that it takes are there";
  const hid_t itself = H5Pcreate(H5P_DATASET_CREATE);
  map(itself, 0, 8, ".", "itself", 8);
  make("itself", itself);
  expect_external("itself", "is virtual");
  expect_refused("itself", "refers to itself");
  test::write_empty_hdf5(other, "empty", {4}, {2});
  make("unwritten", parts(other, "empty"));
  expect_refused("unwritten", "has 0 of 2 chunks");
}

// HDF5 looked for their address in the file with the link.
TEST_F(Elements, BehindALinkToAnotherFileAreReadOnlyWhereThatIsAllowed) {
  const std::string other = folder_.file("other.h5");
  const Numbers numbers{8, 7, 6, 5, 4, 3, 2, 1};
  test::write_hdf5(other, "there", {8}, numbers);
  link("linked", other, "/there");
  expect_external("linked", "is stored in another file");
  EXPECT_EQ(read("linked"), numbers);
  link("pipe", pipe(), "/there");
  EXPECT_NE(refusal("pipe"), "no InputError");
}

}  // namespace
}  // namespace lockstep
