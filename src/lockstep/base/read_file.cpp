#include <lockstep/base/read_file.hpp>

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <system_error>

#include <lockstep/base/error.hpp>

namespace lockstep {

std::string read_file(const std::filesystem::path& file) {
  errno = 0;
  std::ifstream in(file, std::ios::binary);
  std::string bytes;
  std::array<char, 16384> piece;
  while (in) {
    in.read(piece.data(), piece.size());
    bytes.append(piece.data(), static_cast<std::size_t>(in.gcount()));
  }
  if (!in.eof()) {
    throw InputError(fmt::format("{} cannot be read: {}", file.string(),
                                 std::generic_category().message(errno != 0 ? errno : EIO)));
  }
  return bytes;
}

}  // namespace lockstep
