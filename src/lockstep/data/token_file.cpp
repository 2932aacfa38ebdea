#include <lockstep/data/token_file.hpp>

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <limits>

#include <lockstep/base/error.hpp>
#include <lockstep/data/looked_for.hpp>
#include <lockstep/io/atomic_file.hpp>

namespace lockstep {
namespace {

constexpr std::int32_t magic = 20240520, version = 1;
using Header = std::array<std::int32_t, 256>;

MappedFile map(const std::filesystem::path& path) {
  try {
    return MappedFile(path);
  } catch (const FileError& error) {
    throw InputError(fmt::format(
        "{}. Token files are made by `gpt tokens` or llm.c's scripts; data.path names them: {}",
        error.what(), detail::looked_for(path)));
  }
}

}  // namespace

TokenFile::TokenFile(const std::filesystem::path& path) : file_(map(path)) {
  const std::span<const std::byte> bytes = file_.bytes();
  const auto refuse = [&](const std::string& why) {
    throw InputError(fmt::format("{} {}", path.string(), why));
  };
  Header header{};
  if (bytes.size() < sizeof header) {
    refuse(
        fmt::format("is no token file: it has {} bytes, fewer than the header's {}. Make it "
                    "with `gpt tokens`.",
                    bytes.size(), sizeof header));
  }
  std::memcpy(header.data(), bytes.data(), sizeof header);
  if (header[0] != magic) {
    refuse(
        fmt::format("is no token file: it begins with {}, not with {}. Make it with `gpt "
                    "tokens`.",
                    header[0], magic));
  }
  if (header[1] != version) {
    refuse(fmt::format("is a token file of version {}; known is {}, of tokens in 16 bits.",
                       header[1], version));
  }
  const std::size_t there = bytes.size() - sizeof header;
  if (header[2] < 0 || there != std::size_t{2} * static_cast<std::size_t>(header[2])) {
    refuse(
        fmt::format("is damaged: its header says {} tokens, behind it are {} bytes, {}. Get a "
                    "fresh copy.",
                    header[2], there,
                    header[2] >= 0 && there < std::size_t{2} * static_cast<std::size_t>(header[2])
                        ? "too few"
                        : "more than they take"));
  }
  if (header[3] < 0 || header[3] > 65536) {
    refuse(
        fmt::format("is damaged: its header says {} different tokens, but 16 bits have at most "
                    "65536. Get a fresh copy.",
                    header[3]));
  }
  // Aligned: a page's beginning and a whole number of tokens.
  const auto* first = reinterpret_cast<const std::uint16_t*>(bytes.data() + sizeof header);
  tokens_ = {first, there / 2};
  vocabulary_ = header[3];
}

void write_token_file(const std::filesystem::path& path, std::span<const std::uint16_t> tokens,
                      std::int64_t vocabulary) {
  if (tokens.size() > std::numeric_limits<std::int32_t>::max()) {
    throw InputError(
        fmt::format("{} would have {} tokens, but its header counts to 2^31 - 1: cut "
                    "it into shards.",
                    path.string(), tokens.size()));
  }
  Header header{magic, version, static_cast<std::int32_t>(tokens.size()),
                static_cast<std::int32_t>(vocabulary)};
  AtomicFile file(path);
  file.file().write_at(0, header.data(), sizeof header);
  file.file().write_at(sizeof header, tokens.data(),
                       static_cast<std::int64_t>(tokens.size_bytes()));
  file.publish();
}

}  // namespace lockstep
