#include <lockstep/data/files/looked_for.hpp>

#include <system_error>

namespace lockstep::detail {

std::string looked_for(const std::filesystem::path& path) {
  std::error_code error;
  const auto absolute = std::filesystem::absolute(path, error);
  if (error || path.is_absolute()) return path.string();
  return path.string() + " (looked for as " + absolute.lexically_normal().string() +
         ": relative paths start in the working directory)";
}

}  // namespace lockstep::detail
