#include <lockstep/comm/mpi/shared_segment.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/descriptor.hpp>
#include <lockstep/base/host.hpp>
#include <lockstep/comm/mpi/all_gather_values.hpp>

namespace lockstep {
namespace {

using Name = std::array<char, 64>;

/// A name unique on this node.
Name new_name() {
  static std::atomic<int> made{0};
  Name name{};
  *fmt::format_to_n(name.data(), name.size() - 1, "/lockstep-{}-{}-{}", getpid(), ++made,
                    Clock::now().time_since_epoch().count())
       .out = '\0';
  return name;
}

/// Removes the name of a file that was `made` here.
struct Unlink {
  const Name& name;
  bool made;
  ~Unlink() {
    if (made) shm_unlink(name.data());
  }
};

/// An empty file that all ranks have open and that has no name any more, or the reason why there is
/// none. A process killed in between leaves the name behind, so nothing here takes long.
Descriptor open_by_all(const MpiRanks& node, const MpiWait& wait, int& error) {
  Name name{};
  Descriptor file;
  error = 0;
  const auto open_file = [&](int flags) {
    file = Descriptor(shm_open(name.data(), flags, 0600));
    if (!file) error = errno;
  };
  // The first rank creates the file before it sends the name, so that the other ranks find it.
  const Unlink in_the_end{name, node.rank() == 0};
  if (node.rank() == 0) {
    name = new_name();
    open_file(O_RDWR | O_CREAT | O_EXCL);
  }
  name = all_gather_values(name, node, wait)[0];
  if (node.rank() != 0) open_file(O_RDWR);
  error = std::ranges::max(all_gather_values(error, node, wait));
  return file;
}

std::string shortage(std::size_t bytes, int error) {
  struct statvfs disk {};
  const bool known = statvfs(shared_memory_folder, &disk) == 0;
  const double free =
      known ? static_cast<double>(disk.f_bavail) * static_cast<double>(disk.f_frsize) : 0;
  return fmt::format("{} on {} has no room for {:.1f} MiB more per rank ({}; {:.1f} MiB are free)",
                     shared_memory_folder, host_name(), static_cast<double>(bytes) / 0x1p20,
                     std::strerror(error), free / 0x1p20);
}

}  // namespace

std::shared_ptr<Segment> make_shared_segment(const MpiRanks& node, std::size_t bytes,
                                             const MpiWait& wait, std::string& why) {
  const std::size_t part = Segment::part_for(bytes);
  int error = 0;
  const Descriptor file = open_by_all(node, wait, error);
  if (error == 0) {  // also sets the file's length
    const auto bytes = static_cast<std::int64_t>(part);
    error = allocate_file(file, bytes * node.rank(), bytes);
  }
  std::shared_ptr<Segment> segment;
  if (error == 0) {
    void* mapping = mmap(nullptr, part * static_cast<std::size_t>(node.size()),
                         PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    if (mapping == MAP_FAILED) {
      error = errno;
    } else {
      segment = std::make_shared<Segment>(mapping, node.size(), part);
    }
  }
  error = std::ranges::max(all_gather_values(error, node, wait));
  if (error == 0) return segment;
  why = shortage(part, error);
  return nullptr;
}

}  // namespace lockstep
