#include <lockstep/data/files/byte_source.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <new>
#include <utility>
#include <vector>

#include <lockstep/base/descriptor.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/data/files/looked_for.hpp>

namespace lockstep {
namespace {

constexpr std::int64_t chunk_bytes = std::int64_t{256} << 10U;
constexpr std::int64_t deflate_ratio = 1032;
constexpr int gzip_window_bits = 15 + 16;  // 16: expect a gzip header and trailer (zlib.h)

class Inflater {
 public:
  Inflater() {
    if (inflateInit2(&stream, gzip_window_bits) != Z_OK) throw std::bad_alloc();
  }
  ~Inflater() { inflateEnd(&stream); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  z_stream stream{};
};

bool is_gzip(std::span<const std::byte> bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b};
}

}  // namespace

struct ByteSource::State {
  State(std::filesystem::path file, int fd) : name(std::move(file)), handle(fd) {}

  // Reads the next piece of the file into the buffer; false at its end.
  bool refill() {
    ssize_t got = 0;
    do {
      got = ::read(handle.get(), buffer.data(), buffer.size());
    } while (got < 0 && errno == EINTR);
    if (got < 0) {
      throw InputError(fmt::format("data file {}: reading failed at byte {}: {}. Check the disk.",
                                   name.string(), file_offset, std::strerror(errno)));
    }
    pending = std::span<const std::byte>(buffer).first(static_cast<std::size_t>(got));
    file_offset += got;
    return got > 0;
  }

  std::size_t read_plain(std::span<std::byte> out) {
    std::size_t done = 0;
    while (done < out.size() && (!pending.empty() || refill())) {
      const std::size_t n = std::min(out.size() - done, pending.size());
      std::memcpy(out.data() + done, pending.data(), n);
      pending = pending.subspan(n);
      done += n;
    }
    return done;
  }

  std::size_t read_gzip(std::span<std::byte> out) {
    std::size_t done = 0;
    while (done < out.size() && !(member_ended && !begin_next_member())) {
      if (pending.empty() && !refill()) throw cut_short(done);
      z_stream& z = inflater->stream;
      // zlib's interface takes the input as non-const; it does not write there.
      z.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(pending.data()));
      z.avail_in = static_cast<uInt>(pending.size());
      z.next_out = reinterpret_cast<Bytef*>(out.data() + done);
      z.avail_out = static_cast<uInt>(std::min<std::size_t>(out.size() - done, 1U << 30U));
      const std::size_t wanted = z.avail_out;
      const int status = inflate(&z, Z_NO_FLUSH);
      done += wanted - z.avail_out;
      pending = pending.last(z.avail_in);
      if (status == Z_STREAM_END) {
        member_ended = true;
      } else if (status != Z_OK && status != Z_BUF_ERROR) {
        throw InputError(fmt::format(
            "data file {}: the gzip stream is damaged at byte {} of the file ({}). Get a fresh "
            "copy of the file.",
            name.string(), file_offset - static_cast<std::int64_t>(pending.size()),
            z.msg ? z.msg : "no detail from zlib"));
      }
    }
    return done;
  }

  // A gzip file may be several streams one after another (RFC 1952, 2.2).
  bool begin_next_member() {
    if (pending.empty() && !refill()) return false;
    if (pending.front() != std::byte{0x1f}) {
      throw InputError(fmt::format(
          "data file {}: bytes that are not gzip follow the compressed data at byte {} of the "
          "file. Get a fresh copy of the file.",
          name.string(), file_offset - static_cast<std::int64_t>(pending.size())));
    }
    inflateReset(&inflater->stream);
    member_ended = false;
    return true;
  }

  InputError cut_short(std::size_t done) const {
    return InputError(fmt::format(
        "data file {} is truncated: it ends at byte {} inside its gzip stream, after {} bytes of "
        "data. Get a fresh copy of the file.",
        name.string(), file_offset, data_offset + static_cast<std::int64_t>(done)));
  }

  std::filesystem::path name;
  Descriptor handle;
  std::vector<std::byte> buffer;
  std::span<const std::byte> pending;  // unconsumed part of the buffer
  std::unique_ptr<Inflater> inflater;  // null for a plain file
  bool member_ended = false;
  std::int64_t file_size = 0;
  std::int64_t file_offset = 0;
  std::int64_t data_offset = 0;
};

ByteSource::ByteSource(const std::filesystem::path& file) {
  const int fd =
      ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // opening a pipe must not block
  if (fd < 0) {
    const int error = errno;
    throw InputError(fmt::format("data file {} cannot be opened: {}. Check the path.",
                                 detail::looked_for(file), std::strerror(error)));
  }
  state_ = std::make_unique<State>(file, fd);
  struct stat status {};
  if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
    throw InputError(fmt::format("data file {} is {}, not a file. Check the path.", file.string(),
                                 S_ISDIR(status.st_mode) ? "a folder" : "a device or pipe"));
  }
  state_->file_size = status.st_size;
  state_->buffer.resize(
      static_cast<std::size_t>(std::clamp<std::int64_t>(status.st_size, 1, chunk_bytes)));
  state_->refill();
  if (is_gzip(state_->pending)) {
    state_->inflater = std::make_unique<Inflater>();
  } else if (file.extension() == ".gz") {
    throw InputError(
        fmt::format("data file {} is named .gz but is not gzip: byte 0 should be 1f 8b, found {}. "
                    "Get a fresh copy of the file, or name it without .gz if it is plain.",
                    file.string(),
                    state_->pending.empty()
                        ? "an empty file"
                        : fmt::format("{:02x}", static_cast<unsigned>(state_->pending[0]))));
  }
}

ByteSource::~ByteSource() = default;

std::size_t ByteSource::read(std::span<std::byte> out) {
  const std::size_t done = state_->inflater ? state_->read_gzip(out) : state_->read_plain(out);
  state_->data_offset += static_cast<std::int64_t>(done);
  return done;
}

std::int64_t ByteSource::offset() const noexcept { return state_->data_offset; }

std::int64_t ByteSource::largest_possible_size() const noexcept {
  if (!compressed()) return state_->file_size;
  const std::int64_t limit = std::numeric_limits<std::int64_t>::max() / deflate_ratio;
  return std::min(state_->file_size, limit) * deflate_ratio;
}

std::int64_t ByteSource::file_bytes() const noexcept { return state_->file_size; }

bool ByteSource::compressed() const noexcept { return state_->inflater != nullptr; }

}  // namespace lockstep
