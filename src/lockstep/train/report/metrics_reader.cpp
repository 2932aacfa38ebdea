#include <lockstep/train/report/metrics_reader.hpp>

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <fstream>
#include <utility>

#include <lockstep/base/error.hpp>

namespace lockstep::train {

void MetricsReader::read(const std::function<void(const MetricsRow&)>& row,
                         const std::function<void()>& again) {
  struct stat info {};
  if (::stat(path_.c_str(), &info) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return;
    throw InputError(fmt::format("{} cannot be read: {}", path_.string(),
                                 std::generic_category().message(errno)));
  }
  if (!S_ISREG(info.st_mode)) throw InputError(path_.string() + " is not a file");
  const bool is_same = info.st_dev == device_ && info.st_ino == inode_ && info.st_size >= offset_;
  if (!is_same) {
    if (inode_ != 0) again();
    *this = MetricsReader(std::move(path_));
    device_ = info.st_dev;
    inode_ = info.st_ino;
  }
  errno = 0;
  std::ifstream in(path_, std::ios::binary);
  in.seekg(offset_);
  if (!in) {
    throw InputError(fmt::format("{} cannot be read: {}", path_.string(),
                                 std::generic_category().message(errno != 0 ? errno : EIO)));
  }
  std::string line = std::exchange(unfinished_, {});
  for (std::string part; std::getline(in, part);) {
    offset_ += std::ssize(part);
    line += part;
    if (in.eof()) {
      unfinished_ = std::move(line);
      return;
    }
    ++offset_;
    take(line, row);
    line.clear();
  }
  unfinished_ = std::move(line);
}

void MetricsReader::take(const std::string& line,
                         const std::function<void(const MetricsRow&)>& row) {
  ++lines_;
  if (const auto found = metrics_row_of(line)) {
    ++rows_;
    row(*found);
    return;
  }
  if (invalid_lines_++ == 0) first_invalid_line_ = lines_;
}

}  // namespace lockstep::train
