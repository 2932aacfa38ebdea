#include <lockstep/io/own_file.hpp>

#include <system_error>

namespace lockstep {

void remove_link(const std::filesystem::path& file) noexcept {
  std::error_code ignored;
  if (std::filesystem::is_symlink(std::filesystem::symlink_status(file, ignored)))
    std::filesystem::remove(file, ignored);
}

}  // namespace lockstep
