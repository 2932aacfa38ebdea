#include <lockstep/data/images/resize.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include <lockstep/base/philox.hpp>
#include <lockstep/data/images/image_options.hpp>

namespace lockstep {
namespace {

/// The source pixels that one pixel of the result is made of, and their weights, whose sum is 1.
struct Taps {
  std::int64_t first = 0;
  std::vector<double> weights;
};

/// Of `wanted` pixels from `begin` on of `from` pixels that are resized to `to`.
std::vector<Taps> taps_of(std::int64_t from, std::int64_t to, std::int64_t begin,
                          std::int64_t wanted) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double support = std::max(scale, 1.0);
  std::vector<Taps> all(static_cast<std::size_t>(wanted));
  for (std::int64_t i = 0; i < wanted; ++i) {
    const double center = scale * (static_cast<double>(begin + i) + 0.5);
    // As PIL and PyTorch round: halves go up.
    const double left = std::floor(center - support + 0.5);
    const double right = std::floor(center + support + 0.5);
    const auto first = static_cast<std::int64_t>(std::max(left, 0.0));
    const auto end = std::min(static_cast<std::int64_t>(right), from);
    Taps& taps = all[static_cast<std::size_t>(i)];
    taps.first = first;
    double sum = 0;
    for (std::int64_t j = first; j < end; ++j) {
      const double distance = std::abs((static_cast<double>(j) + 0.5 - center) / support);
      taps.weights.push_back(std::max(1.0 - distance, 0.0));
      sum += taps.weights.back();
    }
    for (double& weight : taps.weights) weight /= sum;
  }
  return all;
}

}  // namespace

ImageCut center_cut(std::int64_t height, std::int64_t width, std::int64_t shorter,
                    std::int64_t size) {
  const std::int64_t least = std::min(height, width);
  ImageCut cut{.source = {0, 0, height, width},
               .height = shorter * height / least,
               .width = shorter * width / least,
               .window = {0, 0, size, size}};
  // Python's round(): halves go to the even number.
  const auto middle = [&](std::int64_t all) {
    return static_cast<std::int64_t>(std::nearbyint(static_cast<double>(all - size) / 2));
  };
  cut.window.top = middle(cut.height);
  cut.window.left = middle(cut.width);
  return cut;
}

ImageCut RandomCut::operator()(std::int64_t height, std::int64_t width, std::int64_t size,
                               std::int64_t sample, std::int64_t epoch) const {
  // Sets it apart from other consumers of the seed: "CUT" and the number of the try.
  constexpr std::uint32_t stream = 0x43555400;
  constexpr std::uint32_t tries = 10;
  const auto number = static_cast<std::uint64_t>(sample);
  const double area = static_cast<double>(height) * static_cast<double>(width);
  ImageCut cut{.source = {}, .height = size, .width = size, .window = {0, 0, size, size}};
  for (std::uint32_t t = 0; t < tries; ++t) {
    const Philox::Block words =
        Philox(seed)(static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(number >> 32U),
                     static_cast<std::uint32_t>(epoch), stream + t);
    const auto between = [](double least, double most, std::uint32_t word) {
      return least + (most - least) * static_cast<double>(Philox::uniform(word));
    };
    const double wanted = area * between(scale[0], scale[1], words[0]);
    const double aspect = std::exp(between(std::log(ratio[0]), std::log(ratio[1]), words[1]));
    const auto w = static_cast<std::int64_t>(std::nearbyint(std::sqrt(wanted * aspect)));
    const auto h = static_cast<std::int64_t>(std::nearbyint(std::sqrt(wanted / aspect)));
    if (w < 1 || w > width || h < 1 || h > height) continue;
    const auto place = [](std::int64_t room, std::uint32_t word) {
      return static_cast<std::int64_t>(
          (std::uint64_t{word} * static_cast<std::uint64_t>(room + 1)) >> 32U);
    };
    cut.source = {place(height - h, words[2]), place(width - w, words[3]), h, w};
    return cut;
  }
  // The greatest box in the centre whose ratio is allowed.
  const double aspect = static_cast<double>(width) / static_cast<double>(height);
  std::int64_t w = width, h = height;
  const auto rounded = [](double x) {
    return std::max(static_cast<std::int64_t>(std::nearbyint(x)), std::int64_t{1});
  };
  if (aspect < ratio[0]) h = std::min(rounded(static_cast<double>(w) / ratio[0]), height);
  if (aspect > ratio[1]) w = std::min(rounded(static_cast<double>(h) * ratio[1]), width);
  cut.source = {(height - h) / 2, (width - w) / 2, h, w};
  return cut;
}

void cut_image(const Image& image, const ImageCut& cut, std::span<float> out) {
  const auto& [source, to_height, to_width, window] = cut;
  const auto across = taps_of(source.width, to_width, window.left, window.width);
  const auto down = taps_of(source.height, to_height, window.top, window.height);
  const std::int64_t first_row = down.front().first;
  const std::int64_t rows = down.back().first + std::ssize(down.back().weights) - first_row;
  const auto width = static_cast<std::size_t>(window.width);
  const auto channels = static_cast<std::size_t>(image.channels);
  std::vector<float> narrowed(static_cast<std::size_t>(rows) * width);
  for (std::size_t c = 0; c < channels; ++c) {
    for (std::int64_t y = 0; y < rows; ++y) {
      const auto start = static_cast<std::size_t>(
          ((source.top + first_row + y) * image.width + source.left) * image.channels);
      for (std::size_t x = 0; x < width; ++x) {
        const std::uint8_t* pixel =
            &image.pixels[start + static_cast<std::size_t>(across[x].first) * channels + c];
        double sum = 0;
        for (std::size_t k = 0; k < across[x].weights.size(); ++k)
          sum += across[x].weights[k] * pixel[k * channels];
        narrowed[static_cast<std::size_t>(y) * width + x] = static_cast<float>(sum);
      }
    }
    for (std::size_t y = 0; y < down.size(); ++y) {
      const float* row = &narrowed[static_cast<std::size_t>(down[y].first - first_row) * width];
      for (std::size_t x = 0; x < width; ++x) {
        double sum = 0;
        for (std::size_t k = 0; k < down[y].weights.size(); ++k)
          sum += down[y].weights[k] * static_cast<double>(row[k * width + x]);
        out[(c * down.size() + y) * width + x] = static_cast<float>(sum);
      }
    }
  }
}

}  // namespace lockstep
