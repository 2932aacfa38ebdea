#include <lockstep/io/atomic_file.hpp>

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <iterator>
#include <system_error>
#include <utility>

#include <lockstep/io/folder.hpp>

namespace lockstep {

std::filesystem::path AtomicFile::temporary_path_of(const std::filesystem::path& path) {
  return path.string() + temporary_suffix;
}

AtomicFile::AtomicFile(std::filesystem::path path) : path_(std::move(path)) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (path_.has_parent_path()) make_folder(path_.parent_path());
  const fs::path temporary = temporary_path_of(path_);
  for (const auto& name : {path_, temporary}) {
    const auto there = fs::symlink_status(name, ignored);
    if (fs::is_other(there)) throw FileError("replace the device, pipe or socket", name, EEXIST);
    if (fs::is_symlink(there)) throw FileError("replace the symbolic link", name, EEXIST);
  }
  file_ = File::create(temporary);
}

AtomicFile::~AtomicFile() {
  std::error_code ignored;
  if (!published_) std::filesystem::remove(file_.path(), ignored);
}

void AtomicFile::publish() {
  file_.sync();
  file_.close();
  if (std::rename(file_.path().c_str(), path_.c_str()) != 0)
    throw FileError("rename " + file_.path().string() + " to", path_, errno);
  published_ = true;
  sync_folder(path_.parent_path());
}

void expect_not_replaced(const std::filesystem::path& input, const std::filesystem::path& output) {
  std::error_code ignored;  // what is not there yet is no input
  if (!std::filesystem::equivalent(input, output, ignored)) return;
  throw InputError(fmt::format("the output {} is the same file as {}, which is read: name another.",
                               output.string(), input.string()));
}

void write_atomically(const std::filesystem::path& path, std::string_view text) {
  AtomicFile file(path);
  file.file().write_at(0, text.data(), std::ssize(text));
  file.publish();
}

}  // namespace lockstep
