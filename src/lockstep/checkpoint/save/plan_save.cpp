// The first part of a save: lists the data sets and decides which rank writes which bytes.
#include <algorithm>
#include <cstring>
#include <iterator>
#include <tuple>
#include <utility>

#include <lockstep/base/error.hpp>
#include <lockstep/base/hash.hpp>
#include <lockstep/checkpoint/file/metadata.hpp>
#include <lockstep/checkpoint/save/saving.hpp>

namespace lockstep {
namespace {

template <class T>
PlannedDataset small_dataset(std::string path, const std::vector<T>& elements, const Shape& shape) {
  PlannedDataset planned;
  planned.entry.path = std::move(path);
  planned.entry.dtype = dtype_of<T>;
  planned.entry.shape = shape;
  planned.entry.slabs = cut_slabs(0, planned.entry.bytes());
  planned.local = Tensor::from(elements, shape);
  return planned;
}

/// HDF5 has no string of length 0: an empty text is one zero byte, which the reader drops.
PlannedDataset text_dataset(std::string path, const std::string& text) {
  std::vector<std::uint8_t> bytes(text.begin(), text.end());
  if (bytes.empty()) bytes.push_back(0);
  const auto count = static_cast<std::int64_t>(bytes.size());
  auto planned = small_dataset(std::move(path), bytes, Shape{count});
  planned.entry.text = true;
  return planned;
}

/// Data sets written by rank 0 alone. Their slabs' owner is 0.
std::vector<PlannedDataset> plan_rest(const ProcessGroup& group,
                                      const CheckpointContents& contents) {
  std::vector<PlannedDataset> rest;
  const auto number = [&](const std::string& name, std::int64_t value) {
    rest.push_back(small_dataset("/train/" + name, std::vector{value}, Shape{}));
  };
  const TrainState& train = contents.train;
  number("step", train.step);
  number("epoch", train.epoch);
  number("position", train.position);
  number("seed", train.seed);
  for (const auto& [name, value] : train.counts) number("counts/" + name, value);
  for (const auto& [name, value] : train.sums)
    rest.push_back(small_dataset("/train/sums/" + name, std::vector{value}, Shape{}));
  for (const auto& [name, value] : train.metrics)
    rest.push_back(small_dataset("/train/metrics/" + name, std::vector{value}, Shape{}));
  rest.push_back(text_dataset("/deck", contents.deck));
  rest.push_back(
      text_dataset("/deck_hash", to_hex(hash64(contents.deck.data(), contents.deck.size()))));
  if (contents.signature.is_known())
    rest.push_back(text_dataset("/signature", contents.signature.to_text()));
  const auto writer = describe_writer(group);
  for (const auto& [key, value] : writer) rest.push_back(text_dataset("/metadata/" + key, value));
  for (const auto& [key, value] : contents.metadata) {  // in a resumed run also the old writer's
    if (std::ranges::find(writer, key, &Metadata::value_type::first) == writer.end())
      rest.push_back(text_dataset("/metadata/" + key, value));
  }
  for (const auto& planned : rest) check_name(planned.entry.path.substr(1));
  return rest;
}

/// A small data set, on its way to the other ranks.
struct SentDataset {
  std::string path, bytes;
  DType dtype = DType::u8;
  bool text = false;
  std::vector<std::int64_t> shape;

  static auto fields(auto& self) {
    return std::tie(self.path, self.bytes, self.dtype, self.text, self.shape);
  }
};

SentDataset sent(const PlannedDataset& planned) {
  const Shape& shape = planned.entry.shape;
  return {.path = planned.entry.path,
          .bytes = {static_cast<const char*>(planned.local.data()), planned.local.bytes()},
          .dtype = planned.entry.dtype,
          .text = planned.entry.text,
          .shape = {shape.begin(), shape.end()}};
}

PlannedDataset received(const SentDataset& sent) {
  PlannedDataset planned;
  planned.entry.path = sent.path;
  planned.entry.dtype = sent.dtype;
  planned.entry.text = sent.text;
  planned.entry.shape = Shape(sent.shape);
  planned.entry.slabs = cut_slabs(0, planned.entry.bytes());
  planned.local = Tensor::empty(planned.entry.shape, sent.dtype);
  std::memcpy(planned.local.data(), sent.bytes.data(), sent.bytes.size());
  return planned;
}

}  // namespace

void share_rest(ProcessGroup& group, SavePlan& plan) {
  const auto rest = agree(group, 0, [&] {
    std::vector<SentDataset> all;
    std::transform(plan.datasets.begin() + static_cast<std::ptrdiff_t>(plan.of_state),
                   plan.datasets.end(), std::back_inserter(all), sent);
    return all;
  });
  if (group.rank() == 0) return;
  std::ranges::transform(rest, std::back_inserter(plan.datasets), received);
  for (const SentDataset& each : rest) plan.bytes += static_cast<std::int64_t>(each.bytes.size());
}

SavePlan plan_save(ProcessGroup& group, const std::filesystem::path& path,
                   const CheckpointContents& contents, Compression compression) {
  SavePlan plan{.path = path,
                .datasets = plan_state(group, contents.model, contents.optimizer, compression),
                .of_state = 0,
                .bytes = 0,
                .compression = compression};
  plan.of_state = plan.datasets.size();
  const auto plan_own = [&] {
    std::ranges::move(plan_rest(group, contents), std::back_inserter(plan.datasets));
  };
  agree(group, 0, plan_own, refuse_with(not_written(path)));
  for (const auto& planned : plan.datasets) plan.bytes += planned.entry.bytes();
  return plan;
}

}  // namespace lockstep
