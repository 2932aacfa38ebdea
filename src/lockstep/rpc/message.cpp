#include <lockstep/rpc/message.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <mutex>
#include <utility>

#include <lockstep/base/spin_lock.hpp>
#include <lockstep/comm/process_group.hpp>

namespace lockstep::rpc {
namespace {

static_assert(OutgoingMessage::tags == message_tags - 1);

constexpr std::uint32_t message_magic = 0x4350524c;  // "LRPC"
constexpr std::uint8_t message_version = 2;
constexpr std::size_t alignment = 64;

struct TensorEntry {
  std::uint8_t dtype, dims, layout, is_inline;
  std::uint32_t tag;  ///< of a tensor in a message of its own
  std::int64_t extents[Shape::max_dims];
};
static_assert(sizeof(TensorEntry) == 72);

constexpr std::size_t rounded_up(std::size_t n, std::size_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

[[noreturn]] void refuse(const std::string& why) {
  throw MalformedMessage("a message was refused: " + why);
}

/// The bytes of a tensor of this description. Throws if there can be no such tensor.
std::size_t checked_bytes(const TensorEntry& entry) {
  if (entry.dtype > static_cast<std::uint8_t>(DType::boolean)) refuse("no such dtype");
  if (entry.dims > Shape::max_dims) refuse("a tensor has too many dimensions");
  if (entry.layout > static_cast<std::uint8_t>(Layout::channel_blocks)) refuse("no such layout");
  if (entry.is_inline > 1) refuse("a tensor's location is invalid");
  constexpr auto most = std::numeric_limits<std::int64_t>::max() / 16;
  std::int64_t numel = 1;
  bool empty = false;
  for (int d = 0; d < entry.dims; ++d) {
    const std::int64_t extent = entry.extents[d];
    if (extent < 0) refuse("a tensor has a negative extent");
    empty = empty || extent == 0;
    if (extent != 0 && numel > most / extent) refuse("a tensor is too large");
    if (extent != 0) numel *= extent;
  }
  return empty ? 0 : static_cast<std::size_t>(numel) * size_of(static_cast<DType>(entry.dtype));
}

Shape shape_of(const TensorEntry& entry) {
  return Shape(std::span<const std::int64_t>(entry.extents, entry.dims));
}

Tensor arranged(Tensor tensor, Layout layout) {
  if (layout == Layout::plain) return tensor;
  try {
    return tensor.with_layout(layout);
  } catch (const Error& error) {
    refuse(error.what());
  }
}

/// Reads from front to back, never past the end.
class Reader {
 public:
  Reader(const std::byte* data, std::size_t bytes) : data_(data), rest_(bytes) {}

  [[nodiscard]] std::span<const std::byte> take(std::uint64_t bytes) {
    if (bytes > rest_) refuse("it is shorter than its declared length");
    const auto taken = static_cast<std::size_t>(bytes);
    const std::span<const std::byte> piece(data_, taken);
    data_ += taken;
    rest_ -= taken;
    at_ += taken;
    return piece;
  }
  template <class T>
  void read(T& value) {
    const auto piece = take(sizeof(T));
    std::memcpy(&value, piece.data(), sizeof(T));
  }
  void align(std::size_t multiple) { static_cast<void>(take(rounded_up(at_, multiple) - at_)); }
  [[nodiscard]] std::size_t at() const noexcept { return at_; }
  [[nodiscard]] std::size_t rest() const noexcept { return rest_; }

 private:
  const std::byte* data_;
  std::size_t rest_;
  std::size_t at_ = 0;
};

}  // namespace

std::string text_of(const std::exception_ptr& failure) noexcept {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    const char* const text = error.what();
    return text ? text : "an exception without a text was thrown";
  } catch (...) {
    return "an exception of unknown type was thrown";
  }
}

RemoteError::RemoteError(Where where, std::string text)
    : Error(fmt::format("{} on worker {} (rank {}): {}", where.function, where.worker, where.rank,
                        text)),
      where_(std::move(where)),
      text_(std::move(text)) {}

/// Buffers kept for later messages of any thread, for the life of the process: some messages are
/// sent at its very end.
struct OutgoingMessage::SpareParts {
  SpinLock lock;
  std::vector<std::unique_ptr<Parts>> parts;

  static SpareParts& instance() {
    static auto* spare = new SpareParts;
    return *spare;
  }
};

OutgoingMessage::OutgoingMessage(Kind kind, const Limits& limits) : limits_(limits) {
  head_.kind = kind;
  SpareParts& spare = SpareParts::instance();
  {
    const std::lock_guard lock(spare.lock);
    if (!spare.parts.empty()) {
      parts_ = std::move(spare.parts.back());
      spare.parts.pop_back();
    }
  }
  if (!parts_) parts_ = std::make_unique<Parts>();
  reserve(512);
  size_ = sizeof(Head);
}

OutgoingMessage::~OutgoingMessage() {
  constexpr std::size_t most = 64;
  parts_->tensors.clear();
  parts_->long_ones.clear();
  parts_->references.clear();
  parts_->context.clear();
  SpareParts& spare = SpareParts::instance();
  const std::lock_guard lock(spare.lock);
  if (spare.parts.size() < most) spare.parts.push_back(std::move(parts_));
}

void OutgoingMessage::reserve(std::size_t bytes) {
  if (bytes <= capacity_) return;
  capacity_ = std::max(bytes, 2 * capacity_);
  const Tensor larger = Tensor::empty({static_cast<std::int64_t>(capacity_)}, DType::u8);
  if (size_ > 0) std::memcpy(larger.data(), bytes_, size_);
  buffer_ = larger;
  bytes_ = static_cast<std::byte*>(buffer_.data());
}

void OutgoingMessage::append(const void* data, std::size_t bytes) {
  if (bytes == 0) return;
  reserve(size_ + bytes);
  std::memcpy(bytes_ + size_, data, bytes);
  size_ += bytes;
}

void OutgoingMessage::align(std::size_t multiple) {
  const std::size_t target = rounded_up(size_, multiple);
  reserve(target);
  std::memset(bytes_ + size_, 0, target - size_);
  size_ = target;
}

void OutgoingMessage::write(const void* data, std::size_t bytes) {
  if (size_ + bytes > static_cast<std::size_t>(limits_.message_bytes)) {
    throw InputError(fmt::format(
        "a call's arguments or result take more than {} bytes. Send large data as tensors, "
        "or raise Options::max_message_bytes",
        limits_.message_bytes));
  }
  append(data, bytes);
  head_.payload_bytes += bytes;
}

std::uint32_t OutgoingMessage::add(const Tensor& tensor) {
  if (!tensor.defined()) return nothing;
  const auto index = static_cast<std::uint32_t>(parts_->tensors.size());
  Tensor here = tensor;
  if (tensor.device().type != DeviceType::host) {
    here = arranged(Tensor::empty(tensor.shape(), tensor.dtype()), tensor.layout());
    here.copy_from(tensor);
  }
  parts_->tensors.push_back(std::move(here));
  return index;
}

std::uint32_t OutgoingMessage::add(const ReferenceEntry& reference) {
  parts_->references.push_back(reference);
  return static_cast<std::uint32_t>(parts_->references.size() - 1);
}

Tensor OutgoingMessage::seal(std::uint32_t next_tag) {
  const auto is_inline = [&](const Tensor& t) {
    return static_cast<std::int64_t>(t.bytes()) <= limits_.inline_bytes;
  };
  std::size_t total = size_ + 8 + parts_->tensors.size() * sizeof(TensorEntry) +
                      parts_->references.size() * sizeof(ReferenceEntry) + parts_->context.size();
  std::int64_t on_their_own = 0;
  for (const Tensor& t : parts_->tensors) {
    if (is_inline(t)) {
      total += alignment + t.bytes();
    } else {
      on_their_own += static_cast<std::int64_t>(t.bytes());
    }
  }
  if (on_their_own > limits_.tensor_bytes) {  // the receiver would refuse it
    throw InputError(
        fmt::format("a call's tensors take {} bytes, more than "
                    "Options::max_tensor_bytes, {}",
                    on_their_own, limits_.tensor_bytes));
  }
  reserve(total);
  align(8);
  for (const Tensor& t : parts_->tensors) {
    TensorEntry entry{};
    entry.dtype = static_cast<std::uint8_t>(t.dtype());
    entry.dims = static_cast<std::uint8_t>(t.dims());
    entry.layout = static_cast<std::uint8_t>(t.layout());
    entry.is_inline = is_inline(t) ? 1 : 0;
    std::ranges::copy(t.shape(), entry.extents);
    if (entry.is_inline == 0) {
      entry.tag = static_cast<std::uint32_t>(tag_of(next_tag++));
      parts_->long_ones.push_back(t);
    }
    append(&entry, sizeof(entry));
  }
  for (const ReferenceEntry& reference : parts_->references) append(&reference, sizeof(reference));
  append(parts_->context.data(), parts_->context.size());
  for (const Tensor& t : parts_->tensors) {
    if (!is_inline(t)) continue;
    align(alignment);
    append(t.data(), t.bytes());
  }
  head_.tensors = static_cast<std::uint32_t>(parts_->tensors.size());
  head_.references = static_cast<std::uint32_t>(parts_->references.size());
  head_.context_bytes = static_cast<std::uint32_t>(parts_->context.size());
  if (size_ > static_cast<std::size_t>(limits_.message_bytes)) {
    throw InputError(
        fmt::format("a message of {} bytes is larger than Options::max_message_bytes, {}", size_,
                    limits_.message_bytes));
  }
  head_.magic = message_magic;
  head_.version = message_version;
  std::memcpy(bytes_, &head_, sizeof(Head));
  return buffer_.slice(0, static_cast<std::int64_t>(size_));
}

std::optional<Head> head_of(const Tensor& bytes) {
  Head head;
  if (bytes.bytes() < sizeof(head)) return std::nullopt;
  std::memcpy(&head, bytes.data(), sizeof(head));
  if (head.magic != message_magic || head.version != message_version) return std::nullopt;
  return head;
}

IncomingMessage::IncomingMessage(Tensor bytes, int from, const Limits& limits)
    : from_(from), bytes_(std::move(bytes)) {
  const std::size_t size = bytes_.bytes();
  if (size > static_cast<std::size_t>(limits.message_bytes)) refuse("it is too long");
  Reader reader(static_cast<const std::byte*>(bytes_.data()), size);
  reader.read(head_);
  if (head_.magic != message_magic) refuse("it is not a Lockstep message");
  if (head_.version != message_version) {
    refuse(fmt::format("it is of version {}, not {}: the ranks run different programs",
                       head_.version, message_version));
  }
  if (head_.kind < Kind::call || head_.kind > Kind::wake) refuse("no such kind");
  if (head_.status > Status::malformed) refuse("no such status");
  payload_ = reader.take(head_.payload_bytes);
  reader.align(8);
  if (head_.tensors > reader.rest() / sizeof(TensorEntry))
    refuse("it is too short for its tensors");
  const auto entries = reader.take(head_.tensors * sizeof(TensorEntry));
  if (head_.references > reader.rest() / sizeof(ReferenceEntry)) {
    refuse("it is too short for its references");
  }
  references_.resize(head_.references);
  for (ReferenceEntry& reference : references_) reader.read(reference);
  context_ = reader.take(head_.context_bytes);
  tensors_.resize(head_.tensors);
  std::int64_t awaited_bytes = 0;
  for (std::uint32_t i = 0; i < head_.tensors; ++i) {
    TensorEntry entry;
    std::memcpy(&entry, entries.data() + i * sizeof(entry), sizeof(entry));
    const std::size_t needed = checked_bytes(entry);
    const auto dtype = static_cast<DType>(entry.dtype);
    const auto layout = static_cast<Layout>(entry.layout);
    if (entry.is_inline == 0) {
      if (entry.tag == 0 || entry.tag > OutgoingMessage::tags) refuse("no such tag");
      if (needed == 0) refuse("nothing would travel");
      if (static_cast<std::int64_t>(needed) > limits.tensor_bytes - awaited_bytes) {
        refuse(fmt::format("its tensors take more than {} bytes (Options::max_tensor_bytes)",
                           limits.tensor_bytes));
      }
      awaited_bytes += static_cast<std::int64_t>(needed);
      awaited_.push_back({i, static_cast<int>(entry.tag)});
      shapes_.push_back({shape_of(entry), dtype, layout});
      continue;
    }
    reader.align(alignment);
    const std::size_t begin = reader.at();
    const auto elements = reader.take(needed);
    if (dtype == DType::boolean &&
        std::ranges::any_of(elements, [](std::byte b) { return b > std::byte{1}; })) {
      refuse("a bool is neither true nor false");
    }
    // A view, unless a small tensor would keep a much larger buffer alive.
    if (size <= 4 * std::max(needed, alignment)) {
      tensors_[i] = arranged(
          Tensor::over(bytes_.storage(), bytes_.offset_bytes() + begin, shape_of(entry), dtype),
          layout);
    } else {
      Tensor own = Tensor::empty(shape_of(entry), dtype);
      if (needed > 0) std::memcpy(own.data(), elements.data(), needed);
      tensors_[i] = arranged(std::move(own), layout);
    }
  }
  if (reader.rest() != 0) refuse("it is longer than its declared length");
}

void IncomingMessage::allocate_awaited() {
  for (std::size_t i = 0; i < awaited_.size(); ++i) {
    const Shaped& wanted = shapes_[i];
    tensors_[awaited_[i].tensor] =
        arranged(Tensor::empty(wanted.shape, wanted.dtype), wanted.layout);
  }
}

Tensor IncomingMessage::tensor(std::uint32_t index) const {
  if (index == nothing) return {};
  if (index >= tensors_.size()) refuse("it names a tensor that it does not carry");
  return tensors_[index];
}

}  // namespace lockstep::rpc
