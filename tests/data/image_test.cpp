#include <lockstep/data/images/image.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include <gtest/gtest.h>
#include <data/idx_files.hpp>
#include <data/image_files.hpp>

#include <lockstep/data/images/image_options.hpp>
#include <lockstep/data/images/resize.hpp>

#include <support/golden_file.hpp>

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using test::Bytes;
using test::input_error;
using test::PngForm;
using test::says;
using test::write_jpeg;
using test::write_png;

const Bytes colours = test::counting(5 * 3 * 3);

TEST(Image, PngBytesComeBackAsTheyWereWritten) {
  const test::TemporaryFolder folder;
  const fs::path file = folder.path() / "a.png";
  for (const bool interlaced : {false, true}) {
    write_png(file, 5, 3, colours, {.interlaced = interlaced});
    const Image image = read_image(file, 3);
    EXPECT_EQ(image.height, 5);
    EXPECT_EQ(image.width, 3);
    EXPECT_EQ(image.channels, 3);
    EXPECT_EQ(image.pixels, colours);
  }
  const Bytes grey = test::counting(15);
  write_png(file, 5, 3, grey, {.color_type = 0});
  EXPECT_EQ(read_image(file, 1).pixels, grey);
}

TEST(Image, GreyAndColourBecomeEachOtherAsPilConvertsThem) {
  const test::TemporaryFolder folder;
  const fs::path file = folder.path() / "a.PNG";
  write_png(file, 1, 2, {7, 200}, {.color_type = 0});
  EXPECT_EQ(read_image(file, 3).pixels, (Bytes{7, 7, 7, 200, 200, 200}));
  write_png(file, 1, 4, {255, 0, 0, 0, 255, 0, 0, 0, 255, 255, 255, 255});
  EXPECT_EQ(read_image(file, 1).pixels, (Bytes{76, 150, 29, 255}));
}

TEST(Image, PalettesSixteenBitsAndAlphaBecomeBytesOfColour) {
  const test::TemporaryFolder folder;
  const fs::path file = folder.path() / "a.png";
  write_png(file, 1, 3, {1, 0, 1}, {.color_type = 3, .palette = {9, 8, 7, 1, 2, 3}});
  EXPECT_EQ(read_image(file, 3).pixels, (Bytes{1, 2, 3, 9, 8, 7, 1, 2, 3}));
  write_png(file, 1, 2, {200, 255, 3, 1}, {.color_type = 0, .bits = 16});
  EXPECT_EQ(read_image(file, 1).pixels, (Bytes{200, 3}));
  write_png(file, 1, 2, {1, 2, 3, 0, 4, 5, 6, 128}, {.color_type = 6});
  EXPECT_EQ(read_image(file, 3).pixels, (Bytes{1, 2, 3, 4, 5, 6}));
  write_png(file, 1, 2, {10, 0, 20, 255}, {.color_type = 4});
  EXPECT_EQ(read_image(file, 1).pixels, (Bytes{10, 20}));
}

/// The greatest difference between bytes; 256 where there are not as many.
int difference(const Bytes& a, const Bytes& b) {
  int most = a.size() == b.size() ? 0 : 256;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i)
    most = std::max(most, std::abs(int{a[i]} - int{b[i]}));
  return most;
}

TEST(Image, JpegOfQuality100IsWithinItsRounding) {
  const test::TemporaryFolder folder;
  const fs::path file = folder.path() / "a.jpg";
  Bytes slope;
  for (int i = 0; i < 16 * 12; ++i)
    for (const int c : {i, 255 - i, 128}) slope.push_back(static_cast<std::uint8_t>(c));
  write_jpeg(file, 16, 12, 3, slope);
  EXPECT_LE(difference(read_image(file, 3).pixels, slope), 3);
  const Bytes grey = test::counting(16 * 12);
  write_jpeg(file, 16, 12, 1, grey);
  EXPECT_LE(difference(read_image(file, 1).pixels, grey), 1);
}

TEST(Image, CmykJpegOfAdobesBecomesRgb) {
  const test::TemporaryFolder folder;
  const fs::path file = folder.path() / "a.jpeg";
  Bytes inks;  // inverted: 255 is no ink
  for (int i = 0; i < 64; ++i) inks.insert(inks.end(), {255, 100, 0, 128});
  write_jpeg(file, 8, 8, 4, inks);
  const Image image = read_image(file, 3);
  EXPECT_NEAR(image.pixels.at(0), 128, 2);
  EXPECT_NEAR(image.pixels.at(1), 50, 2);
  EXPECT_NEAR(image.pixels.at(2), 0, 2);
}

TEST(Image, DamagedFilesAreRefusedByName) {
  const test::TemporaryFolder folder;
  const fs::path png = folder.path() / "a.png", jpeg = folder.path() / "a.jpg";
  const auto noise = [] {
    Bytes all;
    for (std::uint32_t i = 0; i < 32 * 32 * 3; ++i)
      all.push_back(static_cast<std::uint8_t>((i * 2654435761U) >> 24U));
    return all;
  }();
  write_png(png, 32, 32, noise);
  write_jpeg(jpeg, 32, 32, 3, noise);
  const Bytes whole_png = test::read_file(png), whole_jpeg = test::read_file(jpeg);
  for (const auto& [file, whole] : {std::pair(png, whole_png), std::pair(jpeg, whole_jpeg)}) {
    for (const std::size_t kept : {whole.size() / 2, whole.size() - 2, std::size_t{20}}) {
      folder.write(file.filename().string(), {whole.begin(), whole.begin() + std::ptrdiff_t(kept)});
      const auto message = input_error([&] { return read_image(file, 3); });
      EXPECT_TRUE(says(message, file.string())) << kept;
      EXPECT_TRUE(says(message, "damaged")) << kept;
    }
  }
  Bytes changed = whole_png;
  changed[changed.size() / 2] ^= 1U;
  folder.write("a.png", changed);
  EXPECT_TRUE(says(input_error([&] { return read_image(png, 3); }), "damaged PNG file"));
}

TEST(Image, WhatIsNoImageIsRefused) {
  const test::TemporaryFolder folder;
  const fs::path file = folder.write("a.png", {'G', 'I', 'F', '8'});
  EXPECT_TRUE(says(input_error([&] { return read_image(file, 3); }), "neither PNG nor JPEG"));
  folder.write("a.png", {});
  EXPECT_TRUE(says(input_error([&] { return read_image(file, 3); }), "it is empty"));
  fs::remove(file);
  EXPECT_TRUE(says(input_error([&] { return read_image(file, 3); }), "cannot be opened"));
  const auto too_many = input_error([] {
    detail::expect_pixels(65536, 65536);
    return 0;
  });
  EXPECT_TRUE(says(too_many, "65536 x 65536"));
}

TEST(Image, ResizeGivesPyTorchsNumbers) {
  const test::GoldenFile file("images.h5");
  for (const char* name : {"smaller", "larger", "mixed", "as_it_is"}) {
    const std::string group = std::string("resize.") + name;
    const Tensor pixels = file.tensor(group + "/pixels"), wanted = file.tensor(group + "/out_f64");
    const Image image{pixels.size(0), pixels.size(1), 3, pixels.to_vector<std::uint8_t>()};
    const PixelBox all{0, 0, wanted.size(1), wanted.size(2)};
    std::vector<float> out(static_cast<std::size_t>(wanted.numel()));
    cut_image(image, {{0, 0, image.height, image.width}, all.height, all.width, all}, out);
    const auto numbers = wanted.to_vector<double>();
    for (std::size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(out[i], numbers[i], 1e-4) << name;
  }
}

TEST(Image, AWindowIsCutOutOfTheResizedSource) {
  const Image image{6, 8, 3, test::counting(6 * 8 * 3)};
  std::vector<float> whole(3 * 4 * 5), part(3 * 2 * 3);
  const PixelBox source{1, 2, 5, 4};
  cut_image(image, {source, 4, 5, {0, 0, 4, 5}}, whole);
  cut_image(image, {source, 4, 5, {1, 2, 2, 3}}, part);
  for (std::size_t c = 0; c < 3; ++c)
    for (std::size_t y = 0; y < 2; ++y)
      for (std::size_t x = 0; x < 3; ++x)
        EXPECT_EQ(part[(c * 2 + y) * 3 + x], whole[(c * 4 + y + 1) * 5 + x + 2]);
}

TEST(RandomCut, BoxesAreInTheImageAndOfTheAreasAndRatiosAskedFor) {
  const RandomCut cut{.scale = {0.25, 0.5}, .ratio = {0.5, 2.0}, .seed = 7};
  double least = 1, most = 0;
  for (std::int64_t sample = 0; sample < 500; ++sample) {
    const auto [source, height, width, window] = cut(300, 400, 32, sample, 3);
    EXPECT_EQ(height, 32);
    EXPECT_EQ(window.width, 32);
    EXPECT_GE(source.top, 0);
    EXPECT_GE(source.left, 0);
    EXPECT_LE(source.top + source.height, 300);
    EXPECT_LE(source.left + source.width, 400);
    const double area = double(source.height * source.width) / (300 * 400);
    EXPECT_NEAR(area, 0.375, 0.13);
    EXPECT_NEAR(std::log(double(source.width) / double(source.height)), 0.0, std::log(2.0) + 0.02);
    least = std::min(least, area);
    most = std::max(most, area);
  }
  EXPECT_LT(least, 0.27);
  EXPECT_GT(most, 0.48);
}

TEST(RandomCut, SeedEpochAndSampleDecide) {
  const RandomCut cut{.seed = 7};
  RandomCut other = cut;
  other.seed = 8;
  const auto box = [](const ImageCut& c) {
    return std::vector{c.source.top, c.source.left, c.source.height, c.source.width};
  };
  const auto one = box(cut(300, 400, 32, 5, 1));
  EXPECT_EQ(one, box(cut(300, 400, 32, 5, 1)));
  EXPECT_NE(one, box(cut(300, 400, 32, 6, 1)));
  EXPECT_NE(one, box(cut(300, 400, 32, 5, 2)));
  EXPECT_NE(one, box(other(300, 400, 32, 5, 1)));
}

TEST(RandomCut, OfANarrowImageTheCentreIsTaken) {
  const RandomCut cut{.scale = {1.0, 1.0}};
  const PixelBox box = cut(9, 900, 4, 0, 0).source;
  EXPECT_EQ(box.height, 9);
  EXPECT_EQ(box.width, 12);
  EXPECT_EQ(box.left, 444);
}

TEST(Image, CentreIsCutAsTorchvisionCutsIt) {
  const ImageCut cut = center_cut(500, 333, 256, 224);
  EXPECT_EQ(cut.height, 384);  // int(256 * 500 / 333)
  EXPECT_EQ(cut.width, 256);
  EXPECT_EQ(cut.window.top, 80);
  EXPECT_EQ(cut.window.left, 16);
  EXPECT_EQ(center_cut(9, 9, 9, 8).window.top, 0);     // round(0.5)
  EXPECT_EQ(center_cut(11, 11, 11, 8).window.top, 2);  // round(1.5)
}

}  // namespace
}  // namespace lockstep
