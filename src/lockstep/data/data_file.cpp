#include <lockstep/data/data_file.hpp>

#include <fmt/format.h>

#include <lockstep/data/looked_for.hpp>

namespace lockstep {
namespace {

namespace fs = std::filesystem;

File open_file(const fs::path& path, const std::string& remedy) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) {
    throw InputError(fmt::format("data file {} is missing. {}", detail::looked_for(path), remedy));
  }
  if (!fs::is_regular_file(path, ignored)) {
    throw InputError(fmt::format("data.path names {}, which is not a file. {}",
                                 detail::looked_for(path), remedy));
  }
  try {
    return File::open_for_reading(path);
  } catch (const Error& error) {
    throw InputError(error.what());
  }
}

}  // namespace

DataFile::DataFile(const fs::path& path, const std::string& remedy)
    : file_(open_file(path, remedy)), bytes_(file_.size()), modified_ns_(file_.modified_ns()) {}

void DataFile::expect_unchanged() const {
  const std::int64_t bytes = file_.size();
  if (bytes == bytes_ && file_.modified_ns() == modified_ns_) return;
  throw InputError(fmt::format(
      "data file {} was changed while the run reads it{}, so earlier and later samples do not "
      "belong "
      "together. Start again, and write new data to a new file.",
      file_.path().string(),
      bytes == bytes_ ? "" : fmt::format(" (it has {} bytes, and had {})", bytes, bytes_)));
}

}  // namespace lockstep
