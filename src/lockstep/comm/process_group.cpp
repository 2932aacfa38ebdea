#include <lockstep/comm/process_group.hpp>

#include <algorithm>
#include <span>

namespace lockstep {
namespace {

std::span<const std::uint8_t> as_bytes(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

std::string as_string(const Tensor& bytes) {
  const auto elements = bytes.to_vector<std::uint8_t>();
  return {elements.begin(), elements.end()};
}

std::int64_t length_of(const std::string& bytes) { return static_cast<std::int64_t>(bytes.size()); }

}  // namespace

std::string broadcast_object(ProcessGroup& group, const std::string& bytes, int root) {
  const auto length = Tensor::full({}, static_cast<double>(bytes.size()), DType::i64);
  group.broadcast(length, root).wait();
  const auto payload = Tensor::empty({static_cast<std::int64_t>(length.item())}, DType::u8);
  if (group.rank() == root) payload.copy_from_host(as_bytes(bytes));
  group.broadcast(payload, root).wait();
  return as_string(payload);
}

std::vector<std::string> all_gather_object(ProcessGroup& group, const std::string& bytes) {
  const auto length = Tensor::full({}, static_cast<double>(bytes.size()), DType::i64);
  const auto all_lengths = Tensor::empty({group.size()}, DType::i64);
  group.all_gather(length, all_lengths).wait();
  const auto lengths = all_lengths.to_vector<std::int64_t>();
  const std::int64_t longest = *std::max_element(lengths.begin(), lengths.end());

  // One row a rank, padded to the longest.
  const auto mine = Tensor::zeros({longest}, DType::u8);
  if (!bytes.empty()) mine.slice(0, length_of(bytes)).copy_from_host(as_bytes(bytes));
  const auto rows = Tensor::empty({group.size(), longest}, DType::u8);
  group.all_gather(mine, rows).wait();

  std::vector<std::string> objects;
  objects.reserve(lengths.size());
  for (int r = 0; r < group.size(); ++r) {
    const auto row = rows.slice(r, r + 1).reshape({longest});
    objects.push_back(as_string(row.slice(0, lengths[static_cast<std::size_t>(r)])));
  }
  return objects;
}

double all_reduce_scalar(ProcessGroup& group, double value, ReduceOp op) {
  const auto t = Tensor::full({}, value, DType::f64);
  group.all_reduce(t, op).wait();
  return t.item();
}

}  // namespace lockstep
