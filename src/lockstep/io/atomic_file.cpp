#include <lockstep/io/atomic_file.hpp>

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <iterator>
#include <system_error>
#include <utility>

#include <lockstep/base/for_each_entry.hpp>
#include <lockstep/io/folder.hpp>

namespace lockstep {

namespace {

/// Unique: a process of another machine may have this one's number, so an existing name is skipped.
File create_temporary_file(const std::filesystem::path& path) {
  static std::atomic<int> count = 0;
  for (;;) {
    try {
      return File::create_new(fmt::format("{}.{}-{}{}", path.string(), ::getpid(), count++,
                                          AtomicFile::temporary_suffix));
    } catch (const FileError& error) {
      if (error.error_number() != EEXIST) throw;
    }
  }
}

/// Names of existing temporary files, for a signal handler: no lock, no memory.
std::array<std::atomic<const char*>, 64> unfinished{};

void note_unfinished(const char* path) {
  for (auto& place : unfinished) {
    const char* nobody = nullptr;
    if (place.compare_exchange_strong(nobody, path)) return;
  }
}

void forget_unfinished(const char* path) {
  for (auto& place : unfinished) {
    const char* expected = path;
    if (place.compare_exchange_strong(expected, nullptr)) return;
  }
}

extern "C" void remove_unfinished_and_end(int signal) {
  for (auto& place : unfinished) {
    const char* path = place.load();
    if (path != nullptr) ::unlink(path);
  }
  std::raise(signal);  // restored to its default once this handler returns
}

}  // namespace

void remove_unfinished_files_on_signals() noexcept {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before {};
    if (::sigaction(signal, nullptr, &before) != 0 || before.sa_handler == SIG_IGN) continue;
    struct sigaction action {};
    action.sa_handler = remove_unfinished_and_end;
    action.sa_flags = SA_RESETHAND;
    ::sigaction(signal, &action, nullptr);
  }
}

std::string AtomicFile::published_name_of(const std::string& temporary_name) {
  if (!temporary_name.ends_with(temporary_suffix)) return {};
  const std::string name = std::filesystem::path(temporary_name).stem().string();
  const auto dot = name.rfind('.');
  const bool is_numbered = dot != std::string::npos &&
                           name.find_first_not_of("0123456789-", dot + 1) == std::string::npos;
  return is_numbered ? name.substr(0, dot) : name;  // without number: from older versions
}

AtomicFile::AtomicFile(std::filesystem::path path) : path_(std::move(path)) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const auto there = fs::symlink_status(path_, ignored);
  if (fs::is_directory(there) || !path_.has_filename())
    throw FileError("replace the folder", path_, EISDIR);
  if (path_.has_parent_path()) make_folder(path_.parent_path());
  if (fs::is_other(there)) {
    throw FileError("write", path_,
                    "it is a device, pipe or socket, which a file never replaces. Name a file.");
  }
  if (fs::is_symlink(there)) {
    throw FileError("write", path_,
                    "it is a symbolic link, which a file never replaces. Name the file itself, or "
                    "remove the link.");
  }
  file_ = create_temporary_file(path_);
  note_unfinished(file_.path().c_str());
}

AtomicFile::~AtomicFile() {
  std::error_code ignored;
  if (published_) return;
  std::filesystem::remove(file_.path(), ignored);
  forget_unfinished(file_.path().c_str());
}

void AtomicFile::publish(Durability durability) {
  const bool sync = durability == Durability::crash_of_machine;
  if (sync) file_.sync();
  file_.close();
  if (std::rename(file_.path().c_str(), path_.c_str()) != 0)
    throw FileError("rename " + file_.path().string() + " to", path_, errno);
  published_ = true;
  forget_unfinished(file_.path().c_str());
  if (sync) sync_folder(path_.parent_path());
}

void expect_not_replaced(const std::filesystem::path& input, const std::filesystem::path& output) {
  std::error_code ignored;  // a file that does not exist yet is no input
  if (!std::filesystem::equivalent(input, output, ignored)) return;
  throw InputError(fmt::format("the output {} is the same file as the input {}: name another.",
                               output.string(), input.string()));
}

void remove_unfinished_files_of(const std::filesystem::path& path) noexcept {
  namespace fs = std::filesystem;
  const auto remove_if_of_it = [&](const fs::directory_entry& entry) {
    std::error_code ignored;
    if (AtomicFile::published_name_of(entry.path().filename().string()) == path.filename())
      fs::remove(entry.path(), ignored);
  };
  std::error_code ignored;
  for_each_entry(path.parent_path(), remove_if_of_it, ignored);
}

void write_atomically(const std::filesystem::path& path, std::string_view text,
                      Durability durability) {
  AtomicFile file(path);
  file.file().write_at(0, text.data(), std::ssize(text));
  file.publish(durability);
}

void copy_atomically(const std::filesystem::path& from, const std::filesystem::path& to) {
  const File source = File::open_for_reading(from);
  AtomicFile target(to);
  copy_bytes(source, target.file());
  target.publish();
}

}  // namespace lockstep
