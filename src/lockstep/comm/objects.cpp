#include <lockstep/comm/objects.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <string_view>

#include <lockstep/base/error.hpp>
#include <lockstep/comm/agreed_error.hpp>

namespace lockstep {
namespace {

using Counts = std::vector<std::int64_t>;

/// Describes an object to the other ranks: its length in bytes, or ~ the length of the error
/// message.
std::int64_t mark_of(const ObjectBytes& object) {
  const auto length = static_cast<std::int64_t>(object.bytes.size());
  return object.failed ? ~length : length;
}

bool says_failed(std::int64_t mark) { return mark < 0; }
std::int64_t length_in(std::int64_t mark) { return says_failed(mark) ? ~mark : mark; }

Tensor as_tensor(std::string_view bytes) {
  auto t = Tensor::empty({static_cast<std::int64_t>(bytes.size())}, DType::u8);
  t.copy_from_host(std::span(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()));
  return t;
}

std::string as_string(const Tensor& bytes) {
  const auto elements = bytes.to_vector<std::uint8_t>();
  return {elements.begin(), elements.end()};
}

std::int64_t total(const Counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

using Wait = std::function<void(Work&)>;

[[noreturn]] void refuse(const ProcessGroup& group, int rank, const std::string& reason) {
  AgreedFailure failure{{.message = reason, .code = ExitCode::bad_input, .rank = rank}};
  failure.ranks = group.size();
  const std::string who = fmt::format("rank {} of {}", rank, group.size());
  throw Agreed<InputError>(failure, cannot_send_object(who, reason));
}

/// Splits `all` into strings of these lengths.
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

std::vector<std::string> gather_everywhere(ProcessGroup& group, std::string_view mine,
                                           const Counts& lengths, const Wait& wait) {
  const auto all = Tensor::empty({total(lengths)}, DType::u8);
  Work work = group.all_gather_v(as_tensor(mine), all, lengths);
  wait(work);
  return cut(all, lengths);
}

/// The length of every rank's bytes. If a rank has none, all ranks exchange the reasons and throw.
Counts all_lengths(ProcessGroup& group, const ObjectBytes& mine, const Wait& wait) {
  const auto marks = Tensor::empty({group.size()}, DType::i64);
  Work work = group.all_gather(Tensor::from(Counts{mark_of(mine)}, {}), marks);
  wait(work);
  Counts lengths = marks.to_vector<std::int64_t>();
  const auto failed = std::ranges::find_if(lengths, says_failed);
  if (failed == lengths.end()) return lengths;

  const auto rank = static_cast<std::size_t>(failed - lengths.begin());
  for (std::int64_t& mark : lengths) mark = says_failed(mark) ? length_in(mark) : 0;
  const auto reasons =
      gather_everywhere(group, mine.failed ? mine.bytes : std::string_view(), lengths, wait);
  refuse(group, static_cast<int>(rank), reasons[rank]);
}

}  // namespace

std::string cannot_send_object(const std::string& who, const std::string& reason) {
  return who + " cannot send its object: " + shortened(reason);
}

std::string broadcast_object(ProcessGroup& group, const ObjectBytes& object, int root) {
  const auto mark = Tensor::from(Counts{mark_of(object)}, {});
  group.broadcast(mark, root).wait();
  const auto roots_mark = mark.to_vector<std::int64_t>()[0];
  // On a rank that does not need it, it holds that rank's own object: a fake group returns it
  // unchanged.
  const auto payload = roots_mark == mark_of(object)
                           ? as_tensor(object.bytes)
                           : Tensor::empty({length_in(roots_mark)}, DType::u8);
  group.broadcast(payload, root).wait();
  if (says_failed(roots_mark)) refuse(group, root, as_string(payload));
  return as_string(payload);
}

std::vector<std::string> all_gather_object(ProcessGroup& group, const ObjectBytes& object,
                                           const Wait& wait) {
  const Counts lengths = all_lengths(group, object, wait);
  return gather_everywhere(group, object.bytes, lengths, wait);
}

std::vector<std::string> gather_object(ProcessGroup& group, const ObjectBytes& object, int root) {
  const Counts lengths = all_lengths(group, object, [](Work& work) { work.wait(); });
  const bool gets = group.rank() == root;
  const auto all = gets ? Tensor::empty({total(lengths)}, DType::u8) : Tensor();
  group.gather_v(as_tensor(object.bytes), all, lengths, root).wait();
  return gets ? cut(all, lengths) : std::vector<std::string>();
}

std::string scatter_object(ProcessGroup& group, const std::vector<std::string>& objects, int root) {
  return scatter_object(group, std::vector<ObjectBytes>(objects.begin(), objects.end()), root);
}

std::string scatter_object(ProcessGroup& group, const std::vector<ObjectBytes>& objects, int root) {
  const auto size = static_cast<std::size_t>(group.size());
  const auto marks = Tensor::full({group.size()}, -1, DType::i64);
  const bool gives = group.rank() == root;
  std::string joined;
  ObjectBytes none = ObjectBytes::none("");  // where the root failed
  if (gives) {
    Counts lengths;
    for (const ObjectBytes& object : objects) {
      lengths.push_back(static_cast<std::int64_t>(object.bytes.size()));
      joined += object.bytes;
    }
    const auto failed = std::ranges::find_if(objects, &ObjectBytes::failed);
    if (failed != objects.end()) {
      none = *failed;
    } else if (objects.size() != size) {
      none.bytes = fmt::format("scatter_object takes one object a rank, {} of them, not {}", size,
                               objects.size());
    }
    if (failed != objects.end() || objects.size() != size) lengths.assign(size, -1);
    marks.copy_from_host(std::span<const std::int64_t>(lengths));
  }
  group.broadcast(marks, root).wait();
  const auto lengths = marks.to_vector<std::int64_t>();
  if (says_failed(lengths[0])) return broadcast_object(group, none, root);  // which throws
  const auto mine = Tensor::empty({lengths[static_cast<std::size_t>(group.rank())]}, DType::u8);
  group.scatter_v(gives ? as_tensor(joined) : Tensor(), mine, lengths, root).wait();
  return as_string(mine);
}

double all_reduce_scalar(ProcessGroup& group, double value, ReduceOp op) {
  const auto t = Tensor::full({}, value, DType::f64);
  group.all_reduce(t, op).wait();
  return t.item();
}

}  // namespace lockstep
