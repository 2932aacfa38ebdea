#include <lockstep/data/synthetic_dataset.hpp>

#include <fmt/format.h>

#include <cmath>
#include <vector>

#include <lockstep/base/error.hpp>
#include <lockstep/base/philox.hpp>

namespace lockstep {
namespace {

constexpr std::int64_t cell_pixels = 4;
constexpr std::int64_t block_bytes = 16;  // numbers of one Philox counter

// The purpose of the numbers, in the counter's last word.
enum Stream : std::uint32_t { pattern_stream, label_stream, noise_stream };

void check(const SyntheticOptions& o) {
  const auto within = [](const char* name, auto value, auto least, auto most) {
    if (!(value >= least && value <= most)) {
      throw InputError(fmt::format("synthetic data: {} is {}; it must be from {} to {}", name,
                                   value, least, most));
    }
  };
  constexpr std::int64_t many = std::int64_t{1} << 31U;
  within("samples", o.samples, std::int64_t{1}, many);
  within("test_samples", o.test_samples, std::int64_t{1}, many);
  within("classes", o.classes, std::int64_t{2}, std::int64_t{256});
  within("image_size", o.image_size, std::int64_t{1}, std::int64_t{4096});
  within("channels", o.channels, std::int64_t{1}, std::int64_t{64});
  within("noise", o.noise, 0.0, 1.0);
}

class Generator {
 public:
  Generator(const SyntheticOptions& options, Split split)
      : philox_(static_cast<std::uint64_t>(options.seed)),
        classes_(static_cast<std::uint64_t>(options.classes)),
        side_(options.image_size),
        channels_(options.channels),
        noise_of_256_(static_cast<std::uint32_t>(std::lround(options.noise * 256))),
        split_(split == Split::train ? 0 : 1) {}

  [[nodiscard]] std::uint8_t label(std::int64_t sample) const {
    const auto word = philox_(0, static_cast<std::uint32_t>(sample), split_, label_stream)[0];
    return static_cast<std::uint8_t>((word * classes_) >> 32U);
  }

  // Integers throughout, so compilers cannot round differently.
  void image(std::int64_t sample, std::vector<std::uint8_t>& pixels) const {
    const std::uint8_t of_class = label(sample);
    Philox::Block block{};
    for (std::int64_t p = 0; p < channels_ * side_ * side_; ++p) {
      const std::int64_t byte = p % block_bytes;
      if (byte == 0) {
        block = philox_(static_cast<std::uint32_t>(p / block_bytes),
                        static_cast<std::uint32_t>(sample), split_, noise_stream);
      }
      const std::uint32_t noise =
          (block[static_cast<std::size_t>(byte / 4)] >> (8 * (byte % 4))) & 255U;
      const std::int64_t row = p / side_;
      const std::uint32_t pattern = white(of_class, row / side_, row % side_, p % side_) ? 255 : 0;
      pixels[static_cast<std::size_t>(p)] = static_cast<std::uint8_t>(
          (pattern * (256 - noise_of_256_) + noise * noise_of_256_) >> 8U);
    }
  }

 private:
  [[nodiscard]] bool white(std::uint8_t of_class, std::int64_t channel, std::int64_t row,
                           std::int64_t column) const {
    const auto y = static_cast<std::uint32_t>(row / cell_pixels);
    const auto x = static_cast<std::uint32_t>(column / cell_pixels);
    const auto pattern = of_class + (static_cast<std::uint32_t>(channel) << 8U);
    return (philox_(x, y, pattern, pattern_stream)[0] & 1U) != 0;
  }

  Philox philox_;
  std::uint64_t classes_;
  std::int64_t side_, channels_;
  std::uint32_t noise_of_256_;
  std::uint32_t split_;
};

}  // namespace

std::shared_ptr<const TensorDataset> make_synthetic(const SyntheticOptions& options, Split split,
                                                    const Normalisation& normalisation) {
  check(options);
  const std::int64_t n = split == Split::train ? options.samples : options.test_samples;
  const std::int64_t side = options.image_size;
  const Generator generator(options, split);
  Tensor images = Tensor::empty({n, options.channels, side, side}, DType::u8);
  std::vector<std::uint8_t> labels(static_cast<std::size_t>(n));
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(options.channels * side * side));
  for (std::int64_t i = 0; i < n; ++i) {
    labels[static_cast<std::size_t>(i)] = generator.label(i);
    generator.image(i, pixels);
    images.slice(i, i + 1).copy_from_host(std::span<const std::uint8_t>(pixels));
  }
  return std::make_shared<const TensorDataset>(images, Tensor::from(labels, {n}), options.classes,
                                               normalisation, "synthetic data");
}

}  // namespace lockstep
