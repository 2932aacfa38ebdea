#pragma once
#include <checkpoint/sample.hpp>

namespace lockstep::test {

/// `count` elements of `dtype` with distinct bytes, all finite.
inline Tensor elements_of(DType dtype, std::int64_t count) {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(count) * size_of(dtype));
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::uint8_t>(dtype == DType::boolean ? i % 2 : 1 + i % 60);
  const Tensor raw = Tensor::from(bytes, {static_cast<std::int64_t>(bytes.size())});
  return Tensor::over(raw.storage(), 0, {count}, dtype);
}

/// Contents of format-N.h5 in tests/checkpoint/kept: must never change.
inline CheckpointContents kept_contents(int format, int rank = 0, int ranks = 1) {
  CheckpointContents contents;
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16, DType::i32, DType::i64,
                            DType::u8, DType::boolean})
    contents.model.insert("of." + std::string(name_of(dtype)), elements_of(dtype, 5));
  contents.model.insert("conv.weight", pattern({4, 3, 2, 2}, 1));
  contents.model.insert("scalar", Tensor::full({}, 1234567, DType::i64));
  contents.model.insert("empty", Tensor::zeros({0, 3}));
  const auto [rows, placement] = shard(pattern({7, 3}, 3), rank, ranks);
  contents.model.insert("table", rows, placement);
  if (format >= 2) {
    const auto [part, slab] = part_of(pattern({7, 5}, 5), columns({7, 5}, rank, ranks));
    contents.model.insert("columns", part, slab);
  }
  const auto metrics = format >= 2
                           ? std::vector<std::pair<std::string, double>>{{"accuracy", 0.875}}
                           : std::vector<std::pair<std::string, double>>{};
  contents.optimizer.insert("conv.weight/momentum_buffer", pattern({4, 3, 2, 2}, 4));
  contents.optimizer.insert("conv.weight/step", Tensor::full({}, 17, DType::i64));
  contents.train = {938, 2, 17, 1234, {{"loss.0", 0.1 + 0.2}}, {{"batch_size", 128}}, metrics};
  contents.deck = "[train]\nepochs = 2\n";
  contents.metadata = {{"onednn", "2.6.3"}, {"empty", ""}};
  if (format >= 3) {
    contents.signature = {
        .input = {"image", DType::f32, {3, 8, 8}, 255, {0.25, 0.5, 1.0 / 3}, {1, 2, 0.1}},
        .output = {"class", DType::f32, {2}},
        .kind = ModelSignature::Output::log_probabilities,
        .class_names = {"cat", "dog \"Rex\""}};
  }
  if (format >= 4) {  // compressed, the second in padded chunks; the rest is too small
    contents.model.insert("wide", pattern({64, 260}, 7));
    contents.model.insert("long", Tensor::full({3, 1401, 1000}, 0.5));
  }
  return contents;
}

}  // namespace lockstep::test
