#include <lockstep/data/tokens/token_file.hpp>

#include <fmt/format.h>

#include <array>
#include <limits>

#include <lockstep/base/error.hpp>
#include <lockstep/io/atomic_file.hpp>

namespace lockstep {
namespace {

constexpr std::int32_t magic = 20240520, version = 1;
using Header = std::array<std::int32_t, 256>;
constexpr std::int64_t header_bytes = sizeof(Header);

}  // namespace

TokenFile::TokenFile(const std::filesystem::path& path)
    : file_(path, "Token files are made by `gpt tokens` or llm.c's scripts.") {
  const auto refuse = [&](const std::string& why) {
    throw InputError(fmt::format("{} {}", path.string(), why));
  };
  Header header{};
  const std::int64_t there = file_.bytes() - header_bytes;
  if (there < 0) {
    refuse(
        fmt::format("is not a token file: it has {} bytes, fewer than the header's {}. Make it "
                    "with `gpt tokens`.",
                    file_.bytes(), header_bytes));
  }
  file_.open()->read_at(0, header.data(), header_bytes);
  if (header[0] != magic) {
    refuse(
        fmt::format("is not a token file: it begins with {}, not with {}. Make it with `gpt "
                    "tokens`.",
                    header[0], magic));
  }
  if (header[1] != version) {
    refuse(fmt::format(
        "is a token file of version {}; only version {}, with tokens of 16 bits, is supported.",
        header[1], version));
  }
  const std::int64_t wanted = 2 * std::int64_t{header[2]};
  if (header[2] < 0 || there != wanted) {
    refuse(fmt::format(
        "is damaged: its header says {} tokens, but {} bytes follow it, {}. Get a "
        "fresh copy.",
        header[2], there, header[2] >= 0 && there < wanted ? "too few" : "more than they take"));
  }
  if (header[3] < 0 || header[3] > 65536) {
    refuse(
        fmt::format("is damaged: its header says {} different tokens, but 16 bits have at most "
                    "65536. Get a fresh copy.",
                    header[3]));
  }
  size_ = header[2];
  vocabulary_ = header[3];
}

void TokenFile::read(std::int64_t begin, std::span<std::uint16_t> out) const {
  const std::shared_ptr<const File> file = file_.open();
  try {
    file->read_at(header_bytes + 2 * begin, out.data(),
                  static_cast<std::int64_t>(out.size_bytes()));
  } catch (const Error& error) {
    throw InputError(
        fmt::format("{}. The file was whole when the run began: restore it, and go on "
                    "with --resume.",
                    error.what()));
  }
}

void write_token_file(const std::filesystem::path& path, std::span<const std::uint16_t> tokens,
                      std::int64_t vocabulary) {
  if (tokens.size() > std::numeric_limits<std::int32_t>::max()) {
    throw InputError(fmt::format(
        "{} would have {} tokens, but its header can count only 2^31 - 1: cut it into shards.",
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
