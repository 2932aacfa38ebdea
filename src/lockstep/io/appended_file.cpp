#include <lockstep/io/appended_file.hpp>

#include <algorithm>
#include <iterator>

namespace lockstep {

void AppendedFile::flush() {
  if (unwritten_.empty()) return;
  end_ = std::min(end_, file_.size());  // others may have truncated the file
  file_.write_at(end_, unwritten_.data(), std::ssize(unwritten_));
  end_ += std::ssize(unwritten_);
  unwritten_.clear();
}

}  // namespace lockstep
