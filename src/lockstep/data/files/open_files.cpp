#include <lockstep/data/files/open_files.hpp>

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include <lockstep/base/error.hpp>

namespace lockstep {
namespace {

/// Limit on open files; the rest is for MPI, HDF5 and the user.
std::size_t most_open() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 64;
  return std::clamp<std::size_t>(limit.rlim_cur / 4, 1, 1024);
}

}  // namespace

KnownFile::KnownFile(std::filesystem::path path) : path_(std::move(path)) {
  OpenFiles::instance().add(*this);
}

KnownFile::~KnownFile() { OpenFiles::instance().remove(*this); }

OpenFiles& OpenFiles::instance() {
  static auto* const files =
      new OpenFiles;  // never destroyed, because files may be destroyed at process exit
  return *files;
}

void OpenFiles::add(KnownFile& known) {
  auto file = open(known.path_);
  known.status_ = file->status();
  const std::lock_guard lock(mutex_);
  known.place_ = closed_.insert(closed_.begin(), &known);
  keep(known, std::move(file));
}

void OpenFiles::remove(KnownFile& known) noexcept {
  const std::lock_guard lock(mutex_);
  (known.file_ ? open_ : closed_).erase(known.place_);
}

std::shared_ptr<const File> OpenFiles::use(KnownFile& known) {
  {
    const std::lock_guard lock(mutex_);
    if (known.file_) {
      open_.splice(open_.begin(), open_, known.place_);
      return known.file_;
    }
  }
  auto file = open(known.path_);  // unlocked, so that other threads can read their files meanwhile
  if (file->status() != known.status_) {
    throw InputError(
        fmt::format("data file {} was replaced or changed while the run reads it, so earlier and "
                    "later samples do not match. Start again, and write new data to a "
                    "new file.",
                    known.path_.string()));
  }
  const std::lock_guard lock(mutex_);
  if (!known.file_) keep(known, std::move(file));
  return known.file_;
}

std::shared_ptr<const File> OpenFiles::open(const std::filesystem::path& path) {
  for (;;) {
    try {
      return std::make_shared<const File>(File::open_for_reading(path));
    } catch (const FileError& error) {
      const std::lock_guard lock(mutex_);
      if (error.error_number() != EMFILE || !close_oldest()) throw;
    }
  }
}

/// Requires the lock.
void OpenFiles::keep(KnownFile& known, std::shared_ptr<const File> file) {
  known.file_ = std::move(file);
  open_.splice(open_.begin(), closed_, known.place_);
  while (open_.size() > most_open()) static_cast<void>(close_oldest());
}

/// Requires the lock. False if none is open.
bool OpenFiles::close_oldest() {
  if (open_.empty()) return false;
  open_.back()->file_.reset();
  closed_.splice(closed_.begin(), open_, std::prev(open_.end()));
  return true;
}

}  // namespace lockstep
