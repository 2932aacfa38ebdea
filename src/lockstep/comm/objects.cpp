#include <lockstep/comm/objects.hpp>

#include <fmt/format.h>

#include <numeric>
#include <span>

#include <lockstep/base/error.hpp>

namespace lockstep {
namespace {

using Counts = std::vector<std::int64_t>;

Tensor as_tensor(const std::string& bytes) {
  auto t = Tensor::empty({static_cast<std::int64_t>(bytes.size())}, DType::u8);
  t.copy_from_host(std::span(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()));
  return t;
}

std::string as_string(const Tensor& bytes) {
  const auto elements = bytes.to_vector<std::uint8_t>();
  return {elements.begin(), elements.end()};
}

Tensor length_of(const std::string& bytes) {
  return Tensor::from(Counts{static_cast<std::int64_t>(bytes.size())}, {});
}

std::int64_t total(const Counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

void wait_for(Work& work) { work.wait(); }

Counts all_lengths(ProcessGroup& group, const std::string& bytes,
                   const std::function<void(Work&)>& wait) {
  const auto lengths = Tensor::empty({group.size()}, DType::i64);
  Work work = group.all_gather(length_of(bytes), lengths);
  wait(work);
  return lengths.to_vector<std::int64_t>();
}

/// The strings that stand in `all` one after the other.
std::vector<std::string> cut(const Tensor& all, const Counts& lengths) {
  std::vector<std::string> objects;
  objects.reserve(lengths.size());
  std::int64_t begin = 0;
  for (const std::int64_t length : lengths) {
    objects.push_back(as_string(all.slice(begin, begin + length)));
    begin += length;
  }
  return objects;
}

}  // namespace

std::string broadcast_object(ProcessGroup& group, const std::string& bytes, int root) {
  const auto length = length_of(bytes);
  group.broadcast(length, root).wait();
  const auto roots_length = length.to_vector<std::int64_t>()[0];
  // Not empty where it need not be: on a rank whose others are imagined, its own come back.
  const auto payload = roots_length == static_cast<std::int64_t>(bytes.size())
                           ? as_tensor(bytes)
                           : Tensor::empty({roots_length}, DType::u8);
  group.broadcast(payload, root).wait();
  return as_string(payload);
}

std::vector<std::string> all_gather_object(ProcessGroup& group, const std::string& bytes) {
  return all_gather_object(group, bytes, wait_for);
}

std::vector<std::string> all_gather_object(ProcessGroup& group, const std::string& bytes,
                                           const std::function<void(Work&)>& wait) {
  const Counts lengths = all_lengths(group, bytes, wait);
  const auto all = Tensor::empty({total(lengths)}, DType::u8);
  Work work = group.all_gather_v(as_tensor(bytes), all, lengths);
  wait(work);
  return cut(all, lengths);
}

std::vector<std::string> gather_object(ProcessGroup& group, const std::string& bytes, int root) {
  const Counts lengths = all_lengths(group, bytes, wait_for);
  const bool gets = group.rank() == root;
  const auto all = gets ? Tensor::empty({total(lengths)}, DType::u8) : Tensor();
  group.gather_v(as_tensor(bytes), all, lengths, root).wait();
  return gets ? cut(all, lengths) : std::vector<std::string>();
}

std::string scatter_object(ProcessGroup& group, const std::vector<std::string>& objects, int root) {
  const auto size = static_cast<std::size_t>(group.size());
  const auto lengths = Tensor::full({group.size()}, -1, DType::i64);
  std::string joined;
  if (group.rank() == root && objects.size() == size) {
    Counts counts;
    for (const auto& object : objects) {
      counts.push_back(static_cast<std::int64_t>(object.size()));
      joined += object;
    }
    lengths.copy_from_host(std::span<const std::int64_t>(counts));
  }
  group.broadcast(lengths, root).wait();
  const auto counts = lengths.to_vector<std::int64_t>();
  if (counts[0] < 0) {
    throw InputError(fmt::format("scatter_object: rank {} must bring one object a rank, {} of them",
                                 root, size));
  }
  const auto mine = Tensor::empty({counts[static_cast<std::size_t>(group.rank())]}, DType::u8);
  group.scatter_v(group.rank() == root ? as_tensor(joined) : Tensor(), mine, counts, root).wait();
  return as_string(mine);
}

double all_reduce_scalar(ProcessGroup& group, double value, ReduceOp op) {
  const auto t = Tensor::full({}, value, DType::f64);
  group.all_reduce(t, op).wait();
  return t.item();
}

}  // namespace lockstep
