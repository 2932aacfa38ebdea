#include <lockstep/comm/node/segment.hpp>

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <lockstep/base/error.hpp>

namespace lockstep {

Segment::Segment(void* mapping, int ranks, std::size_t part_bytes) noexcept
    : base_(static_cast<std::byte*>(mapping)),
      part_bytes_(part_bytes),
      bytes_(part_bytes * static_cast<std::size_t>(ranks)) {}

Segment::~Segment() { munmap(base_, bytes_); }

std::size_t Segment::part_for(std::size_t bytes) noexcept {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return (std::max(bytes, std::size_t{1}) + page - 1) / page * page;
}

std::shared_ptr<Segment> Segment::in_this_process(int ranks, std::size_t bytes) {
  const std::size_t part = part_for(bytes), whole = part * static_cast<std::size_t>(ranks);
  void* memory = mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    throw Error(
        fmt::format("the ranks of this process could not allocate {:.1f} MiB of shared memory: {}",
                    static_cast<double>(whole) / 0x1p20, std::strerror(errno)));
  }
  return std::make_shared<Segment>(memory, ranks, part);
}

}  // namespace lockstep
