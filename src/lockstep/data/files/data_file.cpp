#include <lockstep/data/files/data_file.hpp>

#include <fmt/format.h>

#include <lockstep/data/files/looked_for.hpp>

namespace lockstep {
namespace {

namespace fs = std::filesystem;

std::unique_ptr<KnownFile> open_file(const fs::path& path, const std::string& remedy) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) {
    throw InputError(fmt::format("data file {} is missing. {}", detail::looked_for(path), remedy));
  }
  if (!fs::is_regular_file(path, ignored)) {
    throw InputError(fmt::format("data.path names {}, which is not a file. {}",
                                 detail::looked_for(path), remedy));
  }
  try {
    return std::make_unique<KnownFile>(path);
  } catch (const Error& error) {
    throw InputError(error.what());
  }
}

}  // namespace

DataFile::DataFile(const fs::path& path, const std::string& remedy)
    : known_(open_file(path, remedy)) {}

std::shared_ptr<const File> DataFile::open() const {
  try {
    return OpenFiles::instance().use(*known_);
  } catch (const FileError& error) {
    throw InputError(fmt::format(
        "{}. The file was there when the run began: restore it, and continue with --resume.",
        error.what()));
  }
}

void DataFile::expect_unchanged() const {
  const FileStatus now = open()->status();
  if (now == known_->status()) return;
  throw InputError(fmt::format(
      "data file {} was changed while the run reads it{}, so earlier and later samples do not "
      "match. Start again, and write new data to a new file.",
      path().string(),
      now.bytes == bytes() ? ""
                           : fmt::format(" (it has {} bytes, and had {})", now.bytes, bytes())));
}

}  // namespace lockstep
