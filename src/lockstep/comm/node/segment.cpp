#include <lockstep/comm/node/segment.hpp>

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <lockstep/base/error.hpp>

namespace lockstep {
namespace {

class ProcessSegment final : public Segment {
 public:
  ProcessSegment(std::byte* memory, std::size_t part_bytes, std::size_t whole)
      : Segment(memory, part_bytes), whole_(whole) {}
  ~ProcessSegment() override { munmap(base(), whole_); }

 private:
  std::size_t whole_;
};

}  // namespace

std::shared_ptr<Segment> Segment::in_this_process(int ranks, std::size_t bytes) {
  constexpr std::size_t page = 4096;  // parts share no cache line
  const std::size_t part = (std::max(bytes, std::size_t{1}) + page - 1) / page * page;
  const std::size_t whole = part * static_cast<std::size_t>(ranks);
  void* memory = mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    throw Error(
        fmt::format("there is no memory for {:.1f} MiB that the ranks of this process share: {}",
                    static_cast<double>(whole) / 0x1p20, std::strerror(errno)));
  }
  return std::make_shared<ProcessSegment>(static_cast<std::byte*>(memory), part, whole);
}

}  // namespace lockstep
