#include <lockstep/io/hdf5.hpp>

#include <gtest/gtest.h>
#include <hdf5.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <lockstep/base/error.hpp>
#include <lockstep/io/file.hpp>
#include <lockstep/io/hdf5_file.hpp>
#include <lockstep/io/hdf5_image.hpp>

namespace lockstep {
namespace {

TEST(Hdf5Check, AFailureIsOneSentenceWithTheCauseAndNothingIsPrinted) {
  testing::internal::CaptureStderr();
  std::string message;
  try {
    const Hdf5Lock lock;
    const Hdf5Handle file(H5Fopen("/nowhere/x.h5", H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose,
                          "open /nowhere/x.h5");
  } catch (const Error& e) {
    message = e.what();
  }
  EXPECT_TRUE(message.starts_with("HDF5 cannot open /nowhere/x.h5: ")) << message;
  EXPECT_NE(message.find("No such file or directory"), std::string::npos) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(Hdf5Lock, LeavesTheErrorPrintingOfOthersAsItWas) {
  H5E_auto2_t before = nullptr, after = nullptr;
  void *context_before = nullptr, *context_after = nullptr;
  H5Eget_auto2(H5E_DEFAULT, &before, &context_before);
  {
    const Hdf5Lock outer;
    const Hdf5Lock inner;
    H5Eget_auto2(H5E_DEFAULT, &after, &context_after);
    EXPECT_EQ(after, nullptr);
  }
  H5Eget_auto2(H5E_DEFAULT, &after, &context_after);
  EXPECT_NE(before, nullptr);
  EXPECT_EQ(after, before);
  EXPECT_EQ(context_after, context_before);
}

TEST(Hdf5Lock, LetsThreadsUseHdf5OneAtATime) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 200; ++i) {
        const Hdf5Lock lock;
        const Hdf5Handle type(H5Tcopy(H5T_IEEE_F32LE), H5Tclose, "copy a type");
        EXPECT_EQ(H5Tget_size(type.id()), 4U);
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST(Hdf5Handle, ClosesWithItsOwnerAndNotTwice) {
  const Hdf5Lock lock;
  Hdf5Id id = -1;
  {
    Hdf5Handle first(H5Tcopy(H5T_IEEE_F32LE), H5Tclose, "copy a type");
    id = first.id();
    const Hdf5Handle second(std::move(first));
    EXPECT_EQ(H5Iis_valid(id), 1);
    EXPECT_EQ(second.id(), id);
  }
  EXPECT_EQ(H5Iis_valid(id), 0);
}

/// A group's table of names at the undefined address: plain HDF5 1.10 crashes on it.
TEST(OpenHdf5ForReading, ADamagedAddressIsAnErrorAndNotTheEnd) {
  const Hdf5Lock lock;
  const auto path = std::filesystem::path(testing::TempDir()) /
                    ("lockstep-hdf5-address-" + std::to_string(::getpid()) + ".h5");
  {
    const Hdf5Handle file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT),
                          H5Fclose, "create");
    const Hdf5Handle group(H5Gcreate2(file.id(), "a", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                           H5Gclose, "create");
  }
  const auto has_group = [&] {
    const Hdf5Handle file = open_hdf5_for_reading(path);
    const hid_t group = H5Gopen2(file.id(), "a", H5P_DEFAULT);
    if (group >= 0) H5Gclose(group);
    return group >= 0;
  };
  EXPECT_TRUE(has_group());
  {
    // Root's entry in the superblock, and the message of its header, name tree and names.
    constexpr std::int64_t names_in_entry = 88, names_in_header = 128;
    const File file = File::open_for_writing(path);
    std::uint64_t in_entry = 0, in_header = 1;
    const File same = File::open_for_reading(path);
    same.read_at(names_in_entry, &in_entry, sizeof in_entry);
    same.read_at(names_in_header, &in_header, sizeof in_header);
    ASSERT_EQ(in_entry, in_header);
    const std::uint64_t none = ~std::uint64_t{0};
    file.write_at(names_in_header, &none, sizeof none);
  }
  EXPECT_FALSE(has_group());
  std::filesystem::remove(path);
  EXPECT_THROW(static_cast<void>(open_hdf5_for_reading(path)), FileError);
}

/// A data set of 1 TiB is laid out at once with a few pages, at the file's offset.
TEST(Hdf5Image, LaysOutFilesLargerThanMemory) {
  const Hdf5Lock lock;
  Hdf5Image image;
  const Hdf5Handle creation(H5Pcreate(H5P_FILE_CREATE), H5Pclose, "create");
  const Hdf5Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "create");
  Hdf5Handle file = image.create(creation, access);
  const hsize_t extent = hsize_t{1} << 40;
  haddr_t offset = 0;
  {
    const Hdf5Handle space(H5Screate_simple(1, &extent, nullptr), H5Sclose, "create");
    const Hdf5Handle how(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, "create");
    H5Pset_alloc_time(how.id(), H5D_ALLOC_TIME_EARLY);
    H5Pset_fill_time(how.id(), H5D_FILL_TIME_NEVER);
    const Hdf5Handle data(
        H5Dcreate2(file.id(), "a", H5T_STD_U8LE, space.id(), H5P_DEFAULT, how.id(), H5P_DEFAULT),
        H5Dclose, "create");
    offset = H5Dget_offset(data.id());
  }
  file.close("close");
  EXPECT_GE(image.size(), static_cast<std::int64_t>(offset + extent));
  std::string signature(8, ' ');
  image.read_at(0, signature.data(), 8);
  EXPECT_EQ(signature, "\x89HDF\r\n\x1a\n");
  image.read_at(static_cast<std::int64_t>(offset), signature.data(), 8);
  EXPECT_EQ(signature, std::string(8, '\0'));
}

}  // namespace
}  // namespace lockstep
