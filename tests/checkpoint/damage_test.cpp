#include <gtest/gtest.h>
#include <hdf5.h>

#include <algorithm>
#include <fstream>

#include <checkpoint/sample.hpp>
#include <lockstep/base/philox.hpp>
#include <lockstep/checkpoint/file/checkpoint_file.hpp>
#include <lockstep/checkpoint/inspect.hpp>
#include <lockstep/io/file.hpp>
#include <lockstep/io/hdf5.hpp>

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using test::checkpoint_error_of;
using test::contains;

/// A good checkpoint of two ranks, fresh for each test.
class DamagedCheckpoint : public testing::Test {
 protected:
  DamagedCheckpoint() : path(test::scratch("damage") / "a.h5") {
    test::save_on_threads(path, 2);
    std::ifstream in(path, std::ios::binary);
    good.assign(std::istreambuf_iterator<char>(in), {});
  }

  /// The same, compressed, in its place.
  void compress() {
    run_ranks_as_threads(2, [&](ProcessGroup& group) {
      CheckpointWriter(Compression::deflate)
          .save(group, path, test::sample(group.rank(), group.size()));
    });
    std::ifstream in(path, std::ios::binary);
    good.assign(std::istreambuf_iterator<char>(in), {});
  }

  void write(const std::string& bytes) const {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  }

  void expect_flips_found() const;

  [[nodiscard]] std::string verdict() const {
    return checkpoint_error_of([&] { verify_checkpoint(path); });
  }

  /// The data set with the byte at `offset` of the file; null for structure and header.
  static const DatasetEntry* dataset_at(const Manifest& manifest, std::int64_t offset) {
    const auto is_in = [offset](std::int64_t begin, std::int64_t bytes) {
      return begin <= offset && offset < begin + bytes;
    };
    const auto at = std::ranges::find_if(manifest.datasets, [&](const DatasetEntry& d) {
      if (!d.is_compressed()) return is_in(d.offset, d.bytes());
      return std::ranges::any_of(
          d.slabs, [&](const Slab& slab) { return is_in(slab.chunk.at, slab.chunk.bytes); });
    });
    return at == manifest.datasets.end() ? nullptr : &*at;
  }

  fs::path path;
  std::string good;
};

/// Every byte has a checksum, even padding and HDF5's gaps, so every flip is detected.
TEST_F(DamagedCheckpoint, AFlippedBitAnywhereIsFoundAndInDataItsDatasetIsNamed) {
  expect_flips_found();
}

TEST_F(DamagedCheckpoint, SoItIsWhereDataIsCompressed) {
  compress();
  EXPECT_TRUE(CheckpointFile(path).manifest().find("/model/fc.weight")->is_compressed());
  expect_flips_found();
}

TEST_F(DamagedCheckpoint, TheSentenceNamesTheElementsOfAChunkThatIsDamaged) {
  compress();
  const Manifest manifest = CheckpointFile(path).manifest();
  const auto& d = *manifest.find("/model/fc.weight");
  ASSERT_EQ(d.slabs.size(), 2U);
  good[static_cast<std::size_t>(d.slabs[1].chunk.at)] ^= 1;
  write(good);
  EXPECT_TRUE(contains(verdict(), "/model/fc.weight, bytes 2400000 to 4799999, does not match"))
      << verdict();
}

void DamagedCheckpoint::expect_flips_found() const {
  const Manifest manifest = CheckpointFile(path).manifest();
  const auto size = static_cast<std::uint32_t>(good.size());
  const auto& deck = *manifest.find("/deck");
  PhiloxSequence random(1, 2);
  std::vector<std::uint32_t> positions;
  for (int i = 0; i < 60; ++i) {
    positions.push_back(random.below(size));                  // mostly the large tensor
    positions.push_back(random.below(Header::bytes));         // header
    positions.push_back(Header::bytes + random.below(4096));  // HDF5's structure, small tensors
    positions.push_back(size - 1 - random.below(8192));       // manifest, small data sets
    positions.push_back(static_cast<std::uint32_t>(deck.offset) +
                        random.below(static_cast<std::uint32_t>(deck.bytes())));
  }
  const File file = File::open_for_writing(path);
  int in_data = 0, elsewhere = 0;
  for (const auto position : positions) {
    const char flipped = static_cast<char>(good[position] ^ (1 << random.below(8)));
    file.write_at(position, &flipped, 1);
    const auto error = verdict();
    EXPECT_TRUE(contains(error, "damaged")) << "byte " << position << ": " << error;
    if (const auto* d = dataset_at(manifest, position)) {
      ++in_data;
      EXPECT_TRUE(contains(error, d->path + ", bytes ")) << "byte " << position << ": " << error;
    } else {
      ++elsewhere;
    }
    file.write_at(position, &good[position], 1);
  }
  EXPECT_EQ(verdict(), "");
  EXPECT_GT(in_data, 100);
  EXPECT_GT(elsewhere, 100);
}

TEST_F(DamagedCheckpoint, TheSentenceNamesFileDatasetBytesAndRemedy) {
  const Manifest manifest = CheckpointFile(path).manifest();
  const auto& d = *manifest.find("/model/fc.weight");
  ASSERT_EQ(d.slabs.size(), 2U);
  const auto at = d.offset + d.slabs[1].begin;
  good[static_cast<std::size_t>(at)] ^= 1;
  write(good);
  EXPECT_EQ(verdict(),
            "checkpoint " + path.string() +
                " is damaged: /model/fc.weight, bytes 4194304 to 4799999, does not match "
                "its checksum. Nothing was loaded. Use another checkpoint: --resume without a "
                "file takes the newest intact one of the run folder");
  EXPECT_EQ(checkpoint_error_of([&] { static_cast<void>(load_checkpoint(path)); }), verdict());
}

TEST_F(DamagedCheckpoint, TruncationAtAnyLengthIsFound) {
  PhiloxSequence random(3, 4);
  std::vector<std::size_t> lengths{0, 1, 8, 511, 512, 513, good.size() - 1};
  for (int i = 0; i < 100; ++i)
    lengths.push_back(random.below(static_cast<std::uint32_t>(good.size())));
  for (int i = 0; i < 50; ++i) lengths.push_back(random.below(20000));
  for (const auto length : lengths) {
    write(good.substr(0, length));
    const auto error = verdict();
    EXPECT_TRUE(contains(error, "was written with") || contains(error, "was cut off"))
        << length << " bytes: " << error;
  }
  write(good + "x");
  EXPECT_TRUE(contains(verdict(), "was written with")) << verdict();
}

TEST_F(DamagedCheckpoint, OtherFilesAreToldApart) {
  write("");
  EXPECT_TRUE(contains(verdict(), "it has only 0 bytes")) << verdict();
  write(std::string(10000, 'x'));
  EXPECT_TRUE(contains(verdict(), "is not a Lockstep checkpoint")) << verdict();
  write(std::string("\x10\x27\0\0\0\0\0\0{", 9) + std::string(10000, ' '));
  EXPECT_TRUE(contains(verdict(), "is a safetensors file")) << verdict();
  write(good.substr(512));
  EXPECT_TRUE(contains(verdict(), "is an HDF5 file, but not a checkpoint")) << verdict();
  fs::remove(path);
  EXPECT_TRUE(contains(verdict(), "No such file or directory")) << verdict();
  fs::create_directory(path);
  EXPECT_TRUE(contains(verdict(), "Is a directory")) << verdict();
}

TEST_F(DamagedCheckpoint, ADatasetRemovedWithHdf5IsNoticed) {
  {
    const Hdf5Lock lock;
    const Hdf5Handle file(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), H5Fclose, "open");
    hdf5_check(H5Ldelete(file.id(), "/model/conv1.bias", H5P_DEFAULT), "delete");
  }
  EXPECT_TRUE(contains(verdict(), "HDF5's own structure")) << verdict();
}

TEST_F(DamagedCheckpoint, ACheckpointOfAnotherModelIsRefusedWithTheDifference) {
  const auto loaded = load_checkpoint(path);
  StateDict other;
  other.insert("conv1.weight", Tensor::full({20, 1, 5, 5}, 7));
  other.insert("fc9.weight", Tensor::full({2}, 7));
  try {
    copy_state(loaded.model, other);
    FAIL() << "another model's state was copied";
  } catch (const Error& e) {
    const std::string error = e.what();
    EXPECT_TRUE(contains(error, "conv1.weight is f32[10, 1, 5, 5]")) << error;
    EXPECT_TRUE(contains(error, "fc9.weight is missing")) << error;
    EXPECT_TRUE(contains(error, "fc.weight is not in the model")) << error;
  }
  EXPECT_EQ(other.at("fc9.weight").to_vector<float>(), (std::vector<float>{7, 7}));
}

TEST_F(DamagedCheckpoint, InspectAndVerifyReportWithExitCodes) {
  auto report = check_checkpoint(path);
  EXPECT_EQ(report.code, ExitCode::done);
  EXPECT_TRUE(contains(report.text, path.string() + ": good (4.6 MiB in ")) << report.text;
  report = inspect_checkpoint(path);
  EXPECT_EQ(report.code, ExitCode::done);
  for (const char* part : {"/train/step", "938", "/model/conv1.weight", "[10, 1, 5, 5]", "f32",
                           "epochs = 2", "/metadata/ranks", "1000"})
    EXPECT_TRUE(contains(report.text, part)) << part << " in\n" << report.text;
  fs::resize_file(path, 1000);
  EXPECT_EQ(check_checkpoint(path).code, ExitCode::checkpoint);
  EXPECT_EQ(inspect_checkpoint(path).code, ExitCode::checkpoint);
  EXPECT_EQ(std::ranges::count(check_checkpoint(path).text, '\n'), 1);
}

}  // namespace
}  // namespace lockstep
